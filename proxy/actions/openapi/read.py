"""The bytes of an OpenAPI document to a document of version 3.0 or 3.1, as plain values.

YAML is read as YAML 1.2's core schema (in YAML 1.1 the country code `NO` is false, and 12:30 is a number). Aliases
are kept as shared values: a few lines of YAML can stand for billions of values, which `schemas` counts.
"""

import re
from typing import Any

import orjson
import yaml

from proxy.actions.openapi.references import BadReference
from proxy.actions.openapi.swagger import upgraded

MAX_BYTES = 64 * 2**20
_VERSIONS = re.compile(r"3\.[01](\.\d+)?(-[\w.]+)?")


class UnreadableSpec(ValueError):
    """A document that is no OpenAPI document; the text says where and why."""


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's core schema; a name that occurs twice is an error, and `<<` is a name like others."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for name_node, value_node in node.value:
            name = _name_of(self.construct_object(name_node, deep=True))
            if name is None:
                raise _at("a name must be a text or a number", name_node.start_mark)
            if name in made:
                raise _at(f"the name {name!r} occurs twice", name_node.start_mark)
            made[name] = self.construct_object(value_node, deep=True)
        return made


def _at(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _name_of(value: object) -> str | None:
    """A name as JSON has the name: status codes (200) are numbers in YAML."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def _mapping(loader: Any, node: Any) -> Any:
    return loader.construct_mapping(node, deep=True)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,300}", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_spec(raw: bytes) -> dict[str, Any]:
    """The document, in the form of version 3.0 or 3.1. Raises UnreadableSpec with the line where one is known."""
    if len(raw) > MAX_BYTES:
        raise UnreadableSpec(f"the document is larger than {MAX_BYTES >> 20} MB")
    document: Any = _parsed(raw)
    if not isinstance(document, dict):
        raise UnreadableSpec("the document is no object: an OpenAPI document begins with `openapi: 3.1.0`, or so")
    if "swagger" in document:
        if str(document["swagger"]) != "2.0":
            raise UnreadableSpec(f"`swagger: {document['swagger']}`: of Swagger only version 2.0 is read")
        try:
            document = upgraded(document)
        except (BadReference, TypeError, AttributeError, KeyError) as error:
            raise UnreadableSpec(f"the document is not written as Swagger 2.0 ({error})") from error
    elif not isinstance(version := document.get("openapi"), str) or not _VERSIONS.fullmatch(version):
        given = "no `openapi`" if "openapi" not in document else f"`openapi: {document['openapi']}`"
        raise UnreadableSpec(f"{given}: versions 3.0 and 3.1 of OpenAPI are read, and version 2.0 of Swagger")
    if not isinstance(document.get("paths", {}), dict):
        raise UnreadableSpec("`paths` is no object")
    return dict(document)


def _parsed(raw: bytes) -> Any:
    text = raw.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            json_error = UnreadableSpec(f"line {error.lineno}, column {error.colno}: {error.msg}")
            if text.lstrip()[:1] == b"[" or b'"' in text.lstrip()[:3]:
                raise json_error from error
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise UnreadableSpec(f"{place}{error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = "the values are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableSpec(words) from error
