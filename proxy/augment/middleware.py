"""The middleware: read the body, decide, retrieve, inject, pass on. Only the request is ever changed.

It fails open, and visibly: whatever goes wrong while passages are looked for, the chat goes on without them,
marked `degraded`; or, where context is required, it is refused. The reply never passes through here.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

import orjson

from proxy.access import permitted
from proxy.access.rights import Rights
from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.context_window import room_tokens
from proxy.augment.gate import Decision, decide
from proxy.augment.inject import Order, Template, in_order
from proxy.augment.rewrite import Rewriter, has_history
from proxy.augment.utility_requests import UtilityPrompts
from proxy.body import by_size, whole_body
from proxy.dialects.base import Request
from proxy.errors import ApiError, Headers
from proxy.exchange import DegradedReason, Exchange, Target, exchange_of
from proxy.observe.receipts.keeper import Receipts
from proxy.observe.receipts.receipt import receipt_of
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import Knowledge
from retrieval.records.search import Retrieved

Resolve = Callable[[str, Rights], Target]
log = logging.getLogger("ragway")
# What a failure is called in x-rag-reason and in the metrics: the first kind that fits.
DEGRADED: Sequence[tuple[type[Exception], DegradedReason]] = (
    (TimeoutError, "retrieval took too long"),
    (IndexSilent, "index does not answer"),
    (IndexStarting, "index is starting"),
    (IndexDown, "index is down"),
    (WrongEmbedder, "index was built with another embedder"),
    (RetrievalError, "index cannot be searched"),
    (Exception, "internal error"),
)
_NOT_THERE = "no such collection yet"
_NO_ROOM = "no room in the model's window"
_RETRY_AFTER_S = 5  # an index process that died is back within seconds


async def already() -> None:
    """What was begun has begun."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat as it was understood, on its way to its model."""

    decision: Decision
    request: Request  # as the client sent it
    target: Target


class Comparing(Protocol):
    """Has the model asked raw as well, once it has answered."""

    def pass_on(self, app: App, chat: Chat, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Have the app answer as usual."""
        ...


@dataclass(frozen=True, slots=True)
class AugmentOptions:
    """The settings of augmentation."""

    enabled: bool
    collections: tuple[str, ...]
    deadline_s: float
    require_context: bool
    max_body_bytes: int
    utility_prompts: UtilityPrompts  # a request with such a prompt gets no passages
    budget_tokens: int  # of the passages, where the model's window leaves as much
    window_share: float
    order: Order
    receipts: Receipts | None = None  # who keeps them
    comparing: Comparing | None = None  # None: no answer is compared with a raw one
    begun: Callable[[], Awaitable[None]] = already  # what a search waits for, while the gateway starts


class Augment:
    """Chat completions with passages in front of the model; everything behind it sees an ordinary request."""

    def __init__(
        self,
        app: App,
        *,
        knowledge: Knowledge,
        resolve: Resolve,
        template: Template,
        options: AugmentOptions,
        window_of: Callable[[Target], int] = attrgetter("window_tokens"),
        rewriter: Rewriter | None = None,
    ) -> None:
        """window_of: the context window of a target's model in tokens, 0 where it is not known.

        rewriter: None leaves rewriting to the index.
        """
        self._app = app
        self._knowledge = knowledge
        self._resolve = resolve
        self._template = template
        self._options = options
        self._window_of = window_of
        self._rewriter = rewriter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        raw = await whole_body(scope, receive, max_bytes=self._options.max_body_bytes)
        began = time.perf_counter()
        options = self._options

        def understood() -> tuple[Request, Decision]:
            request = exchange.dialect.parse(raw)
            decision = decide(
                request,
                scope,
                enabled=options.enabled,
                collections=options.collections,
                utility_prompts=options.utility_prompts,
            )
            return request, decision

        request, decision = await by_size(raw, understood)
        exchange.fields = request.fields
        exchange.target = target = self._resolve(decision.model, exchange.rights)
        exchange.model = decision.model
        exchange.ended_step("parse", began)
        lead = ""
        if decision.turns:
            budget_tokens = await by_size(raw, lambda: self._budget_tokens(request, target))
            found, lead = await self._context(decision, exchange, budget_tokens, scope)
            decision = replace(decision, collections=exchange.searched or decision.collections)
            if options.receipts is not None:
                options.receipts.add(receipt_of(exchange, target, decision, budget_tokens, found, lead))
        else:
            exchange.rag_status, exchange.rag_reason = decision.status, decision.reason
        if self._options.require_context and (exchange.rag_status == "degraded" or exchange.rag_reason == _NOT_THERE):
            raise _refusal(exchange)
        exchange.body = await by_size(raw, lambda: _forwarded(request, lead, decision, target))
        exchange.injected_bytes = len(orjson.dumps(lead)) if lead else 0
        if options.comparing is None:
            exchange.comparison = "not allowed" if decision.compare else ""
            await self._app(scope, receive, send)
        else:
            await options.comparing.pass_on(self._app, Chat(decision, request, target), scope, receive, send)

    def _budget_tokens(self, request: Request, target: Target) -> int:
        """What the passages may take; less than the setting where the model's window is known and leaves less."""
        window_tokens = self._window_of(target)
        if not window_tokens:
            return self._options.budget_tokens
        share = self._options.window_share
        return min(self._options.budget_tokens, room_tokens(request, window_tokens=window_tokens, share=share))

    async def _context(
        self, decision: Decision, exchange: Exchange, budget_tokens: int, scope: Scope
    ) -> tuple[Retrieved | None, str]:
        """The search result (None: no result) and the text to inject ("": nothing); the exchange has the reason."""
        if not budget_tokens:
            exchange.rag_status, exchange.rag_reason = "empty", _NO_ROOM
            return None, ""
        began = time.perf_counter()
        retrieved, text = None, ""
        await self._options.begun()
        try:
            async with asyncio.timeout(self._options.deadline_s):
                searched = await self._search(decision, budget_tokens, exchange, scope["headers"])
            retrieved = searched.retrieved
            exchange.searched = searched.collections
            exchange.index_steps(retrieved.timings_ms, searched.began)
            text = self._rendered(retrieved, exchange)
        except UnknownCollection as error:
            if decision.explicit:
                raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
            exchange.rag_status, exchange.rag_reason = "empty", _NOT_THERE
        except (RetrievalError, TimeoutError) as error:
            _degrade(exchange, error)
        except Exception as error:  # fail open: a fault in our retrieval costs the context, never the reply
            log.exception("%s retrieval failed", exchange.id)
            _degrade(exchange, error)
        exchange.ended_step("retrieval", began, ", ".join(exchange.searched))
        return retrieved, text

    async def _search(
        self, decision: Decision, budget_tokens: int, exchange: Exchange, headers: Headers
    ) -> permitted.Searched:
        """Search for the latest question, as the index or a model rewrites the question.

        Raises UnknownCollection, RetrievalError.
        """
        asked = permitted.Search(
            decision.turns,
            decision.collections,
            exchange.rights,
            decision.explicit,
            k=decision.k,
            budget_tokens=budget_tokens,
            traced=self._options.receipts is not None,
        )
        if self._rewriter is None or not has_history(asked.turns):
            return await permitted.search(self._knowledge, asked)
        return await self._rewriter.search(self._knowledge, asked, exchange, headers)

    def _rendered(self, retrieved: Retrieved, exchange: Exchange) -> str:
        """The text to inject; "" where no passage is relevant."""
        exchange.rag_reason = retrieved.query.reason
        passages = retrieved.context.passages
        if not passages:
            exchange.rag_status, exchange.rag_reason = "empty", "nothing relevant found"
            return ""
        exchange.rag_status = "augmented"
        exchange.sources = tuple(passage.source for passage in passages)
        exchange.injected_tokens = retrieved.context.tokens
        return self._template.render(in_order(passages, self._options.order), exchange.searched)


def _refusal(exchange: Exchange) -> ApiError:
    """The answer where a chat must not go on without context."""
    message = (
        f"No context could be looked up ({exchange.rag_reason}), and without it this gateway gives no answer "
        "(retrieval.require_context): try again later."
    )
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="context_unavailable", type="server_error", headers=again)


def _degrade(exchange: Exchange, error: Exception) -> None:
    exchange.rag_status = "degraded"
    exchange.rag_reason = next(reason for kind, reason in DEGRADED if isinstance(error, kind))
    # Only errors that retrieval raises on purpose say nothing of documents and questions.
    told = str(error) if isinstance(error, RetrievalError) else type(error).__name__
    exchange.error = told or exchange.rag_reason


def _forwarded(request: Request, context: str, decision: Decision, target: Target) -> bytes:
    """The bytes for the upstream. An untouched request stays byte for byte as it came."""
    model = target.model or decision.model
    return request.edited(context=context, position=target.position, model=model, without_rag=True)
