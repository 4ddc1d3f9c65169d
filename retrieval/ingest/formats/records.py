"""JSON and JSON lines as Markdown: records with a title, fields and text.

By default each object is a section: its title by a usual name, short values as a list, long texts as paragraphs, and
objects within as sections or rows of a table. Rules may name the fields (`RecordFields`); then nothing else is read,
and with an `id` each record is a document of its own, in Markdown with front matter.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from config.sections import RecordFields
from retrieval.errors import Unreadable, groups_outside_markdown
from retrieval.ingest.chunking.questions import are_names, values
from retrieval.records.attributes import folded_name

_TITLES = ("title", "name", "subject", "headline", "heading", "summary", "question", "label", "key", "id")
_LONG_CHARS = 80  # of a value that is text, not a field
_MOST_COLUMNS = 12
_MOST_DEPTH = 100
_MOST_NAME_CHARS = 100
_HTML = re.compile(r"</(?:p|div|li|a|b|i|em|strong|h[1-6]|table|code|pre)>|<br ?/?>", re.IGNORECASE)
_TEXT = re.compile(rb'"(?:[^"\\\s]|\\.){1,60}(?:(?:\s|\\n)+(?:[^"\\\s]|\\.){1,60}){4}')
_UNNAMED = re.compile(r"[\x00-\x1f\x7f/\\]+")


def looks_like_text(beginning: bytes) -> bool:
    """Whether a JSON file's first bytes hold a text of five words."""
    return _TEXT.search(beginning) is not None


def to_markdown(text: str, fields: RecordFields | None, *, rights: bool) -> str:
    """Raises Unreadable; UnreadableRights if an object names groups, and rights is True."""
    found = [*values(text)]
    if fields is None:
        value = found[0] if len(found) == 1 else found
        return "\n\n".join(_Page(rights).value(value, 1)) + "\n"
    parts = []
    for record in _records(found, fields):
        if rights:
            _check(record)
        title, lines = _of(record, fields.title), [f"- {name}: {value}" for name, value in _described(record, fields)]
        parts += [f"## {title}" if title else "", "\n".join(lines), _text(record, fields)]
    return "\n\n".join(part for part in parts if part) + "\n"


def members(text: str, fields: RecordFields) -> Iterator[tuple[str, float, bytes]]:
    """Each record as a document: name by its id, time of change (0: unknown), content. Raises Unreadable."""
    for record in _records([*values(text)], fields):
        id, body = _of(record, fields.id), _text(record, fields)
        if not id or not body:
            continue
        front = {name: value for name, value in _described(record, fields, raw=True) if value not in (None, "")}
        front |= {name: value for name, value in record.items() if folded_name(name) == "groups" and are_names(value)}
        lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in front.items()]
        title = _of(record, fields.title).replace('"', "'").replace("\\", "/")
        head = "\n".join(["---", *([f'title: "{title}"'] if title else []), *lines, "---"])
        name = " ".join(_UNNAMED.sub(" ", id).split())[:_MOST_NAME_CHARS]
        yield f"{name}.md", _seconds(record, fields), f"{head}\n\n{body}\n".encode("utf-8", "replace")


def _records(found: list[object], fields: RecordFields) -> list[Mapping[str, Any]]:
    """Raises Unreadable if there are none."""
    places = [_at(value, fields.records) if fields.records else value for value in found]
    rows = [row for place in places for row in (place if isinstance(place, list) else [place])]
    records = [row for row in rows if isinstance(row, Mapping)]
    if not records:
        raise Unreadable(f"no records: expected objects {f'in {fields.records!r}' if fields.records else ''}".strip())
    return records


def _at(value: Any, path: str) -> Any:
    """The value at a path such as "fields.summary"."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return _at(value[first], rest) if rest and isinstance(value, Mapping) and first in value else None


def _of(record: Mapping[str, Any], path: str) -> str:
    return _line(_at(record, path)) if path else ""


def _described(record: Mapping[str, Any], fields: RecordFields, *, raw: bool = False) -> Iterator[tuple[str, Any]]:
    for name, path in (("url", fields.url), ("modified", fields.date), *((one, one) for one in fields.attributes)):
        value = _at(record, path) if path else None
        if value not in (None, "", []):
            yield name.rpartition(".")[2], value if raw else _line(value)


def _text(record: Mapping[str, Any], fields: RecordFields) -> str:
    found = [_at(record, path) for path in fields.text]
    return "\n\n".join(_prose(one) if isinstance(one, str) else _line(one) for one in found if one not in (None, ""))


def _seconds(record: Mapping[str, Any], fields: RecordFields) -> float:
    value = _at(record, fields.date) if fields.date else None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if 0 < value < 2**33 else float(value) / 1000 if 0 < value < 2**43 else 0.0
        made = datetime.fromisoformat(str(value))
        return max(0.0, (made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0


def _prose(text: str) -> str:
    if not _HTML.search(text):
        return text.strip()
    from retrieval.ingest.formats.webpage import to_markdown as page_to_markdown  # bs4 and markdownify

    return page_to_markdown(text)[1].strip()


def _line(value: object) -> str:
    """A value in one line; lists with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return " ".join(str(value).split())
    if isinstance(value, list):
        return ", ".join(filter(None, map(_line, value)))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _check(record: Mapping[str, Any]) -> None:
    if any(folded_name(name) == "groups" and are_names(item) for name, item in record.items()):
        raise groups_outside_markdown("JSON", "name the records' `id` in a rule (ingest.rules)")


class _Page:
    """Any JSON value as Markdown, in its order."""

    def __init__(self, rights: bool) -> None:
        self._rights = rights

    def value(self, value: object, level: int, name: str = "") -> Iterator[str]:
        if level > _MOST_DEPTH:
            raise Unreadable("nested too deeply: split the file")
        if isinstance(value, Mapping):
            yield from self._object(value, level, name)
        elif isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
            yield from self._list(value, level, name)
        elif isinstance(value, str) and len(value) > _LONG_CHARS:
            yield _prose(value)
        elif line := _line(value):
            yield f"- {name}: {line}" if name else f"- {line}"

    def _object(self, value: Mapping[str, Any], level: int, name: str) -> Iterator[str]:
        if self._rights:
            _check(value)
        title_key = next(
            (own for key in _TITLES for own in value if own.lower() == key and _is_short(value[own])), None
        )
        if title := name if title_key is None else _line(value[title_key]):
            yield f"{'#' * min(level, 6)} {title}"
        fields: list[str] = []
        for key, item in value.items():
            if key == title_key:
                continue
            if _is_short(item):
                fields += [f"- {key}: {_line(item)}"] if _line(item) else []
                continue
            if fields:
                yield "\n".join(fields)
                fields = []
            yield from self.value(item, level + 1, key)
        if fields:
            yield "\n".join(fields)

    def _list(self, items: list[Any], level: int, name: str) -> Iterator[str]:
        rows = [item for item in items if isinstance(item, Mapping)]
        columns = list(dict.fromkeys(key for row in rows for key in row))
        flat = len(rows) == len(items) and all(_is_short(value) for row in rows for value in row.values())
        if name:
            yield f"{'#' * min(level, 6)} {name}"
        if len(rows) > 1 and flat and 1 < len(columns) <= _MOST_COLUMNS:
            for row in rows if self._rights else ():
                _check(row)
            lines = [columns, ["---"] * len(columns), *([_line(row.get(key)) for key in columns] for row in rows)]
            yield "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
            return
        for item in items:
            yield from self.value(item, level + bool(name))


def _is_short(value: object) -> bool:
    """Whether a value is a field in one line."""
    if isinstance(value, str):
        return len(value) <= _LONG_CHARS and "\n" not in value.strip()
    return not isinstance(value, Mapping | list) or (isinstance(value, list) and all(map(_is_scalar, value)))


def _is_scalar(value: object) -> bool:
    return not isinstance(value, Mapping | list) and _is_short(value)
