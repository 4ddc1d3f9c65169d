"""A reply's events as values: read once from the model, and written to the client as its single reply over all rounds.

Unchanged events go out as they came in. A later round's reply gets the id that the client already has, no second role,
and summed usage."""

import asyncio
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from proxy.asgi import Message, Send, send_error, with_length
from proxy.dialects import sse
from proxy.dialects.base import ModelRequest
from proxy.dialects.chat import CHAT, usage_of
from proxy.dialects.deviations import numbered_calls
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import member_span, unescaped
from proxy.dialects.replies import Tokens, announces_stream, content_text, json_bytes, json_of

Json = dict[str, Any]
_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_COUNTS = {"prompt_tokens", "completion_tokens", "total_tokens"}
_DONE = b"[DONE]"
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class Event:
    """One stream event: text, a thought, pieces of calls, usage, an end, or several of these."""

    __slots__ = ("body", "changed", "choice", "delta", "is_comment", "is_done", "numbers", "raw", "usage")

    def __init__(self, raw: bytes, body: Any = None, *, changed: bool = False) -> None:
        """raw: a frame as the upstream sent it, or a whole reply. body: its JSON. changed: `raw` no longer matches
        `body`.
        """
        self.raw = raw
        self.body: Json | None = body if isinstance(body, dict) else None  # None: such as a comment or [DONE]
        self.changed = changed
        usage = self.body.get("usage") if self.body is not None else None
        self.usage: Json | None = usage if isinstance(usage, dict) else None  # as the upstream reports it
        self.choice = first_choice(body)
        delta = self.choice.get("delta")
        self.delta: Json = delta if isinstance(delta, dict) else {}  # a piece of the message
        self.numbers: Sequence[int] = ()  # call number of each piece
        self.is_done = self.is_comment = False  # [DONE]; a comment

    @classmethod
    def of(cls, frame: bytes) -> "Event":
        """A frame's event."""
        data = sse.data_of(frame)
        event = cls(frame, json_of(data) if data is not None else None)
        event.is_done, event.is_comment = data == _DONE, data is None
        return event

    @property
    def finish(self) -> Any:
        """Its finish_reason; None: the reply goes on."""
        return self.choice.get("finish_reason")

    def calls(self) -> Iterator[tuple[int, Json]]:
        """Each call's number and piece."""
        return numbered_calls(self.delta, self.numbers)

    @property
    def says(self) -> bool:
        """Whether it has a piece of an answer, refusal or thought."""
        return any(self.delta.get(name) for name in _TEXTS)

    @property
    def is_prelude(self) -> bool:
        """Whether its choice has a role alone: no text, thought, call or end."""
        if self.body is None or not self.body.get("choices") or self.finish is not None:
            return False
        return not any(value for name, value in self.delta.items() if name != "role")


@dataclass(slots=True)
class Envelope:
    """The id, model and other members that a reply's events share, from the newest event that has any.

    Empty values do not count: Azure's first event, with filter results, has no others.
    """

    members: Json

    def see(self, body: Mapping[str, Any]) -> None:
        """Note an event or a whole reply, even one that the client does not get."""
        self.members = {name: body[name] for name in _ENVELOPE if body.get(name)} or self.members


def first_choice(body: Any) -> Json:
    """The first choice in an event or whole reply; empty: none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


# --- the client's reply -----------------------------------------------------------------------------------------------


_NO_TOKENS = Tokens(0, 0)
_T = TypeVar("_T")


class ClientReply:
    """The client's reply: one lifecycle for all rounds."""

    def __init__(self, send: Send, request: ModelRequest, id: str, keepalive_s: float = 5.0) -> None:
        """id: the exchange's. keepalive_s: seconds without a chunk after which a stream gets an empty one."""
        self._send = send
        self._request = request
        self._streamed = request.streamed  # as the client wants
        self._id = id
        self._keepalive_s = keepalive_s
        self.envelope = Envelope(
            {"id": f"chatcmpl-{id}", "created": int(time.time()), "model": request.fields["model"]}
        )
        media = b"text/event-stream" if self._streamed else b"application/json"
        # Until sent: the head of the model's newest good reply; at first, one for a gateway reply.
        self.start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]}
        self.started = False
        self.ended = False  # last event was sent
        self._counted = False  # a round took tokens
        self._usage: Json = {}  # of all rounds so far, with provider members
        self._sends = 0
        self._sent: Json | None = None  # envelope that the client has; None: no event was sent
        self._later = False  # in a round after the first sent event
        self._role = False
        self._texts: list[str] = []  # sent so far
        self._kept = ""  # from rounds that came whole; goes before the next text
        self._gap = False  # next text begins a paragraph

    def next_round(self) -> None:
        """Begin the next round."""
        self._later = self._sent is not None
        self._gap = self._texts != [] and not self._texts[-1].endswith("\n")

    def add_usage(self, tokens: Tokens, reported: Json) -> None:
        """Count a round. reported: upstream usage, which overrides the tokens."""
        self._counted = self._counted or tokens != _NO_TOKENS
        if not reported.keys() >= _COUNTS:
            reported = {**usage_of(tokens), **reported}
        self._usage = summed(reported, self._usage)

    @property
    def text(self) -> str:
        """All text that the client has, or gets before any other."""
        return "".join(self._texts) + self._kept

    def keep(self, text: str) -> None:
        """Keep text from a round that came whole, to go before the client's next text."""
        if text.strip():
            self._kept += text if text.endswith("\n") else f"{text}\n\n"

    def _with_kept(self, text: str) -> str:
        kept, self._kept = self._kept, ""
        return kept + text if text else kept.rstrip("\n")

    @property
    def streams(self) -> bool:
        """Whether the reply is a stream: some upstreams send it whole although a stream was requested."""
        return self._streamed and announces_stream(self.start.get("headers", ()))

    async def begin(self, start: Message | None = None, length: int | None = None) -> None:
        """Send the reply's head, once. length: the body's in bytes, if it is not the upstream's."""
        if self.started:
            return
        self.started = True
        if start is None and self.streams:  # some upstreams declare a stream's length
            start = with_length(self.start, None)
        start = start or self.start
        try:
            await self._send(start if length is None else with_length(start, length))
        except ApiError:  # the bridge refuses a stream that the client did not ask for: nothing was sent
            self.started = False
            raise

    async def body(self, content: bytes, *, more: bool) -> None:
        """Send part of the body."""
        await self.begin()
        self._sends += 1
        await self._send({"type": "http.response.body", "body": content, "more_body": more})

    def frame(self, event: Event) -> bytes:
        """An event's frame for the client: as it came if nothing changes."""
        body = event.body
        if body is None:
            return event.raw
        delta, changed = event.delta, event.changed
        if self._later:
            body |= {name: value for name, value in (self._sent or {}).items() if name in body}
            if self._role and delta.pop("role", None) is not None and not any(delta.values()) and event.finish is None:
                return b""
            if self._gap and isinstance(delta.get("content"), str) and delta["content"]:
                delta["content"] = "\n\n" + delta["content"]
            changed = True
        if self._kept and (delta.get("content") or event.finish is not None):
            delta["content"] = self._with_kept(content_text(delta.get("content")))
            event.choice["delta"] = delta
            changed = True
        if not self._later and changed and not self._role and body.get("choices"):
            event.choice["delta"] = delta = {"role": "assistant", **delta}
        if (usage := event.usage) is not None and self._counted:
            body["usage"] = summed(usage, self._usage)
            changed = True
        self._role = self._role or "role" in delta
        if text := content_text(delta.get("content")):
            self._texts.append(text)
            self._gap = False
        if self._sent is None and body.get("id") != "":
            self._sent = self.envelope.members
        return sse.frame(json_bytes(body)) if changed else event.raw

    def whole(self, reply: Event, text: str) -> bytes:
        """A whole reply with this text, any kept texts, and usage of all rounds."""
        if self._kept and isinstance(message := reply.choice.get("message"), dict):
            message["content"] = text = self._with_kept(text)
            reply.changed = True
        self._texts = [text]
        body = json_bytes(reply.body or {}) if reply.changed else reply.raw
        if (usage := reply.usage) is None or not self._counted:
            return body
        plain = unescaped(body)
        start, end = member_span(body, plain, plain.index(b"{"), "usage")
        return body[:start] + orjson.dumps(summed(usage, self._usage)) + body[end:]

    async def keep_alive(self) -> None:
        """Send an empty chunk, unless the last event was sent; some clients do not take comments."""
        if not self.ended:  # some upstreams end the body later
            await self._insert({} if self._role else {"content": ""})

    async def note(self, text: str) -> None:
        """In a stream, send gateway text before the model's next text."""
        text = self._with_kept(text)
        text = f"\n\n{text}" if self._texts and not self._texts[-1].endswith("\n") else text
        self._texts.append(text)
        await self._insert({"content": text})

    async def _insert(self, delta: Json) -> None:
        """Send a gateway chunk, with a role if the client has none."""
        delta = delta if self._role else {"role": "assistant", **delta}
        self._role = True
        self._sent, self._later = self._sent or self.envelope.members, True
        await self.body(sse.frame(json_bytes(_chunk(self._sent, delta))), more=True)

    async def say(self, text: str, finish: str = "stop") -> None:
        """End the reply with gateway text. finish: its finish_reason."""
        if not self.streams:
            text = self._with_kept(text)
            named = {**orjson.loads(CHAT.reply(self._request, text, _NO_TOKENS)), **self.envelope.members}
            named["usage"] = summed(named["usage"], self._usage)
            first_choice(named)["finish_reason"] = finish
            whole = json_bytes({**named, "object": "chat.completion"})
            self._texts = [text]
            await self.begin(length=len(whole))
            await self.body(whole, more=False)
            return
        self.next_round()
        sent = []
        for raw in CHAT.reply_frames(self._request, [text] if text else [], _NO_TOKENS):
            event = Event.of(raw)
            if event.body is not None:
                event.changed = True
                event.body |= {name: value for name, value in self.envelope.members.items() if name in event.body}
                if event.finish is not None:
                    event.choice["finish_reason"] = finish
            sent.append(self.frame(event))
        await self.body(b"".join(sent), more=False)

    async def fail(self, error: ApiError) -> None:
        """End the reply with an error, as a frame if part of it was sent."""
        if not self.started:
            self.started = True
            await send_error(self._send, error, CHAT.error_body(error, self._id))
            return
        await self.body(CHAT.error_frame(error, self._id), more=False)

    def kept_alive(self, work: Awaitable[_T]) -> Awaitable[_T]:
        """The work's result. Meanwhile, a stream gets an empty chunk after each `keepalive_s` without another."""
        return self._kept_alive(work) if self._streamed else work

    async def _kept_alive(self, work: Awaitable[_T]) -> _T:
        task = asyncio.ensure_future(work)
        try:
            sends = self._sends
            while not (await asyncio.wait({task}, timeout=self._keepalive_s))[0]:
                if self.streams and self._sends == sends:
                    await self.keep_alive()
                sends = self._sends
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


def _chunk(envelope: Json, delta: Json) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"object": "chat.completion.chunk", **envelope, "choices": [choice]}


def summed(usage: Json, earlier: Json) -> Json:
    """A reply's usage plus counts and costs of earlier rounds; other values stay the newest."""
    added = {name: _plus(name, usage[name], value) for name, value in earlier.items() if name in usage}
    return {**earlier, **usage, **added}


def _plus(name: str, value: Any, earlier: Any) -> Any:
    if isinstance(value, dict) and isinstance(earlier, dict):
        return summed(value, earlier)
    kinds = {type(value), type(earlier)}
    if kinds == {int} or ("cost" in name and kinds <= {int, float}):  # other numbers are times and rates
        return value + earlier
    return earlier if value is None else value
