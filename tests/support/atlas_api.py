"""A small API like MongoDB Atlas' admin API: digest authentication, vendor media types, and an OpenAPI document."""

import asyncio
import contextlib
import hashlib
import json
import queue
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.served_app import served

USER, PASSWORD = "canary-user", "canary-password-5e1f"
GROUP = "canary-group-77aa01"  # the fixed argument
ORG = "5f0c1e2a9d3b"
MEDIA = "application/vnd.atlas.2023-02-01+json"
USERS = [{"id": "u1", "username": "ann@example.com"}, {"id": "u2", "username": "ben@example.com"}]
_REALM, _NONCE = "atlas", "n0nce"


def document(url: str) -> dict[str, Any]:
    """The OpenAPI document of the API at this address."""

    def operation(id: str, summary: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
        responses = {"200": {"description": "OK", "content": {MEDIA: {}}}}
        return {"operationId": id, "summary": summary, "parameters": list(parameters), "responses": responses, **more}

    def in_path(name: str, description: str) -> dict[str, Any]:
        return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}

    size = {"type": "string", "enum": ["S", "M", "L"]}
    group, org = in_path("groupId", "The project"), in_path("orgId", "The organization")
    name = in_path("clusterName", "The name of the cluster")
    members = {"name": {"type": "string"}, "providerName": {"enum": ["AWS", "AZURE", "GCP"]}}
    schema = {"type": "object", "properties": members, "required": ["name"], "additionalProperties": False}
    cluster = {"required": True, "content": {MEDIA: {"schema": schema}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Atlas", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/orgs": {"get": operation("listOrganizations", "Return all organizations")},
            "/orgs/{orgId}/users": {"get": operation("listUsers", "Return all users of one organization", org)},
            "/groups/{groupId}/clusters": {
                "get": operation("listClusters", "Return all clusters of the project", group),
                "post": operation("createCluster", "Create a cluster in the project", group, requestBody=cluster),
            },
            "/groups/{groupId}/clusters/{clusterName}": {
                "delete": operation("deleteCluster", "Delete a cluster of the project", group, name),
            },
            "/shirts": {
                "get": operation(
                    "findShirts",
                    "Find shirts of a size",
                    {"name": "size", "in": "query", "required": True, "description": "Size", "schema": size},
                )
            },
            "/slow": {"get": operation("waitForReport", "Wait for the slow report")},
        },
    }


@dataclass(slots=True)
class AtlasApi:
    """The running API."""

    url: str = ""
    seen: list[str] = field(default_factory=list)  # method and path of each request with valid credentials
    accepted: list[str] = field(default_factory=list)  # the Accept headers
    bodies: list[bytes] = field(default_factory=list)  # that arrived, with valid credentials or not
    clusters: list[Any] = field(default_factory=lambda: [{"name": "prod", "groupId": GROUP}])
    left: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)  # paths of slow requests that were left
    _go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def answer(self, request: Request) -> Response:
        """Answer one request; `POST /go` ends the wait of a slow request."""
        if request.url.path == "/go":
            self._go.release()
            return Response(status_code=204)
        if body := await request.body():
            self.bodies.append(body)
        if not _authorized(request):
            challenge = f'Digest realm="{_REALM}", nonce="{_NONCE}", algorithm=MD5, qop="auth"'
            return Response(status_code=401, headers={"www-authenticate": challenge})
        path = request.url.path
        self.seen.append(f"{request.method} {path}{'?' + request.url.query if request.url.query else ''}")
        self.accepted.append(request.headers.get("accept", ""))
        content: Any = {"detail": "not found"}
        status = 200
        if path == "/orgs":
            content = {"results": [{"id": ORG, "name": "Acme"}]}
        elif path == f"/orgs/{ORG}/users":
            content = {"results": USERS, "totalCount": 2, "echo": request.headers["authorization"]}
        elif path == f"/groups/{GROUP}/clusters" and request.method == "POST":
            content = {**json.loads(body), "groupId": GROUP}
            self.clusters.append(content)
        elif path == f"/groups/{GROUP}/clusters":
            content = {"results": self.clusters}
        elif path.startswith(f"/groups/{GROUP}/clusters/") and request.method == "DELETE":
            self.clusters = [one for one in self.clusters if one["name"] != path.rpartition("/")[2]]
        elif path == "/shirts":
            content = {"shirts": [f"blue {request.query_params['size']}"]}
        elif path == "/slow":
            await self._wait()
            content = {"report": "done"}
        else:
            status = 404
        return Response(json.dumps(content), status, media_type=MEDIA)

    async def _wait(self) -> None:
        try:
            await self._go.acquire()
        except asyncio.CancelledError:
            self.left.put("/slow")
            raise


def _authorized(request: Request) -> bool:
    """Whether the request proves the password, by RFC 7616 with MD5."""
    given = dict(re.findall(r'(\w+)="?([^",]+)"?', request.headers.get("authorization", "").removeprefix("Digest ")))
    if not {"username", "response", "nc", "cnonce", "uri"} <= set(given):
        return False

    def digest(*parts: str) -> str:
        return hashlib.md5(":".join(parts).encode()).hexdigest()

    known = digest(USER, _REALM, PASSWORD)
    asked = digest(request.method, given["uri"])
    return bool(given["response"] == digest(known, _NONCE, given["nc"], given["cnonce"], "auth", asked))


@contextlib.contextmanager
def atlas_api() -> Iterator[AtlasApi]:
    """The API on a free port of 127.0.0.1."""
    api = AtlasApi()
    app = Starlette(routes=[Route("/{path:path}", api.answer, methods=["GET", "POST", "DELETE"])])
    with served(app) as port:
        api.url = f"http://127.0.0.1:{port}"
        yield api
