"""Augments a chat: reads the body, decides, finds passages and injects them. `Metering` calls the model afterwards.

It fails open, and visibly: if retrieval fails, a chat goes on without passages, marked `degraded`, or is refused if
context is required. Only the request is ever changed: replies never pass through this module.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import orjson

from config.sections import InjectSettings, RetrievalSettings
from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.context_window import room_tokens
from proxy.augment.gate import Chat, decide, with_history, without_code_line, without_small_talk
from proxy.augment.history import Histories
from proxy.augment.rewrite import Rewriter, has_history
from proxy.augment.skipped import NO_LISTS, SmallTalk, UtilityPrompts
from proxy.body import whole_body
from proxy.caller import PermittedSearch, Rights, SearchResult, search_permitted
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import by_size
from proxy.dialects.quoting import Template, in_order
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange, ModelCall, one_call, wrapped
from proxy.query import check_models, models_in
from proxy.steps import Step
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import Knowledge
from retrieval.records.search import Retrieved

log = logging.getLogger("ragway")
# Kind of failure -> reason in x-rag-reason and metrics; the first match counts.
DEGRADED: Sequence[tuple[type[Exception], str]] = (
    (TimeoutError, "retrieval took too long"),
    (IndexSilent, "index does not answer"),
    (IndexStarting, "index is starting"),
    (IndexDown, "index is down"),
    (WrongEmbedder, "index was built with another embedder"),
    (RetrievalError, "index cannot be searched"),
    (Exception, "internal error"),
)
NOT_THERE = "no such collection yet"
_NO_ROOM = "no room in the model's window"


async def already() -> None:
    """For a gateway that has already started."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Finds passages for chats."""

    knowledge: Knowledge
    template: Template
    retrieval: RetrievalSettings
    inject: InjectSettings
    rewriter: Rewriter | None = None  # None: the index rewrites
    translated_window: Callable[[str], int] | None = None  # a translated model's, in tokens, by litellm; 0: not known
    traced: bool = False  # results say how passages were found
    begun: Callable[[], Awaitable[None]] = already  # awaited before a search, as the gateway may be starting

    async def find(self, chat: Chat, headers: Headers, deadline_s: float) -> None:
        """Set the chat's search result and text to inject; if there is none, the exchange says why."""
        exchange = chat.exchange
        chat.budget_tokens = most_tokens = self.inject.budget_tokens
        if window_tokens := self._window_tokens(chat.target):
            request, share = chat.request, self.inject.window_share
            left = await by_size(request.raw, lambda: room_tokens(request, window_tokens=window_tokens, share=share))
            chat.budget_tokens = min(most_tokens, left)
        if not chat.budget_tokens:
            exchange.rag_status, exchange.rag_reason = "empty", _NO_ROOM
            return
        began = time.perf_counter()
        retrieval = Step("retrieval", (began - exchange.started) * 1000)
        await self.begun()
        try:
            async with asyncio.timeout(deadline_s):
                searched = await self._search(chat, headers)
            chat.found, exchange.searched = searched.retrieved, searched.collections
            exchange.index_steps(searched.retrieved.timings_ms, searched.began, retrieval)
            chat.injected = self._rendered(searched.retrieved, exchange)
        except UnknownCollection as error:
            if chat.decision.explicit:
                raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
            exchange.rag_status, exchange.rag_reason = "empty", NOT_THERE
        except (RetrievalError, TimeoutError) as error:
            _degrade(exchange, error)
        except Exception as error:  # fail open: our fault may cost context, never the reply
            log.exception("%s retrieval failed", exchange.id)
            _degrade(exchange, error)
        retrieval.duration_ms = (time.perf_counter() - began) * 1000
        retrieval.detail = ", ".join(exchange.searched)
        exchange.steps.append(retrieval)

    def _window_tokens(self, target: Target) -> int:
        """The model's context window: as set, else litellm's; 0: not known."""
        if target.window_tokens or target.lane != "translated" or self.translated_window is None:
            return target.window_tokens
        return self.translated_window(target.model)

    async def _search(self, chat: Chat, headers: Headers) -> SearchResult:
        """Search for the latest question, as the index or a model rewrites it.

        Raises UnknownCollection, RetrievalError.
        """
        decision = chat.decision
        asked = PermittedSearch(
            decision.turns,
            decision.collections,
            chat.exchange.rights,
            decision.explicit,
            k=decision.k,
            budget_tokens=chat.budget_tokens,
            traced=self.traced,
        )
        if self.rewriter is None or not has_history(asked.turns):
            return await search_permitted(self.knowledge, asked)
        return await self.rewriter.search(self.knowledge, asked, chat.exchange, headers)

    def _rendered(self, retrieved: Retrieved, exchange: Exchange) -> str:
        """The text to inject; "" if no passage is relevant."""
        passages = retrieved.context.passages
        reason = retrieved.query.reason if passages else "nothing relevant found"
        exchange.rag_reason = f"{reason}, {retrieved.note}" if retrieved.note else reason
        if not passages:
            exchange.rag_status = "empty"
            return ""
        exchange.rag_status = "augmented"
        exchange.sources = tuple(passage.source for passage in passages)
        exchange.injected_tokens = retrieved.context.tokens
        return self.template.render(in_order(passages, self.inject.order), exchange.searched)


def _degrade(exchange: Exchange, error: Exception) -> None:
    exchange.rag_status = "degraded"
    exchange.rag_reason = next(reason for kind, reason in DEGRADED if isinstance(error, kind))
    # Only errors that retrieval raises on purpose are sure to quote neither document nor question.
    words = str(error) if isinstance(error, RetrievalError) else type(error).__name__
    exchange.error = words or exchange.rag_reason


_HISTORY_SHARE = 0.25  # at most, of the time for retrieval, to read a stored conversation's history
_RETRY_AFTER_S = 5  # a dead index process is back within seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Augment:
    """The route for chats: an ordinary model request, with passages in its prompt."""

    upstream: App
    resolve: Callable[[str, Rights], Target]
    passages: Passages
    max_body_bytes: int
    utility_prompts: UtilityPrompts  # requests with one get no passages
    small_talk: SmallTalk = NO_LISTS  # gets no passages
    action_sets: bool = False  # chats may name action sets
    confirms: bool = False  # a person may confirm calls that change something
    histories: Histories | None = None  # of stored conversations; None: none are stored
    offered: Callable[[Chat], Awaitable[ModelCall | None]] | None = None  # how to call the model with operations
    keep_receipt: Callable[[Chat], object] | None = None  # None: no receipts
    draws: bool = False  # even chats that do not ask may be compared
    # The middleware that compares a selected chat; None: none are compared.
    compared: Callable[[Chat], Callable[[App], App] | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> ModelCall:
        """Prepare the model call: set the exchange's target and body. Raises ApiError."""
        exchange: Exchange = scope[EXCHANGE]
        retrieval = self.passages.retrieval
        raw = await whole_body(scope, receive, max_bytes=self.max_body_bytes)
        began = time.perf_counter()
        chat = await by_size(raw, lambda: self._understood(raw, exchange, scope))
        if scope["query_string"]:
            check_models(models_in(scope["query_string"]), chat.target.model)
        exchange.ended_step("parse", began)
        deadline_s = retrieval.deadline_s
        if chat.decision.continues and self.histories is not None:
            began = time.perf_counter()
            await self._read_history(chat, self.histories)
            deadline_s -= time.perf_counter() - began
        chat.decision = without_small_talk(chat.decision, self.small_talk)
        if self.confirms:
            chat.decision = without_code_line(chat.decision)
        if chat.decision.status == "augmented":
            await self.passages.find(chat, scope["headers"], deadline_s)
            chat.decision = replace(chat.decision, collections=exchange.searched or chat.decision.collections)
        else:
            exchange.rag_status, exchange.rag_reason = chat.decision.status, chat.decision.reason
        try:
            if retrieval.require_context and (exchange.rag_status == "degraded" or exchange.rag_reason == NOT_THERE):
                raise _refusal(exchange)
            exchange.body = await by_size(raw, chat.forwarded)
            exchange.injected_bytes = len(orjson.dumps(chat.injected)) if chat.injected else 0
            return self._call_of(chat, None if self.offered is None else await self.offered(chat))
        finally:
            if self.keep_receipt is not None and chat.searched:
                self.keep_receipt(chat)

    def _understood(self, raw: bytes, exchange: Exchange, scope: Scope) -> Chat:
        """Read the request, and decide. Raises ApiError."""
        request, retrieval = exchange.dialect.parse(raw), self.passages.retrieval
        decision = decide(
            request,
            scope,
            enabled=retrieval.enabled,
            collections=retrieval.collections,
            utility_prompts=self.utility_prompts,
            actions=self.action_sets,
        )
        exchange.fields = request.fields
        exchange.rights.check_members(request.fields)
        exchange.target = target = self.resolve(decision.model, exchange.rights)
        exchange.model = decision.model
        return Chat(exchange, request, target, decision, headers=scope["headers"])

    def _call_of(self, chat: Chat, offered: ModelCall | None) -> ModelCall:
        """The prepared call. offered: for a chat with operations; None: without any."""
        exchange, request, turns = chat.exchange, chat.request, chat.decision.turns
        may_be_drawn = chat.decision.compare or (self.draws and chat.decision.status == "augmented")
        call = offered or one_call(self.upstream)
        exchange.once = offered is None
        # The translated lane stores no response; with actions, the gateway itself does.
        stored = request.stored and (chat.target.lane != "translated" or offered is not None)
        if turns and stored and (histories := self.histories) is not None:
            call = wrapped(call, lambda app: histories.remembering(app, exchange, request.conversation, turns))
        if offered is not None:
            exchange.comparison = "has operations" if chat.decision.compare else ""
        elif self.compared is None:
            exchange.comparison = "not allowed" if chat.decision.compare else ""
        elif may_be_drawn and (comparing := self.compared(chat)) is not None:
            exchange.once = False
            return wrapped(call, comparing)
        return call

    async def _read_history(self, chat: Chat, histories: Histories) -> None:
        """Decide about the whole conversation; if its history cannot be read, about the request alone."""
        exchange, previous = chat.exchange, chat.request.previous_reply
        id, deadline_s = previous or chat.request.conversation, self.passages.retrieval.deadline_s * _HISTORY_SHARE
        began = time.perf_counter()
        try:
            history = await histories.find(exchange.key, id, deadline_s=deadline_s, again=bool(previous))
            chat.decision = with_history(chat.decision, history)
        except (RetrievalError, TimeoutError) as error:
            log.warning("%s the history is not read: %s", exchange.id, str(error) or "the database takes too long")
        finally:
            exchange.ended_step("history", began)


def _refusal(exchange: Exchange) -> ApiError:
    """The answer if a chat must not go on without context."""
    message = (
        f"No context could be looked up ({exchange.rag_reason}), and without it this gateway gives no answer "
        "(retrieval.require_context): try again later."
    )
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="context_unavailable", type="server_error", headers=again)
