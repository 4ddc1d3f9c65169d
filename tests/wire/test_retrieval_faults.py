"""However retrieval fails, the chat goes through unaugmented and in time, and says why; or is refused where it must be.

Below: a socket that misbehaves in every way; a real index with a fault in it; `ragway serve` on a damaged data folder.
The Qdrant server's faults are in test_qdrant_faults, the index process's in test_index_process.
"""

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.embedding.embed import PROBES, Embedder, Matrix
from retrieval.embedding.hashing import HASH
from retrieval.index.index import Index
from retrieval.rpc.client import SOCKET, answer_frame, encode, framed
from retrieval.rpc.server import IndexServer
from retrieval.search.retriever import Retriever
from retrieval.stores.edge import EdgeStore
from tests.support.copies import copied
from tests.support.faulty_gateway import Gates, gates
from tests.support.frames import error_frame, read_call
from tests.support.gateway import serving
from tests.support.plans import plan_for, silent
from tests.support.recording_upstream import Recorder
from tests.support.tiny_model import make_tiny_model

DEADLINE_S = 0.3

# The socket


@contextlib.contextmanager
def listening(data: Path, *, backlog: int | None) -> Iterator[socket.socket]:
    """A socket in the data folder that nobody accepts from; None: bound, and nobody listens."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(data / SOCKET))
        if backlog is not None:
            sock.listen(backlog)
        yield sock


@contextlib.contextmanager
def filled(data: Path) -> Iterator[None]:
    """A socket with as many callers in its queue as it takes."""
    with listening(data, backlog=0), contextlib.ExitStack() as callers:
        while True:
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            try:
                caller.connect(str(data / SOCKET))
            except BlockingIOError:
                break
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder whose path is short enough for a socket's."""
    return tmp_path


async def test_a_missing_socket_costs_the_context_alone(folder: Path) -> None:
    async with gates(folder, deadline_s=DEADLINE_S) as both:
        await both.degraded("index is down")
    async with gates(folder / "no folder", deadline_s=DEADLINE_S) as both:
        await both.degraded("index is down")


async def test_a_file_in_the_sockets_place_costs_the_context_alone(folder: Path) -> None:
    (folder / SOCKET).write_bytes(b"not a socket")
    async with gates(folder, deadline_s=DEADLINE_S) as both:
        await both.degraded("index is down")


async def test_a_socket_nobody_listens_on_costs_the_context_alone(folder: Path) -> None:
    with listening(folder, backlog=None):
        async with gates(folder, deadline_s=DEADLINE_S) as both:
            await both.degraded("index is down")


async def test_a_socket_whose_queue_is_full_costs_the_context_alone(folder: Path) -> None:
    with filled(folder):
        async with gates(folder, deadline_s=DEADLINE_S) as both:
            await both.degraded("index is down")


async def test_a_call_that_is_never_accepted_costs_the_deadline(folder: Path) -> None:
    with listening(folder, backlog=64):
        async with gates(folder, deadline_s=DEADLINE_S) as both:
            await both.degraded("retrieval took too long")


class Scripted:
    """An index process that answers every call with the same bytes, and then closes or goes on."""

    def __init__(self) -> None:
        self.says = b""
        self.closes = False
        self.answering = asyncio.Event()  # cleared: it reads, and says nothing
        self.answering.set()
        self.checked = asyncio.Event()
        self.calls: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while not self.closes or not self.calls:
                self.calls.append((await read_call(reader)).operation)
                if self.calls[-1] == "check":
                    self.checked.set()
                await self.answering.wait()
                writer.write(self.says)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def scripted(data: Path) -> AsyncIterator[tuple[Gates, Scripted]]:
    index = Scripted()
    server = await asyncio.start_unix_server(index.serve, str(data / SOCKET))
    try:
        async with gates(data, deadline_s=DEADLINE_S) as both:
            yield both, index
    finally:
        index.answering.set()
        server.close()


NONSENSE = {
    "no MessagePack": b"\x00\x00\x00\x06<html>",
    "no array": b"\x00\x00\x00\x02{}",
    "not UTF-8": b"\x00\x00\x00\x04\xff\xfe\x00\x01",
    "an oversized frame": (2**31).to_bytes(4, "big") + b"{}",
    "no reply": framed(encode({"what": 1})),
    "an empty result": answer_frame(None),
    "another result": answer_frame({"query": [], "hits": {"a": 1}}),
    "half an error": framed(encode(["Failed", "IndexDown"])),
    "progress without numbers": framed(encode(["Step", "7"])) + answer_frame(7),
}


@pytest.mark.parametrize("says", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_from_the_index_costs_the_context_alone(folder: Path, says: bytes) -> None:
    async with scripted(folder) as (both, index):
        index.says = says
        await both.degraded("index is down")


@pytest.mark.parametrize("half", [b"", b"\x00", b"\x00\x00\x01\x00{", answer_frame(None)[:-1]])
async def test_an_answer_cut_short_costs_the_context_alone(folder: Path, half: bytes) -> None:
    async with scripted(folder) as (both, index):
        index.says, index.closes = half, True
        await both.degraded("index is down")


async def test_an_answer_that_never_ends_costs_the_deadline(folder: Path) -> None:
    async with scripted(folder) as (both, index):
        index.says = answer_frame(None)[:-1]
        await both.degraded("retrieval took too long")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("IndexDown", "index is down"),
        ("IndexSilent", "index does not answer"),
        ("WrongEmbedder", "index was built with another embedder"),
        ("RetrievalError", "index cannot be searched"),
        ("DiskFull", "index cannot be searched"),
        ("OfAnotherVersion", "index cannot be searched"),
    ],
)
async def test_every_refusal_of_the_index_has_its_reason(folder: Path, kind: str, reason: str) -> None:
    async with scripted(folder) as (both, index):
        index.says = error_frame(kind, "what to do")
        await both.degraded(reason)


async def test_an_index_that_hangs_does_not_cost_every_chat_its_deadline(folder: Path) -> None:
    async with scripted(folder) as (both, index):
        index.answering.clear()
        await both.degraded("retrieval took too long")
        await both.until(("degraded", "index does not answer"))
        asked = index.calls.count("retrieve")
        for _ in range(20):
            await both.degraded("index does not answer")
        assert index.calls.count("retrieve") == asked  # it was not even asked
        assert index.calls.count("check") == 1
        index.says = error_frame("WrongEmbedder", "")
        index.answering.set()
        await both.until(("degraded", "index was built with another embedder"))  # its own word again


async def test_one_slow_search_does_not_make_others_fail(folder: Path) -> None:
    """A caller that leaves, or a search of its own that takes long, says nothing of the index: the check does."""
    async with scripted(folder) as (both, index):
        index.says = error_frame("UnknownCollection", "") * 2
        index.answering.clear()
        await both.degraded("retrieval took too long")
        index.answering.set()
        await index.checked.wait()
        assert not both.knowledge.silent


# The index


class Raising:
    """The embedder of another index, but for a fault that a test gives it."""

    def __init__(self, inner: Embedder) -> None:
        self.fault: Exception | None = None
        self._inner = inner
        self.name, self.dimension, self.max_tokens = inner.name, inner.dimension, inner.max_tokens
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_documents(texts)

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        if self.fault is not None:
            raise self.fault
        return self._inner.embed_query(texts)


@pytest.fixture(scope="module")
def kept(learned: Callable[[], Path]) -> Path:
    """A data folder that holds the corpus as `docs`; tests take copies."""
    return learned()


@pytest.fixture
def docs(kept: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own that holds the corpus as `docs`."""
    return copied(kept, tmp_path / "data")


@contextlib.asynccontextmanager
async def answering(data: Path, *, model: str = HASH) -> AsyncIterator[Index]:
    """The index of a data folder behind its socket."""
    index = await Index.open(plan_for(data, model=model), serving=False)
    try:
        async with IndexServer(index).listening(data):
            yield index
    finally:
        await index.close()


@pytest.mark.models
@pytest.mark.parametrize("fault", [ValueError("How do I"), MemoryError(), RuntimeError("ONNX: bad allocation")])
async def test_an_embedder_that_raises_costs_the_context_alone(
    docs: Path, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_for(docs)
    async with answering(docs) as index, gates(docs, deadline_s=5) as both:
        assert (await both.chat())[0] == "augmented"
        lane = index._spaces.configured
        embedder = Raising(lane.embedder)
        retriever = Retriever(
            index._catalog, lane.store, embedder, plan.search, probes=embedder.embed_documents(PROBES)
        )
        index._spaces.configured = replace(lane, embedder=embedder, retriever=retriever)
        assert (await both.chat())[0] == "augmented"
        retriever._questions._cache.clear()
        embedder.fault = fault
        await both.degraded("index cannot be searched")
        embedder.fault = None
        assert (await both.chat())[0] == "augmented"
    assert "How do I" not in "".join(record.getMessage() for record in caplog.records)


def lost(index: Path) -> None:
    shutil.rmtree(index)


def corrupt(index: Path) -> None:
    (shard,) = index.iterdir()
    (shard / "edge_config.json").write_text("nonsense", "utf-8")


def of_another_dimension(index: Path) -> None:
    (shard,) = index.iterdir()
    shutil.rmtree(shard)
    EdgeStore.open(shard, vectors={"dense": 8})._close()


@pytest.mark.models
@pytest.mark.parametrize("damage", [lost, corrupt, of_another_dimension])
async def test_a_damaged_index_costs_the_context_alone(docs: Path, damage: Callable[[Path], None]) -> None:
    damage(docs / "index")
    async with answering(docs) as index, gates(docs, deadline_s=5) as both:
        await both.degraded("index cannot be searched")
        await index.writing.rebuild("docs", silent)
        assert (await both.chat())[0] == "augmented"


@pytest.mark.models
async def test_an_index_of_another_embedder_costs_the_context_alone(docs: Path, tiny_model: Path) -> None:
    async with answering(docs, model=str(tiny_model)), gates(docs, deadline_s=5) as both:
        await both.degraded("index was built with another embedder")


@pytest.mark.models
async def test_an_index_of_another_embedder_of_the_same_dimension_costs_the_context_alone(
    data: Path, corpus: Path, tiny_model: Path, tmp_path: Path
) -> None:
    async with answering(data, model=str(tiny_model)) as index:
        await index.writing.ingest([corpus], "docs", silent)
    other = make_tiny_model(tmp_path / "other" / "model", seed=1)
    async with answering(data, model=str(other)), gates(data, deadline_s=5) as both:
        await both.degraded("index was built with another embedder")


@pytest.mark.models
async def test_a_catalog_that_cannot_be_read_costs_the_context_alone(docs: Path) -> None:
    async with answering(docs), gates(docs, deadline_s=5) as both:
        for ending in ("", "-wal", "-shm"):
            (docs / f"catalog.sqlite{ending}").write_bytes(b"nonsense" * 512)
        await both.degraded("index cannot be searched")


# `ragway serve`


def test_a_served_gateway_refuses_where_context_is_required(docs: Path, tmp_path: Path, recorder: Recorder) -> None:
    shutil.rmtree(docs / "index")
    settings = f'retrieval: {{require_context: true}}\nmodels: {{gpt-x: {{api_base: "{recorder.url}/v1"}}}}'
    with serving(docs, tmp_path, settings) as gateway:
        reply = gateway.ask("How do I use Zephyr from Kotlin?", model="gpt-x")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "context_unavailable")
        assert reply.headers["x-rag-status"] == "degraded"
        assert recorder.requests == []
        off = gateway.ask("How do I use Zephyr from Kotlin?", model="gpt-x", headers={"x-rag": "off"})
        assert off.status_code == 200
        there = gateway.ask("Hello?", model="rag/nowhere/gpt-x")
        assert (there.status_code, there.json()["error"]["code"]) == (404, "collection_not_found")


def test_required_context_is_missing_where_nothing_was_ingested_yet(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path, "retrieval: {require_context: true}") as gateway:
        reply = gateway.ask("Hello?")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "context_unavailable")
        assert reply.headers["x-rag-reason"] == "no such collection yet"


def test_without_the_collections_of_the_settings_chats_search_what_there_is(
    learned: Callable[[], Path], tmp_path: Path
) -> None:
    settings = "retrieval: {collections: [nowhere]}\nmodels: {echo: {lane: echo}}"
    with serving(learned(), tmp_path, settings) as gateway:
        reply = gateway.ask("How do I use Zephyr from Kotlin?")
        assert reply.headers["x-rag-status"] == "augmented"
        log = gateway.log.read_text()
        assert "--collection nowhere, or name docs in retrieval.collections" in log
        assert "until then, chats search what there is: docs" in log
