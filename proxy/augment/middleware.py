"""The augmentation of a chat: read the body, decide, find passages, inject them. `Metering` calls the model afterwards.

Augmentation fails open, and visibly: a chat whose retrieval fails goes on without passages, marked `degraded`; where
context is required, the chat is refused. Only the request is ever changed: the reply never passes through this module.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import orjson

from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.gate import Chat, decide, with_history, without_small_talk
from proxy.augment.history import Histories
from proxy.augment.passages import NOT_THERE, Passages
from proxy.augment.small_talk import NO_LISTS, SmallTalk
from proxy.augment.utility_requests import UtilityPrompts
from proxy.body import whole_body
from proxy.caller import Rights
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from proxy.dialects.target import Target
from proxy.exchange import Exchange, ModelCall, exchange_of, one_call, wrapped
from proxy.query import check_models, models_in
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_HISTORY_SHARE = 0.25  # of the time for retrieval, at most, to read the history of a stored conversation
_RETRY_AFTER_S = 5  # an index process that died is back within seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Augment:
    """The route of chats: an ordinary request for the model, with passages in the prompt."""

    upstream: App
    resolve: Callable[[str, Rights], Target]
    passages: Passages
    max_body_bytes: int
    utility_prompts: UtilityPrompts  # a request with such a prompt gets no passages
    small_talk: SmallTalk = NO_LISTS  # gets no passages
    action_sets: bool = False  # a chat may name action sets
    histories: Histories | None = None  # of stored conversations; None: no history is stored
    offered: Callable[[Chat], Awaitable[ModelCall | None]] | None = None  # the call of a chat with operations
    keep_receipt: Callable[[Chat], object] | None = None  # None: no receipts
    draws: bool = False  # chats are compared that do not ask for it
    # The middleware that compares a chat, for a selected chat alone; None: no chat is compared.
    compared: Callable[[Chat], Callable[[App], App] | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> ModelCall:
        """Prepare the call of the model: the target and body of the exchange. Raises ApiError."""
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
        return Chat(exchange, request, target, decision)

    def _call_of(self, chat: Chat, offered: ModelCall | None) -> ModelCall:
        """The prepared call. offered: of a chat with operations; None: another chat."""
        exchange, request, turns = chat.exchange, chat.request, chat.decision.turns
        may_be_drawn = chat.decision.compare or (self.draws and chat.decision.status == "augmented")
        call = offered or one_call(self.upstream)
        exchange.once = offered is None
        # The translated lane stores no response; of a chat with actions, the gateway stores the response.
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
        """Decide about the whole conversation; where the history cannot be read, about the request alone."""
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
    """The answer where a chat must not go on without context."""
    message = (
        f"No context could be looked up ({exchange.rag_reason}), and without it this gateway gives no answer "
        "(retrieval.require_context): try again later."
    )
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="context_unavailable", type="server_error", headers=again)
