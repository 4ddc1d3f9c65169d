"""`Response.deliver`: body bytes handed over as they arrive, in order, each once, and the last ones marked."""

import asyncio

import pytest

from runtime.http_client import UNREAD_LIMIT_BYTES, Cut, IdleTimeout, Response
from tests.runtime.http_client.test_connection import BODIES, CHUNKED, framed
from tests.support.clients import client
from tests.support.rows import all_rows
from tests.support.upstream_servers import Wire, answering, closing, head, reply, single_bytes, staying, upstream


class Taker:
    """Takes what is delivered; wants a pause after each piece if `pauses`."""

    def __init__(self, *, pauses: bool = False) -> None:
        self.pieces: list[bytes] = []
        self.ends = 0
        self._pauses = pauses

    def __call__(self, piece: bytes, last: bool) -> bool:
        assert not self.ends, "nothing comes after the last piece"
        self.pieces.append(piece)
        self.ends += last
        return not self._pauses

    async def whole(self, response: Response) -> bytes:
        while not response.complete:
            await response.deliver(self)
        assert self.ends == 1
        return b"".join(self.pieces)


@all_rows("framing", ["length", "chunked", "close"])
@all_rows("name", BODIES)
async def test_delivers_every_byte_and_marks_the_last(name: str, framing: str) -> None:
    then = closing if framing == "close" else None
    async with upstream(answering(framed(BODIES[name], framing), then=then)) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"{}")
        assert await Taker().whole(response) == BODIES[name]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("pauses", [False, True])
async def test_delivers_single_bytes(framing: str, pauses: bool) -> None:
    body, then = BODIES["sse"], closing if framing == "close" else None
    async with upstream(answering(*single_bytes(framed(body, framing)), then=then)) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"{}")
        assert await Taker(pauses=pauses).whole(response) == body


async def test_a_connection_is_used_again_after_a_delivered_reply() -> None:
    async with upstream(answering(reply(b"ok"))) as server, client() as http:
        for _ in range(3):
            assert await Taker().whole(await http.request(b"POST", server.url, [], b"{}")) == b"ok"
        assert server.connections == 1


async def test_a_taker_that_wants_a_pause_gets_nothing_until_asked_again_and_stops_the_upstream() -> None:
    piece, sent = b"x" * 65_536, 0

    async def fast(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        await wire.send(head(CHUNKED))
        for _ in range(400):
            await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            sent += len(piece)
        await wire.send(b"0\r\n\r\n")

    async with upstream(fast) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"{}")
        taker = Taker(pauses=True)
        await response.deliver(taker)
        before = -1
        while before != sent:  # the upstream fills the buffers of the kernel
            before = sent
            await asyncio.sleep(0.1)
        assert len(taker.pieces) == 1
        assert sent < 400 * len(piece)
        await response.deliver(taker)
        assert len(taker.pieces[1]) <= UNREAD_LIMIT_BYTES + 2**18  # and one read of the event loop
        assert await taker.whole(response) == piece * 400


async def test_what_the_taker_raises_ends_the_delivery() -> None:
    def refuses(_piece: bytes, _last: bool) -> bool:
        raise ValueError("not this")

    for pieces in ([reply(b"at once")], [head(CHUNKED), b"5\r\nlater\r\n"]):
        async with upstream(answering(*pieces, then=staying)) as server, client() as http:
            response = await http.request(b"POST", server.url, [], b"{}")
            with pytest.raises(ValueError, match="not this"):
                await response.deliver(refuses)
            response.close()


async def test_a_cut_reply_is_delivered_up_to_the_cut() -> None:
    async with upstream(answering(head(CHUNKED) + b"4\r\nsome\r\n", then=closing)) as server, client() as http:
        taker, response = Taker(), await http.request(b"POST", server.url, [], b"{}")
        with pytest.raises(Cut):
            await response.deliver(taker)
        assert (b"".join(taker.pieces), taker.ends) == (b"some", 0)


async def test_a_reply_that_stops_runs_into_the_timeout() -> None:
    async with (
        upstream(answering(head(CHUNKED) + b"4\r\nsome\r\n", then=staying)) as server,
        client(idle_timeout_s=0.2) as http,
    ):
        taker, response = Taker(), await http.request(b"POST", server.url, [], b"{}")
        with pytest.raises(IdleTimeout):
            await response.deliver(taker)
        assert taker.pieces == [b"some"]


async def test_a_cancelled_delivery_takes_nothing_more() -> None:
    async with upstream(answering(head(CHUNKED) + b"4\r\nsome\r\n", then=staying)) as server, client() as http:
        taker, response = Taker(), await http.request(b"POST", server.url, [], b"{}")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await response.deliver(taker)
        response.close()
        with pytest.raises(Cut):
            await response.deliver(taker)
        assert taker.pieces == [b"some"]
