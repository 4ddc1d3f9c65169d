"""The OpenAPI document of all paths answered by the gateway, at /v1/knowledge/openapi.json.

openapi.yaml is short; `whole_document` writes the schemas out for generators of clients. Many generators cannot read an
enum or a constant without a type, and need a format to choose a number's type.
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
_NO_SCHEMAS = ("enum", "const", "required", "default")


class Description:
    """Serves the OpenAPI document."""

    def __init__(self, access: Access, relayed: Collection[str]) -> None:
        """relayed: paths that are not the gateway's, with all paths below."""
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
    """The part of the document with a type beside each enum and constant, and a format beside each number's type."""
    if isinstance(node, list):
        return [_written_out(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: value if key in _NO_SCHEMAS else _written_out(value) for key, value in node.items()}
    if isinstance(node.get("enum"), list) or isinstance(node.get("const"), str):
        node = {"type": ["string", "null"] if None in node.get("enum", ()) else "string", **node}
    kind = node["type"][0] if isinstance(node.get("type"), list) else node.get("type")
    number = _FORMATS.get(kind) if isinstance(kind, str) else None  # no string: the property with the name "type"
    return node if number is None else {"format": number, **node}
