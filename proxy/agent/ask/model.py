"""One chat's model: asked in the form that it takes, metered and traced. Its replies pass on as events.

A turn is one round's reply: upstream bytes come in, client events come out. Gateway calls never come out. Until one
begins, events come out as they came in.

An error may refuse all tools, a single function, another model's messages, or provider fields such as thoughts. The
model is then asked again in another form, and the process learns it once the model goes on.
"""

import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from proxy.agent.ask.protocol_replies import ProtocolReader
from proxy.agent.ask.tool_protocols import FORM_REFUSED, TOOLS_REFUSED, ToolProtocols, refused_function
from proxy.agent.ask.transcript import Transcript
from proxy.agent.events import ClientReply, Envelope, Event, Json
from proxy.agent.text_calls.quotes import BLOCK_MARK
from proxy.agent.text_calls.written_calls import (
    Stands,
    last_lines,
    names_call,
    stands_nowhere,
    written_call,
)
from proxy.agent.toolbox import Toolbox
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.dialects import sse
from proxy.dialects.deviations import ProviderFields, numbered_calls
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.json_body import by_size
from proxy.dialects.replies import (
    ChatReplyReader,
    Tokens,
    ToolCall,
    announces_stream,
    called_tool,
    json_bytes,
    json_of,
    read_error,
    tool_name,
)
from proxy.dialects.target import Target, ToolProtocol
from proxy.exchange import ActionTrace, CallMeter, Exchange, ModelRound

_MOST_FINISH_CHARS = 50
_FAULT = 500  # also llama.cpp's status for tools without --jinja
_REFUSALS = (400, 404, 422, _FAULT, 501)  # upstream statuses for a model without tools
_OWN_ID = "call_"
_OWN_IDS = re.compile(rf"{_OWN_ID}[0-9a-f]{{16}}(?:_\d+)?|")
_FAILED_CALL = b'"failed_generation"'  # in Groq's error for a call that it cannot read
_NOTHING_READ = ChatReplyReader(streamed=True)
_NO_TOKENS = Tokens(0, 0)


def is_own_id(id: str) -> bool:
    """Whether a call id is the gateway's: the call came without an id, or as text."""
    return _OWN_IDS.fullmatch(id) is not None


class ModelTurn:
    """A model reply, read as it comes. Its facts are complete once `is_read`."""

    def __init__(
        self,
        toolbox: Toolbox,
        envelope: Envelope,
        refusals: Sequence[bytes] = (),
        *,
        protocol: ProtocolReader | None = None,
        stands: Stands = stands_nowhere,
        by_tools: Callable[[], bool] = lambda: False,
    ) -> None:
        """refusals: an error with one of these words refuses how the model was asked for calls.

        protocol: reads a model that writes calls as text. stands: as in `written_calls`. by_tools: whether the model
        calls by tools, so that its plain texts are not calls.
        """
        self._toolbox = toolbox
        self._envelope = envelope
        self._refusals = refusals
        self._protocol = protocol
        self._names_call = partial(toolbox.claims, made_up=True)
        self._stands = stands
        self._by_tools = by_tools
        # The reply.
        self.start: Message = {}  # the head
        self.readable = True  # no error, and no encoding but identity
        self.streamed = False
        self.ended = False  # whole body received
        self.complete = False  # read to its end
        self.usage: Json = {}  # as the upstream reports it; some repeat it in each event
        self.passed = False  # passed through unread
        self.may_refuse = False  # an error, which may refuse how the model was asked for calls
        self.refuses_protocol = False  # it does
        self.takes_no_tools = False  # the model refuses tools in every form
        self._pieces: list[bytes] = []  # an error's body, or a whole reply's
        self._reader = _NOTHING_READ  # until the head comes
        self._tokens: Tokens | None = None  # of the whole reply
        # The calls.
        self.is_read = False
        self.all_calls: list[ToolCall] = []
        self.calls: list[ToolCall] = []  # gateway calls
        self.goes_on = False  # all calls are the gateway's, so the client's reply does not end here
        self.cut = False  # `max_tokens` cut off a gateway call
        self.text: str | None = None
        self.written = False  # the call came as text
        self.block = False  # as a code block, which says nothing of how the model makes other calls
        self.leaked = False  # as text in template marks, though the model calls by tools
        self._owners = _Owners(toolbox)
        # Events wait before the first text or call, while a call has no name, and while text may become a call.
        self._held: list[Event] = []
        self._open = False  # events pass
        self._over = False  # [DONE] has come; what follows waits for the end
        self._texted = False  # some answer text has passed
        self._lines = ""  # newest answer lines, if they may become a call
        self.provider_fields = ProviderFields()

    def begin(self, start: Message) -> None:
        """Take the reply's head."""
        self.start, status, headers = start, start["status"], dict(start.get("headers", ()))
        self.readable = status == 200 and headers.get(b"content-encoding", b"identity") == b"identity"
        self.may_refuse = status in _REFUSALS and bool(self._refusals)
        self.streamed = announces_stream(headers.items())
        if self.streamed:
            self._frames = sse.FrameSplitter()
        self._reader = ChatReplyReader(streamed=self.streamed, max_bytes=sys.maxsize)

    def read(self, chunk: bytes, *, more: bool) -> Iterable[Event]:
        """Client events after one more piece of body; none while a whole reply or an error comes."""
        self.ended, self.complete = not more, self.readable and not more
        if self.readable and self.streamed:
            return self._events(self._frames.whole(chunk) if more else self._frames.last(chunk), more=more)
        self._pieces.append(chunk)
        self.refuses_protocol = self.ended and self.may_refuse and self._refuses_protocol()
        return ()

    def _events(self, frames: Sequence[bytes], *, more: bool) -> Iterator[Event]:
        events: Iterable[Event] = map(Event.of, frames)
        for event in events if self._protocol is None else self._protocol.read(events, more=more):
            yield from self._pass(event)

    def rest(self) -> Iterator[Event]:
        """Last client events, once a stream has ended."""
        yield from self._last()
        if not self.goes_on:
            yield from self._released()

    def whole(self) -> Event:
        """The client's version of a reply that came whole."""
        event = Event(body := self.body, json_of(body))
        reply = event.body or {}
        if self._protocol is not None:
            self._protocol.read_whole(event)
        self._envelope.see(reply)
        self._reader.read_event(reply)
        text, calls = self._reader.answer, self._reader.tool_calls
        self._read_lines(text)
        self._take_calls(text, calls)
        self.usage = event.usage or self.usage
        message = event.choice.get("message")
        message = message if isinstance(message, dict) else {}
        self.provider_fields.read(message, self._reader.call_numbers)
        if self.calls and not self.goes_on:
            message["tool_calls"] = [one for one in message["tool_calls"] if not self._owners.is_ours(tool_name(one))]
            event.changed = True
        self.is_read = True
        return event

    def whole_as_stream(self) -> Iterator[Event]:
        """Client events for a reply or error that came whole after a stream had begun. Raises ApiError."""
        event = Event(body := self.body, json_of(body))
        if event.body is None:
            raise upstream_error(502, "The upstream sent a reply that is not a JSON object.", "upstream_garbled")
        if self._protocol is not None:
            self._protocol.read_whole(event)
        self._reader = ChatReplyReader(streamed=True, max_bytes=sys.maxsize)
        if isinstance(message := event.choice.pop("message", None), dict):
            for index, call in numbered_calls(message, range(sys.maxsize)):
                call["index"] = index
            event.choice["delta"] = message
            event.body["object"] = "chat.completion.chunk"
        yield from self._pass(Event(sse.frame(json_bytes(event.body)), event.body))
        yield from self._pass(Event.of(sse.DONE))

    @property
    def body(self) -> bytes:
        """An error's body, or a whole reply's."""
        return b"".join(self._pieces)

    @property
    def finish(self) -> str:
        """The model's finish_reason; "": none, or not read."""
        return (self._reader.finish_reason or "")[:_MOST_FINISH_CHARS].encode("utf-8", "replace").decode()

    def _refuses_protocol(self) -> bool:
        if self.names([_FAILED_CALL]):
            return False
        return self.names(word for word in self._refusals if word or self.start["status"] != _FAULT)

    def names(self, words: Iterable[bytes]) -> bool:
        """Whether the error has one of these lower-case words."""
        error = self.body.lower()
        return any(word in error for word in words)

    def tokens(self, request: bytes) -> Tokens:
        """Tokens of this round. request: its body, for an estimate."""
        if not self.readable or not self.start:
            return _NO_TOKENS
        if self._tokens is None or not self.ended:
            self._tokens = self._reader.tokens(request)
        return self._tokens

    def _pass(self, event: Event) -> Iterator[Event]:
        """Client events after one more model event."""
        if event.body is not None:
            self._envelope.see(event.body)
            self.usage = event.usage or self.usage
            self._reader.read_event(event.body)
            event.numbers = self._reader.call_numbers
            self._read_lines(event.delta.get("content"))
            self.provider_fields.read(event.delta, event.numbers)
            if event.numbers:
                self._owners.note(event)
        self._over = self._over or event.is_done
        if self._over or self._waits(event):
            if event.is_comment and not self._held:  # keeps the connection alive
                yield event
            else:
                self._held.append(event)
            if event.is_done:  # some upstreams end the body later
                yield from self._last()
            return
        shown = self._owners.without_ours(event)
        if shown is None and not self._texted and not self._holds_text:
            return
        self._open, self._texted = True, self._texted or bool(self._reader.answer)
        yield from self._released()
        if shown is not None:
            yield shown

    def _last(self) -> Iterator[Event]:
        """Take a stream's calls, once; yields held events, or only held words before a written call."""
        if self.is_read:
            return
        self._reader.close()
        self._take_calls(self._reader.answer, self._reader.tool_calls)
        if self.goes_on:
            yield from self._words() if self.written and not self._toolbox.structured_output else ()
        else:
            self._owners.end_names()
            yield from self._released()
        self.is_read = True

    def _take_calls(self, text: str | None, calls: Sequence[ToolCall]) -> None:
        self.text = text
        calls = [replace(one, name=self._toolbox.name_here(one.name)) for one in calls]
        ours = [self._owners.is_ours(one.name) for one in calls]
        own_id = f"{_OWN_ID}{secrets.token_hex(8)}"  # for a call without an id of its own; no two rounds share ids
        ids = {one.id for one, our in zip(calls, ours, strict=True) if not our}  # ids that the client has
        for number, (one, our) in enumerate(zip(calls, ours, strict=True)):
            taken = our and (not one.id or one.id in ids)  # a client call stays as sent
            self.all_calls.append(replace(one, id=f"{own_id}_{number}") if taken else one)
            ids.add(one.id)
        self.calls = [one for one, our in zip(self.all_calls, ours, strict=True) if our]
        if not calls:
            self._take_written(own_id)
        self.goes_on = bool(self.calls) and len(self.calls) == len(self.all_calls)
        if self.calls and not self.written and self._toolbox.tool_protocol == "native" and self.finish == "length":
            self.cut = not isinstance(json_of(self.all_calls[-1].arguments.encode("utf-8", "replace")), dict)

    def _take_written(self, id: str) -> None:
        """Take a call that the model wrote as text, with this id."""
        if self._lines == ".":
            return
        before = (self.text or "").removesuffix(self._lines)
        found = written_call(self._lines, before, self._names_call, self._stands)
        if found is None or ((by_tools := self._by_tools()) and not found.template):
            return
        self.block = found.call.name.startswith(BLOCK_MARK)
        self.all_calls = self.calls = [replace(found.call, id=id, name=self._toolbox.name_here(found.call.name))]
        self.text, self.written, self.leaked = before or None, True, by_tools

    def _read_lines(self, text: object) -> None:
        """Read another piece of the answer."""
        if isinstance(text, str):
            self._lines = last_lines(self._lines + text, self._names_call, partial(self._names_call, begun=True))

    def _words(self) -> Iterator[Event]:
        """Held words before a written call, in one event."""
        held = [one for one in self._held if isinstance(one.delta.get("content"), str)]
        words = "".join(one.delta["content"] for one in held).removesuffix(self._lines)
        if words.strip():
            held[0].delta["content"] = words
            held[0].changed = True
            yield held[0]

    def _waits(self, event: Event) -> bool:
        """Whether an event must wait: the client gets it later, or never."""
        if (
            self._owners.nameless or self._toolbox.structured_output
        ):  # text before a call is not part of structured output
            return True
        if not self._open and (event.body is None or event.is_prelude):
            return True
        return self._may_be_written  # also after thoughts

    def _released(self) -> Iterator[Event]:
        """The held events."""
        held, self._held = self._held, []
        for each in held:
            shown = each if each.body is None or each.is_prelude else self._owners.without_ours(each)
            if shown is not None:
                yield shown

    @property
    def _holds_text(self) -> bool:
        """Whether the answer so far is text for the client and not a written call."""
        text = self._reader.answer or ""
        return text.strip() != "" and not names_call(text)

    @property
    def _may_be_written(self) -> bool:
        """Whether the newest lines may be a written call."""
        if self._owners.known or self._lines == ".":
            return False
        return self._lines.strip() != "" or (not self._texted and self._lines != "")


class _Owners:
    """Who makes each call in a stream: its name may come late, or in pieces."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._names: dict[int, str] = {}  # call number -> name so far
        self._ours: dict[int, bool] = {}  # call number, once its name is whole -> whether the gateway makes it
        self.nameless: set[int] = set()  # calls whose names have not come, or may go on

    @property
    def known(self) -> bool:
        """Whether a call has begun."""
        return bool(self._ours)

    def is_ours(self, name: str) -> bool:
        """Whether the gateway makes calls of this name."""
        return self._toolbox.owner(name) != "client"

    def note(self, event: Event) -> None:
        """Note who makes the calls that begin here."""
        for number, call in event.calls():
            if number in self._ours or number < 0:
                continue
            called, piece = called_tool(call) or {}, tool_name(call)
            known = self._names.get(number, "")
            name = self._names[number] = piece if piece.startswith(known) else known + piece
            if name and (called.get("arguments") or called.get("input") or not self._toolbox.may_go_on(name)):
                self._ours[number] = self.is_ours(name)
                self.nameless.discard(number)
            else:
                self.nameless.add(number)

    def end_names(self) -> None:
        """Note that no name goes on. A call without a name is the gateway's."""
        names = ((number, self._names[number]) for number in self.nameless)
        self._ours |= {number: name == "" or self.is_ours(name) for number, name in names}

    def without_ours(self, event: Event) -> Event | None:
        """The event without gateway calls; None: nothing is left for the client."""
        if not any(self._ours.values()):
            return event
        if event.body is None:
            return event if event.is_comment or not all(self._ours.values()) else None
        theirs = sorted(number for number, ours in self._ours.items() if not ours)
        delta = event.delta
        calls = [{**call, "index": theirs.index(number)} for number, call in event.calls() if number in theirs]
        delta.pop("tool_calls", None)
        if calls:
            delta["tool_calls"] = calls
        if not theirs and event.finish is not None:
            event.choice["finish_reason"] = None
        left = calls or event.finish is not None or event.says
        event.changed = True
        return event if left or (theirs and not event.body.get("choices")) else None


# --- requests and their replies ---------------------------------------------------------------------------------------


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
        exchange.body = await by_size(self._raw, partial(self._transcript.body, self._api.body, last=last))
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
            traced.finish, traced.calls = turn.finish, len(turn.calls)
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
        elif not (turn.leaked or turn.block or self._transcript.hidden or self._transcript.flattened):
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
