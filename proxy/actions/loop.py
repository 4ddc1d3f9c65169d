"""The rounds of a chat that was offered operations: ask the model, make the model's calls, ask again, until an answer.

The loop is an ASGI app in front of the upstream, and stands only in chats with an offer. The client gets one reply; the
rounds with calls of the gateway's tools alone stay hidden. A client that leaves ends the call under way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import orjson

from proxy.actions.execution import Execution
from proxy.actions.offer import ActionLimits, Offer, member_edit
from proxy.actions.replies import ClientReply, ModelReply, added
from proxy.asgi import App, Receive, Scope, Send
from proxy.body import by_size
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit, member_span, unescaped
from proxy.errors import ApiError
from proxy.exchange import Exchange

_T = TypeVar("_T")
_NO_ANSWER = "The limit of calls for one answer is reached, and the model gave no answer."


class ActionLoop:
    """The upstream of one chat."""

    def __init__(
        self,
        upstream: App,
        request: ModelRequest,
        forwarded: Callable[[Sequence[Edit]], bytes],
        offer: Offer,
        exchange: Exchange,
        limits: ActionLimits,
        context: str,
    ) -> None:
        """forwarded: the bytes for the upstream, with these further edits. context: the passages, as injected."""
        self._upstream = upstream
        self._request = request
        self._forwarded = forwarded
        self._offer = offer
        self._exchange = exchange
        self._limits = limits
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the chat. Raises ApiError where no part of a reply was sent."""
        plain = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]}
        client = ClientReply(send, self._request)
        execution = Execution(self._offer, self._limits, self._exchange, self._texts())
        hidden: list[bytes] = []
        for number in range(self._limits.rounds + 1):
            last = number == self._limits.rounds or execution.over
            reply = await self._ask(plain, receive, client, hidden, last=last)
            if reply is None:
                return
            if reply.refuses_tools:
                self._offer.note_refusal()
                self._exchange.body = await by_size(self._request.raw, lambda: self._forwarded([]))
                await self._upstream(scope, receive, send)
                return
            if last:
                await client.say(_NO_ANSWER)
                return
            results = await self._kept_alive(execution.results(reply.calls), client)
            if execution.question:
                await client.say(execution.question)
                return
            hidden += _messages(reply, results)

    async def _ask(
        self, scope: Scope, receive: Receive, client: ClientReply, hidden: Sequence[bytes], *, last: bool
    ) -> ModelReply | None:
        """The reply of one round; None: the client has the end of the reply. Raises ApiError."""
        exchange, raw = self._exchange, self._request.raw
        exchange.body = body = await by_size(raw, lambda: self._forwarded(self._edits(hidden, last=last)))
        client.next_round()
        reply = ModelReply(client, self._offer, only_ours=not hidden and not self._request.fields.get("tools"))
        asking = self._upstream(scope, receive, reply.send)
        try:
            await (self._kept_alive(asking, client) if hidden else asking)
            going_on = reply.refuses_tools or await reply.end(exchange.id)
        except ApiError as error:
            exchange.error = error.code
            if not client.started:
                raise
            await client.fail(error, exchange.id)
            return None
        finally:
            client.tokens = added(client.tokens, reply.tokens(body))
            if hidden or not reply.unread:
                exchange.tokens = client.tokens
        return reply if going_on else None

    async def _kept_alive(self, work: Awaitable[_T], client: ClientReply) -> _T:
        """The result of the work. A stream gets an empty chunk after each `keepalive_s` without another chunk."""
        task = asyncio.ensure_future(work)
        try:
            sends = client.sends
            while not (await asyncio.wait({task}, timeout=self._limits.keepalive_s))[0]:
                if self._request.streamed and client.sends == sends:
                    await client.keep_alive()
                sends = client.sends
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _edits(self, hidden: Sequence[bytes], *, last: bool) -> Sequence[Edit]:
        """The tools, the messages of the hidden rounds, and in the last round the wish for an answer."""
        edits = [self._offer.edit(self._request)]
        if hidden:
            plain = unescaped(self._request.raw)
            _, end = member_span(self._request.raw, plain, plain.index(b"{"), "messages")
            edits.append(Edit(end - 1, end - 1, b"," + b",".join(hidden)))
        if last:
            edits.append(member_edit(self._request, "tool_choice", b'"none"'))
        return edits

    def _texts(self) -> Sequence[str]:
        return [*(message.text for message in self._request.messages()), self._context]


def _messages(reply: ModelReply, results: Sequence[str]) -> list[bytes]:
    """The messages of a hidden round: the calls, and a result for each call."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for call in reply.calls
    ]
    rows = [{"role": "assistant", "content": reply.text, "tool_calls": calls}]
    rows += [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(reply.calls, results, strict=True)
    ]
    return [orjson.dumps(row) for row in rows]
