"""The model's reply of a round, read as it passes.

Gateway calls never reach the client. Until such a call begins, a reply passes byte for byte.
"""

import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from proxy.agent.client_reply import NOTHING, ClientReply, Json, ReplyHead, delta_of, finish_of, first_choice
from proxy.agent.text_calls.written_calls import Stands, last_lines, names_call, stands_nowhere, written_call
from proxy.agent.toolbox import Toolbox
from proxy.asgi import Message
from proxy.dialects import sse
from proxy.dialects.chat_reply import ChatReplyReader
from proxy.dialects.errors import upstream_error
from proxy.dialects.provider_fields import ProviderFields, numbered_calls
from proxy.dialects.replies import ToolCall, called_tool, json_bytes, json_of, read_error, tool_name
from proxy.dialects.token_counts import Tokens

_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_DONE = b"[DONE]"
_MOST_FINISH_CHARS = 50
_FAULT = 500  # also llama.cpp's status for tools without --jinja
_REFUSALS = (400, 404, 422, _FAULT, 501)  # statuses of upstreams for a model without tools
_OWN_ID = "call_"
_OWN_IDS = re.compile(rf"{_OWN_ID}[0-9a-f]{{16}}(?:_\d+)?|")
_FAILED_CALL = b'"failed_generation"'  # in Groq's error for a call that the server cannot read


class _Frame(NamedTuple):
    """A frame of a stream."""

    raw: bytes
    event: Json | None
    numbers: Sequence[int] = ()  # of the call of each piece
    changed: bool = False

    def calls(self) -> Iterator[tuple[int, Json]]:
        """The number and the piece of each call."""
        return numbered_calls(delta_of(self.event or {}), self.numbers)


def is_own_id(id: str) -> bool:
    """Whether an id of a call is the gateway's: of a call that came without an id, or as text."""
    return _OWN_IDS.fullmatch(id) is not None


def _nothing() -> None:
    """For a reply that no later request continues."""


class ModelReply:
    """The model's reply of a round: text and client calls pass, gateway calls stay."""

    def __init__(
        self,
        client: ClientReply,
        toolbox: Toolbox,
        refusals: Sequence[bytes] = (),
        *,
        before_end: Callable[[], None] = _nothing,
        stands: Stands = stands_nowhere,
        by_tools: bool = False,
    ) -> None:
        """refusals: an error with one of these words refuses the way in which the model was asked for calls.

        stands: as in `written_calls`. by_tools: the model makes calls by tools, so its texts make none.

        before_end: called once the reply is read, before the client gets the end: a program may ask again at once.
        """
        self._client = client
        self._refusals = refusals
        self._before_end = before_end
        self._toolbox = toolbox
        self._names_call = partial(toolbox.claims, made_up=True)
        self._stands = stands
        self._by_tools = by_tools
        self._start: Message = {}
        self._streamed = False
        self._refused = False  # an error, or a reply in another encoding than identity
        self._frames = sse.FrameSplitter()
        self._pieces: list[bytes] = []
        self._reader = ChatReplyReader(streamed=True)  # replaced at the head of the reply
        self._ended = False
        self._passes = False  # the reply is not read
        self._open = False  # frames pass
        self._over = False  # [DONE] has come; what follows waits for the end
        self._read = False  # all calls are known
        self._texted = False  # a text of the answer has passed
        self._lines = ""  # of the answer, that may become a call
        # Before the first text or call; and pieces of a call whose name has not come.
        self._held: list[_Frame] = []
        self._nameless: set[int] = set()  # numbers of calls whose name has not come, or may go on
        self._names: dict[int, str] = {}  # number of each call -> the name so far: some servers write names in pieces
        self._owned: dict[int, bool] = {}  # number of each call with a name -> whether the gateway makes the call
        self.all_calls: list[ToolCall] = []
        self.calls: list[ToolCall] = []  # of the gateway's tools
        self.text: str | None = None
        self.provider_fields = ProviderFields()
        self.foreign = False  # whether the client's tools are called, too
        self.written = False  # the call came as text
        self.leaked = False  # as text in the marks of a template, of a model that makes calls by tools
        self.usage: Json = {}  # as the upstream reports; some upstreams repeat the usage in each event

    async def send(self, message: Message) -> None:
        """Take one message of the upstream."""
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        more = message.get("more_body", False)
        self._ended = not more
        chunk = message.get("body", b"")
        if self._passes or (self._refused and not self._client.started and not self._may_refuse_way):
            self._passes = True
            await self._client.begin(self._start)
            await self._client.body(chunk, more=more)
        elif self._refused or not self._streamed:
            self._pieces.append(chunk)
        else:
            frames = self._frames.whole(chunk) if more else self._frames.last(chunk)
            if sent := b"".join(part for frame in frames for part in self._passed(frame)):
                await self._client.body(sent, more=True)

    def _begin(self, message: Message) -> None:
        self._start = message
        readable, self._streamed = ReplyHead.of(message)
        self._refused = not readable
        self._reader = ChatReplyReader(streamed=self._streamed, max_bytes=sys.maxsize)
        if not self._refused and not self._client.started:  # some upstreams answer one round whole, and stream another
            self._client.start = message

    async def end(self, id: str) -> bool:
        """Whether the gateway has calls to make; else the reply to the client is ended.

        Raises ApiError where no part of a reply was sent.
        """
        if self._passes:
            return False
        if self._refused and not self._client.started:
            await self._client.begin(self._start)
            await self._client.body(b"".join(self._pieces), more=False)
            return False
        if self._refused:
            words, _ = read_error(b"".join(self._pieces))
            message = f"The model answered a later request with status {self._start['status']}: {words}"
            await self._client.fail(upstream_error(502, message, "upstream_error"), id)
            return False
        if not self._ended:
            if not self._client.started:
                raise upstream_error(502, "The upstream closed the connection before the reply.", "upstream_closed")
            return False
        if not self._streamed and not self._client.started:
            return await self._end_whole()
        if not self._streamed:
            await self._continue_whole()
        rest = self._last()
        if self.calls and not self.foreign:
            if rest:
                await self._client.body(rest, more=True)
            return True
        await self._client.body(rest + b"".join(self._released()), more=False)
        return False

    def _last(self) -> bytes:
        """Read the calls of a stream, once; returns the held frames, or the held words before a written call."""
        if self._read:
            return b""
        self._read = True
        self._reader.close()
        self._take_calls()
        if self.calls and not self.foreign:
            return self._words() if self.written and not self._toolbox.structured_output else b""
        names = ((number, self._names[number]) for number in self._nameless)
        self._owned |= {number: name == "" or self._is_ours(name) for number, name in names}
        rest = b"".join(self._released())
        self._before_end()
        self._client.ended = True
        return rest

    @property
    def complete(self) -> bool:
        """Whether the reply was read to the end."""
        return self._ended and not self.unread

    @property
    def unread(self) -> bool:
        """Whether the reply passed without a look."""
        return self._passes or self._refused

    @property
    def cut(self) -> bool:
        """Whether `max_tokens` cut off a gateway tool call."""
        if self.finish != "length" or self.written or self._toolbox.tool_protocol != "native" or not self.calls:
            return False
        return not isinstance(json_of(self.all_calls[-1].arguments.encode("utf-8", "replace")), dict)

    @property
    def finish(self) -> str:
        """The model's finish_reason; "": none, or not read."""
        return (self._reader.finish_reason or "")[:_MOST_FINISH_CHARS].encode("utf-8", "replace").decode()

    @property
    def refuses_protocol(self) -> bool:
        """Whether the upstream refused the way the model was asked for calls."""
        if not self._may_refuse_way or not self._ended or self.names([_FAILED_CALL]):
            return False
        return self.names(word for word in self._refusals if word or self._start["status"] != _FAULT)

    def names(self, words: Iterable[bytes]) -> bool:
        """Whether the error has one of the words, in small letters."""
        error = self.error.lower()
        return any(word in error for word in words)

    @property
    def error(self) -> bytes:
        """The body of a reply that was not read."""
        return b"".join(self._pieces)

    @property
    def _may_refuse_way(self) -> bool:
        return bool(self._refusals) and self._start.get("status") in _REFUSALS and not self._passes

    def tokens(self, request: bytes) -> Tokens:
        """The tokens of the round. request: the body, for an estimate."""
        if self._refused or not self._start:
            return NOTHING
        return self._reader.tokens(request)

    async def _end_whole(self) -> bool:
        body = b"".join(self._pieces)
        self._reader.feed(body)
        self._reader.close()
        self._read_lines(self._reader.answer)
        self._take_calls()
        read = json_of(body)
        reply: Json = read if isinstance(read, dict) else {}
        self._client.see(reply)
        self._read_usage(reply)
        message = first_choice(reply).get("message")
        self.provider_fields.read(message if isinstance(message, dict) else {}, self._reader.call_numbers)
        if self.calls and not self.foreign:
            if not self._toolbox.structured_output:  # a text before a call is not part of structured output
                self._client.keep(self.text or "")
            return True
        if self.calls:
            body = self._without_calls(reply)
        whole = self._client.whole(body, reply.get("usage"), self.text or "")
        self._before_end()
        await self._client.begin(self._start, None if whole is body and not self.calls else len(whole))
        await self._client.body(whole, more=False)
        return False

    async def _continue_whole(self) -> None:
        """Pass a whole reply, or an error, as an event of the stream that the client reads. Raises ApiError."""
        reply = json_of(b"".join(self._pieces))
        if not isinstance(reply, dict):
            raise upstream_error(502, "The upstream sent a reply that is not a JSON object.", "upstream_garbled")
        self._reader = ChatReplyReader(streamed=True, max_bytes=sys.maxsize)
        if isinstance(message := first_choice(reply).pop("message", None), dict):
            for index, call in numbered_calls(message, range(sys.maxsize)):
                call["index"] = index
            first_choice(reply)["delta"] = message
            reply["object"] = "chat.completion.chunk"
        frames = (sse.frame(json_bytes(reply)), sse.DONE)
        await self._client.body(b"".join(part for frame in frames for part in self._passed(frame)), more=True)

    def _read_usage(self, event: Json) -> None:
        if isinstance(event.get("usage"), dict):
            self.usage = event["usage"]

    def _take_calls(self) -> None:
        self.text = self._reader.answer
        calls = self._reader.tool_calls
        own_id = f"{_OWN_ID}{secrets.token_hex(8)}"  # for a call without an id of its own; no two rounds share ids
        ids = {call.id for call in calls if not self._is_ours(call.name)}  # the client has these ids
        self.all_calls = []
        for number, one in enumerate(calls):
            taken = self._is_ours(one.name) and (not one.id or one.id in ids)  # the client's call stays as sent
            self.all_calls.append(replace(one, id=f"{own_id}_{number}") if taken else one)
            ids.add(one.id)
        self.calls = [call for call in self.all_calls if self._is_ours(call.name)]
        self.foreign = len(self.calls) < len(calls)
        if not calls:
            self._take_written(own_id)

    def _is_ours(self, name: str) -> bool:
        return self._toolbox.owner(name) != "client"

    def _take_written(self, id: str) -> None:
        """Take the call that the model wrote as text, with this id."""
        before = (self.text or "").removesuffix(self._lines)
        found = written_call(self._lines, before, self._names_call, self._stands)
        if found is None or (self._by_tools and not found.template):
            return
        self.all_calls = self.calls = [replace(found.call, id=id)]
        self.text, self.written, self.leaked = before or None, True, self._by_tools

    def _read_lines(self, text: object) -> None:
        """Read another piece of the answer."""
        if isinstance(text, str):
            self._lines = last_lines(self._lines + text, self._names_call, partial(self._names_call, begun=True))

    def _words(self) -> bytes:
        """The held words before a written call, in one frame."""
        held = [one for one in self._held if one.event and isinstance(delta_of(one.event).get("content"), str)]
        words = "".join(delta_of(one.event or {})["content"] for one in held).removesuffix(self._lines)
        if not words.strip():
            return b""
        event = held[0].event or {}
        delta_of(event)["content"] = words
        return self._client.frame(held[0].raw, event, changed=True)

    def _without_calls(self, reply: Json) -> bytes:
        """The whole reply without the gateway's calls."""
        message = reply["choices"][0]["message"]
        message["tool_calls"] = [call for call in message["tool_calls"] if not self._is_ours(tool_name(call))]
        return json_bytes(reply)

    def _passed(self, raw: bytes) -> Iterator[bytes]:
        """The frames for the client, after one more frame of the model."""
        data = sse.data_of(raw)
        read = json_of(data) if data is not None else None
        frame = _Frame(raw, None)
        if isinstance(read, dict):
            self._client.see(read)
            self._read_usage(read)
            self._reader.read_event(read)
            self._read_lines(delta_of(read).get("content"))
            self.provider_fields.read(delta_of(read), self._reader.call_numbers)
            frame = _Frame(raw, read, self._reader.call_numbers)
            self._note(frame)
        self._over = self._over or data == _DONE
        if self._over or self._waits(frame.event):
            if data is None and not self._held:  # a comment that keeps the connection alive
                yield raw
            else:
                self._held.append(frame)
            if data == _DONE:  # some upstreams end the body later
                yield self._last()
            return
        shown = self._shown(frame)
        if shown is None and not self._texted and not self._holds_text:
            return
        self._open, self._texted = True, self._texted or bool(self._reader.answer)
        yield from self._released()
        if shown is not None:
            yield self._client.frame(shown.raw, shown.event, changed=shown.changed)

    def _waits(self, event: Json | None) -> bool:
        """Whether the client gets the event later, or not at all."""
        if self._nameless or self._toolbox.structured_output:  # a text before a call is not part of structured output
            return True
        if not self._open and (event is None or _is_prelude(event)):
            return True
        return self._may_be_written  # also after thoughts

    def _released(self) -> Iterator[bytes]:
        """The held frames, for the client."""
        held, self._held = self._held, []
        for each in held:
            shown = each if each.event is None or _is_prelude(each.event) else self._shown(each)
            if shown is not None:
                yield self._client.frame(shown.raw, shown.event, changed=shown.changed)

    def _shown(self, frame: _Frame) -> _Frame | None:
        """The frame without the gateway's calls; None: nothing is left for the client."""
        if not any(self._owned.values()):
            return frame
        if frame.event is None:  # a comment, [DONE]
            return None if sse.data_of(frame.raw) is not None and all(self._owned.values()) else frame
        return self._without_ours(frame, frame.event)

    @property
    def _holds_text(self) -> bool:
        """Whether the answer so far is a text for the client, and no call as text."""
        text = self._reader.answer or ""
        return text.strip() != "" and not names_call(text)

    @property
    def _may_be_written(self) -> bool:
        """Whether the newest lines of the answer may be a call as text."""
        if self._owned or self._lines == ".":
            return False
        return self._lines.strip() != "" or (not self._texted and self._lines != "")

    def _note(self, frame: _Frame) -> None:
        """Note the owners of the calls that begin."""
        for number, call in frame.calls():
            if number in self._owned or number < 0:
                continue
            called, piece = called_tool(call) or {}, tool_name(call)
            known = self._names.get(number, "")
            name = self._names[number] = piece if piece.startswith(known) else known + piece
            if name and (called.get("arguments") or called.get("input") or not self._toolbox.may_go_on(name)):
                self._owned[number] = self._is_ours(name)
                self._nameless.discard(number)
            else:
                self._nameless.add(number)

    def _without_ours(self, frame: _Frame, event: Json) -> _Frame | None:
        foreign = sorted(number for number, owned in self._owned.items() if not owned)
        delta = delta_of(event)
        calls = [{**call, "index": foreign.index(number)} for number, call in frame.calls() if number in foreign]
        delta.pop("tool_calls", None)
        if calls:
            delta["tool_calls"] = calls
        finish = finish_of(event)
        if finish is not None and not foreign:
            first_choice(event)["finish_reason"] = finish = None
        left = calls or finish is not None or any(delta.get(name) for name in _TEXTS)
        if left or (foreign and not event.get("choices")):
            return frame._replace(changed=True)
        return None


def _is_prelude(event: Mapping[str, Any]) -> bool:
    """Whether an event has a choice with the role alone: no text, no thought, no call and no end."""
    if not event.get("choices") or finish_of(event) is not None:
        return False
    return not any(value for name, value in delta_of(event).items() if name != "role")
