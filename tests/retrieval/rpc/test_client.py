"""The client of the index process: records arrive equal, and every broken connection raises an error of ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import IndexDown, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import EmbedderChoice, HitOptions, Knowledge, Plan, Progress, SearchRequest
from retrieval.records.documents import (
    Attribute,
    CollectionInfo,
    DocumentInfo,
    DocumentLocation,
    FullDocument,
    Groups,
    Passage,
)
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import (
    DocumentChange,
    EnrichmentPlan,
    Failure,
    IngestReport,
    MissingEnrichment,
    Note,
    PendingDocument,
    Secret,
)
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.points import PointFaults
from retrieval.records.search import Calibration, Context, Hit, Query, Retrieved, Turn, View
from retrieval.records.sync import SourceReport, SourceSpec
from retrieval.records.traces import SearchedCollection, Trace
from retrieval.rpc.client import (
    OPERATIONS,
    PARTS,
    SOCKET,
    IndexClient,
    ProgressReport,
    RemoteMethod,
    answer_frame,
    encode,
    framed,
    reachable,
)
from retrieval.rpc.server import IndexServer
from tests.support.frames import error_frame, read_call
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


def sent(record: Any, kind: Any) -> Any:
    """The record after the way over the socket."""
    return msgspec.msgpack.decode(encode(record), type=kind)


@given(retrieved)
def test_a_search_result_arrives_equal(record: Retrieved) -> None:
    assert sent(record, Retrieved) == record


def test_a_trace_arrives_equal() -> None:
    trace = Trace(
        (SearchedCollection("docs", 2, "m", "en"),),
        ["i", "j"],
        [1.0, 0.5],
        {"bm25": [None, 1]},
        {"bm25": [None, 7.5]},
        ["kept", "surplus"],
    )
    record = Retrieved(Query("q", (), (), "first"), (), Context((), 0, 0), {}, 0.5, trace)
    assert sent(record, Retrieved) == record


def test_numbers_and_attributes_arrive_with_their_types() -> None:
    attributes: dict[str, Attribute] = {"year": 2024, "weight": 1.0, "draft": True, "tags": ["a"], "product": "x"}
    passage = Passage("d", 1, 0, "t", "s", 2.0, (), 0, 1, "x", 3, attributes)
    found = Hit("a", 1.0, passage, {"dense": 1}, {"dense": 1.0})
    record = Retrieved(Query("q", (), (), "first"), (found,), Context((passage,), 3, 0), {})
    hit = sent(record, Retrieved).hits[0]
    assert (type(hit.score), type(hit.passage.modified_s), type(hit.passage.tokens)) == (float, float, int)
    assert [type(value) for value in hit.passage.attributes.values()] == [int, float, bool, list, str]
    assert hash(hit.passage) == hash(passage)


def test_a_plan_arrives_equal(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, {"qdrant.url": "http://q:6333"})
    assert msgspec.json.decode(orjson.dumps(plan), type=Plan) == plan


# Every operation

PATH = Path("/caf\udce9.md")
RECORDS: dict[Any, Any] = {
    Progress: silent,
    Sequence[Path]: [PATH],
    Sequence[DocumentInput]: [DocumentInput("k", "s", b"\xff\x00", attributes={"n": 1}, groups=None, writer=("a",))],
    PendingDocument: PendingDocument("k", "s"),
    EmbedderChoice | None: EmbedderChoice("m", "onnx", "fp32", None, "p", "", 0),
    SearchRequest: SearchRequest(
        [Turn("user", "q")], ["a", "b"], 7, 7, View(("a",), "year > 2020"), HitOptions("bm25"), True
    ),
    Groups: ["a"],
    Sequence[str]: ["a", "b"],
    str: "text", str | None: None, int: 7, int | None: 7, bool: True, type(None): None, bytes: b"\x00\xff",
    list[str]: ["a"], dict[str, str]: {"a": "b"},
    IngestReport: IngestReport(
        "docs", 1, 2, 3, 4, 5, {"binary": 2}, [Failure("/a", "empty")], ["a -> b"], ["a.pdf"], 6,
        [DocumentChange("added", "a.md", "content")], [Note("/b", "read as latin-1")], 8,
        [Secret("/c", 3, "npm token")],
    ),
    SourceSpec: (spec := SourceSpec("n", "folder", ("/hb",), ("*.csv",), ("/other",))),
    Sequence[SourceSpec]: [spec],
    SourceReport: (
        synced := SourceReport(
            "n", "synced", ["a"], ["b"], [("c", "d")], ["e"], 5, 6, 7, {"binary": 2}, [], ["a -> b"],
            [Secret("/c", 3, "npm token")],
        )
    ),
    list[SourceReport]: [synced],
    float | None: 1.5,
    list[Calibration]: [Calibration("m", ["docs"], 99, 32, 0.99, 1.2, -3.0, 1.29, -3.21)],
    PointFaults: PointFaults(1, ("p",), 2, ("docs@1",), True),
    tuple[PendingDocument, ...]: (PendingDocument("k", "s"),),
    EnrichmentPlan: EnrichmentPlan("t", "text", (MissingEnrichment("k", "context", 0, 4, ("H",)),)),
    tuple[WriteResult, ...]: (WriteResult("k", "created", "id"),),
    Job: (job := Job("id", "docs", "running", 1.0, 2.0, {"created": 1}, "", [WriteResult("k", "created", "id")])),
    list[Job]: [job],
    list[UnfinishedAttachment]: [UnfinishedAttachment("docs", "file-1", "failed", "why", 1.0)],
    UploadedFile: (file := UploadedFile("file-1", "a.md", "assistants", 1.0, 7)),
    list[UploadedFile]: [file],
    list[CollectionInfo]: [CollectionInfo("docs", 1, 2, "tiny", 1700000000.0)],
    list[DocumentInfo]: [info := DocumentInfo("id", "docs", "s", "t", "text", 1.0, 2, 3, {"a": True}, ("g",), "k")],
    FullDocument: FullDocument(info, "text"),
    list[DocumentLocation]: [DocumentLocation("id", "docs", 3)],
    dict[str, Passage]: {"p": Passage("d", 1, 0, "t", "s", 2.0, ("h",), 0, 1, "x", 3)},
    Retrieved: Retrieved(Query("q", (("q", 1.0),), (("q", 1.0),), "first"), (), Context((), 0, 0), {"search": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
async def test_an_operation_crosses_the_socket(tmp_path: Path, operation: RemoteMethod) -> None:
    method = getattr(PARTS[operation.part], operation.name)
    hints = get_type_hints(method)
    expected = RECORDS[hints.pop("return")]
    given = {name: RECORDS[kind] for name, kind in hints.items()}
    called: list[dict[str, Any]] = []

    async def implementation(**arguments: Any) -> Any:
        called.append(arguments)
        return expected

    index = SimpleNamespace(**{part: SimpleNamespace(**{operation.name: implementation}) for part in PARTS})
    async with IndexServer(cast(Knowledge, index)).listening(tmp_path):
        client = IndexClient(tmp_path)
        assert await getattr(getattr(client, operation.part), operation.name)(**given) == expected
        await client.close()
    (arguments,) = called
    for name in {operation.progress} if operation.progress else set():
        given[name] = arguments[name]  # the server's callback
    assert arguments == given


# The client, against a server that does as each test says

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
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
async def answering(data: Path, answer: Answer) -> AsyncIterator[tuple[IndexClient, ScriptedServer]]:
    server = ScriptedServer(answer)
    with reachable(data) as path:
        listening = await asyncio.start_unix_server(server.serve, path)
    client = IndexClient(data)
    try:
        yield client, server
    finally:
        await client.close()
        if server.connections:
            await server.ended.wait()
        listening.close()


def always(frame: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_call(reader)
            writer.write(frame)
            await writer.drain()

    return answer


async def test_reports_progress_before_the_result(tmp_path: Path) -> None:
    report = IngestReport("docs", 2, 0, 0, 0, 9, {}, [], [], [], 0, [], [], 0, [])
    told: list[tuple[int, int, int, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = await read_call(reader)
        assert OPERATIONS[call.operation].decode_arguments(call.arguments).paths == [Path.cwd() / "docs"]
        for done in (1, 2):
            writer.write(framed(encode(ProgressReport(done, 2, done * 4, f"{done}.md"))))
        writer.write(answer_frame(report))

    async with answering(tmp_path, answer) as (client, _):
        assert await client.writing.ingest([Path("docs")], "docs", lambda *step: told.append(step)) == report
    assert told == [(1, 2, 4, "1.md"), (2, 2, 8, "2.md")]


async def test_a_connection_is_used_again_and_calls_at_once_have_their_own(tmp_path: Path) -> None:
    async with answering(tmp_path, always(answer_frame(7))) as (client, server):
        for _ in range(3):
            assert await client.writing.rebuild("docs", silent) == 7
        assert server.connections == 1
        assert await asyncio.gather(*(client.writing.rebuild("docs", silent) for _ in range(3))) == [7, 7, 7]
        assert server.connections == 3


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("UnknownCollection", UnknownCollection), ("WrongEmbedder", WrongEmbedder), ("OfAnotherVersion", RetrievalError)],
)
async def test_errors_of_the_index_are_raised_here_as_what_they_are(
    tmp_path: Path, kind: str, expected: type[RetrievalError]
) -> None:
    async with answering(tmp_path, always(error_frame(kind, "what to do"))) as (client, server):
        for _ in range(2):
            with pytest.raises(RetrievalError, match="what to do") as caught:
                await client.library.collections()
            assert type(caught.value) is expected
        assert server.connections == 1  # an error is an answer: the connection is still good


async def test_a_call_that_is_cancelled_takes_its_connection_with_it(tmp_path: Path) -> None:
    """Its answer, when it came, would be taken for the next call's."""
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = await read_call(reader)
        if OPERATIONS[call.operation].decode_arguments(call.arguments).collection == "slow":
            asked.set()
            await reader.read(1)  # until the caller leaves
            return
        writer.write(answer_frame(2))

    async with answering(tmp_path, answer) as (client, server):
        call = asyncio.ensure_future(client.writing.rebuild("slow", silent))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.ended.wait()
        assert await client.writing.rebuild("quick", silent) == 2
        assert server.connections == 2


async def test_without_an_index_process_it_is_down(tmp_path: Path) -> None:
    for data in (tmp_path, tmp_path / "no folder"):
        with pytest.raises(IndexDown, match="does not answer"):
            await IndexClient(data).library.collections()


async def test_one_that_was_never_there_and_is_on_its_way_is_starting(tmp_path: Path) -> None:
    client = IndexClient(tmp_path)
    client.expect_start(patience_s=60)
    with pytest.raises(IndexStarting, match="still starting"):
        await client.library.collections()
    client.end_start()
    with pytest.raises(IndexDown, match="does not answer"):
        await client.library.collections()


async def test_a_wait_for_the_start_ends_with_the_start_or_with_the_patience(tmp_path: Path) -> None:
    client = IndexClient(tmp_path)
    await client.until_started()  # no start is expected
    client.expect_start(patience_s=0)
    await client.until_started()
    client.expect_start(patience_s=60)
    waiting = asyncio.create_task(client.until_started())
    await asyncio.sleep(0)
    assert not waiting.done()
    client.end_start()
    await waiting


async def test_a_socket_that_nobody_listens_on_is_down(tmp_path: Path) -> None:
    async with answering(tmp_path, always(answer_frame(1))):
        pass
    (tmp_path / SOCKET).touch()
    with pytest.raises(IndexDown, match="does not answer"):
        await IndexClient(tmp_path).library.collections()


@pytest.mark.parametrize("half", [b"", b"\x00\x00", answer_frame([])[:-1], b"\xff\xff\xff\xff{}"])
async def test_an_index_that_goes_away_or_talks_nonsense_during_a_call_is_down(tmp_path: Path, half: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_call(reader)
        writer.write(half)

    async with answering(tmp_path, answer) as (client, _):
        with pytest.raises(IndexDown, match="went away during the call"):
            await client.library.collections()


async def test_an_index_that_was_restarted_is_asked_on_a_new_connection(tmp_path: Path) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_call(reader)
        writer.write(answer_frame(7))

    async with answering(tmp_path, once) as (client, server):
        for expected in (1, 2):
            assert await client.writing.rebuild("docs", silent) == 7
            await server.ended.wait()
            await asyncio.to_thread(bool)  # once around the loop: the client's end has read that it is over
            assert server.connections == expected


async def test_a_folder_of_any_depth_can_be_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("größe" * 20)
    deep.mkdir(parents=True)
    async with answering(deep, always(answer_frame(7))) as (client, _):
        assert await client.writing.rebuild("docs", silent) == 7
    assert [path.name for path in deep.iterdir()] in ([SOCKET], [])
