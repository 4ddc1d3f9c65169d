"""The OpenAPI document of all paths answered by the gateway, at /v1/knowledge/openapi.json.

openapi.yaml is short; `whole_document` writes the schemas out for generators of clients. Many generators cannot read a
list of types, an enum or a constant without a type, and need a format to choose a number's type.
"""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from starlette.routing import Route

from proxy.api.knowledge.access import Access
from proxy.asgi import Receive, Scope, covers

PATH = "/v1/knowledge/openapi.json"
_FORMATS = {"integer": "int64", "number": "double"}
_OF_ANY_TYPE = ("description", "default")  # keywords that stay beside `anyOf`


class Description:
    """Serves the OpenAPI document."""

    def __init__(self, access: Access, relayed: Collection[str]) -> None:
        """relayed: paths relayed to an upstream, with all paths below."""
        self._access = access
        self._relayed = tuple(relayed)

    def routes(self) -> list[Route]:
        return [self._access.route(PATH, GET=self._read)]

    async def _read(self, _scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        document = whole_document()
        ours = {
            path: told
            for path, told in document["paths"].items()
            if not any(covers(one, path) for one in self._relayed)
        }
        return {**document, "info": {**document["info"], "version": version("ragway")}, "paths": ours}


@cache
def whole_document() -> dict[str, Any]:
    """The document with all paths, relayed or not."""
    import yaml

    text = files("proxy.api.knowledge").joinpath("openapi.yaml").read_text("utf-8")
    document: dict[str, Any] = _written_out(yaml.load(text, Loader=yaml.CSafeLoader))
    return document


def _written_out(node: Any) -> Any:
    """The part of the document with each schema's types written out."""
    if isinstance(node, list):
        return [_written_out(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: value if key in ("enum", "const", "required") else _written_out(value) for key, value in node.items()}
    if isinstance(node.get("enum"), list) and None in node["enum"]:
        node = {**node, "type": ["string", "null"], "enum": [value for value in node["enum"] if value is not None]}
    types = node.get("type")
    if isinstance(types, list):
        outer = {key: node.pop(key) for key in _OF_ANY_TYPE if key in node}
        return {**outer, "anyOf": [_typed({**node, "type": one} if one != "null" else {"type": one}) for one in types]}
    return _typed(node)


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a type beside an enum or a constant, and with a format beside a number's type."""
    samples = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(samples, list) and "type" not in schema:
        schema = {"type": "boolean" if isinstance(samples[0], bool) else "string", **schema}
    number = _FORMATS.get(schema["type"]) if isinstance(schema.get("type"), str) else None
    return schema if number is None else {"format": number, **schema}
