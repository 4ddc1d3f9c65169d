"""The store at scale: a Qdrant server or cluster through qdrant-client, one Qdrant collection for all tenants.

The points are those of the embedded store (`retrieval.stores.schema`), and so are the scores. Our collections are
tenants of one Qdrant collection, made as Qdrant recommends for that: a tenant index, no HNSW graph over everything
(`m=0`) but one within each tenant (`payload_m`), for no query ever looks across tenants. BM25 statistics of one tenant
alone need `idf.corpus`, which came with Qdrant 1.19: an older server is refused, as it would mix them in silence.

`local` opens qdrant-client's own imitation of a server, in memory or in a folder. It is for tests: same answers
(`idf.corpus` included), but brute force in Python on the event loop, and it unpickles its folder.
"""

import asyncio
import math
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.lexical.terms import query_vectors
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.conditions import Words, within
from retrieval.stores.schema import (
    BATCH,
    BM25,
    DENSE,
    GROUPS,
    MARKS,
    MODIFIED_S,
    MOST_INDEXED,
    PAGE,
    SOURCE,
    TENANT,
    by_arm,
    checked,
    checked_k,
    checked_points,
    indexed,
    limits,
    longer,
    passage_of,
    payload_of,
    tied,
    vectors_of,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.http.exceptions import UnexpectedResponse
    from qdrant_client.models import CollectionInfo, Filter, QueryRequest, SparseVector, VectorParams

Answer = TypeVar("Answer")

OLDEST_SERVER = (1, 19)  # the first with idf.corpus
LINKS = 16  # edges of a point within its tenant's HNSW graph: Qdrant's default `m`
_OVERSAMPLING = {"int8": 2.0, "binary": 4.0}  # how many more than asked for are compared again with whole vectors

Quantisation = Literal["none", "int8", "binary"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a collection lies on the servers. It is settled when the collection is made."""

    shards: int
    replicas: int
    quantisation: Quantisation  # what of the vectors is kept in memory; whole ones lie on disk then


ONE_SERVER = Layout(shards=1, replicas=1, quantisation="none")  # local mode has nothing else


class QdrantStore:
    """Points in one collection of a Qdrant server; see `retrieval.stores.base.Store` for the promises."""

    def __init__(
        self,
        client: "AsyncQdrantClient",
        *,
        collection: str,
        dimension: int,
        where: str,
        timeout_s: float | None,
        layout: Layout = ONE_SERVER,
    ) -> None:
        self._client = client
        self._collection = collection
        self._dimension = dimension
        self._where = where  # host and port, for messages: a URL may hold a password
        self._timeout_s = timeout_s
        self._layout = layout
        self._server = False  # the imitation has no payload indexes and says so with a warning
        self._indexed: set[str] = set()  # fields of numbers and dates, by this process
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        api_key: str | None,
        collection: str,
        dimension: int,
        timeout_s: float,
        layout: Layout = ONE_SERVER,
    ) -> Self:
        """The store in `collection` of the server at `url`, made if there is none. timeout_s holds for each request.

        Raises IndexDown if the server does not answer, RetrievalError if it is too old, refuses the key, or has a
        collection of that name that is not ours or of another dimension.
        """
        from qdrant_client import AsyncQdrantClient

        client = AsyncQdrantClient(  # None, not "": it warns of any key that goes over plain http
            url=url, api_key=api_key or None, timeout=math.ceil(timeout_s), check_compatibility=False
        )
        parts = urlsplit(url if "//" in url else f"//{url}")
        where = f"{parts.hostname}:{parts.port or 6333}"
        store = cls(client, collection=collection, dimension=dimension, where=where, timeout_s=timeout_s, layout=layout)
        try:
            await store._check_version()
            await store._prepare(server=True)
        except BaseException:  # cancelled, too: no connection stays behind
            await store.close()
            raise
        return store

    @classmethod
    async def local(cls, location: str, *, collection: str, dimension: int) -> Self:
        """The same without a server: `location` is ":memory:" or a folder. For tests and small trials."""
        from qdrant_client import AsyncQdrantClient

        try:
            client = AsyncQdrantClient(":memory:") if location == ":memory:" else AsyncQdrantClient(path=location)
        except RuntimeError as error:
            message = f"cannot open {location}: another process has it open. Stop that, or use another folder"
            raise DataInUse(message) from error
        where = Path(location).name
        store = cls(client, collection=collection, dimension=dimension, where=where, timeout_s=None)
        try:
            await store._prepare(server=False)
        except BaseException:  # nor the lock of the folder
            await store.close()
            raise
        return store

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        from qdrant_client import models

        ready = checked_points(points, self._dimension)
        if self._server:
            for field in sorted({*indexed(points)} - self._indexed)[: MOST_INDEXED - len(self._indexed)]:
                await self._index(field)
                self._indexed.add(field)
        for start in range(0, len(ready), BATCH):
            batch = []
            for point, numbers in ready[start : start + BATCH]:
                words = models.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
                payload = payload_of(tenant, point)
                batch.append(models.PointStruct(id=point.id, vector={DENSE: numbers, BM25: words}, payload=payload))
            await self._reply("write", self._client.upsert(self._collection, batch, wait=True))

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        from qdrant_client import models

        if ids:
            these = models.Filter(must=[models.HasIdCondition(has_id=list(ids)), _only(tenant)])
            await self._delete(these)

    async def drop(self, tenant: str) -> None:
        await self._delete(_only(tenant))

    async def search(
        self,
        tenants: Sequence[str],
        vector: Vector | None,
        terms: Sequence[tuple[str, float]],
        *,
        k: int,
        view: View = PUBLIC,
    ) -> Mapping[str, list[ScoredId]]:
        numbers = [] if vector is None else checked(vector, self._dimension)
        sparse = query_vectors(tenants, terms)
        checked_k(k)
        found = await self._ask(limits(tenants, k, dense=vector is not None, sparse=sparse), numbers, sparse, view, k)
        if again := longer(found, k):
            found |= await self._ask(again, numbers, sparse, view, k)
        return by_arm(found, k)

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        if not ids:
            return {}
        records = await self._reply("read", self._client.retrieve(self._collection, list(ids), with_payload=True))
        return {str(record.id): passage_of(record.payload or {}) for record in records}

    async def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        if not ids:
            return {}
        call = self._client.retrieve(self._collection, list(ids), with_payload=False, with_vectors=[DENSE])
        return vectors_of(await self._reply("read", call))

    async def count(self, tenant: str) -> int:
        call = self._client.count(self._collection, count_filter=_only(tenant), exact=True)
        return (await self._reply("count points", call)).count

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        found: list[tuple[str, Passage]] = []
        offset = None
        while True:
            call = self._client.scroll(
                self._collection, scroll_filter=_only(tenant, view), limit=PAGE, offset=offset, with_payload=True
            )
            records, offset = await self._reply("read", call)
            found += [(str(record.id), passage_of(record.payload or {})) for record in records]
            if offset is None:
                return sorted(found, key=lambda pair: pair[0])

    async def close(self) -> None:
        """Let the requests under way end, then the connections; a second call does nothing."""
        if self._running:
            await asyncio.wait(self._running, timeout=self._timeout_s)
        await self._client.close()

    async def _ask(
        self,
        lists: Mapping[tuple[str, str], int],
        numbers: list[float],
        sparse: Mapping[str, Sparse],
        view: View,
        k: int,
    ) -> dict[tuple[str, str], list[ScoredId]]:
        """(arm, tenant) -> its points, best first, as by `tied`. All lists in one request."""
        from qdrant_client import models

        requests = []
        for (arm, tenant), limit in lists.items():
            if arm == DENSE:
                requests.append(_nearest(numbers, _only(tenant, view), limit, self._layout.quantisation))
            else:
                said = sparse[tenant]
                words = models.SparseVector(indices=list(said.indices), values=list(said.values))
                readable = _only(tenant, replace(view, filter=""))
                requests.append(_holding(words, _only(tenant, view), readable, limit))
        if not requests:
            return {}
        answers = await self._reply("search", self._client.query_batch_points(self._collection, requests))
        return {of: tied(answer.points, k) for of, answer in zip(lists, answers, strict=True)}

    async def _delete(self, these: "Filter") -> None:
        from qdrant_client import models

        selected = models.FilterSelector(filter=these)
        await self._reply("delete", self._client.delete(self._collection, selected, wait=True))

    async def _check_version(self) -> None:
        version = (await self._reply("tell its version", self._client.info())).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and tuple(map(int, numbers.groups())) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise RetrievalError(
                f"Qdrant at {self._where} is {version}, {oldest} or later is needed: update the server"
            )

    async def _prepare(self, *, server: bool) -> None:
        """Make the collection and its tenant index where they are missing; several gateways may do so at once."""
        from qdrant_client import models

        if not await self._reply("look up the collection", self._client.collection_exists(self._collection)):
            await self._reply("make the collection", self._create())
        self._check(await self._reply("describe the collection", self._client.get_collection(self._collection)))
        self._server = server
        if server:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            call = self._client.create_payload_index(self._collection, TENANT, tenants, wait=True)
            await self._reply("index the tenants", call)
            for field in (GROUPS, MARKS, SOURCE, MODIFIED_S):
                await self._index(field)

    async def _index(self, field: str) -> None:
        """Have filters by it find points quickly."""
        from qdrant_client import models

        schema: Any = models.PayloadSchemaType.FLOAT
        if field in (GROUPS, MARKS, SOURCE):
            schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=field == SOURCE)
        call = self._client.create_payload_index(self._collection, field, schema, wait=True)
        await self._reply(f"index {field}", call)

    async def _create(self) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        try:
            await self._client.create_collection(
                self._collection,
                vectors_config={DENSE: _dense(self._dimension, self._layout.quantisation)},
                sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=LINKS),
                shard_number=self._layout.shards,
                replication_factor=self._layout.replicas,
            )
        except UnexpectedResponse as error:
            if error.status_code != HTTPStatus.CONFLICT:  # another gateway was quicker: what it made is checked next
                raise

    def _check(self, info: "CollectionInfo") -> None:
        from qdrant_client import models

        vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors or {}
        dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
        name = f"the Qdrant collection {self._collection!r} at {self._where}"
        if dense is None or BM25 not in sparse or sparse[BM25].modifier != models.Modifier.IDF:
            raise RetrievalError(f"{name} was not made by ragway: give qdrant.collection another name")
        if dense.size != self._dimension:
            raise RetrievalError(
                f"{name} holds vectors of {dense.size} dimensions, the embedder makes {self._dimension}: configure the "
                "embedder it was made with, or another qdrant.collection and run `ragway rebuild`"
            )

    async def _reply(self, doing: str, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The server's answer to one request, its errors turned into ours.

        The request is a task of its own and is never cancelled, neither by its caller nor by our timeout: httpx below
        loses the connection's slot in its pool when that happens. It ends by httpx's own timeout.
        """
        task = asyncio.create_task(call)
        self._running.add(task)
        task.add_done_callback(self._ended)
        asked = f"Qdrant at {self._where} did not {doing}"
        if not (await asyncio.wait({task}, timeout=self._timeout_s))[0]:
            raise IndexDown(f"{asked} within {self._timeout_s} s: is it overloaded, or qdrant.timeout_s too short?")
        return _answer_of(task, asked)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it for a caller who has left


def _answer_of(task: "asyncio.Task[Answer]", asked: str) -> Answer:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        return task.result()
    except ResponseHandlingException as error:
        cause = f"{type(error.source).__name__}: {error.source}".rstrip(": ")
        raise IndexDown(f"{asked} ({cause}): does it run, and do qdrant.url and the network lead to it?") from error
    except JSONDecodeError as error:
        raise IndexDown(f"{asked} but sent no JSON: is qdrant.url that of a Qdrant server?") from error
    except AssertionError as error:  # qdrant-client's own, of JSON without a "result"
        raise IndexDown(f"{asked} but sent no result: is qdrant.url that of a Qdrant server?") from error
    except ResourceExhaustedResponse as error:
        raise IndexDown(f"{asked}: too many requests, try again in {error.retry_after_s} s") from error
    except UnexpectedResponse as error:
        raise _refusal(asked, error) from error


def _refusal(asked: str, error: "UnexpectedResponse") -> RetrievalError:
    status = error.status_code or 0
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return RetrievalError(f"{asked}: it refused the API key ({status}). Check qdrant.api_key")
    said = f"{status} {error.content[:300].decode('utf-8', 'replace')}".strip()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return IndexDown(f"{asked}: {said}. See the server's log")
    return RetrievalError(f"{asked}: {said}. If the collection was deleted, run `ragway rebuild`")


def _only(tenant: str, view: View = ALL) -> "Filter":
    """What there is of the tenant in this view."""
    from qdrant_client import models

    words = Words(
        models.Filter, models.FieldCondition, models.MatchValue, models.MatchAny, models.MatchPrefix, models.Range
    )
    found: models.Filter = within(words, tenant, view)
    return found


def _dense(dimension: int, quantisation: Quantisation) -> "VectorParams":
    from qdrant_client import models

    small: models.ScalarQuantization | models.BinaryQuantization | None = None
    if quantisation == "int8":
        small = models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        )
    elif quantisation == "binary":
        small = models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return models.VectorParams(
        size=dimension, distance=models.Distance.COSINE, quantization_config=small, on_disk=small is not None or None
    )


def _nearest(numbers: list[float], seen: "Filter", limit: int, quantisation: Quantisation) -> "QueryRequest":
    """The dense arm's query within what is seen of one tenant."""
    from qdrant_client import models

    params = None
    if quantisation != "none":
        again = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING[quantisation])
        params = models.SearchParams(quantization=again)
    return models.QueryRequest(query=numbers, using=DENSE, filter=seen, params=params, limit=limit, with_payload=False)


def _holding(words: "SparseVector", seen: "Filter", readable: "Filter", limit: int) -> "QueryRequest":
    """The lexical arm's query within what is seen of one tenant; words are as rare as in all that is readable."""
    from qdrant_client import models

    params = models.SearchParams(idf=models.IdfCorpusParams(corpus=readable))
    return models.QueryRequest(query=words, using=BM25, filter=seen, params=params, limit=limit, with_payload=False)
