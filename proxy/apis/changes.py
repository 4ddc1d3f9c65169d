"""What a write changed: readings before and after, compared line by line.

    state: open → cancelled
    items[id=7]: added {"id": 7, "count": 2}
    tags: "old" removed

List elements are matched by identifier, else by place, so an inserted element is one line. Times and versions, which
any write moves, come last. Give whole readings: a cut one hides changes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NOTHING, ABSENT = "nothing changed", "not there before, and not there now"
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


def changes(before: str | None, after: str | None, *, most: int = _MOST_CHANGES) -> list[str]:
    """Up to `most` changes, then a count of the others. A text is a response body; None: not there (404)."""
    if before is None or after is None:
        if before is after:
            return [ABSENT]
        return [f"created: {_value(_read(after))}" if before is None else f"gone: was {_value(_read(before))}"]
    found = list(_changes("", _read(before), _read(after), 0))
    found.sort(key=lambda change: bool(_MOVING.fullmatch(change[0])))
    lines = [f"{path}: {what}" if path else what for path, what in found]
    left = len(lines) - most
    return [*lines[:most], *([f"… {left:,} more changes"] if left > 0 else [])] or [NOTHING]


def in_short(text: str | None) -> str:
    """A reading in one line. text: as in `changes`."""
    return "404" if text is None else _value(_read(text))


def _read(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return text


def _changes(path: str, before: Any, after: Any, level: int) -> Iterator[tuple[str, str]]:
    """(path, what happened) of each change."""
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
        yield path, f"{_value(before)} → {_value(after)}"


def _member(path: str, before: Any, after: Any, level: int) -> Iterator[tuple[str, str]]:
    if before is _SAME:
        yield path, f"added {_value(after)}"
    elif after is _SAME:
        yield path, f"removed {_value(before)}"
    else:
        yield from _changes(path, before, after, level + 1)


def _elements(path: str, before: list[Any], after: list[Any], level: int) -> Iterator[tuple[str, str]]:
    key = _key_of(before, after)
    if key:
        old, new = ({str(one[key]): one for one in rows} for rows in (before, after))
        for name in dict.fromkeys([*old, *new]):
            yield from _member(f"{path}[{key}={name}]", old.get(name, _SAME), new.get(name, _SAME), level)
        if list(old) != list(new) and old.keys() == new.keys():
            yield path, "in another order"
    elif not any(isinstance(one, dict | list) for one in (*before, *after)):
        gone, come = _without(before, after), _without(after, before)
        yield from ((path, f"{_value(one)} removed") for one in gone)
        yield from ((path, f"{_value(one)} added") for one in come)
        if not gone and not come:
            yield path, "in another order"
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


def _value(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in ("true", "false", "null"):
        text = value if not re.fullmatch(r"[\d.+-]+", value) else json.dumps(value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _MOST_CHARS:
        return text
    half = _MOST_CHARS // 2
    return f"{text[:half]} … {text[-half:]} ({len(text):,} characters)"
