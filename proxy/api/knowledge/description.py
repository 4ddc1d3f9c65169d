"""The OpenAPI document of all paths answered by the gateway, at /v1/knowledge/openapi.json."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from starlette.routing import Route

from proxy.api.knowledge.access import Access
from proxy.asgi import Receive, Scope, covers

PATH = "/v1/knowledge/openapi.json"


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
    document: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return document
