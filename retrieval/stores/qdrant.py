"""A store at scale: a Qdrant server or cluster through qdrant-client, one Qdrant collection for all tenants.

Points and scores are as in the embedded store (`retrieval.stores.schema`). Our collections are tenants of one Qdrant
collection, as Qdrant recommends: a tenant index, no HNSW graph over all points (`m=0`), but one graph per tenant
(`payload_m`), because no query spans tenants. Separate BM25 statistics per tenant need `idf.corpus`, which came with
Qdrant 1.19. Older servers are refused, because they would silently mix the statistics.

A cluster has several addresses: a request goes to the one that answered last, and to the others in turn if that fails.
If somebody deletes the Qdrant collection, the next request makes an empty one; `retrieval.catalog.audit.check_there`
then finds out which of our collections lost their points, before a search may use them.

`local` opens qdrant-client's own imitation of a server, in memory or in a folder, for tests. Results are the same
(`idf.corpus` included), but it searches by brute force in Python on the event loop, and the client unpickles the
folder.
"""

import asyncio
import contextlib
import logging
import math
import re
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.records.points import Point
from retrieval.records.search import ALL, View
from retrieval.stores.schema import (
    BATCH,
    BM25,
    GROUPS,
    MARKS,
    MODIFIED_S,
    SOURCE,
    TENANT,
    EngineSearch,
    EngineStore,
    Vectors,
    build_filter,
    checked_points,
    payload_of,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.http.exceptions import UnexpectedResponse
    from qdrant_client.models import (
        CollectionInfo,
        Filter,
        PointStruct,
        Record,
        VectorParams,
    )

log = logging.getLogger("ragway")
Answer = TypeVar("Answer")
Call = Callable[["AsyncQdrantClient"], Coroutine[Any, Any, Answer]]

OLDEST_SERVER = (1, 19)  # the first version with idf.corpus
LINKS = 16  # edges per point in a tenant's HNSW graph: Qdrant's default `m`
_OVERSAMPLING = {"int8": 2.0, "binary": 4.0}  # factor of points compared again with full vectors

Quantisation = Literal["none", "int8", "binary"]


@dataclass(frozen=True, slots=True)
class Layout:
    """A collection's layout on the servers, fixed when it is made."""

    shards: int
    replicas: int
    quantisation: Quantisation  # form of vectors in memory; full vectors are then on disk


ONE_SERVER = Layout(shards=1, replicas=1, quantisation="none")  # local mode has no other layout


class _Gone(RetrievalError):
    """The server does not have this collection."""


class _Exists(RetrievalError):
    """The server already has this collection."""


class QdrantStore(EngineStore):
    """Points in one collection of a Qdrant server; see `retrieval.stores.base.Store` for the promises."""

    def __init__(
        self,
        clients: Sequence["AsyncQdrantClient"],
        *,
        collection: str,
        vectors: Vectors,
        where: str,
        timeout_s: float | None,
        layout: Layout = ONE_SERVER,
    ) -> None:
        """clients: one for each address."""
        self.verified: set[str] = set()
        self._clients = clients
        self._at = 0  # index of the client that answered last
        self._collection = collection
        self._vectors = vectors
        self._where = where  # hosts and ports, for messages: a URL may hold a password
        self._timeout_s = timeout_s
        self._layout = layout
        self._server = False  # the imitation has no payload indexes and warns
        self._indexed_fields = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._preparing = asyncio.Lock()

    @classmethod
    async def connect(
        cls,
        *urls: str,
        api_key: str | None,
        collection: str,
        vectors: Vectors,
        timeout_s: float,
        ca_file: str = "",
        layout: Layout = ONE_SERVER,
    ) -> Self:
        """Open or create a store in `collection` on the server at the first of `urls` that answers.

        timeout_s holds for each request to an address. ca_file: certificates to trust, "" for the usual ones.

        Raises IndexDown if no server answers, RetrievalError if it is too old or refuses the key, or if a collection
        of this name is not ours or has another dimension.
        """
        from qdrant_client import AsyncQdrantClient

        trusted: dict[str, Any] = {"verify": _trusting(ca_file)} if ca_file else {}
        clients = [
            AsyncQdrantClient(  # None, not "": the client warns about any key over plain http
                url=url, api_key=api_key or None, timeout=math.ceil(timeout_s), check_compatibility=False, **trusted
            )
            for url in urls
        ]
        where = ", ".join(map(_host_of, urls))
        store = cls(clients, collection=collection, vectors=vectors, where=where, timeout_s=timeout_s, layout=layout)
        return await store._prepared(server=True)

    @classmethod
    async def local(cls, location: str, *, collection: str, vectors: Vectors) -> Self:
        """Open or create a store without a server: `location` is ":memory:" or a folder. For tests and small trials."""
        from qdrant_client import AsyncQdrantClient

        try:
            client = AsyncQdrantClient(":memory:") if location == ":memory:" else AsyncQdrantClient(path=location)
        except RuntimeError as error:
            message = (
                f"cannot open {location}: another process uses the folder. Stop the process, or use another folder"
            )
            raise DataInUse(message) from error
        where = Path(location).name
        store = cls([client], collection=collection, vectors=vectors, where=where, timeout_s=None)
        return await store._prepared(server=False)

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        from qdrant_client import models

        ready = checked_points(points, self._vectors)
        if self._server:
            for field in self._fields_to_index(points):
                await self._index(field)
                self._indexed_fields.add(field)
        for start in range(0, len(ready), BATCH):
            batch = []
            for point, numbers in ready[start : start + BATCH]:
                words = models.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
                payload = payload_of(tenant, point)
                batch.append(models.PointStruct(id=point.id, vector={**numbers, BM25: words}, payload=payload))
            await self._write(batch)

    async def _write(self, batch: "list[PointStruct]") -> None:
        await self._request("write", lambda client: client.upsert(self._collection, batch, wait=True))

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        from qdrant_client import models

        if ids:
            condition = models.Filter(must=[models.HasIdCondition(has_id=list(ids)), _tenant_filter(tenant)])
            await self._delete(condition)

    async def drop(self, tenant: str) -> None:
        await self._delete(_tenant_filter(tenant))

    async def _records(self, ids: Sequence[str], *, vectors: Sequence[str] = ()) -> list[Any]:
        if not ids:
            return []
        wanted: dict[str, Any] = {"with_payload": not vectors, "with_vectors": list(vectors) or False}
        return await self._request("read", lambda client: client.retrieve(self._collection, list(ids), **wanted))

    async def count(self, tenant: str) -> int:
        counted = await self._request(
            "count points",
            lambda client: client.count(self._collection, count_filter=_tenant_filter(tenant), exact=True),
        )
        return counted.count

    async def _page(
        self, tenant: str, offset: Any, limit: int, view: View = ALL, *, vectors: bool = False
    ) -> "tuple[list[Record], Any]":
        return await self._request(
            "read",
            lambda client: client.scroll(
                self._collection,
                scroll_filter=_tenant_filter(tenant, view),
                limit=limit,
                offset=offset,
                with_payload=True,
                with_vectors=vectors,
            ),
        )

    async def close(self) -> None:
        """Wait for running requests, then close all connections; a second call does nothing."""
        if self._running:
            await asyncio.wait(self._running, timeout=self._timeout_s)
        for client in self._clients:
            await client.close()

    async def _query_lists(self, question: EngineSearch) -> dict[tuple[str, str], Sequence[Any]]:
        """All lists in one request."""
        from qdrant_client import models

        requests, view, oversampling = [], question.view, _OVERSAMPLING.get(self._layout.quantisation)
        for (arm, tenant), limit in question.lengths.items():
            query: Any
            params: models.SearchParams | None = None
            if arm == BM25:
                sparse = question.sparse[tenant]
                query = models.SparseVector(indices=list(sparse.indices), values=list(sparse.values))
                readable = _tenant_filter(tenant, replace(view, filter=""))  # word rarity is measured among these
                params = models.SearchParams(idf=models.IdfCorpusParams(corpus=readable))
            else:
                query = question.numbers[arm]
                if oversampling:
                    rescoring = models.QuantizationSearchParams(rescore=True, oversampling=oversampling)
                    params = models.SearchParams(quantization=rescoring)
            visible = _tenant_filter(tenant, view)
            requests.append(
                models.QueryRequest(
                    query=query, using=arm, filter=visible, params=params, limit=limit, with_payload=False
                )
            )
        if not requests:
            return {}
        answers = await self._request(
            "search", lambda client: client.query_batch_points(self._collection, requests), after_loss=False
        )
        return {of: answer.points for of, answer in zip(question.lengths, answers, strict=True)}

    async def _delete(self, condition: "Filter") -> None:
        from qdrant_client import models

        selected = models.FilterSelector(filter=condition)
        await self._request("delete", lambda client: client.delete(self._collection, selected, wait=True))

    async def _prepared(self, *, server: bool) -> Self:
        try:
            if server:
                await self._check_version()
            await self._prepare(server=server)
        except BaseException:  # after a cancellation, too: leave no open connection, and no folder lock
            await self.close()
            raise
        return self

    async def _check_version(self) -> None:
        version = (await self._send("report the version", lambda client: client.info())).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and tuple(map(int, numbers.groups())) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise RetrievalError(
                f"Qdrant at {self._where} has version {version}, but ragway needs {oldest} or later: update the server"
            )

    async def _prepare(self, *, server: bool) -> bool:
        """Create collection and tenant index if missing; several gateways may do so at once.

        Returns whether the collection was missing.
        """
        from qdrant_client import models

        name = self._collection
        missing = not await self._send("look up the collection", lambda client: client.collection_exists(name))
        if missing:
            await self._create()
        self._check(await self._send("describe the collection", lambda client: client.get_collection(name)))
        self._server = server
        if server:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            await self._index(TENANT, tenants)
            for field in (GROUPS, MARKS, SOURCE, MODIFIED_S):
                await self._index(field)
        return missing

    async def _index(self, field: str, schema: Any = None) -> None:
        """Index a field, so that filters find points quickly."""
        from qdrant_client import models

        if schema is None and field in (GROUPS, MARKS, SOURCE):
            schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=field == SOURCE)
        schema = schema or models.PayloadSchemaType.FLOAT
        await self._send(
            f"index {field}",
            lambda client: client.create_payload_index(self._collection, field, schema, wait=True),
        )

    async def _create(self) -> None:
        from qdrant_client import models

        with contextlib.suppress(_Exists):  # another gateway was faster: the next step checks it
            await self._send(
                "make the collection",
                lambda client: client.create_collection(
                    self._collection,
                    vectors_config={
                        name: _vector_params(dimension, self._layout.quantisation)
                        for name, dimension in self._vectors.items()
                    },
                    sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    hnsw_config=models.HnswConfigDiff(m=0, payload_m=LINKS),
                    shard_number=self._layout.shards,
                    replication_factor=self._layout.replicas,
                ),
            )

    def _check(self, info: "CollectionInfo") -> None:
        from qdrant_client import models

        vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors or {}
        made = vectors if isinstance(vectors, dict) else {}
        name = f"the Qdrant collection {self._collection!r} at {self._where}"
        if (
            not self._vectors.keys() <= made.keys()
            or BM25 not in sparse
            or sparse[BM25].modifier != models.Modifier.IDF
        ):
            raise RetrievalError(f"{name} was not made by ragway: give qdrant.collection another name")
        for vector, dimension in self._vectors.items():
            if (size := made[vector].size) != dimension:
                raise RetrievalError(
                    f"{name} holds vectors of {size} dimensions, but the embedder makes {dimension}: "
                    "configure the collection's embedder, or set another qdrant.collection and run `ragway rebuild`"
                )

    async def _request(self, doing: str, call: Call[Answer], *, after_loss: bool = True) -> Answer:
        """Return the server's answer to one request; raise its errors as our classes.

        If the collection is gone, an empty one is made. after_loss: the request makes sense for an empty collection
        and is sent again. A search is not: its caller has checked the collection before.
        """
        try:
            return await self._send(doing, call)
        except _Gone:
            await self._make_again()
            if after_loss:
                return await self._send(doing, call)
            raise

    async def _make_again(self) -> None:
        async with self._preparing:
            self.verified.clear()
            self._indexed_fields.clear()
            if await self._prepare(server=self._server):
                log.warning(
                    "the Qdrant collection %r at %s was gone: ragway made an empty one; `ragway rebuild COLLECTION` "
                    "writes the points of a collection again",
                    self._collection,
                    self._where,
                )

    async def _send(self, doing: str, call: Call[Answer]) -> Answer:
        """Send the request in a task of its own, which neither the caller nor our timeout cancels.

        A cancelled request makes httpx lose a slot in its connection pool. httpx's own timeout ends the request.
        """
        at = self._at
        task = asyncio.create_task(self._attempt(call))
        self._running.add(task)
        task.add_done_callback(self._on_done)
        failure = f"Qdrant at {self._where} did not {doing}"
        timeout_s = None if self._timeout_s is None else self._timeout_s * len(self._clients)
        if not (await asyncio.wait({task}, timeout=timeout_s))[0]:
            self._leave(at)
            raise IndexDown(f"{failure} within {timeout_s} s: check the server's load, or raise qdrant.timeout_s")
        return _result_of(task, failure)

    async def _attempt(self, call: Call[Answer]) -> Answer:
        """The first answer, from the address in use or another one."""
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        for _ in self._clients[1:]:
            at = self._at
            try:
                return await call(self._clients[at])
            except ResponseHandlingException:
                pass
            except UnexpectedResponse as error:
                if (error.status_code or 0) < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            self._leave(at)
        return await call(self._clients[self._at])

    def _leave(self, at: int) -> None:
        """Use the next address, unless another request has already done so."""
        if self._at == at:
            self._at = (at + 1) % len(self._clients)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve the error, or asyncio reports it for a caller who has left


def _result_of(task: "asyncio.Task[Answer]", failure: str) -> Answer:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        return task.result()
    except ResponseHandlingException as error:
        cause = f"{type(error.source).__name__}: {error.source}".rstrip(": ")
        check = "check that Qdrant runs, and check qdrant.url and the network"
        if "CERTIFICATE_VERIFY_FAILED" in cause:
            check = "name the file with the authority's certificate in qdrant.ca_file"
        raise IndexDown(f"{failure} ({cause}): {check}") from error
    except (
        JSONDecodeError,
        AssertionError,
    ) as error:  # AssertionError: by qdrant-client, without "result"
        missing = "JSON" if isinstance(error, JSONDecodeError) else "result"
        raise IndexDown(
            f"{failure} but sent no {missing}: check that qdrant.url is the address of a Qdrant server"
        ) from error
    except ResourceExhaustedResponse as error:
        raise IndexDown(f"{failure}: too many requests, try again in {error.retry_after_s} s") from error
    except UnexpectedResponse as error:
        raise _error_of_response(failure, error) from error


def _error_of_response(failure: str, error: "UnexpectedResponse") -> RetrievalError:
    status = error.status_code or 0
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return RetrievalError(
            f"{failure}: the server refused the API key ({status}). Check the key in the environment variable that "
            "qdrant.api_key_env names (QDRANT_API_KEY by default), and the key's rights"
        )
    reason = f"{status} {error.content[:300].decode('utf-8', 'replace')}".strip()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return IndexDown(f"{failure}: {reason}. See the server's log")
    if status == HTTPStatus.NOT_FOUND:
        return _Gone(f"{failure}: {reason}. The collection was deleted: run `ragway rebuild` for each collection")
    if status == HTTPStatus.CONFLICT:
        return _Exists(f"{failure}: {reason}")
    return RetrievalError(f"{failure}: {reason}. See the server's log")


def _host_of(url: str) -> str:
    parts = urlsplit(url if "//" in url else f"//{url}")
    return f"{parts.hostname}:{parts.port or 6333}"


def _trusting(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise RetrievalError(
            f"qdrant.ca_file: cannot read certificates from {ca_file}: {error.strerror or error}; name a file with "
            "certificates in PEM form"
        ) from error


def _tenant_filter(tenant: str, view: View = ALL) -> "Filter":
    """Return a filter for the tenant's points in the view."""
    from qdrant_client import models

    condition: models.Filter = build_filter(models, tenant, view)
    return condition


def _vector_params(dimension: int, quantisation: Quantisation) -> "VectorParams":
    from qdrant_client import models

    quantization: models.ScalarQuantization | models.BinaryQuantization | None = None
    if quantisation == "int8":
        quantization = models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        )
    elif quantisation == "binary":
        quantization = models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return models.VectorParams(
        size=dimension,
        distance=models.Distance.COSINE,
        quantization_config=quantization,
        on_disk=quantization is not None or None,
    )
