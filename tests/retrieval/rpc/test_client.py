"""The wire to the index process: what goes in comes out equal, and every way to break it ends in an error of ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import IndexDown, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import Lookup, Plan
from retrieval.records.documents import CollectionInfo, Passage
from retrieval.records.ingest import Failure, IngestReport
from retrieval.records.search import Context, Hit, Query, Retrieved, Turn
from retrieval.rpc import codec
from retrieval.rpc.client import SOCKET, Client, decode, reachable
from retrieval.rpc.framing import framed
from retrieval.traces import Searched, Trace
from tests.support.frames import read_frame
from tests.support.plans import plan_for, silent

# Records

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(0, 2**53)
passages = st.builds(
    Passage, document=texts, revision=whole, ordinal=whole, title=texts, source=texts, modified_s=numbers,
    headings=st.lists(texts, max_size=3).map(tuple), start=whole, end=whole, text=texts, tokens=whole,
)  # fmt: skip
pieces = st.lists(st.tuples(texts, numbers), max_size=3).map(tuple)
retrieved = st.builds(
    Retrieved,
    query=st.builds(Query, text=texts, terms=pieces, vectors=pieces, reason=texts),
    hits=st.lists(
        st.builds(
            Hit, id=texts, score=numbers, passage=passages,
            ranks=st.dictionaries(texts, whole), scores=st.dictionaries(texts, numbers),
        ),
        max_size=2,
    ).map(tuple),
    context=st.builds(Context, passages=st.lists(passages, max_size=2).map(tuple), tokens=whole, dropped=whole),
    timings_ms=st.dictionaries(texts, numbers),
    relevance=st.none() | numbers,
)  # fmt: skip


@given(retrieved)
def test_what_was_retrieved_arrives_equal(record: Retrieved) -> None:
    assert codec.retrieved(orjson.loads(orjson.dumps(codec.rows(record)))) == record


def test_a_passage_of_hits_and_context_crosses_once() -> None:
    passages = [Passage("d", 1, i, "t", "s", 2.0, ("h",), 0, 1, f"text {i}", 3) for i in range(3)]
    record = Retrieved(
        Query("q", (), (), "first"),
        tuple(Hit(str(p.ordinal), 1.0, p) for p in passages),
        Context((passages[2], passages[0]), 6, 1),
        {},
    )
    assert orjson.dumps(codec.rows(record)).count(b'"text 2"') == 1


def test_a_trace_arrives_equal() -> None:
    trace = Trace(
        (Searched("docs", 2, "m", "en"),),
        ["i", "j"],
        [1.0, 0.5],
        {"bm25": [None, 1]},
        {"bm25": [None, 7.5]},
        ["kept", "surplus"],
    )
    record = Retrieved(Query("q", (), (), "first"), (), Context((), 0, 0), {}, 0.5, trace)
    assert codec.retrieved(orjson.loads(orjson.dumps(codec.rows(record)))) == record


def test_numbers_arrive_as_the_kind_they_were() -> None:
    passage = Passage("d", 1, 0, "t", "s", 2.0, (), 0, 1, "x", 3)
    found = Hit("a", 1.0, passage, {"dense": 1}, {"dense": 1.0})
    record = Retrieved(Query("q", (), (), "first"), (found,), Context((passage,), 3, 0), {})
    hit = codec.retrieved(orjson.loads(orjson.dumps(codec.rows(record)))).hits[0]
    assert (type(hit.score), type(hit.passage.modified_s), type(hit.passage.tokens)) == (float, float, int)
    assert hash(hit.passage) == hash(passage)


def test_reports_lists_and_plans_arrive_equal(tmp_path: Path) -> None:
    report = IngestReport("docs", 1, 2, 3, 4, 5, {"binary": 2}, (Failure("/a", "empty"), Failure("/ü", "broken")))
    info = CollectionInfo("docs", 1, 2, "tiny", 1700000000.0)
    plan = plan_for(tmp_path, qdrant_url="http://q:6333")
    for kind, record in ((IngestReport, report), (CollectionInfo, info), (Plan, plan), (Turn, Turn("user", "hi"))):
        assert decode(kind, orjson.loads(orjson.dumps(record))) == record


# The client, against a server that does as each test says

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A socket in the data folder; counts its connections and keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._open = 0
        self.connections = 0
        self.ended = asyncio.Event()  # set while no connection is open

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open += 1
        self.ended.clear()
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await self._answer(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        self._open -= 1
        if not self._open:
            self.ended.set()


@contextlib.asynccontextmanager
async def answering(data: Path, answer: Answer) -> AsyncIterator[tuple[Client, Server]]:
    server = Server(answer)
    with reachable(data) as path:
        listening = await asyncio.start_unix_server(server.serve, path)
    client = Client(data)
    try:
        yield client, server
    finally:
        await client.close()
        if server.connections:
            await server.ended.wait()
        listening.close()


def always(frame: dict[str, Any]) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_frame(reader)
            writer.write(framed(frame))
            await writer.drain()

    return answer


async def test_asks_and_gets_the_records_back(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    found = Retrieved(Query("q", (("q", 1.0),), (("q", 1.0),), "first"), (), Context((), 0, 0), {"search": 0.5})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_frame(reader))
        writer.write(framed({"result": codec.rows(found)}))

    async with answering(tmp_path, answer) as (client, _):
        lookup = Lookup("bm25", neighbours=2)
        assert await client.retrieve([Turn("user", "q")], ("docs",), k=3, lookup=lookup) == found
    args = {
        "turns": [{"role": "user", "text": "q"}],
        "collections": ["docs"],
        "k": 3,
        "budget_tokens": None,
        "view": {"groups": [], "filter": ""},
        "lookup": {"mode": "bm25", "rerank": True, "neighbours": 2, "whole": False},
        "traced": False,
    }
    assert asked == [{"call": "retrieve", "args": args}]


async def test_tells_progress_before_the_result(tmp_path: Path) -> None:
    report = IngestReport("docs", 2, 0, 0, 0, 9, {}, ())
    told: list[tuple[int, int, int]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await read_frame(reader)
        assert frame["args"]["paths"] == [str(Path.cwd() / "docs")]
        for done in (1, 2):
            writer.write(framed({"progress": [done, 2, done * 4]}))
        writer.write(framed({"result": report}))

    async with answering(tmp_path, answer) as (client, _):
        assert await client.ingest([Path("docs")], "docs", lambda *step: told.append(step)) == report
    assert told == [(1, 2, 4), (2, 2, 8)]


async def test_a_connection_is_used_again_and_calls_at_once_have_their_own(tmp_path: Path) -> None:
    async with answering(tmp_path, always({"result": 7})) as (client, server):
        for _ in range(3):
            assert await client.rebuild("docs", silent) == 7
        assert server.connections == 1
        assert await asyncio.gather(*(client.rebuild("docs", silent) for _ in range(3))) == [7, 7, 7]
        assert server.connections == 3


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("UnknownCollection", UnknownCollection), ("WrongEmbedder", WrongEmbedder), ("OfAnotherVersion", RetrievalError)],
)
async def test_errors_of_the_index_are_raised_here_as_what_they_are(
    tmp_path: Path, kind: str, expected: type[RetrievalError]
) -> None:
    async with answering(tmp_path, always({"error": {"kind": kind, "text": "what to do"}})) as (client, server):
        for _ in range(2):
            with pytest.raises(RetrievalError, match="what to do") as caught:
                await client.collections()
            assert type(caught.value) is expected
        assert server.connections == 1  # an error is an answer: the connection is still good


async def test_a_call_that_is_cancelled_takes_its_connection_with_it(tmp_path: Path) -> None:
    """Its answer, when it came, would be taken for the next call's."""
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await read_frame(reader)
        if frame["args"]["collection"] == "slow":
            asked.set()
            await reader.read(1)  # until the caller leaves
            return
        writer.write(framed({"result": 2}))

    async with answering(tmp_path, answer) as (client, server):
        call = asyncio.ensure_future(client.rebuild("slow", silent))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.ended.wait()
        assert await client.rebuild("quick", silent) == 2
        assert server.connections == 2


async def test_without_an_index_process_it_is_down(tmp_path: Path) -> None:
    for data in (tmp_path, tmp_path / "no folder"):
        with pytest.raises(IndexDown, match="does not answer"):
            await Client(data).collections()


async def test_one_that_was_never_there_and_is_on_its_way_is_starting(tmp_path: Path) -> None:
    client = Client(tmp_path)
    client.starting = True
    with pytest.raises(IndexStarting, match="still starting"):
        await client.collections()
    client.starting = False
    with pytest.raises(IndexDown, match="does not answer"):
        await client.collections()


async def test_a_socket_that_nobody_listens_on_is_down(tmp_path: Path) -> None:
    async with answering(tmp_path, always({"result": 1})):
        pass
    (tmp_path / SOCKET).touch()
    with pytest.raises(IndexDown, match="does not answer"):
        await Client(tmp_path).collections()


@pytest.mark.parametrize("half", [b"", b"\x00\x00", framed({"result": []})[:-1], b"\xff\xff\xff\xff{}"])
async def test_an_index_that_goes_away_or_talks_nonsense_during_a_call_is_down(tmp_path: Path, half: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(half)

    async with answering(tmp_path, answer) as (client, _):
        with pytest.raises(IndexDown, match="went away during the call"):
            await client.collections()


async def test_an_index_that_was_restarted_is_asked_on_a_new_connection(tmp_path: Path) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(framed({"result": 7}))

    async with answering(tmp_path, once) as (client, server):
        for expected in (1, 2):
            assert await client.rebuild("docs", silent) == 7
            await server.ended.wait()
            await asyncio.to_thread(bool)  # once around the loop: the client's end has read that it is over
            assert server.connections == expected


async def test_a_folder_of_any_depth_can_be_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("größe" * 20)
    deep.mkdir(parents=True)
    async with answering(deep, always({"result": 7})) as (client, _):
        assert await client.rebuild("docs", silent) == 7
    assert [path.name for path in deep.iterdir()] in ([SOCKET], [])
