"""The differences between two JSON texts or two event streams, in a few words; used by the conformance judges.

A difference has a kind. `lost`, `made up` and `changed` concern values. The other kinds concern spelling, which means
the same to most readers: `space`, `order`, `numbers`, `escapes`, `duplicates` of JSON, `comments`, `fields`, `lines`,
`BOM` of event streams. A judge chooses the kinds of a case.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import SequenceMatcher
from typing import Any

VALUES = ("lost", "made up", "changed")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)
_SHOWN_CHARS = 24  # of a value
_SHOWN = 4  # differences of one kind
_ALWAYS_NEW = re.compile(r"(?:^|\.)(?:id|created)$")  # the value does not identify the author


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference; equal differences count once."""

    kind: str
    text: str

    @property
    def anywhere(self) -> tuple[str, str]:
        """The difference without list positions, to find the same difference in another text."""
        return self.kind, re.sub(r"\[\d+\]", "[]", self.text)


@dataclass(frozen=True, slots=True)
class _Number:
    spelling: str


@dataclass(frozen=True, slots=True)
class _Object:
    pairs: tuple[tuple[str, Any], ...]

    def last(self) -> dict[str, Any]:
        """As most readers parse: the last of a repeated key."""
        return dict(self.pairs)


def of_json(sent: bytes, got: bytes) -> list[Difference]:
    """The differences from `sent` to `got`; [] only for equal bytes. Raises ValueError for invalid JSON."""
    if sent == got:
        return []
    found = list(_walk(_read(sent), _read(got), ""))
    before, after = Counter(_STRING.findall(sent)), Counter(_STRING.findall(got))
    respelled = {json.loads(text) for text in after - before}
    if any(json.loads(text) in respelled for text in before - after):
        found.append(Difference("escapes", "the escapes"))
    if _spaces(sent) != _spaces(got) or not found:
        found.append(Difference("space", "white space"))
    return found


def told(differences: Sequence[Difference], about: Sequence[str] = ()) -> str:
    """The text of a cell: differences of values and of the chosen kinds; "kept" for other differences only."""
    if not differences:
        return "same"
    words: dict[str, list[str]] = {}
    for each in dict.fromkeys(differences):
        if each.kind in VALUES:
            words.setdefault(each.kind, []).append(each.text)
        elif each.kind in about:
            words.setdefault("changed", []).append(each.text)
    if not words:
        return "kept"
    return "; ".join(f"{kind}: {_listed(words[kind])}" for kind in VALUES if kind in words)


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _read(text: bytes) -> Any:
    return json.loads(
        text.decode("utf-8"),
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
        object_pairs_hook=lambda pairs: _Object(tuple(pairs)),
    )


def _walk(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if isinstance(old, _Object) and isinstance(new, _Object):
        yield from _objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        for i, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from _walk(left, right, f"{path}[{i}]")
        for i in range(len(new), len(old)):
            yield Difference("lost", _named(f"{path}[{i}]", old[i]))
        for i in range(len(old), len(new)):
            yield Difference("made up", _named(f"{path}[{i}]", new[i]))
    elif isinstance(old, _Number) and isinstance(new, _Number):
        if old.spelling != new.spelling:
            equal = _value(old) == _value(new)
            kind, what = ("numbers", f"{old.spelling} → {new.spelling}") if equal else ("changed", "")
            yield Difference(kind, what or _change(path, old, new))
    elif old != new:
        yield Difference("changed", _change(path, old, new))


def _objects(old: _Object, new: _Object, path: str) -> Iterator[Difference]:
    before, after = old.last(), new.last()
    if len(old.pairs) != len(before) and [key for key, _ in old.pairs] != [key for key, _ in new.pairs]:
        yield Difference("duplicates", f"the repeated key of {path or 'the body'} once only")
    elif [key for key in before if key in after] != [key for key in after if key in before]:
        yield Difference("order", "the order of keys")
    missing = {key: value for key, value in before.items() if key not in after}
    added = {key: value for key, value in after.items() if key not in before}
    for key, value in before.items():
        if key in after:
            yield from _walk(value, after[key], f"{path}.{key}".lstrip("."))
    yield from _moved(missing, added, path)
    for key, value in missing.items():
        yield Difference("lost", _named(f"{path}.{key}".lstrip("."), value))
    for key, value in added.items():
        yield Difference("made up", _named(f"{path}.{key}".lstrip("."), value))


def _moved(missing: dict[str, Any], added: dict[str, Any], path: str) -> Iterator[Difference]:
    """Values with a new name or place, removed from both sides."""
    for key, value in list(missing.items()):
        if value is None or isinstance(value, bool):
            continue  # too common to identify a value
        for other, found in list(added.items()):
            inner = found.last() if isinstance(found, _Object) else {}
            if found != value and inner.get(key) != value:
                continue
            del missing[key], added[other]
            yield Difference("changed", f"`{path}.{key}`".replace("`.", "`") + f" moved to `{other}`")
            break


def _value(number: _Number) -> Decimal | str:
    try:
        return Decimal(number.spelling)
    except InvalidOperation:
        return number.spelling


def _named(path: str, value: Any) -> str:
    plain = value is None or isinstance(value, _Number | bool)
    return f"`{path}: {_shown(value)}`" if plain and not _ALWAYS_NEW.search(path) else f"`{path}`"


def _change(path: str, old: Any, new: Any) -> str:
    if _ALWAYS_NEW.search(path):
        return f"`{path}`"
    return f"`{path}` {_shown(old)} → {_shown(new)}"


def _shown(value: Any) -> str:
    if isinstance(value, _Number):
        return value.spelling
    if isinstance(value, _Object | list):
        return "an object" if isinstance(value, _Object) else "a list"
    return _clipped(json.dumps(value, ensure_ascii=False))


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _spaces(text: bytes) -> list[bytes]:
    """The white space outside of strings."""
    return [match[0] for match in _SPACE.finditer(text) if not match[1]]


@dataclass(slots=True)
class Stream:
    """An event stream as a browser reads the stream, and the parts that browsers ignore."""

    data: list[str]
    comments: list[str]
    fields: list[tuple[str, str]]  # event, id, retry and unknown fields
    lines: frozenset[str]  # the kinds of line ends
    bom: bool

    @property
    def objects(self) -> list[str]:
        """The data of events with JSON objects."""
        return [text for text in self.data if text.lstrip().startswith("{")]

    @property
    def done(self) -> bool:
        """Whether [DONE] was said."""
        return "[DONE]" in (text.strip() for text in self.data)


def stream_of(body: bytes) -> Stream:
    """Parse a stream's bytes, also of a cut stream; an event without a final blank line counts."""
    text = body.decode("utf-8", "replace")
    found = Stream([], [], [], frozenset(re.findall(r"\r\n|\r|\n", text)), text.startswith("\ufeff"))
    pending: list[str] = []
    for line in [*re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if pending:
                found.data.append("\n".join(pending))
            pending = []
        elif not name:
            found.comments.append(value)
        elif name == "data":
            pending.append(value)
        else:
            found.fields.append((name, value))
    return found


def of_streams(sent: bytes, got: bytes) -> list[Difference]:
    """From `sent` to `got`; [] only for equal bytes."""
    if sent == got:
        return []
    old, new = stream_of(sent), stream_of(got)
    found = list(_events(old.objects, new.objects))
    if old.done != new.done:
        found.append(Difference("lost" if old.done else "made up", "[DONE]"))
    if (lost := len(old.comments) - len(new.comments)) > 0:
        found.append(Difference("comments", f"{lost} comments lost" if lost > 1 else "the comment lost"))
    missing = dict.fromkeys(name for name, value in old.fields if (name, value) not in new.fields)
    found += [Difference("fields", f"`{name}:` lost") for name in missing]
    if old.lines != new.lines:
        found.append(Difference("lines", "the line ends"))
    if old.bom != new.bom:
        found.append(Difference("BOM", "the byte order mark"))
    return found or [Difference("space", "white space")]


def _events(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    """The differences of JSON events, paired by content."""
    matcher = SequenceMatcher(None, [_key(text) for text in old], [_key(text) for text in new], autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        paired = min(b - a, d - c)
        for before, after in zip(old[a : a + paired], new[c : c + paired], strict=True):
            yield from _json_events(before, after)
        for text in old[a + paired : b]:
            yield Difference("lost", describe(text))
        for text in new[c + paired : d]:
            yield Difference("made up", describe(text))


def _json_events(before: str, after: str) -> Iterator[Difference]:
    try:
        yield from of_json(before.encode(), after.encode())
    except ValueError:
        if before != after:
            yield Difference("changed", "an event that is not JSON")


def _key(text: str) -> tuple[str, str]:
    """The content of an event: the texts of the choices, and the rest."""
    try:
        event = json.loads(text)
    except ValueError:
        return "", "garbage"
    said = []
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        said.append([choice.get("index"), delta.get("content") or "", delta.get("refusal") or ""])
        said.append([call.get("function", {}).get("arguments", "") for call in delta.get("tool_calls") or ()])
    return json.dumps(said), describe(text)


def describe(text: str) -> str:
    """An event in a few words."""
    try:
        event = json.loads(text)
    except ValueError:
        return "an event that is not JSON"
    if not isinstance(event, dict) or "error" in event:
        return "an error event"
    choices = event.get("choices") or []
    if any(choice.get("finish_reason") for choice in choices):
        return "a finish event"
    if not choices:
        return "a usage event" if event.get("usage") else "an event without choices"
    deltas = [choice.get("delta") or {} for choice in choices]
    if any(value for delta in deltas for key, value in delta.items() if key != "role"):
        return "a content event"
    return "a role event" if any("role" in delta for delta in deltas) else "an empty event"
