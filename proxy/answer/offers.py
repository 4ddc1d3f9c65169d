"""Which chats are offered operations, and the call that answers such a chat."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.agent.action_trace import ActionTrace
from proxy.agent.actions import Actions, unsuited
from proxy.agent.ask.tool_protocols import suits
from proxy.agent.toolbox import Toolbox
from proxy.agent.tools.document_search import SearchDocuments
from proxy.agent.writes.confirming import CodeAnswer
from proxy.answer.bridged import ClientChat, app_of, client_chat
from proxy.asgi import App
from proxy.augment.gate import HOUSEKEEPING, Chat, turns_of
from proxy.augment.passages import Passages
from proxy.dialects.base import ModelRequest
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import Edit
from proxy.dialects.responses import RESPONSES
from proxy.exchange import ModelCall
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_RETRY_AFTER_S = 5
_UNSUITED = (
    "Nothing was sent: a request of this form cannot confirm a call. Send the code again with the model, the action "
    "sets and the members of the request before it."
)


@dataclass(frozen=True, slots=True)
class Offers:
    """Prepares the calls of chats with action sets, or with tools of the gateway."""

    upstream: App
    actions: Actions
    passages: Passages

    async def call_of(self, chat: Chat) -> ModelCall | None:
        """The call that answers a chat with an offer, or a chat that continues a response of the gateway.

        None: another chat. Raises ApiError 404 for an unknown set.
        """
        exchange, decision, actions = chat.exchange, chat.decision, self.actions
        off = decision.action_sets is None and decision.status == "off" and not decision.keeps_sets
        sets = [] if off else actions.sets_of(decision.action_sets, exchange.rights)
        exchange.action_trace = ActionTrace(sets) if sets or (actions.limits.tools and not off) else None
        completion = await client_chat(chat.request, decision.model, chat.target, exchange, actions)
        if completion is None:
            return None
        toolbox = await self._toolbox(chat, completion, sets)
        if toolbox is None and (answer := await self._answer(chat, completion.request)) and answer.writes:
            raise ApiError(400, _UNSUITED, code="confirmation_unsuited")  # the model would answer the code line
        if toolbox is None and not completion.continues:
            return None

        def forwarded(request: ModelRequest, edits: Sequence[Edit], instructions: str = "") -> bytes:
            return chat.forwarded(request, completion.target, edits, instructions)

        if toolbox is not None and chat.found is not None and chat.injected:
            toolbox.passages = [one.text for one in chat.found.context.passages]
        exchange.most_tokens = decision.most_tokens
        return app_of(completion, self.upstream, forwarded, toolbox, exchange, actions)

    async def _toolbox(self, chat: Chat, completion: ClientChat, sets: Sequence[str]) -> Toolbox | None:
        """The tools that the model may call; None: none."""
        exchange, decision, actions = chat.exchange, chat.decision, self.actions
        request, trace = completion.request, exchange.action_trace
        if trace is None:
            return None
        messages = request.messages()
        turns = decision.turns or turns_of(messages)
        why = "the request chooses the tool" if completion.narrowed else unsuited(request, messages)
        if decision.reason == HOUSEKEEPING or not turns:
            why = HOUSEKEEPING if turns else "the request has no question"
        if why:
            log.info("%s no operation is offered: %s", exchange.id, why)
            return None
        answer = await self._answer(chat, request)
        protocol = actions.tool_protocols.of(chat.target, request.fields)
        if protocol == "none":
            trace.offer = "model refuses tools"
        if protocol == "none" or not suits(protocol, request):
            return None
        own, passages, deadline_s = [], self.passages, self.passages.retrieval.deadline_s
        if sets and exchange.searched and actions.limits.settings.search_documents:
            own.append(
                SearchDocuments(passages.knowledge, explicit=decision.explicit, k=decision.k, deadline_s=deadline_s)
            )
        began = time.perf_counter()
        await passages.begun()
        try:
            async with asyncio.timeout(deadline_s):
                toolbox = await actions.offer(request, turns, sets, exchange, chat.target, own, answer)
                if toolbox is not None:
                    toolbox.person = chat.request.person(chat.headers)
                    chat.exchange.shows_approvals = _shows_approvals(chat)
                return toolbox
        except (RetrievalError, TimeoutError) as error:
            if answer is not None:  # without the operations, the model would answer the code line
                raise _unavailable() from error
            trace.offer = "search failed"
            log.warning("%s no operation is offered: %s", exchange.id, str(error) or "the search takes too long")
            return None
        finally:
            exchange.ended_step("action_search", began)

    async def _answer(self, chat: Chat, request: ModelRequest) -> CodeAnswer | None:
        """The code line with which the chat ends; None: another chat. Raises ApiError 503."""
        writes = self.actions.writes
        if writes is None:
            return None
        try:
            return await writes.answer_in(chat.exchange.key, request.fields["messages"])
        except RetrievalError as error:
            log.warning("%s what waits for a confirmation is not read: %s", chat.exchange.id, error)
            raise _unavailable() from error


def _shows_approvals(chat: Chat) -> bool:
    """Whether the client shows approval items: `x-rag-approvals: items`, for a response."""
    shows = any(name == b"x-rag-approvals" and value.strip().lower() == b"items" for name, value in chat.headers)
    return shows and chat.exchange.dialect is RESPONSES


def _unavailable() -> ApiError:
    message = "What waits for a confirmation cannot be read at present. Nothing was sent: try again later."
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="confirmation_unavailable", type="server_error", headers=again)
