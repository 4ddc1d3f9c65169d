"""ASGI driven by hand: one request into an app, every message that comes out, and a client that leaves on demand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from proxy.asgi import CLIENT_LEFT, App, Message, Receive, Scope, Send
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange, ModelCall, unmetered


def scope_of(
    path: str = "/v1/chat/completions",
    *,
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] = (),
    query: bytes = b"",
    raw_path: bytes | None = None,
    exchange: Exchange | None = None,
) -> Scope:
    """The scope a server makes of such a request."""
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("ascii", "ignore") if raw_path is None else raw_path,
        "query_string": query,
        "headers": list(headers),
    }
    if exchange is not None:
        scope[EXCHANGE] = exchange
    return scope


def exchange_to(api_base: str, *, api_key: str = "") -> Exchange:
    """An exchange whose target is the relay lane to `api_base`."""
    return Exchange(target=Target(model="gpt-x", lane="relay", api_base=api_base, api_key=api_key))


def called(call: ModelCall | None) -> App:
    """The app that a prepared call makes; of a call that is made once, the upstream itself."""
    assert call is not None
    app = call(unmetered)
    return app.args[0] if isinstance(app, partial) else app


@dataclass(slots=True)
class Call:
    """A client of one request: sends the pieces of its body, keeps what is sent to it, leaves when `left` is set."""

    pieces: Sequence[bytes] = (b"{}",)
    sent: list[Message] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    taking: asyncio.Event = field(default_factory=asyncio.Event)  # cleared: `send` waits, as for a slow client
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _given: int = 0

    def __post_init__(self) -> None:
        self.taking.set()

    async def receive(self) -> Message:
        """The body, then nothing until the client leaves."""
        if self._given < len(self.pieces):
            self._given += 1
            more = self._given < len(self.pieces)
            return {"type": "http.request", "body": self.pieces[self._given - 1], "more_body": more}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Keep the message and tell who waits for it."""
        async with self.arrived:
            self.sent.append(message)
            self.arrived.notify_all()
        await self.taking.wait()

    async def until_sent(self, count: int) -> None:
        """Return when at least `count` messages have come."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.sent) >= count)

    async def to(self, app: Callable[[Scope, Receive, Send], Awaitable[object]], scope: Scope) -> "Call":
        """Run the request to its end; as under our server, it is cancelled when the client leaves."""
        running = asyncio.ensure_future(app(scope, self.receive, self.send))
        leaving = asyncio.ensure_future(self.left.wait())
        try:
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel(CLIENT_LEFT)
        finally:
            leaving.cancel()
            running.cancel()
            await asyncio.wait({running})
        if not running.cancelled():
            running.result()
        return self

    @property
    def status(self) -> int:
        """Of the reply."""
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the reply."""
        return list(self.sent[0]["headers"])

    @property
    def chunks(self) -> list[bytes]:
        """The body messages that are not empty."""
        return [message["body"] for message in self.sent[1:] if message["body"]]

    @property
    def body(self) -> bytes:
        """Of the reply, as far as it came."""
        return b"".join(self.chunks)

    @property
    def whole(self) -> bool:
        """Whether the reply was brought to its end."""
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)
