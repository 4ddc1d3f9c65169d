"""The OpenAPI document for all paths that we answer ourselves, at /v1/knowledge/openapi.json.

Written from the handlers' declarations when first asked for.
"""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import Any

from proxy.api.knowledge.declarations import Closed, Declaration, Open, declared_in, operation
from proxy.api.knowledge.endpoint import ApiCall
from proxy.api.knowledge.schemas import Schemas
from proxy.asgi import covers

PATH = "/v1/knowledge/openapi.json"
_REFUSED = {"$ref": "#/components/responses/RefusedResponse"}
_PARAMETERS = {  # in paths
    "name": "The collection",
    "set": "The name of an action set",
    "operation": "The operation's id",
    "key": "The caller's key, which may contain slashes",
    "/v1/actions/pending/{id}": "The group's id: x-rag-pending of the chat's reply",
    "/v1/admin/keys/{id}": "The key's id, not the secret",
    "/v1/knowledge/receipts/{id}": "The x-rag-id of a chat",
}
_DOCUMENT: Mapping[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "ragway",
        "summary": "Collections, documents and searches without a chat; keys and usage.",
        "description": "Content that a key may not read is answered like missing content. OpenAI's dialect of "
        "collections is under /v1/vector_stores. Models are called as at OpenAI; this document leaves the model calls "
        "out.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "servers": [{"url": "/", "description": "this gateway"}],
    "security": [{"bearerKey": []}, {}],
    "tags": [
        {"name": "search"},
        {"name": "collections"},
        {"name": "documents"},
        {"name": "receipts", "description": "Of chats"},
        {"name": "actions", "description": "Operations of HTTP APIs; only if the setting `actions` has a row"},
        {"name": "jobs", "description": "Documents waiting to be written into a collection"},
        {"name": "vector stores", "description": "OpenAI's dialect: a collection is a vector store"},
        {"name": "admin", "description": "For keys made with --admin"},
        {"name": "usage", "description": "The usage of the caller's own key"},
    ],
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of the gateway; not needed while the gateway has no keys",
}


class _Error(Open, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class ErrorReply(Closed, frozen=True):
    error: _Error


class Description:
    """Serves the OpenAPI document."""

    def __init__(self, relayed: Collection[str]) -> None:
        """relayed: paths that are not ours, with all below."""
        self._relayed = tuple(relayed)

    @operation(f"GET {PATH}", "collections", "OpenAPI 3.1")
    async def read_description(self, _call: ApiCall) -> dict[str, Any]:
        """This document."""
        document = await asyncio.to_thread(whole_document)
        ours = {
            path: told
            for path, told in document["paths"].items()
            if not any(covers(one, path) for one in self._relayed)
        }
        return {**document, "paths": ours}


@cache
def whole_document() -> dict[str, Any]:
    """The document with all paths, relayed or not."""
    from proxy.api.admin import Admin
    from proxy.api.knowledge import (
        action_sets,
        attachments,
        documents,
        files,
        pending,
        puts,
        receipts,
        searches,
        stores,
        tables,
        uploads,
    )

    owners: list[type | ModuleType] = [
        *(
            Description,
            searches,
            documents,
            puts,
            uploads,
            receipts,
            action_sets,
            tables,
            pending,
            files,
            stores,
            attachments,
            Admin,
        )
    ]
    schemas = Schemas()
    paths: dict[str, Any] = {}
    for owner in owners:
        for handler, declared in declared_in(owner):
            path = declared.path.replace(":path}", "}")
            item = paths.setdefault(path, {"parameters": given} if (given := list(_parameters(path))) else {})
            summary = (getattr(owner, handler).__doc__ or "").partition("\n")[0].removesuffix(".")
            item[declared.method.lower()] = _operation(handler, summary, declared, schemas)
    error = {"description": "The error, in OpenAI's format", "content": schemas.content("application/json", ErrorReply)}
    components = {
        "securitySchemes": {"bearerKey": _BEARER},
        "responses": {"RefusedResponse": error},
        "schemas": schemas.components,
    }
    info = {**_DOCUMENT["info"], "version": version("ragway")}
    return {**_DOCUMENT, "info": info, "paths": paths, "components": components}


def _operation(handler: str, summary: str, declared: Declaration, schemas: "Schemas") -> dict[str, Any]:
    first, *words = handler.split("_")
    written: dict[str, Any] = {
        "operationId": first + "".join(map(str.capitalize, words)),
        "tags": [declared.tag],
        "summary": summary,
        **({"description": declared.words} if declared.words else {}),
        "responses": {
            str(status): {"description": text, "content": schemas.content(declared.media, kind)}
            for status, (kind, text) in declared.gives.items()
        }
        | {"default": _REFUSED},
    }
    if declared.query is not None:
        written["parameters"] = list(schemas.query(declared.query))
    if declared.body is not None:
        written["requestBody"] = {"required": True, "content": schemas.content("application/json", declared.body)}
    if declared.form is not None:
        written["requestBody"] = {"required": True, "content": schemas.form(declared.form)}
    if declared.told:
        written["requestBody"] = {**written.get("requestBody", {}), **declared.told}
    return written


def _parameters(path: str) -> Iterator[dict[str, Any]]:
    """A path's parameters."""
    for name in re.findall(r"{(\w+)}", path):
        start = path[: path.index(f"{{{name}}}") + len(name) + 2]
        text = _PARAMETERS.get(start, _PARAMETERS.get(name))
        described = {} if text is None else {"description": text}
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **described}
