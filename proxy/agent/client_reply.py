"""The client's single reply of all rounds.

A reply of a later round gets the id of the reply that the client has begun to read, no second role, and the sum of the
usage.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from proxy.asgi import Message, Send, send_error, with_length
from proxy.dialects import sse
from proxy.dialects.base import ModelRequest
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import member_span, unescaped
from proxy.dialects.replies import content_text, json_bytes, json_of
from proxy.dialects.token_counts import Tokens
from retrieval.filters import is_number

_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
NOTHING = Tokens(0, 0)

Json = dict[str, Any]


class ReplyHead(NamedTuple):
    """What the head of a model's reply says about the body."""

    readable: bool  # no error, and no encoding but identity
    streamed: bool

    @classmethod
    def of(cls, start: Message) -> "ReplyHead":
        headers = dict(start.get("headers", ()))
        readable = start["status"] == 200 and headers.get(b"content-encoding", b"identity") == b"identity"
        return cls(readable, headers.get(b"content-type", b"").startswith(b"text/event-stream"))


class ClientReply:
    """The reply to the client: a single lifecycle for all rounds."""

    def __init__(self, send: Send, request: ModelRequest, id: str) -> None:
        """id: of the exchange."""
        self._send = send
        self._request = request
        media = b"text/event-stream" if request.streamed else b"application/json"
        # The head of the newest good reply of the model, until the head is sent; at first, of a reply by the gateway.
        self.start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]}
        self.started = False
        self.ended = False  # the client has the last event
        self.tokens = NOTHING  # of all rounds so far
        self.usage: Json = {}  # of all rounds so far, with the provider's own members
        self.sends = 0
        # Envelope of the newest reply of the model.
        self._seen: Json = {"id": f"chatcmpl-{id}", "created": int(time.time()), "model": request.fields["model"]}
        self._sent: Json | None = None  # the envelope that the client has seen; None: no event was sent
        self._later = False  # the round after the first event that was sent
        self._role = False
        self._texts: list[str] = []  # that were sent
        self._kept = ""  # text of rounds whose reply came whole, which stands before the next text
        self._gap = False  # the next text begins a paragraph

    def next_round(self) -> None:
        """Begin the next round."""
        self._later = self._sent is not None
        self._gap = self._texts != [] and not self._texts[-1].endswith("\n")

    @property
    def text(self) -> str:
        """The text that the client has got, or gets before any other text."""
        return "".join(self._texts) + self._kept

    def keep(self, text: str) -> None:
        """Put the text of a round that came whole before the client's next text."""
        if text.strip():
            self._kept += text if text.endswith("\n") else f"{text}\n\n"

    def _with_kept(self, text: str) -> str:
        kept, self._kept = self._kept, ""
        return kept + text if text else kept.rstrip("\n")

    @property
    def streams(self) -> bool:
        """Whether the reply is a stream: some upstreams send a whole reply although a stream was asked for."""
        return self._request.streamed and ReplyHead.of(self.start).streamed

    async def begin(self, start: Message | None = None, length: int | None = None) -> None:
        """Send the head of the reply, once. length: of a body that is not the upstream's."""
        if self.started:
            return
        self.started = True
        if start is None and self.streams:  # some upstreams know the length of a stream
            start = with_length(self.start, None)
        start = start or self.start
        await self._send(start if length is None else with_length(start, length))

    async def body(self, content: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self.begin()
        self.sends += 1
        await self._send({"type": "http.response.body", "body": content, "more_body": more})

    def see(self, event: Mapping[str, Any]) -> None:
        """Note the id and model of an event or a whole reply, for a gateway text.

        Empty values do not count: Azure's first event, with the results of filters, has no others.
        """
        self._seen = {name: event[name] for name in _ENVELOPE if event.get(name)} or self._seen

    def frame(self, raw: bytes, event: Json | None, *, changed: bool = False) -> bytes:
        """The frame of an event for the client; `raw` itself if nothing changes."""
        if event is None:
            return raw
        delta = delta_of(event)
        if self._later:
            event |= {name: value for name, value in (self._sent or {}).items() if name in event}
            if (
                self._role
                and delta.pop("role", None) is not None
                and not any(delta.values())
                and finish_of(event) is None
            ):
                return b""
            if self._gap and isinstance(delta.get("content"), str) and delta["content"]:
                delta["content"] = "\n\n" + delta["content"]
            changed = True
        if self._kept and (delta.get("content") or finish_of(event) is not None):
            delta["content"] = self._with_kept(content_text(delta.get("content")))
            first_choice(event)["delta"] = delta
            changed = True
        if not self._later and changed and not self._role and event.get("choices"):
            first_choice(event)["delta"] = delta = {"role": "assistant", **delta}
        if isinstance(event.get("usage"), dict) and self.tokens != NOTHING:
            event["usage"] = summed(event["usage"], self.usage)
            changed = True
        self._role = self._role or "role" in delta
        if text := content_text(delta.get("content")):
            self._texts.append(text)
            self._gap = False
        if self._sent is None and event.get("id") != "":
            self._sent = self._seen
        return sse.frame(json_bytes(event)) if changed else raw

    def whole(self, body: bytes, usage: object, text: str) -> bytes:
        """A whole reply with this text, and the texts and usage of all rounds."""
        reply: Any = json_of(body) if self._kept else None
        if isinstance(message := first_choice(reply).get("message"), dict):
            text = self._with_kept(text)
            message["content"] = text
            body = json_bytes(reply)
        self._texts = [text]
        if not isinstance(usage, dict) or self.tokens == NOTHING:
            return body
        plain = unescaped(body)
        start, end = member_span(body, plain, plain.index(b"{"), "usage")
        return body[:start] + orjson.dumps(summed(usage, self.usage)) + body[end:]

    async def keep_alive(self) -> None:
        """Send an empty chunk, before the last event; some clients do not take comments."""
        if not self.ended:  # some upstreams end the body later
            await self._insert({} if self._role else {"content": ""})

    async def note(self, text: str) -> None:
        """Send a gateway text before the model's next text, in a stream."""
        text = self._with_kept(text)
        text = f"\n\n{text}" if self._texts and not self._texts[-1].endswith("\n") else text
        self._texts.append(text)
        await self._insert({"content": text})

    async def _insert(self, delta: Json) -> None:
        """Send a gateway chunk, with the role if the client has none."""
        delta = delta if self._role else {"role": "assistant", **delta}
        self._role = True
        self._sent, self._later = self._sent or self._seen, True
        await self.body(sse.frame(json_bytes(_chunk(self._sent, delta))), more=True)

    async def say(self, text: str, finish: str = "stop") -> None:
        """End the reply with a gateway text. finish: the finish_reason."""
        if not self.streams:
            text = self._with_kept(text)
            named = {**orjson.loads(CHAT.reply(self._request, text, NOTHING)), **self._seen}
            named["usage"] = summed(named["usage"], self.usage)
            first_choice(named)["finish_reason"] = finish
            whole = json_bytes({**named, "object": "chat.completion"})
            self._texts = [text]
            await self.begin(length=len(whole))
            await self.body(whole, more=False)
            return
        self.next_round()
        sent = []
        for raw in CHAT.reply_frames(self._request, [text] if text else [], NOTHING):
            event = json_of(sse.data_of(raw) or b"")
            if isinstance(event, dict):
                event |= {name: value for name, value in self._seen.items() if name in event}
                if finish_of(event) is not None:
                    first_choice(event)["finish_reason"] = finish
            sent.append(self.frame(raw, event if isinstance(event, dict) else None, changed=True))
        await self.body(b"".join(sent), more=False)

    async def fail(self, error: ApiError, id: str) -> None:
        """End the reply with an error: a frame if part of it was sent."""
        if not self.started:
            self.started = True
            await send_error(self._send, error, CHAT.error_body(error, id))
            return
        await self.body(CHAT.error_frame(error, id), more=False)


def first_choice(event: Any) -> Json:
    """The first choice of an event or of a whole reply; empty: none."""
    choices = event.get("choices") if isinstance(event, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def delta_of(event: Mapping[str, Any]) -> Json:
    delta = first_choice(event).get("delta")
    return delta if isinstance(delta, dict) else {}


def finish_of(event: Mapping[str, Any]) -> Any:
    return first_choice(event).get("finish_reason")


def _chunk(envelope: Json, delta: Json) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"object": "chat.completion.chunk", **envelope, "choices": [choice]}


def summed(usage: Json, earlier: Json) -> Json:
    """The usage of a reply with the counts and the cost of the rounds before; of other values, the newest stays."""
    added = {name: _plus(name, usage[name], value) for name, value in earlier.items() if name in usage}
    return {**earlier, **usage, **added}


def _plus(name: str, value: Any, earlier: Any) -> Any:
    if isinstance(value, dict) and isinstance(earlier, dict):
        return summed(value, earlier)
    counts = isinstance(value, int) and isinstance(earlier, int)  # other numbers are times and rates
    if is_number(value) and is_number(earlier) and (counts or "cost" in name):
        return value + earlier
    return earlier if value is None else value
