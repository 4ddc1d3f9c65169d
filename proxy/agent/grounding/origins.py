"""Where each value of a call comes from: the person, the operator, a passage, a result of a call, or the model alone.

A text that a model reads can tell the model what to write: "send it to eve@evil.example". So a value that stands in
passages or results and in no message of the person is foreign: a person sees it before it is sent, whatever was
granted. A value that the person also said is the person's. A value that stands nowhere as a whole is foreign, too, if a
part of it stands in passages or results alone: in percent-encoding or base64, split over two arguments, or beside words
of the person. What a model says in other words is the model's, and nothing tells where that comes from.

A destination (a URL, an e-mail address, a telephone, an account, an identifier of the path) must stand in a message of
the person sign by sign. For other values, plurals, written numbers and named days count as said, as in `said`.
"""

import base64
import binascii
import contextlib
import html
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal
from urllib.parse import unquote_plus

from proxy.agent.grounding.arguments import (
    KnownText,
    TooManyValues,
    forms_of_text,
    parts_of,
    stands,
    stands_in_pieces,
    words_of_text,
)
from proxy.agent.grounding.said import says
from proxy.apis.openapi.operation import Operation

Origin = Literal["user", "operator", "passage", "result", "model"]

_MOST_VALUES = 500  # of one call
_MOST_LEVELS = 60
_LONG_WORDS = 8  # a text of so many words is composed; its parts have origins of their own
_LONG_URL_WORDS = 100
_COPIED_WORDS = 6  # in a row, of a composed text: shorter rows of words are common
_LEAST_JOINED, _LEAST_JOINED_LETTERS = 5, 8  # characters of two arguments, with a digit and without
_ENCODINGS = 6  # forms of a value that are looked for
_LONGEST_ENCODED = 100_000  # characters
_MOST_WORDS = 20_000  # of a value that are compared
_FORMATS = frozenset(
    "uri url iri uri-reference email idn-email hostname idn-hostname ipv4 ipv6 phone tel telephone iban bic".split()
)
_DESTINATION = re.compile(
    r"(?i)(?:.*[_\-.\s])?(?:ur[li]s?|link|href|webhook|callback|endpoint|redirect|e?_?mails?|recipients?|to|cc|bcc|phone|mobile"
    r"|tel|telephone|msisdn|fax|iban|bic|swift|account|wallet|payee|beneficiary|destination|target|host|hostname|domain|ip"
    r"|receiver|chat|channel|address)(?:[_\-\s]?(?:address|ur[li]|number|no|id|name))?"
)
_LINK = re.compile(
    r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:|tel:)[^\s<>\"'`|\\^{}]+"
    r"|[\w.!#$%&*+/=?^~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,10}"
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){3,7}(?: ?[A-Z\d]{1,3})?\b"  # IBAN
    r"|(?<![\w-])(?:[\w-]{1,63}\.){1,10}[a-z]{2,24}\b(?:/[^\s<>\"'`]*)?"
    r"|(?<![\w.])\+\d[\d ()/.-]{6,18}\d"  # a telephone number
)
_WORD_OF_NAME = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f]\d+)*(?: ?%)?")
_LIST = re.compile(r"(?!\d{1,3}(?:,\d{3})+$)\d+(?:,\d+){2,}")
_AMOUNT = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?", re.ASCII)
_SCHEME = re.compile(r"(?i)^(?:[a-z][a-z0-9+.-]{1,20}://|mailto:|tel:)(?:www\.)?|^www\.")
_COMMON = frozenset({"0", "1", "-1"})  # which stand in most texts
_LEAST_LETTERS = 4  # of a word alone that is told from chance
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_LETTERS_APART = re.compile(r"(?:\S\s+){3,}\S")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}){4,}")


@dataclass(frozen=True, slots=True)
class ChatTexts:
    """The texts of a chat, by who wrote them."""

    said: Sequence[str]  # the person's own messages
    operator: Sequence[str] = ()  # the application's instructions
    passages: Sequence[str] = ()
    results: Sequence[tuple[str, str]] = ()  # the operation or the tool, and its text


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """A value of a call, and where it stands."""

    path: str  # as body.owner.id
    value: Any
    origins: frozenset[Origin]
    results: Sequence[str] = field(default=())  # the operations whose results have the value
    destination: bool = False  # where something is sent, paid or done

    @property
    def foreign(self) -> bool:
        """Whether the value, or a part of it, is from passages or results, and nobody gave the whole."""
        return bool(self.origins & {"passage", "result"}) and not self.origins & {"user", "operator"}


def origins(
    operation: Operation,
    schema: Mapping[str, Any],
    arguments: Mapping[str, Any],
    texts: ChatTexts,
    fixed: Collection[str] = (),
) -> list[ValueOrigin]:
    """The origins of the values of a call, in their order. Raises TooManyValues.

    schema: of the arguments. fixed: the arguments that no model gives. The addresses within a longer text, and the
    names of members that the schema does not have, are values of their own.
    """
    known = _Known(texts)
    in_path = {one.argument for one in operation.parameters if one.place == "path"}
    found = list[ValueOrigin]()
    for leaf in _leaves(schema, schema, arguments, "", "", 0):
        if len(found) >= _MOST_VALUES:
            raise TooManyValues
        destination = _is_destination(leaf, in_path=leaf.path in in_path)
        if leaf.path.partition(".")[0] in fixed or _is_given(leaf):
            found.append(ValueOrigin(leaf.path, leaf.value, frozenset({"operator"}), (), destination))
            continue
        found.append(known.origin_of(leaf, schema, destination=destination))
        if isinstance(leaf.value, str) and not _LINK.fullmatch(leaf.value.strip()):
            links = dict.fromkeys(one[0].rstrip(".,;:!?)") for one in _LINK.finditer(leaf.value))
            if len(links) > _MOST_VALUES:
                raise TooManyValues
            for link in links:
                found.append(known.origin_of(leaf.within(link), schema, destination=True))
    return known.with_split(found)


def keeps_from_auto(values: Sequence[ValueOrigin]) -> list[ValueOrigin]:
    """The values with which no call is made without a person: foreign ones, and destinations that nobody gave.

    A model can write an address of a passage in other signs, so that it stands nowhere.
    """
    return [one for one in values if one.foreign or (one.destination and not one.origins & {"user", "operator"})]


def only_foreign(values: Sequence[ValueOrigin]) -> list[ValueOrigin]:
    """The values from passages or results, which a person should know before a call is sent."""
    return [one for one in values if one.foreign]


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: str
    name: str  # of the last member of the path
    value: Any
    parts: Sequence[Mapping[str, Any]] = ()  # of the schema

    @property
    def text(self) -> str:
        value = self.value
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()

    def within(self, text: str) -> "_Leaf":
        return _Leaf(self.path, self.name, text)


def _leaves(root: Mapping[str, Any], schema: Any, value: Any, path: str, name: str, level: int) -> Iterator[_Leaf]:
    """The texts, numbers and truth values within the arguments, and names of members that the schema does not have."""
    if level > _MOST_LEVELS:
        raise TooManyValues
    parts = list(parts_of(root, schema))
    if isinstance(value, dict):
        members = [one["properties"] for one in parts if isinstance(one.get("properties"), dict)]
        for key, one in value.items():
            inner = {"allOf": [some[key] for some in members if key in some]}
            below = f"{path}.{key}" if path else key
            if not inner["allOf"]:
                yield _Leaf(below, name, key)
            yield from _leaves(root, inner, one, below, key, level + 1)
    elif isinstance(value, list):
        inner = {"allOf": [one["items"] for one in parts if "items" in one]}
        for one in value:
            yield from _leaves(root, inner, one, path, name, level + 1)
    elif value is not None and value != "":
        yield _Leaf(path, name, value, parts)


def _is_given(leaf: _Leaf) -> bool:
    """Whether the document gives the value: the only allowed value, or the default."""
    for part in leaf.parts:
        only = [part["const"]] if "const" in part else part.get("enum")
        if isinstance(only, list) and [one for one in only if one is not None] == [leaf.value]:
            return True
        if "default" in part and part["default"] == leaf.value:
            return True
    return False


def _is_destination(leaf: _Leaf, *, in_path: bool) -> bool:
    """Whether a value says where something goes, by its place, the format, the name or its form."""
    if isinstance(leaf.value, bool):
        return False
    if in_path:
        return not _DATE.fullmatch(leaf.text)
    if any(part.get("format") in _FORMATS for part in leaf.parts):
        return True
    name = " ".join(word.lower() for word in _WORD_OF_NAME.findall(leaf.name))
    return bool(_DESTINATION.fullmatch(name) or _LINK.fullmatch(leaf.text))


class _Known:
    """The texts in the forms in which values are looked for."""

    def __init__(self, texts: ChatTexts) -> None:
        self._texts = texts
        self._said = _Source(texts.said)
        self._operator = _Source(texts.operator)
        self._passages = _Source(texts.passages)
        by_name = dict[str, list[str]]()
        for name, text in texts.results:
            by_name.setdefault(name, []).append(text)
        self._results = {name: _Source(some) for name, some in by_name.items()}

    def origin_of(self, leaf: _Leaf, schema: Mapping[str, Any], *, destination: bool) -> ValueOrigin:
        found = set[Origin]()
        forms = [leaf, *map(leaf.within, _decoded(leaf.text))]
        own = forms[:1] if destination else forms
        if self._said.has_any(own, destination=destination, strict=destination) or self._is_said(
            leaf, schema, destination=destination
        ):
            found.add("user")
        if self._operator.has_any(own, destination=destination, strict=destination):
            found.add("operator")
        results = list[str]()
        if destination or not _by_chance(leaf):
            results = [name for name, one in self._results.items() if one.has_any(forms, destination=destination)]
            found |= {"passage"} if self._passages.has_any(forms, destination=destination) else set()
            if not found and not results and isinstance(leaf.value, str):
                found.add("model")
                given = (self._said, self._operator)
                results = [name for name, one in self._results.items() if one.has_part(forms, given)]
                found |= {"passage"} if self._passages.has_part(forms, given) else set()
        found |= {"result"} if results else set()
        return ValueOrigin(leaf.path, leaf.value, frozenset(found or {"model"}), tuple(results), destination)

    def with_split(self, values: Sequence[ValueOrigin]) -> list[ValueOrigin]:
        """The values, with the origin of two that stand in a text as one word only together."""
        found = list(values)
        for at, (one, other) in enumerate(itertools.pairwise(values)):
            joined = "".join(words_of_text(str(each.value)).replace(" ", "") for each in (one, other))
            least = _LEAST_JOINED_LETTERS if joined.isalpha() else _LEAST_JOINED
            nowhere = one.origins == other.origins == {"model"} and bool not in (type(one.value), type(other.value))
            if not nowhere or len(joined) < least or self._said.joins(joined) or self._operator.joins(joined):
                continue
            results = [name for name, each in self._results.items() if each.joins(joined)]
            origin: set[Origin] = {"result"} if results else set()
            origin |= {"passage"} if self._passages.joins(joined) else set()
            for place in (at, at + 1) if origin else ():
                found[place] = replace(values[place], origins=frozenset({"model", *origin}), results=tuple(results))
        return found

    def _is_said(self, leaf: _Leaf, schema: Mapping[str, Any], *, destination: bool) -> bool:
        """Whether the person said a value in other words."""
        if destination:
            return stands_in_pieces(leaf.text, self._said.words) and not _LINK.search(leaf.text)
        said = self._texts.said
        if _AMOUNT.fullmatch(leaf.text):
            said = [_NUMBER.sub(" ", text) for text in said]  # 250 is not said by 1,250: only the words for numbers
        return says(said, leaf.name, leaf.value, {"allOf": list(leaf.parts)}, schema)


def _decoded(text: str) -> list[str]:
    """What a text means in the encodings in which a model can hide it."""
    found = [text]
    for one in found:  # grows
        if len(found) > _ENCODINGS or len(text) > _LONGEST_ENCODED:
            break
        apart = [re.sub(r"\s", "", one)] if _LETTERS_APART.fullmatch(one.strip()) else []
        for other in (unquote_plus(one), html.unescape(one), *_of_bytes(one.strip()), *apart):
            if other not in found:
                found.append(other)
    return found[1:]


def _of_bytes(text: str) -> Iterator[str]:
    """The text that base64 or hexadecimal digits stand for."""
    written: list[bytes] = []
    if _HEX.fullmatch(text):
        written.append(bytes.fromhex(text))
    if _BASE64.fullmatch(text):
        with contextlib.suppress(binascii.Error):
            whole = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
            written.append(base64.b64decode(whole, altchars=b"-_" if re.search("[-_]", whole) else None, validate=True))
    for one in written:
        with contextlib.suppress(UnicodeDecodeError):
            read = one.decode()
            if all(letter.isprintable() or letter.isspace() for letter in read):
                yield read


def _by_chance(leaf: _Leaf) -> bool:
    """Whether a value stands in many texts by chance: true, 1, a short word."""
    if isinstance(leaf.value, bool):
        return True
    if isinstance(leaf.value, int | float):
        return leaf.text in _COMMON
    return leaf.text.isalpha() and leaf.text.isascii() and len(leaf.text) < _LEAST_LETTERS


class _Source:
    """ChatTexts of one origin."""

    def __init__(self, texts: Sequence[str]) -> None:
        forms = [form for text in texts for form in forms_of_text(text)]
        self._texts = [KnownText.of(form) for form in forms]
        self.words = [one.words for one in self._texts]
        self._plain = [unicodedata.normalize("NFC", form).lower() for form in forms]
        self._numbers: set[Decimal] | None = None
        self._vocabulary: set[str] | None = None
        self._rows: set[tuple[str, ...]] | None = None

    def has(self, leaf: _Leaf, *, destination: bool, strict: bool = False) -> bool:
        """Whether a value stands in a text as a whole. strict: with the signs between its words.

        A number is compared as a number, as long as it names nothing.
        """
        if not self._texts or not leaf.text or isinstance(leaf.value, bool):
            return False
        if not destination and _AMOUNT.fullmatch(leaf.text):
            return abs(Decimal(leaf.text)) in self.numbers
        if strict and re.search(r"[@/:.]", leaf.text):
            return self._has_signs(leaf.text)
        return stands(leaf.text, self._texts) and not (strict and not self._has_letters(leaf.text))

    def _has_letters(self, text: str) -> bool:
        """Whether the letters stand here with their accents: Müller is not Muller."""
        letters = _letters(unicodedata.normalize("NFC", text).lower())
        return any(letters in _letters(one) for one in self._plain)

    def _has_signs(self, text: str) -> bool:
        """Whether a URL or an address stands in a text, and not within a longer one."""
        plain = unicodedata.normalize("NFC", _SCHEME.sub("", text)).lower().rstrip("/")  # ß is not ss, as in a host
        if not plain:
            return False
        whole = re.compile(rf"(?<![\w.@%+-]){re.escape(plain)}/?(?![\w@%&=+-]|[/.:?#!]+(?=[^\s\"'<>)\]}},;/.:?#!]))")
        return any(plain in one and _found_whole(whole, one) for one in self._plain)

    @property
    def numbers(self) -> set[Decimal]:
        if self._numbers is None:
            self._numbers = {number for one in self._plain for found in _NUMBER.findall(one) for number in _read(found)}
        return self._numbers

    def has_any(self, forms: Sequence[_Leaf], *, destination: bool, strict: bool = False) -> bool:
        return any(self.has(one, destination=destination, strict=strict) for one in forms)

    def has_part(self, forms: Sequence[_Leaf], own: Sequence["_Source"]) -> bool:
        """Whether a part of a text stands here, and in none of the own texts.

        Of a composed text, only a row of words or a word with digits counts, because single words are common; of a
        shorter one, also half of the words, or two in a row.
        """
        return any(self._has_part(one.text, own) for one in forms)

    def _has_part(self, text: str, own: Sequence["_Source"]) -> bool:
        words = words_of_text(text).split()[:_MOST_WORDS]
        in_one = text.isascii() and len(text.split()) == 1  # a URL
        composed = len(words) >= (_LONG_URL_WORDS if in_one else _LONG_WORDS)
        telling = [one for one in words if not _is_common(one)]
        strange = [one for one in telling if one in self.vocabulary and not any(one in each.vocabulary for each in own)]
        if any(_has_digits(one, 3 if composed else 2) for one in strange):
            return True
        if composed:
            rows = self.rows.intersection(_rows(words))
            return any(not any(row in each.rows for each in own) for row in rows)
        pairs = [pair for pair in itertools.pairwise(words) if not set(pair).isdisjoint(strange)]
        return 0 < len(telling) <= 2 * len(strange) or any(map(self._has_pair, pairs))

    def _has_pair(self, pair: tuple[str, str]) -> bool:
        return any(f" {pair[0]} {pair[1]} " in one for one in self.words)

    def joins(self, joined: str) -> bool:
        """Whether letters and digits stand here one after the other."""
        return any(joined in one.joined for one in self._texts)

    @property
    def vocabulary(self) -> set[str]:
        """All words."""
        if self._vocabulary is None:
            self._vocabulary = {word for one in self.words for word in one.split()}
        return self._vocabulary

    @property
    def rows(self) -> set[tuple[str, ...]]:
        """All rows of `_COPIED_WORDS` words."""
        if self._rows is None:
            self._rows = {row for one in self.words for row in _rows(one.split())}
        return self._rows


def _is_common(word: str) -> bool:
    """Whether a word stands in many texts by chance."""
    return word.isascii() and (word in _COMMON if word.isdigit() else len(word) < _LEAST_LETTERS and word.isalpha())


def _has_digits(word: str, least: int) -> bool:
    return len(word) >= least and any(map(str.isdigit, word))


def _letters(text: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[\W_]", "", text)


def _rows(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + _COPIED_WORDS]) for at in range(len(words) - _COPIED_WORDS + 1))


def _found_whole(whole: re.Pattern[str], text: str) -> bool:
    """Whether a match stands alone; `www.` and a scheme may stand before."""
    return bool(
        whole.search(text)
        or whole.search(re.sub(r"(?:[a-z][a-z0-9+.-]{1,20}://|mailto:|tel:)(?:www\.)?|www\.", " ", text))
    )


def _read(number: str) -> Iterator[Decimal]:
    """What a written number can mean: 1.000 is 1 or 1000, 1,000.50 is 1000.50, 10% is 10 or 0.1; 22,3,44 is three."""
    if number.endswith("%"):
        number = number.rstrip("% ")
        yield from (one / 100 for one in _read(number))
    if _LIST.fullmatch(number):
        yield from map(Decimal, number.split(","))
        return
    digits = re.sub(r"[^\d.,]", "", number)
    signs = re.findall(r"[.,]", digits)
    readings = {re.sub(r"[.,]", "", digits)} if not signs or len(digits) - digits.rfind(signs[-1]) == 4 else set()
    if signs:
        head, _, tail = digits.rpartition(signs[-1])
        readings.add(f"{re.sub('[.,]', '', head)}.{tail}")
    for one in readings:
        try:
            yield Decimal(one)
        except InvalidOperation:
            continue
