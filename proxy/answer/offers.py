"""Which chats are offered operations, and the call that answers such a chat."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from proxy.agent.actions import Actions, ToolSources, unsuited
from proxy.agent.ask.model import ModelApi
from proxy.agent.ask.tool_protocols import suits
from proxy.agent.execution import tools_for
from proxy.agent.loop import ActionLoop
from proxy.agent.toolbox import Toolbox
from proxy.agent.tools.document_search import SearchDocuments
from proxy.agent.writes.confirming import CodeAnswer, EndedElsewhere
from proxy.answer.bridged import BridgedChat, ClientChat, client_chat, newest_of, own_messages
from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.gate import HOUSEKEEPING, Chat, turns_of
from proxy.augment.middleware import Passages
from proxy.dialects.base import own_text, own_words
from proxy.dialects.chat import ChatRequest
from proxy.dialects.codes import CodeLine, code_line
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import by_size
from proxy.dialects.responses import RESPONSES
from proxy.exchange import ActionTrace, CallMeter, Exchange, ModelCall
from proxy.upstream.translated.request import sendable
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_RETRY_AFTER_S = 5
_UNSUITED = (
    "Nothing was sent: a request of this form cannot confirm a call. Send the code again with the model, the action "
    "sets and the members of the request before it."
)


Forwarded = Callable[..., bytes]  # (request, edits, instructions="") -> bytes for the upstream


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
        sources = ToolSources() if off else actions.sources_of(decision.action_sets, exchange.rights)
        offers = sources.sets or sources.databases or (not off and self._has_tools(chat))
        exchange.action_trace = ActionTrace(sources.sets) if offers else None
        completion: ClientChat | None
        if isinstance(chat.request, ChatRequest):
            completion = ClientChat(chat.request, chat.target, own=chat.request.fields["messages"])
        else:
            completion = await client_chat(chat.request, decision.model, chat.target, exchange, actions)
        answer = await self._answer(chat, completion) if completion is not None else None
        toolbox = await self._toolbox(chat, completion, sources, answer) if completion is not None else None
        if toolbox is None and await self._confirms(chat, completion, answer):
            raise ApiError(400, _UNSUITED, code="confirmation_unsuited")  # the model would answer the code line
        if completion is None:
            return None
        if toolbox is None and not completion.continues:
            return None

        if toolbox is not None and chat.found is not None and chat.injected:
            toolbox.passages = [one.text for one in chat.found.context.passages]
        exchange.most_tokens = decision.most_tokens
        forwarded = functools.partial(chat.forwarded, target=completion.target)
        return app_of(completion, self.upstream, forwarded, toolbox, exchange, actions)

    def _has_tools(self, chat: Chat) -> bool:
        """Whether a tool of the setting `tools` suits a question of the conversation. Others pass on untouched."""
        limits, decision = self.actions.limits, chat.decision
        if not limits.tools or decision.reason == HOUSEKEEPING or decision.action_sets == ():
            return False
        turns = decision.turns or turns_of(chat.request.messages())
        return bool(tools_for(limits, *(one.text for one in turns if one.role == "user")))

    async def _toolbox(
        self, chat: Chat, completion: ClientChat, sources: ToolSources, answer: CodeAnswer | EndedElsewhere | None
    ) -> Toolbox | None:
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
        form = actions.tool_protocols.form(chat.target, request.fields)
        if form.protocol == "none":
            trace.offer = "model refuses tools"
        if form.protocol == "none" or not suits(form.protocol, request):
            return None
        own, passages, deadline_s = [], self.passages, self.passages.retrieval.deadline_s
        if sources.sets and exchange.searched and actions.limits.settings.search_documents:
            own.append(
                SearchDocuments(passages.knowledge, explicit=decision.explicit, k=decision.k, deadline_s=deadline_s)
            )
        if chat.found is not None and chat.injected:
            sources = replace(sources, answered=chat.found.relevance or 0.0)
        began = time.perf_counter()
        if chat.found is None:  # else the index has answered
            await passages.begun()
        try:
            async with asyncio.timeout(deadline_s):
                toolbox = await actions.offer(request, turns, sources, exchange, form, own, answer)
                if toolbox is not None:
                    toolbox.person, toolbox.said = chat.request.person(chat.headers), own_words(completion.own)
                    exchange.shows_approvals = exchange.dialect is RESPONSES and _shows_approvals(chat.headers)
                return toolbox
        except (RetrievalError, TimeoutError) as error:
            if isinstance(answer, CodeAnswer):  # without the operations, the model would answer the code line
                raise _unavailable() from error
            trace.offer = "search failed"
            log.warning("%s no operation is offered: %s", exchange.id, str(error) or "the search takes too long")
            return None
        finally:
            exchange.ended_step("action_search", began)

    async def _answer(self, chat: Chat, completion: ClientChat) -> CodeAnswer | EndedElsewhere | None:
        """As `Writes.answer_in`. Raises ApiError 503."""
        writes = self.actions.writes
        if writes is None:
            return None
        with _readable(chat):
            return await writes.answer_in(
                chat.exchange.key, completion.request.fields["messages"], newest_of(completion.own)
            )

    async def _confirms(
        self, chat: Chat, completion: ClientChat | None, answer: CodeAnswer | EndedElsewhere | None
    ) -> bool:
        """Whether a chat without an offer ends with a code line for a call. Raises ApiError 503.

        completion: None: the chat has no counterpart as a chat completion, so its conversation is not known.
        """
        writes = self.actions.writes
        if writes is None:
            return False
        if isinstance(answer, CodeAnswer):
            line: CodeLine | None = answer.line
        else:
            line = code_line(own_text(newest_of(own_messages(chat.request.fields)))) if completion is None else None
        if line is None or (isinstance(answer, CodeAnswer) and answer.writes):
            return line is not None
        with _readable(chat):
            return await writes.waits(chat.exchange.key, line)


@contextlib.contextmanager
def _readable(chat: Chat) -> Iterator[None]:
    """Raises ApiError 503 if the writes cannot be read."""
    try:
        yield
    except RetrievalError as error:
        log.warning("%s what waits for a confirmation is not read: %s", chat.exchange.id, error)
        raise _unavailable() from error


def app_of(
    chat: ClientChat,
    upstream: App,
    forwarded: Forwarded,
    toolbox: Toolbox | None,
    exchange: Exchange,
    actions: Actions,
) -> ModelCall:
    """The prepared call that answers a chat. `exchange.body` is the client's request with passages.

    toolbox: None for a chat that only continues a stored response.
    """
    native = exchange.body or b""

    def rounds(meter: CallMeter, upstream: App, request: ChatRequest) -> App:
        one = functools.partial(forwarded, request)
        if toolbox is not None:
            keeps = sendable if chat.target.lane == "translated" else dict
            return ActionLoop(ModelApi(upstream, one, meter, keeps), request, toolbox, exchange, actions)

        async def ask_once(scope: Scope, receive: Receive, send: Send) -> None:
            exchange.body = await by_size(exchange.body or b"", lambda: one([]))
            await meter(upstream, scope, receive, send)

        return ask_once

    def call(meter: CallMeter) -> App:
        if chat.body is None:
            return rounds(meter, upstream, chat.request)
        resumes = toolbox is not None and toolbox.conversation.waiting != ()
        native_call = functools.partial(meter, upstream)
        return BridgedChat(
            upstream, chat, native, native_call, functools.partial(rounds, meter), actions, resumes=resumes
        )

    return call


def _shows_approvals(headers: Headers) -> bool:
    """Whether the client shows approval items of a response: `x-rag-approvals: items`."""
    return any(name == b"x-rag-approvals" and value.strip().lower() == b"items" for name, value in headers)


def _unavailable() -> ApiError:
    message = "What waits for a confirmation cannot be read at present. Nothing was sent: try again later."
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="confirmation_unavailable", type="server_error", headers=again)
