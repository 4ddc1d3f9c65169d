"""Gateways in this process over whatever index a test gives them: each chat says what the client and the upstream got.

async with gates(data, deadline_s=0.3) as both:
    await both.degraded("index is down")      # it went through untouched and in time; where context is required: 503
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from cli.assembly.gateway import gateway
from config.settings import load
from proxy.asgi import App
from retrieval.rpc.client import IndexClient
from tests.support.asgi_calls import Call, scope_of
from tests.support.recording_upstream import COMPLETION
from tests.support.upstream_servers import Upstream, answering, reply, upstream

CHAT = (
    b'{"n" : 1.0, "model": "gpt-x", "seed": 9223372036854775808, "odd": {"a": 1e-7, "a": "\\u00e9"},\n'
    b' "messages": [{"role": "user", "content": "How do I use Zephyr from Kotlin?"}]}'
)
_HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
MARGIN_S = 0.5  # beyond the deadline; 0.1 is promised, and a busy machine takes its share


@dataclass(frozen=True, slots=True)
class Gates:
    """A gateway that fails open, and one that requires context: one index, one upstream."""

    open: App
    strict: App
    upstream: Upstream
    knowledge: IndexClient
    deadline_s: float

    async def chat(self) -> tuple[str, str]:
        """One chat through the open gateway, which must be answered in time; its x-rag-status and x-rag-reason."""
        call = await Call((CHAT,)).to(self.open, scope_of(headers=_HEADERS))
        headers = dict(call.headers)
        assert (call.status, call.body) == (200, COMPLETION)
        took = re.search(rb"retrieval;dur=([\d.]+)", headers[b"server-timing"])
        assert took
        assert float(took[1]) < (self.deadline_s + MARGIN_S) * 1000
        return headers[b"x-rag-status"].decode(), headers.get(b"x-rag-reason", b"").decode()

    async def degraded(self, reason: str) -> None:
        """Retrieval fails with this reason: what the upstream got is what the client sent; or it got nothing."""
        assert await self.chat() == ("degraded", reason)
        assert self.upstream.requests[-1].body == CHAT
        before = len(self.upstream.requests)
        call = await Call((CHAT,)).to(self.strict, scope_of(headers=_HEADERS))
        headers, error = dict(call.headers), json.loads(call.body)["error"]
        assert len(self.upstream.requests) == before
        assert (call.status, error["type"], error["code"]) == (503, "server_error", "context_unavailable")
        assert reason in error["message"]
        assert int(headers[b"retry-after"]) > 0
        assert (headers[b"x-rag-status"], headers[b"x-rag-reason"]) == (b"degraded", reason.encode())

    async def until(self, *expected: tuple[str, str]) -> None:
        """Chat on until one is answered like this."""
        async with asyncio.timeout(60):
            while await self.chat() not in expected:
                pass


@contextlib.asynccontextmanager
async def gates(data: Path, *, deadline_s: float) -> AsyncIterator[Gates]:
    """Both, on the index that answers in `data`."""
    knowledge = IndexClient(data)
    async with upstream(answering(reply(COMPLETION, b"content-type: application/json"))) as model:
        made = []
        for strict in (False, True):
            flags = {"data": str(data), "models": {"gpt-x": {"api_base": model.url + "/v1"}}}
            options = {"retrieval.deadline_s": deadline_s, "retrieval.require_context": strict}
            settings = load(environ={}, flags={**flags, **options})
            made.append(gateway(settings, knowledge, ready=lambda: "", environ={}))
        try:
            yield Gates(made[0].app, made[1].app, model, knowledge, deadline_s)
        finally:
            await knowledge.close()
            for each in made:
                each.ways.client.close()
