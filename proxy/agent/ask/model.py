"""One chat's model: asked in the form that it takes, metered and traced. Its replies pass on as events.

`Transcript` has the messages: what the client sends, and those beside that only the model gets. Before the client has a
reply's end, the hidden messages are kept for its next request.

An error may refuse all tools, a single function, another model's messages, or provider fields such as thoughts. The
model is then asked again in another form, and the process learns it once the model goes on.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from proxy.agent.ask.protocol_replies import ProtocolReader
from proxy.agent.ask.tool_protocols import (
    FORM_REFUSED,
    TOOLS_REFUSED,
    ToolProtocols,
    as_plain_text,
    refused_function,
    request_parts,
)
from proxy.agent.ask.turn import ModelTurn, is_own_id
from proxy.agent.conversation import Conversation, HiddenMessages, HiddenRounds, WaitingCall, resumed
from proxy.agent.events import ClientReply, Event, Json
from proxy.agent.grounding.arguments import without_marks
from proxy.agent.text_calls.written_calls import Stands
from proxy.agent.toolbox import Toolbox
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.dialects.base import ConversationMessage, ModelRequest
from proxy.dialects.deviations import provider_field_names, strip_provider_fields
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.json_body import Edit, by_size
from proxy.dialects.replies import ToolCall, json_bytes, json_of, read_error
from proxy.dialects.target import Target, ToolProtocol
from proxy.exchange import ActionTrace, CallMeter, Exchange, ModelRound


class Transcript:
    """The messages of one chat, in the form in which the model takes them."""

    def __init__(
        self,
        request: ModelRequest,
        toolbox: Toolbox,
        hidden_rounds: HiddenRounds | None,
        key: str,
        sendable: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        accepts_fields: bool,
    ) -> None:
        """hidden_rounds: None keeps nothing. sendable: a message without members that the upstream's lane refuses.

        accepts_fields: whether the model takes the provider fields of its messages.
        """
        self.request = request
        self._toolbox = toolbox
        self._hidden_rounds = hidden_rounds
        self._key = key
        self._sendable = sendable
        self._accepts_fields = accepts_fields
        self.field_names: set[str] = set()  # of the provider fields that an error may refuse
        self.flattened = False  # the messages of earlier questions are texts
        self.hidden: list[bytes] = []  # messages of this question
        self.earlier = self._taken(toolbox.conversation.hidden)  # messages of earlier questions
        # An error may refuse calls or thoughts of another model, which the client asked before.
        self.may_flatten = (
            toolbox.tool_protocol == "native"
            and any('"role":"tool"' in one.messages for one in self.earlier)
            and not any(one.get("tool_calls") or one.get("role") == "tool" for one in request.fields["messages"])
        )
        self._note_fields()

    def parts(self, *, last: bool) -> tuple[Sequence[Edit], str]:
        """As `request_parts`."""
        return request_parts(self._toolbox, self.request, self.earlier, self.hidden, last=last)

    def add(self, turn: ModelTurn, results: Sequence[str]) -> None:
        """Add the model's message, and the results of its calls."""
        rows = _result_rows(turn.calls, results)
        self.hidden += map(json_bytes, [self._message(turn), *rows])
        self.may_flatten = False
        self._mark()

    def add_calls(self, calls: Sequence[ToolCall], results: Sequence[str]) -> None:
        """Add calls that the gateway made by itself, and their results."""
        functions = [{"name": one.name, "arguments": one.arguments} for one in calls]
        rows = [
            {"id": one.id, "type": "function", "function": each} for one, each in zip(calls, functions, strict=True)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": rows}
        self.hidden += map(json_bytes, [self._sendable(message), *_result_rows(calls, results)])
        self.may_flatten = False
        self._mark()

    def resume(self, results: Sequence[str]) -> None:
        """Add the results of the calls that waited for the client's results."""
        conversation = self._toolbox.conversation
        messages = result_messages(self.waiting, results)
        self.earlier = self._taken(resumed(conversation, self.request.fields["messages"], messages))
        self._note_fields()
        # The calls wait no more, even if a bridge repeats the request without a member that the upstream refuses.
        self._toolbox.conversation = Conversation(self.earlier, conversation.tools)

    @property
    def waiting(self) -> list[ToolCall]:
        """The gateway's calls that waited for the client's results."""
        waiting = self._toolbox.conversation.waiting
        return [ToolCall(one.id, one.name, one.arguments) for one in waiting if one.owned]

    def flatten(self) -> bool:
        """Write the messages of earlier questions as texts, from now on; returns whether this changes something."""
        if not self.may_flatten:
            return False
        self.earlier = tuple(as_plain_text(one) for one in self.earlier)
        self.may_flatten, self.flattened = False, True
        return True

    def drop_fields(self) -> None:
        """Write the messages without provider fields, from now on."""
        self.field_names, self._accepts_fields = set(), False
        self.earlier = self._taken(self.earlier)
        self.hidden = [json_bytes(strip_provider_fields(json_of(one))) for one in self.hidden]

    def remember(self, text: str, turn: ModelTurn | None = None) -> None:
        """Keep hidden messages and tools for the next request, before the client has the reply's end.

        text: for the client. turn: None for a text of the gateway.
        """
        if self._hidden_rounds is None:
            return
        messages = self.request.fields["messages"]
        calls = [] if turn is None else turn.all_calls
        theirs = [call for call in calls if self._toolbox.owner(call.name) == "client"]
        hidden = self.earlier
        if self.hidden:
            hidden = (*hidden, HiddenMessages(len(messages), b",".join(self.hidden).decode()))
        mixed = 0 < len(theirs) < len(calls)
        if mixed:
            self._mark()
        functions = [{"id": one.id, "function": {"name": one.name, "arguments": one.arguments}} for one in theirs]
        visible = {"role": "assistant", "content": text, "tool_calls": functions}
        waiting = [WaitingCall(one.id, one.name, one.arguments, one not in theirs) for one in calls] if mixed else ()
        tools = tuple((name, *one.origin) for name, one in self._toolbox.tools.items())
        message = ""
        if turn is not None and (mixed or (self.hidden and turn.provider_fields.message)):
            message = json_bytes(self._message(turn)).decode()
        if message and not mixed:
            # Of all rounds of a question, the model gets the message with the members that the model sent. The client
            # has the texts and the thoughts of all rounds as one reply, or has no thoughts.
            hidden = (*hidden, HiddenMessages(len(messages), message, replaces=True))
        conversation = Conversation(hidden, tools, tuple(waiting), message if mixed else "")
        self._hidden_rounds.keep(self._key, [*messages, visible], conversation)

    def private_sets(
        self,
        private: Collection[str],
        sets: Sequence[str],
        messages: Sequence[ConversationMessage],
        *,
        forgotten: bool,
    ) -> set[str]:
        """The private sets of which the conversation has results, or may have: not all rounds are known."""
        if not private:
            return set()
        known = self._toolbox.conversation.private_results(private)
        replies = any(message.role == "assistant" for message in messages)
        unknown = forgotten or (replies and self._hidden_rounds is None)
        return known | (set(sets) & set(private) if unknown else set())

    def known_texts(self, messages: Sequence[ConversationMessage]) -> list[str]:
        """The texts in which a call's value may stand; of earlier questions, only the results."""
        said = (message.text for message in messages)
        hidden = (row["content"] for one in self.earlier for row in one.rows() if row["role"] != "assistant")
        return [*map(without_marks, [*said, *hidden])]

    def results(self) -> list[str]:
        """The results of earlier questions."""
        return [row["content"] for one in self.earlier for row in one.rows() if row["role"] == "tool"]

    def call_ids(self) -> list[str]:
        """The ids of all calls of earlier questions."""
        rows = [*self.request.fields["messages"], *(row for one in self.earlier for row in one.rows())]
        return [str(call.get("id")) for row in rows for call in row.get("tool_calls") or () if isinstance(call, dict)]

    def _message(self, turn: ModelTurn) -> Json:
        """The model's message with all calls, as the model sent it."""
        calls = []
        for number, call in enumerate(turn.all_calls):
            fields = turn.provider_fields.call(number)
            kind = "custom" if call.custom else "function"
            given = {"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"}
            called = {"name": call.name, **given, **fields.pop("function", {})}
            calls.append({"id": call.id, "type": kind, kind: called, **fields})
        message = {"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})}
        message |= turn.provider_fields.message
        if not self._accepts_fields:
            return strip_provider_fields(message)
        self.field_names |= provider_field_names(message)
        return self._sendable(message)

    def _mark(self) -> None:
        """Note that the conversation has messages that the client does not see, even if it leaves now."""
        if self._hidden_rounds is not None:
            self._hidden_rounds.mark(self._key, self.request.fields["messages"])

    def _note_fields(self) -> None:
        if self._accepts_fields and not self.may_flatten:
            self.field_names.update(*(provider_field_names(row) for one in self.earlier for row in one.rows()))

    def _taken(self, hidden: Sequence[HiddenMessages]) -> tuple[HiddenMessages, ...]:
        """The messages without provider fields, if the model refuses them."""
        if self._accepts_fields:
            return tuple(hidden)
        return tuple(one.with_rows(map(strip_provider_fields, one.rows())) for one in hidden)


def result_messages(calls: Sequence[ToolCall], results: Sequence[str]) -> dict[str, bytes]:
    """Id of each call -> the message with the result."""
    return {row["tool_call_id"]: json_bytes(row) for row in _result_rows(calls, results)}


def _result_rows(calls: Sequence[ToolCall], results: Sequence[str]) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, results, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ModelApi:
    """How the model is reached."""

    app: App
    body: Callable[..., bytes]  # (edits, instructions="") -> a request's bytes
    meter: CallMeter
    sendable: Callable[[Json], Json] = dict  # a model message without members that its lane refuses


class ChatModel:
    """Asks the model, and passes its replies on to the client."""

    def __init__(
        self,
        api: ModelApi,
        toolbox: Toolbox,
        transcript: Transcript,
        exchange: Exchange,
        protocols: ToolProtocols,
        stands: Stands,
    ) -> None:
        """stands: as in `written_calls`."""
        assert exchange.target is not None, "the route sets the target"
        self._api = api
        self._toolbox = toolbox
        self._transcript = transcript
        self._exchange = exchange
        self._target: Target = exchange.target
        self._trace = exchange.action_trace or ActionTrace()
        self._protocols = protocols
        self._stands = stands
        self._raw, fields = transcript.request.raw, transcript.request.fields
        self._client_tools = len(fields.get("tools") or ())
        self.instead = ""  # of an error: what the gateway says of calls that were made; "": nothing
        self._dropped = False  # an error named provider fields; unproven until the model goes on without them
        self._refused: list[ToolProtocol] = []  # named by errors; unproven until the model goes on in another form

    async def ask(self, scope: Scope, receive: Receive, client: ClientReply, *, last: bool) -> ModelTurn:
        """Ask, then ask again in other forms while the model refuses the request's form.

        last: the model must answer. Raises ApiError if the first request fails.
        """
        turn = await self._ask_once(scope, receive, client, last=last)
        while turn.refuses_protocol and self._asks_again(turn):
            turn = await self._ask_once(scope, receive, client, last=last)
        if turn.refuses_protocol and (client.started or self._transcript.hidden):  # it took tools in an earlier round
            await self._end(turn, client)
        turn.takes_no_tools = turn.refuses_protocol and not client.started
        if turn.complete:
            for operation in self._toolbox.left_out:
                self._protocols.refuse(self._target, operation)
            for protocol in self._refused:
                self._protocols.learn(self._target, protocol, refused=True)
            if self._dropped:
                self._protocols.refuse_provider_fields(self._target)
            self._refused, self._dropped = [], False
        return turn

    async def _ask_once(self, scope: Scope, receive: Receive, client: ClientReply, *, last: bool) -> ModelTurn:
        """One request's reply, passed on. If it has no gateway calls, the client gets its end. Raises ApiError."""
        exchange, first, protocol = self._exchange, not self._transcript.hidden, self._toolbox.tool_protocol
        exchange.body = await by_size(self._raw, lambda: self._api.body(*self._transcript.parts(last=last)))
        began = time.perf_counter()
        traced = ModelRound((began - exchange.started) * 1000, tool_protocol=protocol)
        turn = ModelTurn(
            self._toolbox,
            client.envelope,
            self._refusals(),
            protocol=None if protocol == "native" else ProtocolReader(self._toolbox.claims, self._stands),
            stands=self._stands,
            by_tools=self.calls_by_tools,
        )

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                turn.begin(message)
                if turn.readable and not client.started:  # some upstreams answer one round whole and stream another
                    client.start = message
                return
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if turn.passed or not (turn.readable or turn.may_refuse or client.started or self.instead):
                turn.passed = True
                await client.begin(turn.start)
                await client.body(chunk, more=more)
            elif (events := turn.read(chunk, more=more)) and (body := self._frames(turn, events, client)):
                await client.body(body, more=True)

        try:
            asking = self._api.meter(partial(self._read, turn, traced, client), scope, receive, take)
            client.next_round()
            await (asking if first and not self._toolbox.structured_output else client.kept_alive(asking))
        except ApiError as error:
            exchange.error = error.log_text
            if first and not client.started:
                raise
            turn.goes_on = False
            await self._fail(client, error)
        finally:
            traced.duration_ms = (time.perf_counter() - began) * 1000
            traced.finish, traced.calls = turn.finish, len(turn.calls)
            client.add_usage(traced.tokens, turn.usage)
        return turn

    async def _read(
        self, turn: ModelTurn, traced: ModelRound, client: ClientReply, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The upstream of one request: the reply is read to its end, which passes on, and its tokens are counted."""
        exchange, body = self._exchange, self._exchange.body or b""
        self._trace.rounds.append(traced)
        try:
            await self._api.app(scope, receive, send)
            if not turn.refuses_protocol:
                await self._end(turn, client)  # a whole reply is read here, before its tokens are counted
                turn.goes_on = turn.goes_on and turn.ended  # broken off after [DONE]: make no call
        finally:
            traced.tokens = tokens = turn.tokens(body)
            if turn.readable:
                exchange.tokens = tokens if exchange.tokens is None else exchange.tokens.plus(tokens)

    def _frames(self, turn: ModelTurn, events: Iterable[Event], client: ClientReply) -> bytes:
        """Client events as frames. Before the last ones, the conversation is stored."""
        body = b"".join(map(client.frame, events))
        if turn.is_read and not turn.goes_on and not client.ended:
            self._transcript.remember(client.text, turn)
            client.ended = True
        return body

    async def _end(self, turn: ModelTurn, client: ClientReply) -> None:
        """Pass on what is left of a reply: its end, or words before a call. Raises ApiError."""
        if turn.passed:
            return
        if not turn.readable and (client.started or self.instead):
            words, _ = read_error(turn.body)
            message = f"The model answered a later request with status {turn.start['status']}: {words}"
            await self._fail(client, upstream_error(502, message, "upstream_error"))
        elif not turn.readable:
            await client.begin(turn.start)
            await client.body(turn.body, more=False)
        elif not turn.ended and not client.started:
            raise upstream_error(502, "The upstream closed the connection before the reply.", "upstream_closed")
        elif turn.ended and (turn.streamed or client.started):
            body = b"" if turn.streamed else self._frames(turn, turn.whole_as_stream(), client)
            body += self._frames(turn, turn.rest(), client)
            if body or not turn.goes_on:
                await client.body(body, more=turn.goes_on)
        elif turn.ended:
            await self._end_whole(turn, client)

    async def _fail(self, client: ClientReply, error: ApiError) -> None:
        """End the reply with an error, or with the text that the gateway has instead."""
        if not self.instead or client.ended:
            await client.fail(error)
            return
        text, self.instead = self.instead, ""
        self._transcript.remember(client.text + text)
        await client.say(text)

    async def _end_whole(self, turn: ModelTurn, client: ClientReply) -> None:
        reply = turn.whole()
        if turn.goes_on:
            if not self._toolbox.structured_output:  # text before a call is not part of structured output
                client.keep(turn.text or "")
            return
        body = client.whole(reply, turn.text or "")
        self._transcript.remember(client.text, turn)
        await client.begin(turn.start, None if body is reply.raw else len(body))
        await client.body(body, more=False)

    async def ask_without_tools(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask as if nothing were offered; the reply passes straight to the client."""

        async def look(message: Message) -> None:
            # Learn before the client has the end, because it may ask again. Without an answer, the refusal may be about
            # its schema.
            if message.get("status") == 200 and self._toolbox.structured_output and not self._client_tools:
                self._protocols.learn(self._target, self._toolbox.tool_protocol, refused=True, structured_output=True)
            await send(message)

        self._trace.offer = "model refuses tools"
        self._trace.forgotten = self._trace.forgotten or self._transcript.earlier != ()
        self._exchange.body = await by_size(self._raw, lambda: self._api.body([]))
        await self._api.meter(self._api.app, scope, receive, look)

    def learn(self, turn: ModelTurn) -> None:
        """Learn from a reply with calls whether this model makes calls by tools."""
        if self._toolbox.tool_protocol != "native":
            return
        if not turn.written:
            self._protocols.note_call_by_tools(self._target)
        elif not turn.leaked and not self._transcript.hidden and not self._transcript.flattened:
            self._lower(refused=False)

    def calls_by_tools(self) -> bool:
        """Whether this model has made a call by tools, in this chat or another."""
        ids = self._transcript.call_ids()
        return self._protocols.calls_by_tools(self._target) or any(not is_own_id(id) for id in ids)

    def _asks_again(self, turn: ModelTurn) -> bool:
        """Change the form after an error that refuses it; returns whether to ask again.

        An error about one function teaches nothing about the model: leave that operation out.
        """
        if self._toolbox.tool_protocol == "native":
            name = refused_function(turn.body, list(self._toolbox.tools), self._client_tools)
            if operation := self._toolbox.leave_out(name):
                self._trace.left_out.append(operation)
                return True
        if self._transcript.flatten():
            return True
        self._dropped = turn.names(self._field_words())
        if self._dropped:
            self._transcript.drop_fields()
            return True
        return self._lower(refused=True) != "none"

    def _lower(self, *, refused: bool) -> ToolProtocol:
        """Move to the next protocol; beside client tools or structured output, there is none.

        Beside client tools, an error teaches nothing about the model: there may be too many tools. Other errors teach
        something only once the model goes on: the client's messages may be wrong, or too long.
        """
        if self._toolbox.structured_output or self._client_tools:
            return "none" if refused else self._toolbox.tool_protocol
        if refused:
            self._refused.append(self._toolbox.tool_protocol)
        else:
            self._protocols.learn(self._target, self._toolbox.tool_protocol, refused=False)
        self._toolbox.tool_protocol = self._protocols.after(self._target, self._toolbox.tool_protocol, refused=refused)
        return self._toolbox.tool_protocol

    def _refusals(self) -> Sequence[bytes]:
        """Words that show that an error refuses the request's form."""
        native = self._toolbox.tool_protocol == "native"
        any_error = [b""] if self._transcript.may_flatten else []
        functions = [name.lower().encode() for name in self._toolbox.tools] if native else []
        words = FORM_REFUSED if self._toolbox.structured_output else TOOLS_REFUSED if native else ()
        return [*any_error, *self._field_words(), *functions, *words]

    def _field_words(self) -> Sequence[bytes]:
        return [name.lower().encode() for name in self._transcript.field_names]
