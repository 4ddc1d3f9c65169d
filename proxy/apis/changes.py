"""What a write changed: readings before and after, compared line by line.

    state: open → cancelled
    items[id=7]: added {"id": 7, "count": 2}
    tags: removed "old"

List elements are matched by identifier, else by place, so an inserted element is one line. Times and versions, which
any write moves, come last. Give whole readings: a cut one hides changes. The words come from the caller, in the
person's language.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_MOST_CHANGES = 20
_MOST_CHARS = 120  # of a value
_MOST_LEVELS = 40
_KEYS = ("id", "_id", "uuid", "key", "slug", "name", "code", "number", "href")
_PLAIN = re.compile(r"[^\W_][\w .@/:+-]{0,80}")  # text that needs no quotes
_MOVING = re.compile(
    r"(?i)(?:.*[._\]])?(?:updated|modified|changed|last_?(?:updated|modified|changed)|e_?tag|version|revision|rev"
    r"|timestamp|date|time|request_?id)(?:_?(?:at|on|time|date|by))?"
)
_SAME = object()
_Change = tuple[str, Literal["became", "added", "removed", "moved"], tuple[Any, ...]]  # path, what happened, values


@dataclass(frozen=True, slots=True)
class ChangeWords:
    """What the lines say beside paths and values, in one language."""

    added: str  # {value}
    removed: str  # {value}
    moved: str
    created: str  # {value}
    gone: str  # {value}
    nothing: str
    absent: str
    others: str  # {count}
    cut: str  # {chars}


def changes(before: str | None, after: str | None, say: ChangeWords, *, most: int = _MOST_CHANGES) -> list[str]:
    """Up to `most` changes, then a count of the others. A text is a response body; None: not there (404)."""
    if before is None and after is None:
        return [say.absent]
    if before is None or after is None:
        return [
            (say.created if before is None else say.gone).format(
                value=in_short(after if before is None else before, say)
            )
        ]
    found = list(_changes("", _read(before), _read(after), 0))
    found.sort(key=lambda change: bool(_MOVING.fullmatch(change[0])))
    lines = [_line(*one, say) for one in found[:most]]
    left = len(found) - most
    return [*lines, *([f"… {say.others.format(count=f'{left:,}')}"] if left > 0 else [])] or [say.nothing]


def in_short(text: str | None, say: ChangeWords) -> str:
    """A reading in one line. text: as in `changes`."""
    return "404" if text is None else _value(_read(text), say)


def _line(path: str, what: str, values: tuple[Any, ...], say: ChangeWords) -> str:
    shown = " → ".join(_value(one, say) for one in values)
    words = {"added": say.added, "removed": say.removed, "moved": say.moved}.get(what, "{value}").format(value=shown)
    return f"{path}: {words}" if path else words


def _read(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return text


def _changes(path: str, before: Any, after: Any, level: int) -> Iterator[_Change]:
    if _equal(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict) and level < _MOST_LEVELS:
        for name in dict.fromkeys([*before, *after]):
            yield from _member(
                f"{path}.{name}" if path else name, before.get(name, _SAME), after.get(name, _SAME), level
            )
    elif isinstance(before, list) and isinstance(after, list) and level < _MOST_LEVELS:
        yield from _elements(path, before, after, level)
    else:
        yield path, "became", (before, after)


def _member(path: str, before: Any, after: Any, level: int) -> Iterator[_Change]:
    if before is _SAME:
        yield path, "added", (after,)
    elif after is _SAME:
        yield path, "removed", (before,)
    else:
        yield from _changes(path, before, after, level + 1)


def _elements(path: str, before: list[Any], after: list[Any], level: int) -> Iterator[_Change]:
    key = _key_of(before, after)
    if key:
        old, new = ({str(one[key]): one for one in rows} for rows in (before, after))
        for name in dict.fromkeys([*old, *new]):
            yield from _member(f"{path}[{key}={name}]", old.get(name, _SAME), new.get(name, _SAME), level)
        if list(old) != list(new) and old.keys() == new.keys():
            yield path, "moved", ()
    elif not any(isinstance(one, dict | list) for one in (*before, *after)):
        gone, come = _without(before, after), _without(after, before)
        for one in gone:
            yield path, "removed", (one,)
        for one in come:
            yield path, "added", (one,)
        if not gone and not come:
            yield path, "moved", ()
    else:
        for at in range(max(len(before), len(after))):
            old_one = before[at] if at < len(before) else _SAME
            new_one = after[at] if at < len(after) else _SAME
            yield from _member(f"{path}[{at}]", old_one, new_one, level)


def _without(rows: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Scalars of a list that another list lacks, or has fewer times."""
    left, kept = Counter(map(_same_form, others)), []
    for one in rows:
        if left[form := _same_form(one)] > 0:
            left[form] -= 1
        else:
            kept.append(one)
    return kept


def _key_of(before: Sequence[Any], after: Sequence[Any]) -> str:
    """The member that identifies each element in both lists; "": none."""
    rows = (*before, *after)
    if not all(isinstance(one, Mapping) for one in rows):
        return ""
    for key in _KEYS:
        if all(isinstance(one.get(key), str | int) for one in rows) and all(
            len({str(one[key]) for one in some}) == len(some) for some in (before, after)
        ):
            return key
    return ""


def _equal(before: Any, after: Any) -> bool:
    """Whether two values are the same; in Python, True is 1."""
    return bool(before == after) and _same_form(before) == _same_form(after)


def _same_form(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _value(value: Any, say: ChangeWords) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in ("true", "false", "null"):
        text = value if not re.fullmatch(r"[\d.+-]+", value) else json.dumps(value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _MOST_CHARS:
        return text
    half = _MOST_CHARS // 2
    return f"{text[:half]} … {text[-half:]} ({say.cut.format(chars=f'{len(text):,}')})"
