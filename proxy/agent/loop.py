"""The rounds of a chat that was offered operations: ask the model, make its calls, ask again, until it answers.

The loop is an ASGI app in front of the upstream, and stands only in chats with an offer. The client gets one reply; the
rounds with gateway calls alone stay hidden. A client that leaves ends the call under way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from proxy.agent.action_trace import ActionTrace, ModelRound
from proxy.agent.actions import Actions
from proxy.agent.ask.negotiate import Negotiation
from proxy.agent.ask.protocol_replies import ProtocolReply, ProtocolText
from proxy.agent.client_reply import ClientReply, summed
from proxy.agent.conversation import Conversation, HiddenMessages, WaitingCall, resumed
from proxy.agent.execution import Execution
from proxy.agent.grounding.known_texts import without_marks
from proxy.agent.model_reply import ModelReply
from proxy.agent.toolbox import Toolbox
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.dialects.base import ModelRequest
from proxy.dialects.chat_reply import usage_of
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from proxy.dialects.replies import ToolCall, json_bytes
from proxy.exchange import Exchange, Reserve

_T = TypeVar("_T")
_NO_ANSWER = "The limit of calls for one answer is reached, and the model gave no answer."
_IN_VAIN = "The model called tools that do not exist, and gave no answer."
_LEAKED = "Nothing was sent: a call in the text of an answer is not made. Call the tool, or answer without a call."


class ActionLoop:
    """The upstream of one chat."""

    def __init__(
        self,
        upstream: App,
        request: ModelRequest,
        forwarded: Callable[..., bytes],
        toolbox: Toolbox,
        exchange: Exchange,
        actions: Actions,
        reserve: Reserve,
    ) -> None:
        """forwarded: the bytes for the upstream, with further edits, and with instructions (default: none)."""
        self._upstream = upstream
        self._request = request
        self._forwarded = forwarded
        self._toolbox = toolbox
        self._exchange = exchange
        self._trace = exchange.action_trace or ActionTrace()
        self._limits = actions.limits
        self._hidden_rounds = actions.hidden_rounds
        self._reserve = reserve
        assert exchange.target is not None, "the route sets the target"
        self._asking = Negotiation(actions.tool_protocols, exchange.target, toolbox, request, self._trace)
        said = [message.text for message in request.messages() if message.role == "user"]
        results = [row["content"] for one in self._asking.earlier for row in one.rows() if row["role"] == "tool"]
        self._execution = Execution(toolbox, self._limits, exchange, self._texts(), said, results, self._private())
        replies = [message.text for message in request.messages()[:-1] if message.role == "assistant"]
        if replies and toolbox.tool_protocol != "native":
            toolbox.go_on = self._execution.after_question(replies[-1])
        self._in_vain = False  # the model has called only tools that do not exist, in one round
        self._must_answer = False  # the next round has no calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the chat. Raises ApiError if the model's first request fails."""
        plain = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]}
        client = ClientReply(send, self._request, self._exchange.id)
        execution = self._execution
        if await self._resume(execution, client):
            return
        shown = _wants_progress(scope) and not self._toolbox.structured_output
        for number in range(self._limits.rounds + 2):
            last = number >= self._limits.rounds or execution.chat.over or self._must_answer
            ask = partial(self._ask, plain, receive, client, last=last)
            reply, going_on = await self._asking.until_taken(ask)
            if reply.refuses_protocol and (client.started or self._asking.hidden):
                # Tools of an earlier round were taken.
                going_on = await reply.end(self._exchange.id)
            elif reply.refuses_protocol:
                await self._ask_without_tools(scope, receive, send)
                return
            if not going_on:
                self._trace.answered_by = "model" if reply.complete else "error"
                return
            ignores = last and not reply.cut and not self._in_vain  # Ollama ignores `tool_choice`
            if ignores and self._toolbox.tool_protocol == "native":
                self._toolbox.tool_protocol = "text"
                continue
            if reply.cut or last:
                await self._stop(reply, client)
                return
            self._asking.learn(reply)
            self._must_answer = self._toolbox.tool_protocol != "native" and all(map(execution.repeats, reply.calls))
            if not self._must_answer and await self._calls(reply, client, shown=shown):
                return

    async def _calls(self, reply: ModelReply, client: ClientReply, *, shown: bool) -> bool:
        """Make the calls of a reply; returns whether the chat is answered. shown: the client gets a line for each."""
        before = len(self._trace.calls)
        results = await self._kept_alive(self._results(reply), client)
        if self._execution.question:
            await self._question(self._execution, client)
            return True
        made = self._trace.calls[before:]
        if reply.leaked or all(call.outcome == "unknown_tool" for call in made):
            has_results = any(call.sent for call in self._trace.calls)  # from which the model may answer
            if self._in_vain and not has_results:
                await self._stop(reply, client)
                return True
            mends = has_results or self._toolbox.tool_protocol != "native" or reply.leaked
            similar = any(self._execution.similar(call.name) for call in reply.calls)
            self._must_answer = self._in_vain or not (mends or similar)
            self._in_vain = True
        if shown and client.streams and (lines := [call.line for call in made if call.sent]):
            await client.note("\n".join([*lines, "", ""]))
        self._asking.add(self._asking.message(reply), *_result_messages(reply.calls, results).values())
        self._mark()
        return False

    async def _results(self, reply: ModelReply) -> list[str]:
        """The texts for the model, for each call of a reply."""
        if reply.leaked:
            return [_LEAKED] * len(reply.calls)
        written = reply.written or self._toolbox.tool_protocol != "native"
        return await self._execution.results(
            [self._toolbox.typed(one) for one in reply.calls] if written else reply.calls
        )

    async def _ask_without_tools(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the model as without an offer."""

        async def look(message: Message) -> None:
            if message.get("status") == 200:  # the client may ask again after the end
                self._asking.refused_beside_form()
            await send(message)

        self._trace.offer = "model refuses tools"
        self._trace.forgotten = self._trace.forgotten or self._asking.earlier != ()
        self._exchange.body = await by_size(self._request.raw, lambda: self._forwarded([]))
        await self._upstream(scope, receive, look)

    async def _resume(self, execution: Execution, client: ClientReply) -> bool:
        """Make the calls that waited for the client's results; returns whether a question answers the chat."""
        waiting = self._toolbox.conversation.waiting
        if not waiting:
            return False
        calls = [ToolCall(one.id, one.name, one.arguments) for one in waiting if one.owned]
        results = await self._kept_alive(execution.results(calls), client)
        messages = self._request.fields["messages"]
        self._asking.resume(resumed(self._toolbox.conversation, messages, _result_messages(calls, results)))
        # The calls wait no more, even if a bridge repeats the request without a member that the upstream refuses.
        self._toolbox.conversation = Conversation(self._asking.earlier, self._toolbox.conversation.tools)
        if execution.question:
            await self._question(execution, client)
        return bool(execution.question)

    async def _question(self, execution: Execution, client: ClientReply) -> None:
        """Ask the person in place of the model."""
        self._trace.answered_by = "gateway"
        self._remember(client.text + execution.question, None)
        await client.say(execution.question)

    async def _stop(self, reply: ModelReply, client: ClientReply) -> None:
        """End the reply without an answer: at the client's limit, or at the last round.

        The client's limit would cut the next call, too.
        """
        self._trace.answered_by = "model" if reply.cut else "gateway"
        text, finish = _IN_VAIN if self._in_vain else _NO_ANSWER, "stop"
        if reply.cut:
            # The client has other texts.
            text, finish = (reply.text or "") if self._toolbox.structured_output else "", "length"
        self._remember(client.text + text, None)
        await client.say(text, finish)

    def _mark(self) -> None:
        """Note that the conversation has messages that the client does not see, even if it leaves now."""
        if self._hidden_rounds is not None:
            self._hidden_rounds.mark(self._exchange.key, self._request.fields["messages"])

    def _remember(self, text: str, reply: ModelReply | None) -> None:
        """Keep hidden messages and tools for the next request, before the client has the reply's end.

        text: for the client. reply: None for a text of the gateway.
        """
        if self._hidden_rounds is None:
            return
        messages = self._request.fields["messages"]
        calls = [] if reply is None else reply.all_calls
        foreign = [call for call in calls if self._toolbox.owner(call.name) == "client"]
        hidden = self._asking.earlier
        if self._asking.hidden:
            hidden = (*hidden, HiddenMessages(len(messages), b",".join(self._asking.hidden).decode()))
        mixed = 0 < len(foreign) < len(calls)
        if mixed:
            self._mark()
        message = ""
        if reply is not None and (mixed or (self._asking.hidden and reply.provider_fields.message)):
            message = self._asking.message(reply).decode()
        if message and not mixed:
            # Of all rounds of a question, the model gets the message with the members that the model sent. The client
            # has the texts and the thoughts of all rounds as one reply, or has no thoughts.
            hidden = (*hidden, HiddenMessages(len(messages), message, replaces=True))
        conversation = Conversation(
            hidden,
            tuple((name, *one.origin) for name, one in self._toolbox.tools.items()),
            tuple(WaitingCall(one.id, one.name, one.arguments, one not in foreign) for one in calls) if mixed else (),
            message if mixed else "",
        )
        functions = [{"id": one.id, "function": {"name": one.name, "arguments": one.arguments}} for one in foreign]
        visible = {"role": "assistant", "content": text, "tool_calls": functions}
        self._hidden_rounds.keep(self._exchange.key, [*messages, visible], conversation)

    async def _ask(self, scope: Scope, receive: Receive, client: ClientReply, *, last: bool) -> tuple[ModelReply, bool]:
        """The reply of one round, and whether the gateway has calls to make. Raises ApiError.

        Without calls, the client has the reply's end.
        """
        exchange, raw, first = self._exchange, self._request.raw, not self._asking.hidden
        protocol = self._toolbox.tool_protocol

        def asked() -> bytes:
            return self._forwarded(*self._asking.parts(last=last))

        exchange.body = body = await by_size(raw, asked)
        client.next_round()
        traced = ModelRound(exchange.elapsed_ms(), tool_protocol=protocol)
        reply = ModelReply(
            client,
            self._toolbox,
            self._asking.refusals(),
            before_end=lambda: self._remember(client.text, reply),
            stands=self._execution.has_read,
            by_tools=self._asking.by_tools,
        )
        text = ProtocolText(
            self._toolbox.claims,
            partial(self._toolbox.claims, begun=True),
            says=protocol == "json_schema" and not last,
            stands=self._execution.has_read,
        )
        send = reply.send if protocol == "native" else ProtocolReply(reply.send, text).send
        try:
            if self._trace.rounds:
                await self._reserve(body, self._request.fields, client.tokens)
            self._trace.rounds.append(traced)
            asking = self._upstream(scope, receive, send)
            await (asking if first and not self._toolbox.structured_output else self._kept_alive(asking, client))
            if text.unwrapped and protocol == "json_schema" and not last:  # the server does not enforce the schema
                self._asking.lower(refused=False)
            return reply, reply.refuses_protocol or await reply.end(exchange.id)
        except ApiError as error:
            exchange.error = error.log_text
            if first and not client.started:
                raise
            await client.fail(error, exchange.id)
            return reply, False
        finally:
            tokens = reply.tokens(body)
            traced.duration_ms = exchange.elapsed_ms() - traced.started_ms
            traced.tokens, traced.finish, traced.calls = tokens, reply.finish, len(reply.calls)
            client.tokens = client.tokens.plus(tokens)
            client.usage = summed({**usage_of(tokens), **reply.usage}, client.usage)
            if not first or not reply.unread:
                exchange.tokens = client.tokens

    async def _kept_alive(self, work: Awaitable[_T], client: ClientReply) -> _T:
        """The result of the work. A stream gets an empty chunk after each `keepalive_s` without another chunk."""
        task = asyncio.ensure_future(work)
        try:
            sends = client.sends
            while not (await asyncio.wait({task}, timeout=self._limits.keepalive_s))[0]:
                if client.streams and client.sends == sends:
                    await client.keep_alive()
                sends = client.sends
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _private(self) -> set[str]:
        """The private sets of which the conversation has results, or may have: not all rounds are known."""
        known = self._toolbox.conversation.private_results(self._limits.private)
        replies = any(message.role == "assistant" for message in self._request.messages())
        unknown = self._trace.forgotten or (replies and self._hidden_rounds is None)
        return known | (set(self._trace.sets) & set(self._limits.private) if unknown else set())

    def _texts(self) -> Sequence[str]:
        """The texts in which a call's value may stand; of earlier questions, only the results."""
        said = (message.text for message in self._request.messages())
        hidden = (row["content"] for one in self._asking.earlier for row in one.rows() if row["role"] != "assistant")
        return [*self._toolbox.passages, *map(without_marks, [*said, *hidden])]


def _wants_progress(scope: Scope) -> bool:
    """Whether the client asks for a line of text for each call: `x-rag-progress: on`, in any letter case."""
    return any(name == b"x-rag-progress" and value.strip().lower() == b"on" for name, value in scope["headers"])


def _result_messages(calls: Sequence[ToolCall], results: Sequence[str]) -> dict[str, bytes]:
    """Id of each call -> the message with the result."""
    return {
        call.id: json_bytes({"role": "tool", "tool_call_id": call.id, "content": text})
        for call, text in zip(calls, results, strict=True)
    }
