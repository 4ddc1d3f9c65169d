"""Shadow comparison: after a chat was answered with passages, ask the same model again without them.

The middleware stands in front of the model only for selected chats: those whose client asks for a comparison (`x-rag:
compare`), and a sample of all others (`bench.shadow`). The chat is answered as usual, and its reply recorded in
transit. After the last byte, a separate task asks the model without passages, over separate connections: a comparison
can neither delay nor fail a reply, and is not made if the client left.

At most `bench.at_once` comparisons run in a process. If all places are taken, further ones are dropped and counted, not
queued. The raw request belongs to the owner `comparisons`, whose limits are the budget: exact across processes, like a
key's limits.
"""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from config.sections import BenchSettings
from proxy.access.usage import COMPARISONS
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.augment.gate import Chat
from proxy.caller import Limits
from proxy.dialects.errors import ApiError, Headers
from proxy.exchange import Exchange
from proxy.model_calls import ModelCalls, Owner
from proxy.observe.metrics import Metrics
from proxy.observe.shadow.comparison import Comparison, Side
from proxy.observe.shadow.reply import ReplyRecorder, UnreadableReply
from runtime.write_behind import WriteBehindQueue

log = logging.getLogger("ragway")
TAKEN = "taken"
_MOST_BODY_BYTES = 256 * 1024
_MOST_CHARS = 100  # of the client's model name
_LONGEST_S = 300.0  # for a raw request
_SPENT_S = 60.0  # without raw requests, once the budget is used up
_LOG_EVERY_S = 60.0  # per reason
# Statuses that are worth a raw request: an answer, or a refusal that passages may have caused.
_WORTH_COMPARING = (200, 400, 413, 422)
# Headers for a single request: with the same values, an upstream would take the second one for the first.
_ONCE = frozenset({b"idempotency-key", b"x-client-request-id", b"x-request-id", b"traceparent", b"tracestate"})
_LOGGED = ("busy", "budget", "unreadable")


class ShadowComparison:
    """The middleware, and this process's comparisons."""

    def __init__(
        self,
        models: ModelCalls,
        disconnect: Callable[[], Awaitable[None]],
        keeper: WriteBehindQueue[Comparison],
        metrics: Metrics,
        settings: BenchSettings,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """models: over connections that no chat uses; disconnect: closes them. draw: from 0 to 1."""
        self._models = models
        self._disconnect = disconnect
        self.keeper = keeper
        self._metrics = metrics
        self._settings = settings
        self._draw = draw
        self._owner = Owner(
            COMPARISONS, Limits(tokens_per_day=settings.tokens_per_day, usd_per_day=settings.usd_per_day)
        )
        self.under_way = 0  # comparisons whose chats went to the model
        self._tasks: set[asyncio.Task[None]] = set()
        self._spent_until_s = 0.0
        self._logged_s: dict[str, float] = {}

    def middleware(self, chat: Chat) -> Callable[[App], App] | None:
        """The middleware, if a comparison is asked for or the chat is drawn. chat: asks for one, or was searched
        for.
        """
        if chat.decision.compare or self._draw() < self._settings.shadow:
            return lambda app: functools.partial(self._answer, chat, app)
        return None

    async def _answer(self, chat: Chat, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the chat, then compare if that is allowed and possible."""
        exchange = chat.exchange
        why_not = self._why_not(chat, exchange)
        if chat.decision.compare:
            exchange.comparison = why_not or TAKEN
        if why_not:
            self._dropped(why_not)
            await app(scope, receive, send)
            return
        recorder = ReplyRecorder(send, exchange.started, exchange.dialect)
        self.under_way += 1
        begun = False
        try:
            await app(scope, receive, recorder.send)
            if recorder.whole and recorder.status in _WORTH_COMPARING:
                task = asyncio.create_task(self._compare(chat, recorder, scope))
                self._tasks.add(task)
                task.add_done_callback(self._over)
                begun = True
        finally:
            if not begun:
                self.under_way -= 1
                self._dropped("unfinished")

    async def close(self) -> None:
        """Drop comparisons under way, and close their connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._disconnect()

    def _why_not(self, chat: Chat, exchange: Exchange) -> str:
        """Why the chat is not compared; "": it is."""
        asked = chat.decision.compare
        allowed = self._settings.compare == "all" or (self._settings.compare == "admin" and exchange.rights.admin)
        if asked and not allowed:
            return "not allowed"
        if exchange.rag_status != "augmented":
            return "nothing injected"
        if not _suited(chat) or (chat.target.key_of_client and not asked):
            return "unsuited"
        if time.monotonic() < self._spent_until_s:
            return "budget"
        return "busy" if self.under_way >= self._settings.at_once else ""

    async def _compare(self, chat: Chat, recorder: ReplyRecorder, scope: Scope) -> None:
        """Ask the model without passages, and keep both answers."""
        exchange, outcome = chat.exchange, "unfinished"
        try:
            rag = await asyncio.to_thread(recorder.side, exchange.body or b"", chat.target.model)
            raw = await self._raw(chat, scope)
            outcome = ""
            self.keeper.add(_comparison(chat, rag, raw))
        except UnreadableReply as why:
            outcome = "unreadable"
            log.info("%s is not compared: %s", exchange.id, why)
        except _BudgetSpent:
            outcome = "budget"
            self._spent_until_s = time.monotonic() + _SPENT_S
        finally:
            self.under_way -= 1
            if outcome:
                self._dropped(outcome)

    async def _raw(self, chat: Chat, scope: Scope) -> Side:
        """The model's answer without passages, or its error. Raises _BudgetSpent, UnreadableReply."""
        exchange = chat.exchange
        body = chat.request.edited(model=chat.target.model or chat.decision.model, without_rag=True)
        owner = replace(self._owner, request=exchange.id)
        call = self._models.call_of(
            chat.decision.model,
            chat.target,
            body,
            owner,
            fields=chat.request.fields,
            dialect=exchange.dialect,
        )
        reply, error = ReplyRecorder(_discard, call.started, exchange.dialect), ""
        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._models.send(call, {**scope, "headers": _headers(scope["headers"])}, reply.send)
        except ApiError as refused:
            if call.limited:
                raise _BudgetSpent from None
            error = refused.log_text
        except TimeoutError:
            error = f"no whole reply within {_LONGEST_S:g} s"
        side = await asyncio.to_thread(reply.side, body, chat.target.model, error)
        # Times count from sending: before that, the call may have waited for a share of the budget.
        waited_ms = next((step.started_ms for step in call.steps if step.kind == "upstream"), 0.0)
        return replace(side, first_ms=_later(side.first_ms, waited_ms), total_ms=_later(side.total_ms, waited_ms))

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a comparison failed", exc_info=fault)

    def _dropped(self, why: str) -> None:
        self._metrics.not_compared(why)
        now_s = time.monotonic()
        if why in _LOGGED and now_s - self._logged_s.get(why, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_s[why] = now_s
            log.warning("cannot store comparisons: %s", _REASONS[why])


class _BudgetSpent(Exception):
    """The budget is used up, or accounts cannot be reached."""


_REASONS = {
    "busy": "as many as may be are under way (bench.at_once)",
    "budget": "what they may use today is used (bench.usd_per_day, bench.tokens_per_day)",
    "unreadable": "a reply is too long, or encoded in a way that is not read here",
}


def _suited(chat: Chat) -> bool:
    """Whether the client wants one text answer by the model alone, and its prompt is not too long."""
    return chat.request.wants_only_text() and len(chat.request.raw) <= _MOST_BODY_BYTES


def _headers(headers: Headers) -> Headers:
    """The client's headers, without those for a single request, and for an uncompressed reply."""
    return [pair for pair in headers if pair[0] not in _ONCE and pair[0] != b"accept-encoding"]


def _comparison(chat: Chat, rag: Side, raw: Side) -> Comparison:
    exchange, decision = chat.exchange, chat.decision
    return Comparison(
        id=exchange.id,
        at_s=time.time(),
        asked=decision.compare,
        key=exchange.key,
        model=exchange.model[:_MOST_CHARS].encode("utf-8", "replace").decode(),
        collections=[name for name in decision.collections if name in exchange.rights.read],
        turns=decision.turns,
        sources=exchange.sources,
        injected_tokens=exchange.injected_tokens,
        rag=rag,
        raw=raw,
    )


def _later(at_ms: float | None, start_ms: float) -> float | None:
    return None if at_ms is None else at_ms - start_ms


async def _discard(_message: Message) -> None:
    pass
