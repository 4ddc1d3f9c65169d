"""The server store's own promises: what it says of a server that is away, silent or somebody else's, and no secrets."""

import asyncio
import contextlib
import gc
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.stores.qdrant import ONE_SERVER, Layout, QdrantStore, Quantisation
from tests.contracts.points import DIMENSION, VECTORS, vector_of, words_of
from tests.support.qdrant_server import Qdrant
from tests.support.recording_upstream import Answer, recording
from tests.support.recording_upstream import answering as always
from tests.support.upstream_servers import Received, Wire, certificate, reply, upstream

KEY = "sk-very-secret"
answer_503 = always(reply(b"", status=b"503 Service Unavailable"))


async def connect(port: int, *, timeout_s: float = 5.0) -> QdrantStore:
    return await QdrantStore.connect(
        f"https://user:hunter2@127.0.0.1:{port}", api_key=KEY, collection="c", vectors=VECTORS, timeout_s=timeout_s
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
        ("401 Unauthorized", "no", RetrievalError, "qdrant.api_key_env"),
        ("403 Forbidden", "no", RetrievalError, "qdrant.api_key_env"),
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
                f"http://127.0.0.1:{port}", api_key=None, collection="c", vectors=VECTORS, timeout_s=5
            )
    assert isinstance(raised.value, kind)
    assert isinstance(raised.value, IndexDown) == (kind is IndexDown)
    check_message(raised.value, port)


@contextlib.contextmanager
def node(server: Qdrant) -> Iterator[str]:
    with recording() as recorder:
        recorder.answer = server.answer
        yield recorder.url


async def _silent(wire: Wire, _received: Received) -> None:
    await wire.gone()


async def _closing(wire: Wire, _received: Received) -> None:
    await wire.close()


@pytest.mark.parametrize("fault", [_silent, _closing, answer_503])
async def test_another_node_answers_for_a_node_that_does_not(fault: Answer) -> None:
    first, second = Qdrant(dimension=DIMENSION), Qdrant(dimension=DIMENSION)
    with node(first) as one, node(second) as other:
        store = await QdrantStore.connect(one, other, api_key=None, collection="c", vectors=VECTORS, timeout_s=1.0)
        assert await store.count("a@1") == 0
        assert not second.asked
        first.fault = fault
        assert await store.count("a@1") == 0
        asked = len(first.asked)
        assert await store.count("a@1") == 0  # the node that answered is asked first from now on
        assert len(first.asked) == asked
        first.fault, second.fault = None, fault
        assert await store.count("a@1") == 0
        await store.close()


async def test_without_any_node_the_message_names_all() -> None:
    with socket.socket() as unused, socket.socket() as too:
        urls = []
        for each in (unused, too):
            each.bind(("127.0.0.1", 0))
            urls.append(f"http://127.0.0.1:{each.getsockname()[1]}")
        with pytest.raises(IndexDown) as raised:
            await QdrantStore.connect(*urls, api_key=None, collection="c", vectors=VECTORS, timeout_s=5.0)
    assert all(url.removeprefix("http://") in str(raised.value) for url in urls)


async def test_a_server_of_a_private_authority_is_trusted_by_its_file(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path)
    server = Qdrant(dimension=DIMENSION)

    async def script(wire: Wire) -> None:
        while True:
            await server.answer(wire, await wire.request())

    async with upstream(script, tls=context) as running:
        url = f"https://127.0.0.1:{running.port}"
        named = {"api_key": KEY, "collection": "c", "vectors": VECTORS, "timeout_s": 5.0}
        with pytest.raises(IndexDown, match="CERTIFICATE_VERIFY_FAILED.*qdrant.ca_file"):
            await QdrantStore.connect(url, **named)  # type: ignore[arg-type]
        store = await QdrantStore.connect(url, **named, ca_file=str(authority))  # type: ignore[arg-type]
        assert await store.count("a@1") == 0
        await store.close()
    with pytest.raises(RetrievalError, match=r"qdrant\.ca_file.*absent\.pem.*PEM"):
        await QdrantStore.connect(url, **named, ca_file=str(tmp_path / "absent.pem"))  # type: ignore[arg-type]


async def test_a_collection_of_another_dimension_is_refused(tmp_path: Path) -> None:
    await (await QdrantStore.local(str(tmp_path), collection="c", vectors=VECTORS)).close()
    with pytest.raises(RetrievalError, match=r"8 dimensions.*9.*ragway rebuild"):
        await QdrantStore.local(str(tmp_path), collection="c", vectors={"dense": DIMENSION + 1})
    store = await QdrantStore.local(str(tmp_path), collection="other", vectors={"dense": DIMENSION + 1})
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
            await QdrantStore.local(str(tmp_path), collection=collection, vectors=VECTORS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock file open
async def test_a_folder_open_elsewhere_is_in_use(tmp_path: Path) -> None:
    store = await QdrantStore.local(str(tmp_path), collection="c", vectors=VECTORS)
    with pytest.raises(DataInUse, match="another process"):
        await QdrantStore.local(str(tmp_path), collection="c", vectors=VECTORS)
    gc.collect()  # so that the warning comes here, not in a later test
    await store.close()


# How the collection lies on the servers


class Making(Qdrant):
    """A server that has no collection until it is asked for one, and keeps what it was asked."""

    made: list[dict[str, Any]]
    searches: list[dict[str, Any]]

    async def answer(self, wire: Wire, received: Received) -> None:
        method, target, _ = received.line.decode().split(" ")
        path = target.partition("?")[0]
        said: object = None
        if path.endswith("/points/query/batch"):
            self.searches += orjson.loads(received.body)["searches"]
        if method == "GET" and path.endswith("/exists"):
            said = {"exists": bool(self.made)}
        elif method == "PUT" and re.fullmatch(r"/collections/[^/]+", path):
            self.made.append(orjson.loads(received.body))
            said = True
        if said is None:
            await super().answer(wire, received)
        else:
            body = orjson.dumps({"result": said, "status": "ok", "time": 0.0})
            await wire.send(reply(body, b"content-type: application/json"))


async def asked_of(layout: Layout) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """What a collection is made with, what one search of two tenants asks, and by how many requests."""
    server = Making(dimension=DIMENSION)
    server.made, server.searches = [], []
    with recording() as recorder:
        recorder.answer = server.answer
        store = await QdrantStore.connect(
            recorder.url, api_key="", collection="c", vectors=VECTORS, timeout_s=20, layout=layout
        )
        before = len(server.asked)
        await store.search(["a@1", "b@1"], vector_of(1), words_of("pool", "a@1", "b@1"), k=5)
        asked = len(server.asked) - before
        await store.close()
    return server.made[0], server.searches, asked


async def test_a_search_of_both_arms_and_all_tenants_is_one_request() -> None:
    made, searches, requests = await asked_of(ONE_SERVER)
    assert requests == 1
    assert [search["using"] for search in searches] == ["dense", "dense", "bm25", "bm25"]
    assert [search["filter"]["must"][0]["match"]["value"] for search in searches] == ["a@1", "b@1", "a@1", "b@1"]
    assert [search["limit"] for search in searches] == [6, 6, 105, 105]  # texts of the same words tie: see `schema`
    for search in searches:
        rarity = (search.get("params") or {}).get("idf")
        assert (rarity == {"corpus": search["filter"]}) is (search["using"] == "bm25")
    assert (made["shard_number"], made["replication_factor"]) == (1, 1)
    assert made["vectors"]["dense"].get("quantization_config") is None
    assert (made["hnsw_config"]["m"], made["hnsw_config"]["payload_m"]) == (0, 16)


@pytest.mark.parametrize(("quantisation", "key", "oversampling"), [("int8", "scalar", 2.0), ("binary", "binary", 4.0)])
async def test_small_vectors_stay_in_memory_and_the_best_are_compared_again(
    quantisation: Quantisation, key: str, oversampling: float
) -> None:
    made, searches, _ = await asked_of(Layout(6, 2, quantisation))
    assert (made["shard_number"], made["replication_factor"]) == (6, 2)
    dense = made["vectors"]["dense"]
    assert dense["quantization_config"][key]["always_ram"] is True
    assert dense["on_disk"] is True
    again = [search["params"]["quantization"] for search in searches if search["using"] == "dense"]
    assert [(one["rescore"], one["oversampling"]) for one in again] == [(True, oversampling)] * 2
