"""The augmentation of a chat: read the body, decide, retrieve, inject. The model is called afterwards, by `Metering`.

Augmentation fails open, and visibly: a chat whose retrieval fails goes on without passages, marked `degraded`; where
context is required, the chat is refused. Only the request is ever changed: the reply never passes through this module.
"""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from config.sections import InjectSettings, RetrievalSettings
from proxy import permitted
from proxy.agent.action_trace import ActionTrace
from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.context_window import room_tokens
from proxy.augment.gate import HOUSEKEEPING, Decision, decide, turns_of, with_history, without_small_talk
from proxy.augment.history import Histories
from proxy.augment.inject import Template, in_order
from proxy.augment.rewrite import Rewriter, has_history
from proxy.augment.small_talk import NO_LISTS, SmallTalk
from proxy.augment.utility_requests import UtilityPrompts
from proxy.body import whole_body
from proxy.caller import Rights
from proxy.dialects.base import ModelRequest
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import Edit, by_size
from proxy.dialects.target import Target
from proxy.exchange import DegradedReason, Exchange, ModelCall, exchange_of, one_call, wrapped
from proxy.observe.receipts.receipt import Receipt, Receipts, receipt_of
from proxy.query import check_models, models_in
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import Knowledge
from retrieval.records.search import Retrieved

if TYPE_CHECKING:
    from proxy.agent.actions import Actions
    from proxy.agent.toolbox import Toolbox
    from proxy.answer.bridged import ClientChat

Resolve = Callable[[str, Rights], Target]
log = logging.getLogger("ragway")
# Kind of failure -> the reason in x-rag-reason and in the metrics; the first matching kind counts.
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
_HISTORY_SHARE = 0.25  # of the time for retrieval, at most, to read the history of a stored conversation
_RETRY_AFTER_S = 5  # an index process that died is back within seconds


async def already() -> None:
    """The start of a gateway that has started."""


CHAT = "ragway.chat"  # in the ASGI scope of a chat that goes through the shadow comparison


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat after the augmentation, before the call of the model."""

    decision: Decision
    request: ModelRequest  # as the client sent it
    target: Target


@dataclass(frozen=True, slots=True)
class Shadow:
    """The shadow comparison, and the chats that go through."""

    app: App  # a middleware in front of the upstream; finds the `Chat` in the scope
    share: float  # of the chats that are searched for, 0 to 1
    draw: Callable[[], float] = random.random  # from 0 to 1

    def selects(self, decision: Decision) -> bool:
        """Whether a chat goes through the middleware: the client asks for a comparison, or the chat is sampled."""
        return decision.compare or (decision.status == "augmented" and self.draw() < self.share)


@dataclass(frozen=True, slots=True)
class AugmentOptions:
    """The settings of augmentation."""

    retrieval: RetrievalSettings
    inject: InjectSettings
    max_body_bytes: int
    utility_prompts: UtilityPrompts  # a request with such a prompt gets no passages
    small_talk: SmallTalk = NO_LISTS  # gets no passages
    receipts: Receipts | None = None  # the queue of unwritten receipts; None: no receipts
    shadow: Shadow | None = None  # None: no chat is compared
    histories: Histories | None = None  # of stored conversations; None: no history is stored
    action_sets: bool = False  # a chat may name action sets
    actions: "Actions | None" = None  # None: no chat is offered operations
    begun: Callable[[], Awaitable[None]] = already  # awaited before a search, while the gateway starts


class Augment:
    """The route of chats: an ordinary request for the model, with passages in the prompt."""

    def __init__(
        self,
        upstream: App,
        *,
        knowledge: Knowledge,
        resolve: Resolve,
        template: Template,
        options: AugmentOptions,
        translated_window: Callable[[str], int] | None = None,
        rewriter: Rewriter | None = None,
    ) -> None:
        """translated_window: the context window of a translated model in tokens, as litellm knows; 0: not known.

        rewriter: None leaves rewriting to the index.
        """
        self._upstream = upstream
        self._call = one_call(upstream)
        self._knowledge = knowledge
        self._resolve = resolve
        self._template = template
        self._options = options
        self._translated_window = translated_window
        self._rewriter = rewriter

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> ModelCall:
        """Prepare the call of the model: the target and body of the exchange. Raises ApiError."""
        exchange = exchange_of(scope)
        raw = await whole_body(scope, receive, max_bytes=self._options.max_body_bytes)
        began = time.perf_counter()
        options, retrieval = self._options, self._options.retrieval

        def understood() -> tuple[ModelRequest, Decision]:
            request = exchange.dialect.parse(raw)
            decision = decide(
                request,
                scope,
                enabled=retrieval.enabled,
                collections=retrieval.collections,
                utility_prompts=options.utility_prompts,
                actions=options.action_sets,
            )
            return request, decision

        request, decision = await by_size(raw, understood)
        exchange.fields = request.fields
        exchange.rights.check_members(request.fields)
        exchange.target = target = self._resolve(decision.model, exchange.rights)
        exchange.model = decision.model
        _check_query(scope, target)
        exchange.ended_step("parse", began)
        found, lead, budget_tokens, deadline_s = None, "", 0, retrieval.deadline_s
        if decision.continues and options.histories is not None:
            began = time.perf_counter()
            decision = await self._with_history(request, decision, exchange, options.histories)
            deadline_s -= time.perf_counter() - began
        decision = without_small_talk(decision, options.small_talk)
        if decision.status == "augmented":
            budget_tokens = await by_size(raw, lambda: self._budget_tokens(request, target))
            found, lead = await self._context(decision, exchange, budget_tokens, scope, deadline_s)
            decision = replace(decision, collections=exchange.searched or decision.collections)
        else:
            exchange.rag_status, exchange.rag_reason = decision.status, decision.reason
        try:
            if retrieval.require_context and (exchange.rag_status == "degraded" or exchange.rag_reason == _NOT_THERE):
                raise _refusal(exchange)
            exchange.body = await by_size(raw, lambda: _forwarded(request, lead, decision, target, []))
            exchange.injected_bytes = len(orjson.dumps(lead)) if lead else 0
            apis = options.actions
            acting = (
                None if apis is None else await self._acting(request, decision, target, found, lead, exchange, apis)
            )
            return self._model_call(exchange, scope, request, decision, target, acting)
        finally:
            if options.receipts is not None and _searched(decision, exchange):
                asked = decision if decision.turns else replace(decision, turns=turns_of(request.messages()))
                _keep(receipt_of(exchange, target, asked, budget_tokens, found, lead), exchange, options.receipts)

    def _model_call(
        self,
        exchange: Exchange,
        scope: Scope,
        request: ModelRequest,
        decision: Decision,
        target: Target,
        acting: ModelCall | None,
    ) -> ModelCall:
        """The prepared call. acting: makes the calls of APIs; None: a chat without operations."""
        options, call = self._options, acting or self._call
        exchange.once = acting is None
        # The translated lane stores no response; of a chat with actions, the gateway stores the response.
        stored = request.stored and (target.lane != "translated" or acting is not None)
        if decision.turns and stored and options.histories is not None:
            remembering, conversation = options.histories.remembering, request.conversation
            call = wrapped(call, lambda upstream: remembering(upstream, exchange, conversation, decision.turns))
        if acting is not None:
            exchange.comparison = "has operations" if decision.compare else ""
        elif options.shadow is None:
            exchange.comparison = "not allowed" if decision.compare else ""
        elif options.shadow.selects(decision):
            scope[CHAT] = Chat(decision, request, target)
            exchange.once = False
            return one_call(options.shadow.app)
        return call

    async def _with_history(
        self, request: ModelRequest, decision: Decision, exchange: Exchange, histories: Histories
    ) -> Decision:
        """The decision about the whole conversation; where the history cannot be read, about the request alone."""
        previous = request.previous_reply
        id, deadline_s = previous or request.conversation, self._options.retrieval.deadline_s * _HISTORY_SHARE
        began = time.perf_counter()
        try:
            history = await histories.find(exchange.key, id, deadline_s=deadline_s, again=bool(previous))
        except (RetrievalError, TimeoutError) as error:
            log.warning("%s the history is not read: %s", exchange.id, str(error) or "the database takes too long")
            return decision
        finally:
            exchange.ended_step("history", began)
        return with_history(decision, history)

    async def _acting(
        self,
        request: ModelRequest,
        decision: Decision,
        target: Target,
        found: Retrieved | None,
        lead: str,
        exchange: Exchange,
        actions: "Actions",
    ) -> ModelCall | None:
        """The call that answers a chat with an offer of operations, or a chat that continues a response of the gateway.

        None: another chat. Raises ApiError 404 for an unknown set.
        """
        from proxy.answer.bridged import app_of, client_chat  # with httpx: for a gateway with APIs alone

        off = decision.action_sets is None and decision.status == "off" and not decision.keeps_sets
        sets = [] if off else actions.sets_of(decision.action_sets, exchange.rights)
        exchange.action_trace = ActionTrace(sets) if sets or (actions.limits.tools and not off) else None
        chat = await client_chat(request, decision.model, target, exchange, actions)
        if chat is None:
            return None
        offer = await self._offer(chat, decision, target, sets, exchange, actions)
        if offer is None and not chat.continues:
            return None

        def forwarded(request: ModelRequest, edits: Sequence[Edit], instructions: str = "") -> bytes:
            context = "\n\n".join(filter(None, (instructions, lead)))
            return _forwarded(request, context, decision, chat.target, edits)

        if offer is not None and found is not None and lead:
            offer.passages = [one.text for one in found.context.passages]
        call = app_of(chat, self._upstream, forwarded, offer, exchange, actions)
        edits = [] if offer is None else offer.edits(chat.request)
        exchange.body = await by_size(request.raw, lambda: forwarded(chat.request, edits))
        exchange.most_tokens = decision.most_tokens
        return call

    async def _offer(
        self,
        chat: "ClientChat",
        decision: Decision,
        target: Target,
        sets: Sequence[str],
        exchange: Exchange,
        actions: "Actions",
    ) -> "Toolbox | None":
        """The operations that the model may call; None: none."""
        from proxy.agent.actions import unsuited
        from proxy.agent.ask.request_forms import suits
        from proxy.agent.tools.document_search import SearchDocuments

        messages, trace = chat.request.messages(), exchange.action_trace
        if trace is None:
            return None
        turns = decision.turns or turns_of(messages)
        why = "the request chooses the tool" if chat.narrowed else unsuited(chat.request, messages)
        if decision.reason == HOUSEKEEPING or not turns:
            why = HOUSEKEEPING if turns else "the request has no question"
        if why:
            log.info("%s no operation is offered: %s", exchange.id, why)
            return None
        protocol = actions.tool_protocols.of(target, chat.request.fields)
        if protocol == "none":
            trace.offer = "model refuses tools"
        if protocol == "none" or not suits(protocol, chat.request):
            return None
        own = []
        if sets and exchange.searched and actions.limits.search_documents:
            deadline_s = self._options.retrieval.deadline_s
            search = SearchDocuments(self._knowledge, explicit=decision.explicit, k=decision.k, deadline_s=deadline_s)
            own.append(search)
        began = time.perf_counter()
        await self._options.begun()
        try:
            async with asyncio.timeout(self._options.retrieval.deadline_s):
                return await actions.offer(chat.request, turns, sets, exchange, target, own)
        except (RetrievalError, TimeoutError) as error:
            trace.offer = "search failed"
            log.warning("%s no operation is offered: %s", exchange.id, str(error) or "the search takes too long")
            return None
        finally:
            exchange.ended_step("action_search", began)

    def _budget_tokens(self, request: ModelRequest, target: Target) -> int:
        """The token budget of the passages: the setting, or less where a known context window leaves less."""
        window_tokens = self._window_tokens(target)
        if not window_tokens:
            return self._options.inject.budget_tokens
        share = self._options.inject.window_share
        return min(self._options.inject.budget_tokens, room_tokens(request, window_tokens=window_tokens, share=share))

    def _window_tokens(self, target: Target) -> int:
        """The context window of the target's model: the setting, else litellm's; 0: not known."""
        if target.window_tokens or target.lane != "translated" or self._translated_window is None:
            return target.window_tokens
        return self._translated_window(target.model)

    async def _context(
        self, decision: Decision, exchange: Exchange, budget_tokens: int, scope: Scope, deadline_s: float
    ) -> tuple[Retrieved | None, str]:
        """The search result (None: no result) and the text to inject ("": nothing); the exchange has the reason."""
        if not budget_tokens:
            exchange.rag_status, exchange.rag_reason = "empty", _NO_ROOM
            return None, ""
        began = time.perf_counter()
        retrieved, text = None, ""
        await self._options.begun()
        try:
            async with asyncio.timeout(deadline_s):
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
    ) -> permitted.SearchResult:
        """Search for the latest question, as the index or a model rewrites the question.

        Raises UnknownCollection, RetrievalError.
        """
        asked = permitted.PermittedSearch(
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
        return self._template.render(in_order(passages, self._options.inject.order), exchange.searched)


def _searched(decision: Decision, exchange: Exchange) -> bool:
    trace = exchange.action_trace
    return decision.status == "augmented" or (trace is not None and trace.searched)


def _keep(receipt: Receipt, exchange: Exchange, receipts: Receipts) -> None:
    """Keep the receipt: at once, or after the reply where the reply may take several rounds."""
    if exchange.action_trace is not None and exchange.action_trace.offer == "offered":
        exchange.after_reply.append(functools.partial(receipts.add, receipt))
    else:
        receipts.add(receipt)


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
    # Only errors that retrieval raises on purpose are sure to quote no document and no question.
    words = str(error) if isinstance(error, RetrievalError) else type(error).__name__
    exchange.error = words or exchange.rag_reason


def _check_query(scope: Scope, target: Target) -> None:
    """Raise ApiError where the query names another model."""
    if scope["query_string"]:
        check_models(models_in(scope["query_string"]), target.model)


def _forwarded(request: ModelRequest, context: str, decision: Decision, target: Target, edits: Sequence[Edit]) -> bytes:
    """The bytes for the upstream. A request without edits stays identical, byte for byte."""
    model = target.model or decision.model
    return request.edited(context=context, position=target.position, model=model, without_rag=True, edits=edits)
