"""Augments a chat: reads the body, decides, finds passages and injects them. `Metering` calls the model afterwards.

It fails open, and visibly: if retrieval fails, a chat goes on without passages, marked `degraded`, or is refused if
context is required. Only the request is ever changed: replies never pass through this module.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import orjson

from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.gate import Chat, decide, with_history, without_code_line, without_small_talk
from proxy.augment.history import Histories
from proxy.augment.passages import NOT_THERE, Passages
from proxy.augment.skipped import NO_LISTS, SmallTalk, UtilityPrompts
from proxy.body import whole_body
from proxy.caller import Rights
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from proxy.dialects.target import Target
from proxy.exchange import Exchange, ModelCall, exchange_of, one_call, wrapped
from proxy.query import check_models, models_in
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
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
        exchange, retrieval = exchange_of(scope), self.passages.retrieval
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
