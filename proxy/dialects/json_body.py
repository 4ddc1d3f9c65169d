"""A JSON request body, read and edited as bytes: what no edit touches stays as the client sent it.

Key order, number spelling, escapes, unknown members and white space are kept. An edit replaces a span of bytes. Spans
are looked up only for edits: a request that is only read is parsed once, in C.

No body keeps other threads waiting for long: one with very many values is refused before parsing, and a large one is
searched in steps. So the event loop goes on while a thread reads it (`by_size`).
"""

import asyncio
import contextlib
import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeVar

import orjson

from proxy.dialects.errors import ApiError

LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")  # answer limits, in all dialects
# Every member that we read in some dialect: whoever reads it next must see the same value.
_READ = frozenset(
    (
        *("model", "messages", "rag", "stream", "stream_options", "n", "best_of"),
        *LENGTHS,
        *("prompt", "input", "instructions", "system", "tools", "functions", "response_format"),
    )
)
LARGE_BYTES = 1 << 18  # even the worst smaller body is read within 20 ms
_STEP_BYTES = 1 << 20  # searched in one call
# Parsing holds the interpreter: some 0.2 µs per list, object and member, 0.1 µs per text, 0.02 µs per other item, and 1
# to 2 ms per MB. The worst 20 MB body found takes 45 to 50 ms on a busy machine: one ASCII text with a "€".
_MOST_MEMBERS = 50_000  # lists, objects and their members
_LONGEST_NAME = 40  # characters; all names in _READ are shorter, however spelled
_MOST_VALUES = 500_000  # commas: token numbers for `/v1/embeddings` are many
_MOST_TEXTS = 50_000  # including member names
# A text with a character above U+FFFF takes 4 bytes per character: 3.5 ms per MB of ASCII with an emoji, so 70 ms for
# 20 MB on a busy machine, mostly for new memory pages.
_MOST_WIDE_BYTES = 8 << 20  # in texts with such a character; no model reads that much
_WIDE = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", rb"\ud", rb"\uD")  # how such a character begins, or is escaped
_MOST_VALUES_FOR_PYTHON = 20_000  # Python's parser takes 0.5 µs for a long fraction
MAX_MODEL_CHARS = 1000
# A letter or "_" in a member's name, spelled as an escape. Without escapes, a name stands between quotes as it is.
_ESCAPE = rb"\u00"
_ESCAPED_LETTER = re.compile(rb"\\u00[5-7]")
_LONG_NUMBER = re.compile(rb"[0-9]{40}|[eE][+-]?[0-9]{4}")
_SPACES = re.compile(rb"[ \t\r\n]*")
_NUMBER_OR_WORD = re.compile(rb"[^\s,\]}]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_KEY = re.compile(_STRING.pattern + rb"\s*:\s*")
_COLON = re.compile(rb"\s*:\s*")
# A string, and the next bracket outside strings, if no quote is escaped (`unescaped`): eight times faster in long
# texts.
_PLAIN_STRING = re.compile(rb'"[^"]*+"')
_PLAIN_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+")*+([\[\]{}])')

_T = TypeVar("_T")


class Edit(NamedTuple):
    """New bytes for the span from start to end; an insertion if start is end."""

    start: int
    end: int
    new: bytes


class JsonBody:
    """A JSON object: its bytes, its values, and where the members are that we may edit."""

    __slots__ = ("_messages", "fields", "members", "raw")

    # Members with a known place. A body that repeats one is refused: two readers could take different values.
    NAMES: ClassVar[tuple[str, ...]] = ("model", "messages", "rag")

    def __init__(self, raw: bytes, fields: dict[str, Any], members: Mapping[str, int]) -> None:
        """members: name of each member of NAMES that is present -> where its key begins."""
        self.raw = raw
        self.fields = fields
        self.members = members
        self._messages: Any = None  # as a dialect has read them

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Read a request body.

        Raises ApiError 400: not JSON, not an object, too many values, or a member of NAMES that is repeated, or spelled
        in another way.
        """
        if len(raw) > LARGE_BYTES:
            check_size(raw)
        try:
            fields = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            fields = _with_lone_surrogates(raw, error)
        if not isinstance(fields, dict):
            raise ApiError(400, f"The request body must be a JSON object, got {kind_of(fields)}.", code="invalid_body")
        _check_spellings(fields)
        members = _members_named_once(raw, fields, cls.NAMES)
        return cls(raw, fields, _members_by_scan(raw, cls.NAMES) if members is None else members)

    def model(self) -> str:
        """The client's `model`. Raises ApiError 400."""
        model = self.fields.get("model")
        if not isinstance(model, str) or not model:
            message = "You must provide a 'model': the name of a model, as text."
            raise ApiError(400, message, code="missing_model", param="model")
        if len(model) > MAX_MODEL_CHARS:
            message = f"'model' is longer than {MAX_MODEL_CHARS} characters: send the name of a model."
            raise ApiError(400, message, code="invalid_model", param="model")
        return model

    def edited(self, *, model: str | None = None, without_rag: bool = False, edits: Sequence[Edit] = ()) -> bytes:
        """The bytes with another model name, without `rag`, and with further edits; without any, `raw` itself."""
        edits = list(edits)
        if model is not None and model != self.fields.get("model"):
            edits.append(self._model_edit(json.dumps(model).encode()))  # orjson refuses half a surrogate pair
        if without_rag and "rag" in self.members:
            edits.append(Edit(*self._span_with_comma(self.members["rag"]), b""))
        if not edits:
            return self.raw
        pieces, done = [], 0
        for start, end, new in sorted(edits):
            pieces += [self.raw[done:start], new]
            done = end
        return b"".join([*pieces, self.raw[done:]])

    def _model_edit(self, new: bytes) -> Edit:
        """Put the model in place of the client's value, or add it as first member."""
        if "model" not in self.members:
            start = self.raw.index(b"{") + 1
            return Edit(start, start, b'"model":' + new + (b"," if self.fields else b""))
        start = value_at(self.raw, self.members["model"])
        is_text = isinstance(self.fields["model"], str)
        return Edit(start, _after(_STRING, self.raw, start) if is_text else end_of(unescaped(self.raw), start), new)

    def _span_with_comma(self, start: int) -> tuple[int, int]:
        """The span of a member that begins at `start`, with a comma: the one after it, else the one before."""
        end = end_of(unescaped(self.raw), value_at(self.raw, start))
        after = _after_spaces(self.raw, end)
        if self.raw[after] == ord(","):
            return start, _after_spaces(self.raw, after + 1)
        before = self.raw[:start].rstrip()
        return (len(before[:-1].rstrip()) if before.endswith(b",") else start), end


async def by_size(raw: bytes, work: Callable[[], _T]) -> _T:
    """Do the work and return its result; for a large body, in a thread."""
    return await asyncio.to_thread(work) if len(raw) > LARGE_BYTES else work()


def check_size(raw: bytes) -> None:
    """Raises ApiError 400 if a body has so many values, or such wide texts, that parsing would take long."""
    steps = (raw[start : start + _STEP_BYTES] for start in range(0, len(raw), _STEP_BYTES))
    if not _within(steps) and not _within(_outside_texts(raw)):  # commas and brackets in texts do not count
        raise _too_many(_MOST_VALUES)
    if len(raw) > _MOST_WIDE_BYTES and _wide_bytes(raw) > _MOST_WIDE_BYTES:
        message = (
            f"The request body holds more than {_MOST_WIDE_BYTES >> 20} MB of texts with emoji or other characters "
            "above U+FFFF: send shorter texts."
        )
        raise ApiError(400, message, code="invalid_body")


def _is_wide(text: bytes) -> bool:
    """Whether a piece of text has a character above U+FFFF."""
    return any(begin in text for begin in _WIDE)


def _wide_bytes(raw: bytes) -> int:
    """Total bytes of texts with a character above U+FFFF. The input may be anything, JSON or not."""
    if not any(_is_wide(raw[start:end]) for start, end in _overlapping(raw)):
        return 0
    total_bytes = text_bytes = 0
    inside = wide = False
    tail = b""  # from the step before, which may end within an escape
    for step in _steps(raw):
        for number, piece in enumerate(unescaped(step).split(b'"')):
            if number:  # a quote precedes this piece
                total_bytes += text_bytes if wide else 0
                text_bytes, wide, inside, tail = 0, False, not inside, b""
            if inside:
                text_bytes += len(piece)
                wide = wide or _is_wide(tail + piece)
        tail = step[-2:]
    return total_bytes + (text_bytes if wide else 0)


def _too_many(most_values: int) -> ApiError:
    message = (
        f"The request body holds too many values: send at most {_MOST_MEMBERS} lists, objects and members of objects, "
        f"{_MOST_TEXTS} texts and {most_values} values in all."
    )
    return ApiError(400, message, code="invalid_body")


def _within(steps: Iterable[bytes], most_values: int = _MOST_VALUES) -> bool:
    members = values = texts = 0
    for step in steps:
        members += step.count(b"[") + step.count(b"{") + step.count(b":")
        values += step.count(b",")
        texts += step.count(b'"')  # in a whole body, two per text
        if members > _MOST_MEMBERS or values > most_values or texts > _MOST_TEXTS:
            return False
    return True


def _outside_texts(raw: bytes) -> Iterator[bytes]:
    """The bytes outside strings, with one quote per string, step by step. The input may be anything, JSON or not."""
    inside = False
    for step in _steps(raw):
        pieces = unescaped(step).split(b'"')
        yield b'"'.join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0


def _steps(raw: bytes) -> Iterator[bytes]:
    """The bytes in pieces that split no escape."""
    start = 0
    while start < len(raw):
        step = raw[start : start + _STEP_BYTES]
        if (len(step) - len(step.rstrip(b"\\"))) % 2:
            step = raw[start : start + _STEP_BYTES + 1]
        start += len(step)
        yield step


def _check_spellings(fields: Mapping[str, Any]) -> None:
    """Refuse names that another reader may take for a member of _READ. Raises ApiError 400.

    Readers in Go find "Model" for `model`, and "ſtream" for `stream`.
    """
    for name in fields:
        if name in _READ or len(name) > _LONGEST_NAME or (name.isascii() and name.islower()):
            continue
        meant = unicodedata.normalize("NFKC", name).casefold()
        if meant in _READ:
            message = f"{name!r} in the request body could be read as '{meant}': write '{meant}', once."
            raise ApiError(400, message, code="ambiguous_field", param=name)


def _members_named_once(raw: bytes, fields: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, int] | None:
    """Where the named members are, if searching for their names is enough; else None.

    A quoted name that occurs only once is the member itself: inside a text, quotes would be escaped. So most bodies
    need no structural scan.
    """
    if _find(raw, _ESCAPE, 0) >= 0 and any(_ESCAPED_LETTER.search(raw, start, end) for start, end in _overlapping(raw)):
        return None
    members = {}
    for key, quoted in _quoted(names):
        if key not in fields:
            continue
        start = members[key] = _find(raw, quoted, 0)
        if _find(raw, quoted, start + len(quoted)) >= 0:
            return None
    return members


def values_of(raw: bytes, fields: Mapping[str, Any], names: tuple[str, ...]) -> Sequence[Any]:
    """Values of the members with these names. If one is repeated, all its values: upstreams differ in which they take.

    fields: the parsed body. For repeated members, lists and objects are left out.
    """
    if _members_named_once(raw, fields, names) is not None:
        return [fields.get(name) for name in names]
    plain = unescaped(raw)
    places = [value for key, _, value in _members(raw, plain, plain.index(b"{")) if key in names]
    values: list[Any] = []
    for place in places:
        with contextlib.suppress(orjson.JSONDecodeError):  # half a surrogate pair
            values += [] if plain[place] in b"[{" else [orjson.loads(raw[place : end_of(plain, place)])]
    return values


@functools.cache
def _quoted(names: tuple[str, ...]) -> Sequence[tuple[str, bytes]]:
    return [(name, b'"%b"' % name.encode()) for name in names]


def _find(raw: bytes, name: bytes, start: int) -> int:
    if len(raw) <= _STEP_BYTES:  # most bodies: a generator would cost more than the search
        return raw.find(name, start)
    found = (raw.find(name, first, last) for first, last in _overlapping(raw, start))
    return next((place for place in found if place >= 0), -1)


def _overlapping(raw: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
    """Begin and end of pieces that overlap, so that a short name is whole in one of them."""
    return ((at, at + _STEP_BYTES + _LONGEST_NAME) for at in range(start, len(raw), _STEP_BYTES))


def _members_by_scan(raw: bytes, names: Sequence[str]) -> Mapping[str, int]:
    """Where the named members are, by scanning the object. Raises ApiError 400 if one is repeated."""
    members: dict[str, int] = {}
    plain = unescaped(raw)
    for key, start, _ in _members(raw, plain, plain.index(b"{")):
        if key in names:
            if key in members:
                message = f"'{key}' stands twice in the request body: send it once."
                raise ApiError(400, message, code="duplicate_field", param=key)
            members[key] = start
    return members


def _with_lone_surrogates(raw: bytes, error: Exception) -> Any:
    """Read JSON that orjson refuses: cut-off texts hold an escaped half of a surrogate pair."""
    if not _within(_outside_texts(raw), _MOST_VALUES_FOR_PYTHON):
        raise _too_many(_MOST_VALUES_FOR_PYTHON)
    try:
        if any(_LONG_NUMBER.search(structure) for structure in _outside_texts(raw)):
            raise ValueError("a number has too many digits")  # Python reads 4,000 digits in 0.1 ms
        return json.loads(raw.decode("utf-8"), parse_constant=_not_json)
    except (ValueError, RecursionError):
        message = f"The request body is not valid JSON: {error}."
        raise ApiError(400, message, code="invalid_json") from error


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Places in the bytes of valid JSON


def unescaped(raw: bytes) -> bytes:
    """The same bytes, every place kept, but without escaped quotes: a string ends at the next quote."""
    if b"\\" not in raw:
        return raw
    if len(raw) > 2 * _STEP_BYTES:
        return b"".join(map(unescaped, _steps(raw)))
    return raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")


def _members(raw: bytes, plain: bytes, opening: int) -> Iterator[tuple[str, int, int]]:
    """Each member of an object that begins at `opening`: its key, and where key and value begin."""
    at = _after_spaces(plain, opening + 1)
    while plain[at] == ord('"'):
        end = plain.index(b'"', at + 1) + 1
        value = _after(_COLON, plain, end)
        yield _text_of_key(raw[at:end]), at, value
        at = _after_spaces(plain, end_of(plain, value))
        if plain[at] == ord(","):
            at = _after_spaces(plain, at + 1)


def items(plain: bytes, opening: int) -> Iterator[int]:
    """Where each item of a list at `opening` begins; the list is not empty."""
    at = opening
    while plain[at] != ord("]"):
        at = _after_spaces(plain, at + 1)
        yield at
        at = _after_spaces(plain, end_of(plain, at))


def nth_item(plain: bytes, opening: int, index: int) -> int:
    """Where item `index` of a list at `opening` begins; the list must be longer."""
    return next(itertools.islice(items(plain, opening), index, None))


def member_span(raw: bytes, plain: bytes, opening: int, name: str) -> tuple[int, int]:
    """Begin and end of a member's value, in an object at `opening`; of a repeated member, the last value.

    Parsers take the last one, too. The member must exist.
    """
    value = [value for key, _, value in _members(raw, plain, opening) if key == name][-1]
    return value, end_of(plain, value)


def end_of(plain: bytes, value: int) -> int:
    """Where a value that begins at `value` ends."""
    first = plain[value : value + 1]
    if first not in b"[{":
        return _after(_PLAIN_STRING if first == b'"' else _NUMBER_OR_WORD, plain, value)
    depth = 0
    for bracket in _PLAIN_BRACKET.finditer(plain, value):
        depth += 1 if bracket[1] in b"[{" else -1
        if depth == 0:
            return bracket.end()
    raise AssertionError("in valid JSON every bracket is closed")


def value_at(raw: bytes, start: int) -> int:
    """Where the value begins, for a key at `start`."""
    return _after(_KEY, raw, start)


def _after_spaces(raw: bytes, at: int) -> int:
    return _after(_SPACES, raw, at)


def _after(pattern: re.Pattern[bytes], raw: bytes, start: int) -> int:
    """Where a match that begins at `start` ends."""
    found = pattern.match(raw, start)
    assert found is not None, "in valid JSON every text ends, and every key has a value"
    return found.end()


def _text_of_key(key: bytes) -> str:
    """The name; "" if it is longer than any name in _READ, even one written in escapes only."""
    if len(key) > 6 * _LONGEST_NAME:
        return ""
    if b"\\" not in key:
        return key[1:-1].decode("utf-8")
    text: str = json.loads(key)
    return text


def kind_of(value: Any) -> str:
    """A JSON value's kind, in words for an error message."""
    names = {list: "a list", dict: "an object", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
