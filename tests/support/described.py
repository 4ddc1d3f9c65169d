"""Replies of a served gateway, held against its OpenAPI document: what is answered is what is described."""

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from jsonschema import Draft202012Validator

from proxy.api.knowledge.description import whole_document

_OURS = ("/v1/knowledge/", "/v1/vector_stores", "/v1/files", "/v1/admin/", "/v1/usage", "/v1/actions/")


def described(reply: httpx.Response) -> httpx.Response:
    """The reply, once its status and body, and the request's body if it was taken, are seen to be as described."""
    request = reply.request
    path = unquote(urlsplit(str(request.url)).path)
    if not path.startswith(_OURS):
        return reply
    operation = _operation(request.method.lower(), path)
    if operation is None:
        assert reply.is_error, f"{request.method} {path} is not in the OpenAPI document"
        return reply
    _check(reply, operation["responses"])
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if reply.is_success and taken and "json" in request.headers.get("content-type", "json"):
        _validate(json.loads(request.content), taken["schema"])
    return reply


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for template, told in whole_document()["paths"].items():
        if re.fullmatch(_pattern(template), path) and method in told:
            operation: dict[str, Any] = told[method]
            return operation
    return None


def _pattern(template: str) -> str:
    """Names have no slash in them, keys may."""
    return re.sub(r"\\\{(\w+)\\\}", lambda found: ".+" if found[1] == "key" else "[^/]+", re.escape(template))


def _check(reply: httpx.Response, responses: dict[str, Any]) -> None:
    told = responses.get(str(reply.status_code))
    if told is None:
        assert reply.is_error, f"{reply.request.url}: {reply.status_code} is not described"
        told = responses["default"]
    content = _resolved(told).get("content")
    kind = reply.headers.get("content-type", "").partition(";")[0]
    assert content is None or kind in content, f"{reply.request.url}: {kind} is not described"
    if kind == "application/json" and content:
        _validate(reply.json(), content[kind]["schema"])


def _resolved(told: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in told:
        return told
    found: dict[str, Any] = whole_document()
    for name in told["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": whole_document()["components"]})


def _validate(value: object, schema: dict[str, Any]) -> None:
    errors = [f"{error.json_path}: {error.message}" for error in _validator(json.dumps(schema)).iter_errors(value)]
    assert not errors, errors
