"""One round's model reply: upstream bytes come in, client events come out.

Gateway calls never come out. Until one begins, events come out as they came in. A turn sends nothing itself.
"""

import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from proxy.agent.ask.protocol_replies import ProtocolReader
from proxy.agent.events import Envelope, Event, Json
from proxy.agent.text_calls.written_calls import Stands, last_lines, names_call, stands_nowhere, written_call
from proxy.agent.toolbox import Toolbox
from proxy.asgi import Message
from proxy.dialects import sse
from proxy.dialects.deviations import ProviderFields, numbered_calls
from proxy.dialects.errors import upstream_error
from proxy.dialects.replies import (
    ChatReplyReader,
    Tokens,
    ToolCall,
    announces_stream,
    called_tool,
    json_bytes,
    json_of,
    tool_name,
)

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
        self.all_calls = self.calls = [replace(found.call, id=id)]
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
