"""Which chats are compared, how many at once and within which budget; and the raw request.

A chat whose client asks for it (`x-rag: compare`) or that is drawn (`bench.shadow`) is answered as any other; its
reply's bytes are noted as they pass. Only once the reply is over, to the last byte, is the model asked raw, in a task
of its own, over connections of its own: so nothing of it can delay the reply, and a chat that its client left costs
nothing more. There is no queue. A comparison holds one of a few places from the moment its chat goes to the model;
where all are taken, it is not made, and counted.

The raw request is counted by the ledger as if it were of a key `comparisons`, whose limits are the budget: exact, and
leased between processes, as limits of keys are. What it used stands under that name in the usage, and under no
caller's.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from proxy.access.ledger import Ledger
from proxy.access.limits import Limits
from proxy.access.metered import Metered
from proxy.access.usage import COMPARISONS
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.augment.middleware import Chat
from proxy.errors import ApiError, Headers
from proxy.exchange import KEY, Exchange, exchange_of
from proxy.observe.metrics import Metrics
from proxy.observe.receipts.keeper import Keeper
from proxy.observe.shadow.comparison import Comparison, Side
from proxy.observe.shadow.reply import ReplyRecorder, Unreadable

log = logging.getLogger("ragway")
TAKEN = "taken"
_MOST_BODY_BYTES = 256 * 1024
_MOST_CHARS = 100  # of what a client calls a model
_LONGEST_S = 300.0  # of a raw request
_SPENT_S = 60.0  # once the budget is used up, nothing more is tried for so long
_TOLD_EVERY_S = 60.0  # in the log, of each reason
# Statuses of a chat that are worth the raw request: an answer, or a refusal that the passages may have caused.
_TELLING = (200, 400, 413, 422)
# Of one request alone: sent again, an upstream would take the second for the first.
_ONCE = frozenset({b"idempotency-key", b"x-client-request-id", b"x-request-id", b"traceparent", b"tracestate"})
_LOGGED = ("busy", "budget", "unreadable")

Who = Literal["admin", "all", "off"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the comparisons follow."""

    share: float  # of the chats that get passages
    who: Who  # may ask for one
    limits: Limits  # of all of them together
    at_once: int  # in this process


class Comparing:
    """The comparisons of this process."""

    def __init__(
        self,
        upstream: App,
        disconnect: Callable[[], Awaitable[None]],
        ledger: Ledger,
        keeper: Keeper[Comparison],
        metrics: Metrics,
        terms: Terms,
        *,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """upstream: the lanes, by connections that no chat uses; disconnect: closes these. draw: between 0 and 1."""
        self._upstream = upstream
        self._disconnect = disconnect
        self._ledger = ledger
        self.keeper = keeper
        self._metrics = metrics
        self._terms = terms
        self._draw = draw
        self.under_way = 0  # comparisons, from the moment their chats went to the model
        self._tasks: set[asyncio.Task[None]] = set()
        self._spent_until_s = 0.0
        self._told_s: dict[str, float] = {}

    @property
    def wanted(self) -> bool:
        """Whether any are made at all."""
        return self._terms.share > 0 or self._terms.who != "off"

    def pass_on(self, app: App, chat: Chat, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Have the app answer; compare its answer where that is wanted and can be."""
        exchange, decision = exchange_of(scope), chat.decision
        asked = decision.compare
        if not asked and not (decision.turns and self._draw() < self._terms.share):
            return app(scope, receive, send)
        why = self._why_not(chat, exchange, asked=asked)
        if asked:
            exchange.comparison = why or TAKEN
        if why:
            self._dropped(why)
            return app(scope, receive, send)
        return self._observed(app, chat, scope, receive, send)

    async def close(self) -> None:
        """Drop what is under way, and close the connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._disconnect()

    def _why_not(self, chat: Chat, exchange: Exchange, *, asked: bool) -> str:
        """Why there is no comparison; "": there is one."""
        allowed = self._terms.who == "all" or (self._terms.who == "admin" and exchange.rights.admin)
        if asked and not allowed:
            return "not allowed"
        if exchange.rag_status != "augmented":
            return "nothing injected"
        if not _suited(chat) or (chat.target.key_of_client and not asked):
            return "unsuited"
        if time.monotonic() < self._spent_until_s:
            return "budget"
        return "busy" if self.under_way >= self._terms.at_once else ""

    async def _observed(self, app: App, chat: Chat, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        recorder = ReplyRecorder(send, exchange.started, exchange.dialect)
        self.under_way += 1
        begun = False
        try:
            await app(scope, receive, recorder.send)
            if recorder.whole and recorder.status in _TELLING:
                task = asyncio.create_task(self._compare(chat, exchange, recorder, scope))
                self._tasks.add(task)
                task.add_done_callback(self._over)
                begun = True
        finally:
            if not begun:
                self.under_way -= 1
                self._dropped("unfinished")

    async def _compare(self, chat: Chat, exchange: Exchange, recorder: ReplyRecorder, scope: Scope) -> None:
        """Ask raw, and keep both answers."""
        outcome = "unfinished"
        model = chat.target.model
        try:
            rag = await asyncio.to_thread(recorder.side, exchange.body or b"", model)
            raw = await self._raw(chat, exchange, scope)
            outcome = ""
            self.keeper.add(_comparison(chat, exchange, rag, raw))
        except Unreadable as why:
            outcome = "unreadable"
            log.info("%s is not compared: %s", exchange.id, why)
        except _NoMoney:
            outcome = "budget"
            self._spent_until_s = time.monotonic() + _SPENT_S
        finally:
            self.under_way -= 1
            if outcome:
                self._dropped(outcome)

    async def _raw(self, chat: Chat, exchange: Exchange, scope: Scope) -> Side:
        """The model's answer without passages, or what became of it. Raises _NoMoney, Unreadable."""
        body = chat.request.edited(model=chat.target.model or chat.decision.model, without_rag=True)
        raw = Exchange(
            id=exchange.id,
            method="POST",
            path=exchange.path,
            dialect=exchange.dialect,
            key=COMPARISONS,
            limits=self._terms.limits,
            model=chat.decision.model,
            target=chat.target,
            body=body,
        )
        asked: Scope = {**scope, "headers": _headers(scope["headers"]), KEY: raw}
        reply, error = ReplyRecorder(_nowhere, raw.started, raw.dialect), ""

        async def ask(scope: Scope, receive: Receive, send: Send) -> None:
            reply.began = time.perf_counter()  # before it there may have been a wait for a share of the budget
            await self._upstream(scope, receive, send)

        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._ledger.admit(Metered(ask, self._ledger), asked, _nothing_more, reply.send)
        except ApiError as refused:
            if raw.limited:
                raise _NoMoney from None
            error = refused.code
        except TimeoutError:
            error = f"no whole reply within {_LONGEST_S:g} s"
        finally:
            raw.status = reply.status
            if raw.counted_by is not None:
                raw.counted_by(raw)
        return await asyncio.to_thread(reply.side, body, chat.target.model, error)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a comparison failed", exc_info=fault)

    def _dropped(self, why: str) -> None:
        self._metrics.not_compared(why)
        now_s = time.monotonic()
        if why in _LOGGED and now_s - self._told_s.get(why, -_TOLD_EVERY_S) >= _TOLD_EVERY_S:
            self._told_s[why] = now_s
            log.warning("cannot store comparisons: %s", _TOLD[why])


class _NoMoney(Exception):
    """The budget is used up, or nobody knows."""


_TOLD = {
    "busy": "as many as may be are under way (bench.at_once)",
    "budget": "what they may use today is used (bench.usd_per_day, bench.tokens_per_day)",
    "unreadable": "a reply is too long, or encoded in a way that is not read here",
}


def _suited(chat: Chat) -> bool:
    """Whether one answer in words, of the model alone, is wanted, and the prompt is not beyond all measure."""
    return chat.request.wants_only_text() and len(chat.request.raw) <= _MOST_BODY_BYTES


def _headers(headers: Headers) -> Headers:
    """The client's, without those of one request alone, and with a reply that is not compressed."""
    return [pair for pair in headers if pair[0] not in _ONCE and pair[0] != b"accept-encoding"]


def _comparison(chat: Chat, exchange: Exchange, rag: Side, raw: Side) -> Comparison:
    decision = chat.decision
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


async def _nowhere(message: Message) -> None:
    pass


async def _nothing_more() -> Message:
    raise AssertionError("the body travels with the exchange")
