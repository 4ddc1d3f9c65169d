"""Whether a call's arguments can be sent, by the operation's schema and by where each value comes from; else, what the
gateway asks the person, in the API's words.

Small models invent values (`your_organization_id`, `12345`). So an identifier must occur in the conversation, in the
schema (an enum or a default) or in an earlier result.

Occurring only in the gateway's own words is not enough: it numbers passages, counts what it leaves out, and quotes
values of refused calls. Small models make up just such small numbers.
"""

import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.producers import searches_by
from proxy.apis.schema_check import resolved

_MOST_VALUES = 500  # of one call
_MOST_LEVELS = 10
_MOST_SHOWN_CHARS = 100  # of a value
_LONGEST = 1_000  # characters of a placeholder, and of a value whose parts stand apart: both are compiled as a pattern
_MOST_PARTS = 200  # of a schema
_MOST_PART_LEVELS = 6
# Placeholders in an argument of any name.
_PLACEHOLDER = re.compile(
    r"<[^<>]*>|\{[^{}]*\}|\$\{?\w+\}?|\[[A-Z_ ]+\]|string"
    r"|(?i:(?:your|my|insert|enter|replace|example|sample|dummy|placeholder|test)[_-](?:\w+[_-])??"
    r"(?:id|ids|key|name|token|email|uuid|value|here)|your_[\w-]+|your-\w+|x{3,}|\.{3}|…|tbd|todo|placeholder)"
    r"|your[A-Z]\w*"
)
# Placeholders in an identifier: elsewhere, such as in `sort`, the words are good values.
_WEAK_PLACEHOLDER = re.compile(
    r"(?i:(?:the|some|any|a|an)[\s_-][^\W\d]\w*|unknown|undefined|null|none|n/?a|example|id|name|value|test|user|default|12345\d*)"
)
_NO_VALUE = re.compile(r"(?i:unknown|undefined|unspecified|null|none|n/?a|nil|\?+|-+)")
_PROPER_NAME = re.compile(r"(?i:the|an?)\s[A-Z\d].*")  # "The Plaza", but not "the organization"
_IDENTIFIER = re.compile(r"(?i:(?:^|[_\-.\s])(?:ids?|key|uuid|guid|email|slug|token|login|username)$)|Ids?$|Uuid$|Key$")
_MAYBE_IDENTIFIER = re.compile(r"(?i:(?:^|[_\-.\s])(?:number|code)$)|Number$|Code$|Name$")
# Small numbers with these names count or order: they come from no list of a service.
_ORDINAL = re.compile(
    r"(?i:(?:^|[_\-.\s])(?:season|episode|chapter|volume|part|round|page|year|month|week|day)(?:[_-]?number)?$)"
    r"|(?:Season|Episode|Chapter|Volume|Part|Round|Page|Year|Month|Week|Day)(?:Number)?$"
)
_SHORT_CODE = re.compile(r"[A-Za-z]{1,3}|[a-z]{2,3}[-_][A-Z]{2}")  # language, country or currency; pt-BR
_FORMATS = ("uuid", "email", "uri", "url", "hostname", "ipv4", "ipv6", "idn-email")
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?)?")
# Each character outside ASCII is a word, because Chinese has no spaces; so is a control character.
_WORD = re.compile(r"[a-z0-9]+|[^\t-\r -~]")
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_SINGLE_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe"}  # that NFD does not take apart
_SCHEME = re.compile(r"^https?://(?:www\.)?", re.IGNORECASE)
# Values that people and models separate by different signs: LH 123 and LH123, 978-3-16-148410-0 and 9783161484100.
_PARTED = re.compile(r"(?=.*[a-z])(?=.*\d).{4,}|\d{7,}")
# Pieces in which people give an identifier: 9502127, and the W that was forgotten.
_PIECE = re.compile(r"[a-z]+|\d+|[^a-z\d\s]")
_LEAST_DIGITS = 4  # of a piece: shorter numbers stand in most messages
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def ungrounded(
    operation: Operation,
    schema: Mapping[str, Any],
    arguments: Mapping[str, Any],
    known: Sequence[str],
    asked: Container[str] = (),
    said: Sequence[str] = (),
) -> list[str]:
    """Ungrounded values, as "name: value". known: texts of conversation and results.

    asked: arguments that the gateway asked for: a value may be the person's answer in other words or another language,
    and otherwise the gateway would ask again and again. said: the person's messages, which are also in known: people
    may give an identifier in pieces.

    It checks identifiers, and placeholders such as <id> in any argument. Letter case, accents and signs between a
    value's parts do not matter. Raises TooManyValues.
    """
    in_path = {one.argument for one in operation.parameters if one.place == "path"}
    values = list(itertools.islice(_values(schema, schema, arguments, "", "", 0), _MOST_VALUES + 1))
    if len(values) > _MOST_VALUES:
        raise TooManyValues
    doubtful = [one for one in values if _is_doubtful(one, in_path=one.path in in_path)]
    texts = [KnownText.of(form) for text in known for form in forms_of_text(text)] if doubtful else []
    spoken = [words_of_text(form) for text in said for form in forms_of_text(text)] if doubtful else []
    return [f"{one.path}: {_shown(one.value)}" for one in doubtful if _is_refused(one, texts, known, asked, spoken)]


def _shown(value: str | int) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]} … ({len(text):,} characters)"


def identifiers(operation: Operation, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Identifiers in the arguments, as (path, text). Raises TooManyValues."""
    in_path = {one.argument for one in operation.parameters if one.place == "path"}
    values = _values(schema, schema, arguments, "", "", 0)
    return [(one.path, one.text) for one in values if _identifies(one, in_path=one.path in in_path)]


def is_blank(value: Any) -> bool:
    """Whether a value says that the model does not know it: null, nothing, or a placeholder."""
    if isinstance(value, str):
        text = value.strip()
        return not text or _is_placeholder(text) or bool(_NO_VALUE.fullmatch(text))
    return value is None or (isinstance(value, list | dict) and not value)


class TooManyValues(ValueError):
    """More values or levels than are checked; the message is for the model."""

    def __init__(self) -> None:
        super().__init__(f"the arguments have more than {_MOST_VALUES} values or {_MOST_LEVELS} levels: send less")


class KnownText(NamedTuple):
    words: str  # as `words_of_text`
    joined: str  # without the spaces

    @classmethod
    def of(cls, text: str) -> "KnownText":
        return cls(words := words_of_text(text), words.replace(" ", ""))


class _Value(NamedTuple):
    path: str  # such as body.owner.id
    name: str  # of the last member of the path
    value: str | int
    parts: Sequence[Mapping[str, Any]]  # of the schema

    @property
    def text(self) -> str:
        return str(self.value).strip()


def _values(root: Mapping[str, Any], schema: Any, value: Any, path: str, name: str, level: int) -> Iterator[_Value]:
    """All texts and whole numbers within the arguments. Raises TooManyValues."""
    if level > _MOST_LEVELS:
        raise TooManyValues
    parts = list(itertools.islice(parts_of(root, schema), _MOST_PARTS))
    if isinstance(value, dict):
        for key, one in value.items():
            inner = {"allOf": [part["properties"][key] for part in parts if key in _members(part)]}
            yield from _values(root, inner, one, f"{path}.{key}" if path else key, key, level + 1)
    elif isinstance(value, list):
        inner = {"allOf": [part["items"] for part in parts if "items" in part]}
        for one in value:
            yield from _values(root, inner, one, path, name, level + 1)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield _Value(path, name, value, parts)
    elif isinstance(value, float) and value.is_integer():  # sent as 98765 where the model writes 98765.0
        yield _Value(path, name, int(value), parts)


def parts_of(root: Mapping[str, Any], schema: Any, level: int = 0) -> Iterator[Mapping[str, Any]]:
    """The schema, and those within its $ref, allOf, anyOf and oneOf."""
    if not isinstance(schema, dict) or level > _MOST_PART_LEVELS:
        return
    yield schema
    if "$ref" in schema:
        yield from parts_of(root, resolved(root, schema), level + 1)
    for word in ("allOf", "anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            for one in schema[word]:
                yield from parts_of(root, one, level + 1)


def _members(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_doubtful(one: _Value, *, in_path: bool) -> bool:
    """Whether a value must occur in a text: it is a placeholder or an identifier."""
    for part in one.parts:
        listed = part["enum"] if isinstance(part.get("enum"), list) else []
        if one.value in [*listed, *(part[word] for word in ("const", "default") if word in part)]:
            return False
        if (
            one.text.isalpha()
            and len(one.text) <= _LONGEST
            and re.search(rf"[\"'`“]{one.text}[\"'`”]", str(part.get("description") or ""))
        ):
            return False  # use "primary" for the user's calendar
    return _is_placeholder(one.text) or _identifies(one, in_path=in_path)


def _is_placeholder(text: str) -> bool:
    return len(text) <= _LONGEST and bool(_PLACEHOLDER.fullmatch(text))


def _is_refused(
    one: _Value, texts: Sequence[KnownText], known: Sequence[str], asked: Container[str], spoken: Sequence[str]
) -> bool:
    if words_of_text(one.text) == words_of_text(one.name):
        return True
    if _is_placeholder(one.text) or (len(one.text) <= _LONGEST and _WEAK_PLACEHOLDER.fullmatch(one.text)):
        is_name = bool(_PROPER_NAME.fullmatch(one.text))
        by_chance = not re.search(r"[\d_]", one.text) or not re.fullmatch(r"[\w-]+", one.text)
        if by_chance and not is_name:  # a plain word or brackets, as in many conversations
            return True
        whole = re.compile(rf"(?<!\w){re.escape(one.text)}(?!\w)", re.NOFLAG if is_name else re.IGNORECASE)
        return not any(map(whole.search, known))
    if one.path in asked and one.text and not re.search(r"\d", one.text):
        return False
    parts = set(one.text.strip(",").split(","))
    return len(parts) > _MOST_VALUES or not all(stands(part, texts) or stands_in_pieces(part, spoken) for part in parts)


def _identifies(one: _Value, *, in_path: bool) -> bool:
    """Whether a value is an identifier, which no model knows from training."""
    if _IDENTIFIER.search(one.name) or any(part.get("format") in _FORMATS for part in one.parts):
        return True
    if isinstance(one.value, int) and not in_path and len(one.text) < 4:
        return False  # a count
    if isinstance(one.value, int) and len(one.text) < 5 and _ORDINAL.search(one.name):
        return False  # "the second season", "last year"
    short = _SHORT_CODE.fullmatch(one.text)
    if in_path:
        return not (short or _DATE.fullmatch(one.text)) or bool(_WEAK_PLACEHOLDER.fullmatch(one.text))
    return bool(_MAYBE_IDENTIFIER.search(one.name)) and not short


def forms_of_text(text: str) -> Sequence[str]:
    """Text as written, and in plain characters: without full-width and invisible characters and ligatures.

    A model may write its values in plain characters, but not in others that look alike.
    """
    plain = text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return [text] if plain == text else [text, plain]


def words_of_text(text: str) -> str:
    """A text's words in small letters without accents, each between spaces; an invisible character is a word."""
    text = unicodedata.normalize("NFC", text).lower()
    if not text.isascii():
        text = _ACCENTED.sub(lambda one: _without_accent(one[0]), text)
    found = _WORD.findall(text)
    return f" {' '.join(word for word in found if word.isascii() or unicodedata.category(word)[0] not in 'PZ')} "


@functools.cache
def _without_accent(letter: str) -> str:
    base = unicodedata.normalize("NFD", letter)[0]
    return _SINGLE_LETTERS.get(base, base)


def stands(part: str, texts: Sequence[KnownText]) -> bool:
    words = words_of_text(_SCHEME.sub("", part))
    joined = words.replace(" ", "")
    if not joined or any(words in text.words for text in texts):
        return joined != ""
    if len(joined) > _LONGEST or not _PARTED.fullmatch(joined):
        return False
    parted = f" {' ?'.join(joined)} "  # of letters, digits and characters outside ASCII, which stand for themselves
    return any(joined in text.joined and re.search(parted, text.words) for text in texts)


def stands_in_pieces(part: str, spoken: Sequence[str]) -> bool:
    """Whether a person said each run of letters or digits, and each sign, as a word. spoken: messages, as words."""
    pieces = _PIECE.findall(words_of_text(part)) if len(part) <= _LONGEST else []
    numbers = [piece for piece in pieces if piece.isdigit()]
    if not numbers or max(map(len, numbers)) < _LEAST_DIGITS:
        return False
    return all(any(f" {piece} " in text for text in spoken) for piece in pieces)


# --- the texts in which a value may stand -----------------------------------------------------------------------------


# Begin a refusal, which may quote values that occur nowhere else.
_REFUSAL_BEGINNINGS = ("Nothing was sent", "Nothing was done")
_LINES = re.compile(
    r"(?m)^(?:"
    rf"(?:{'|'.join(_REFUSAL_BEGINNINGS)}).*"
    r"|\[\d+\] .*\(source: .*\)(?: #[0-9a-f]{8})?|\[end of \d+\] #[0-9a-f]{8}"  # of passages
    r"|\((?:The result is cut|Results are shorter now|Characters |There is nothing from|None of the ).*\)"
    r"|The path names no place: .*"  # of a result that is read on
    r"|→ \S+/\S+ \w+"  # a call, for a client that wants progress
    r")$"
)
# Of a search in a result: its head, and each row's place.
_FOUND = re.compile(r"(?m)^\([\d,]+ of [\d,]+ rows hold words of the query; the best \d+:\)$")
_PLACE = re.compile(r"(?m)^(?:start \d+|(?:/[^\s:/]*)+): ")
_CUTS = re.compile(r"… [\d,]+ (?:more|elements|members|characters left out …)|\"…\": ?\"\d+ more\"")


def is_refusal(result: str) -> bool:
    """Whether a call's result says that the gateway sent nothing."""
    return result.startswith(_REFUSAL_BEGINNINGS)


def without_marks(text: str) -> str:
    """A conversation text or a result, without the gateway's lines, numbers and counts."""
    text = _LINES.sub("", text)
    if _FOUND.search(text):
        text = _PLACE.sub("", _FOUND.sub("", text))
    return _CUTS.sub("…", text)


# --- the gateway's questions to a person ------------------------------------------------------------------------------


_MOST_CHARS = 300  # of a description
WHICH = "which one"  # begins a question's row about a list's row


def question(operation: Operation, rows: Sequence[str]) -> str:
    """A question for values. rows: as in `row_for` and `row_for_choice`."""
    return "\n".join([_heading(operation), *(f"- {row}" for row in dict.fromkeys(rows))])


def row_for(name: str, schema: Any) -> str:
    """An argument's row: its name, plus description and allowed values if the API names any."""
    row = schema if isinstance(schema, dict) else {}
    words = [" ".join(str(row["description"]).split())[:_MOST_CHARS]] if row.get("description") else []
    if values := [one for one in allowed(schema) if one is not None][:20]:
        listed = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values)
        words.append(f"one of {', '.join(listed)}")
    return f"{name}: {'; '.join(words)}" if words else name


def asked(operation: Operation, known: Sequence[str]) -> set[str]:
    """Arguments that the gateway asked the person for in an earlier reply."""
    heading = _heading(operation)
    rows = (row for text in known if heading in text for row in text.splitlines())
    return {row[2:].partition(":")[0] for row in rows if row.startswith("- ")}


def needs_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by which an operation with this schema finds rows: required ones, else those that search."""
    properties: Mapping[str, Any] = schema["properties"]
    names = schema["required"] or [name for name in properties if searches_by(name)]
    return {name: properties[name] for name in names if name in properties}


def allowed(schema: Any) -> Iterator[Any]:
    """Values that a schema lists, also beside null."""
    if isinstance(schema, dict):
        for word in ("enum", "anyOf", "oneOf"):
            listed = schema.get(word)
            for one in listed if isinstance(listed, list) else ():
                if word == "enum":
                    yield one
                else:
                    yield from allowed(one)


def _heading(operation: Operation) -> str:
    return f"For “{operation.summary.strip('. ') or operation.name}” I need more information:"
