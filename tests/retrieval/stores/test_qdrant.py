"""The server store's own promises: what it says of a server that is away, silent or somebody else's, and no secrets."""

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.stores.qdrant import QdrantStore
from tests.contracts.points import DIMENSION

KEY = "sk-very-secret"


async def connect(port: int, *, timeout_s: float = 5.0) -> QdrantStore:
    return await QdrantStore.connect(
        f"https://user:hunter2@127.0.0.1:{port}", api_key=KEY, collection="c", dimension=DIMENSION, timeout_s=timeout_s
    )


def check_message(error: BaseException, port: int) -> None:
    assert f"127.0.0.1:{port}" in str(error)
    assert KEY not in str(error)
    assert "hunter2" not in str(error)


async def test_a_server_that_is_away_is_named_without_its_key() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(IndexDown, match="qdrant.url") as raised:
            await connect(port)
    check_message(raised.value, port)


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(IndexDown, match="0.05 s") as raised:
            await connect(port, timeout_s=0.05)
    check_message(raised.value, port)


async def answering(status: str, body: str) -> asyncio.Server:
    """Something on loopback that gives every request the same answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        ("401 Unauthorized", "no", RetrievalError, "qdrant.api_key"),
        ("403 Forbidden", "no", RetrievalError, "qdrant.api_key"),
        ("500 Internal Server Error", "disk full", IndexDown, "disk full"),
        ("503 Service Unavailable", "", IndexDown, "503"),
        ("404 Not Found", "Collection `c` doesn't exist!", RetrievalError, "Collection `c`.*ragway rebuild"),
        ("200 OK", "<html>", IndexDown, "qdrant.url"),
        ("200 OK", '{"title": "qdrant", "version": "1.18.2"}', RetrievalError, "1.19 or later"),
    ],
)
async def test_a_refusal_says_what_to_check(status: str, body: str, kind: type[RetrievalError], said: str) -> None:
    async with await answering(status, body) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RetrievalError, match=said) as raised:
            await QdrantStore.connect(
                f"http://127.0.0.1:{port}", api_key=None, collection="c", dimension=DIMENSION, timeout_s=5
            )
    assert type(raised.value) is kind
    check_message(raised.value, port)


async def test_a_collection_of_another_dimension_is_refused(tmp_path: Path) -> None:
    await (await QdrantStore.local(str(tmp_path), collection="c", dimension=DIMENSION)).close()
    with pytest.raises(RetrievalError, match=r"8 dimensions.*9.*ragway rebuild"):
        await QdrantStore.local(str(tmp_path), collection="c", dimension=DIMENSION + 1)
    store = await QdrantStore.local(str(tmp_path), collection="other", dimension=DIMENSION + 1)
    await store.close()


async def test_somebody_elses_collection_is_refused(tmp_path: Path) -> None:
    from qdrant_client import AsyncQdrantClient, models

    client = AsyncQdrantClient(path=str(tmp_path))
    vectors = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    await client.create_collection("plain", vectors_config=vectors)
    await client.create_collection("no-idf", {"dense": vectors}, {"bm25": models.SparseVectorParams()})
    await client.close()
    for collection in ("plain", "no-idf"):
        with pytest.raises(RetrievalError, match="not made by ragway"):
            await QdrantStore.local(str(tmp_path), collection=collection, dimension=DIMENSION)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock file open
async def test_a_folder_open_elsewhere_is_in_use(tmp_path: Path) -> None:
    store = await QdrantStore.local(str(tmp_path), collection="c", dimension=DIMENSION)
    with pytest.raises(DataInUse, match="another process"):
        await QdrantStore.local(str(tmp_path), collection="c", dimension=DIMENSION)
    gc.collect()  # so that the warning comes here, not in a later test
    await store.close()
