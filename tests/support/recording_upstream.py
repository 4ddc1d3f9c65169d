"""A scripted upstream in a thread of its own, for gateways that are another process: it records what it was sent.

with recording() as recorder:
    recorder.answer = ...        # from now on; see `upstream_servers` for what an answer may do
    ... recorder.url ... recorder.requests
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from tests.support.upstream_servers import Received, Wire, reply, upstream

Answer = Callable[[Wire, Received], Awaitable[None]]

COMPLETION = (
    b'{"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-x-2024", "choices": '
    b'[{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],\n "odd": 1.50e2}'
)
_JSON = b"content-type: application/json"


def answering(*pieces: bytes) -> Answer:
    """These bytes, whatever was asked."""

    async def answer(wire: Wire, _received: Received) -> None:
        await wire.send(*pieces)

    return answer


COMPLETES = answering(reply(COMPLETION, _JSON))


@dataclass(slots=True)
class Recorder:
    """A running upstream. One test at a time uses it, and begins with `fresh`."""

    url: str = ""
    answer: Answer = COMPLETES
    requests: list[Received] = field(default_factory=list)

    def fresh(self) -> "Recorder":
        """Nothing recorded, the ordinary answer."""
        self.requests.clear()
        self.answer = COMPLETES
        return self

    @property
    def body(self) -> bytes:
        """Of the one request that came."""
        (request,) = self.requests
        return request.body

    async def _script(self, wire: Wire) -> None:
        while True:
            received = await wire.request()
            self.requests.append(received)
            await self.answer(wire, received)

    async def run(self, up: Callable[[Callable[[], None]], None]) -> None:
        """Serve until what `up` was handed is called."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.call_soon_threadsafe(stop.set)

        async with upstream(self._script) as server:
            self.url = server.url
            up(end)
            await stop.wait()


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder on a free port of 127.0.0.1."""
    recorder = Recorder()
    started = threading.Event()
    stops: list[Callable[[], None]] = []

    def up(stop: Callable[[], None]) -> None:
        stops.append(stop)
        started.set()

    thread = threading.Thread(target=lambda: asyncio.run(recorder.run(up)), name="upstream")
    thread.start()
    assert started.wait(30)
    try:
        yield recorder
    finally:
        stops[0]()
        thread.join(30)
