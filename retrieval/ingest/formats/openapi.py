"""OpenAPI documents as Markdown: a section for each operation, with its parameters, bodies and replies."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from retrieval.errors import Unreadable

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_NAMED = re.compile(rb"^[ \t{]{0,8}[\"']?(?:openapi|swagger)[\"']?[ \t]*:[ \t]*[\"']?\d", re.MULTILINE)
_MOST_DEPTH = 3  # of schemas within each other
_MOST_FIELDS = 100  # of an operation


def looks_like_openapi(beginning: bytes) -> bool:
    """Whether a file's first bytes name the version of an OpenAPI document."""
    return _NAMED.search(beginning) is not None


def to_markdown(text: str) -> tuple[str, str]:
    """Return an OpenAPI document's title and text. Raises Unreadable."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else yaml.load(text, yaml.CBaseLoader)
    except (ValueError, yaml.YAMLError) as error:
        raise Unreadable(f"not an OpenAPI document: {' '.join(str(error).split())[:300]}; mend it there") from error
    except RecursionError:
        raise Unreadable("nested too deeply: split the file") from None
    api = _Api(document)
    if not isinstance(api.of(document).get("paths"), Mapping):
        raise Unreadable(
            "not an OpenAPI document: expected `paths` with operations; another file needs another ending, "
            "or no line `openapi` or `swagger`"
        )
    info = api.of(api.of(document).get("info"))
    title = _line(info.get("title"))
    head = [f"# {title} {_line(info.get('version'))}".rstrip() if title else "", _text(info.get("description"))]
    return title, "\n\n".join(part for part in (*head, *api.operations()) if part) + "\n"


class _Api:
    """A document whose references are followed."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def of(self, value: Any) -> Mapping[str, Any]:
        """The object, or the one that it refers to within the document; an empty one for anything else."""
        for _ in range(10):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                break
            target, value = value["$ref"], self._document
            for part in target.removeprefix("#/").split("/"):
                name = part.replace("~1", "/").replace("~0", "~")
                value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def operations(self) -> Iterator[str]:
        for path, given in self.of(self.of(self._document).get("paths")).items():
            item = self.of(given)
            for method in _METHODS:
                if isinstance(item.get(method), Mapping):
                    yield self._operation(f"{method.upper()} {path}", item[method], item.get("parameters"))

    def _operation(self, name: str, operation: Mapping[str, Any], shared: Any) -> str:
        summary, id = _line(operation.get("summary")), _line(operation.get("operationId"))
        lines = [f"- {id}" for id in [id] if id]
        for one in (*_list(shared), *_list(operation.get("parameters"))):
            parameter = self.of(one)
            lines += self._fields(_line(parameter.get("name")), parameter, _line(parameter.get("in")))
        for kind, body in self.of(self.of(operation.get("requestBody")).get("content")).items():
            lines += self._fields(f"body ({kind})", self.of(body))
        for status, one in self.of(operation.get("responses")).items():
            lines.append(f"- reply {status}: {_line(self.of(one).get('description'))}")
        parts = [f"## {name}{': ' if summary else ''}{summary}", _text(operation.get("description"))]
        return "\n\n".join(part for part in (*parts, "\n".join(lines[:_MOST_FIELDS])) if part)

    def _fields(self, name: str, holder: Mapping[str, Any], place: str = "", depth: int = 0) -> list[str]:
        """A value as a line, and the fields of an object below it."""
        schema = self.of(holder.get("schema", holder))
        if schema.get("type") == "array":
            schema, place = self.of(schema.get("items")), f"{place} list".strip()
        said = _line(holder.get("description")) or _line(schema.get("description"))
        values = [str(value) for value in _list(schema.get("enum"))]
        line = f"{'  ' * depth}- {name} ({' '.join(filter(None, (place, _line(schema.get('type'))))) or 'any'})"
        lines = [line + (f": {said}" if said else "") + (f" One of {', '.join(values)}." if values else "")]
        if depth < _MOST_DEPTH:
            for inner, value in self.of(schema.get("properties")).items():
                lines += self._fields(str(inner), self.of(value), depth=depth + 1)
                if len(lines) > _MOST_FIELDS:
                    break
        return lines


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
