"""Vector spaces: each embedder in use with a store, an ingester and a retriever; and `Search` over all of them.

The configured embedder has one vector space. `reindex` may move a collection to another embedder's vector space, until
a `reindex` with the configured one moves it back. So searches work throughout a change of embedder.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import msgspec
import orjson

from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.writers import Writers
from retrieval.embedding.embed import Embedder, Matrix, label, probe
from retrieval.errors import RetrievalError
from retrieval.index.curves import read_curves
from retrieval.index.data_folder import open_store
from retrieval.index.pairing import Pairing
from retrieval.ingest.document_writer import DocumentWriter
from retrieval.ingest.ingester import EmbedderIdentity, Ingester
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.removal import Removal
from retrieval.ingest.splitting import EmbedderLimits, Recipe
from retrieval.knowledge import EmbedderChoice, Plan, SearchOptions, SearchRequest
from retrieval.records.documents import Passage
from retrieval.records.search import Context, Retrieved
from retrieval.search.okapi import OkapiArm
from retrieval.search.pack import unsaid_first
from retrieval.search.ranking import Curves, merge_traces
from retrieval.search.rerank import Reranker
from retrieval.search.retriever import Retriever
from retrieval.stores.base import Store

log = logging.getLogger("ragway")


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """An embedder with a store, and what writes and searches with them."""

    key: str  # the embedder's: `as_text` of its choice
    embedder: Embedder
    store: Store
    preparation: Preparation
    ingester: Ingester
    document_writer: DocumentWriter
    retriever: Retriever

    async def close(self) -> None:
        await self.preparation.close()
        await self.store.close()


class Opener:
    """Opens vector spaces over a catalog. scratch: a folder to keep vectors for the next process."""

    def __init__(
        self,
        plan: Plan,
        catalog: Catalog,
        writers: Writers,
        reranker: Reranker | None,
        *,
        serving: bool,
        scratch: Path | None,
    ) -> None:
        self._plan, self._catalog, self._reranker = plan, catalog, reranker
        self._writers, self._serving, self._scratch = writers, serving, scratch
        self.removal = Removal(catalog, writers)  # from all open stores
        self.curve_problems: list[str] = []  # of fitted curves that cannot be used

    async def open(self, choice: EmbedderChoice) -> VectorSpace:
        """An embedder's vector space; a new embedder is prepared first. Raises RetrievalError."""
        plan, catalog, key = chosen(self._plan, choice), self._catalog, as_text(choice)
        recipe = Recipe(plan.ingest, plan.embedding, Path(plan.data), plan.enrichments, self._scratch)
        embedder = await asyncio.to_thread(recipe.open_embedder, plan.embedding.threads)
        probes = await asyncio.to_thread(probe, embedder)
        store = await open_store(plan, label(embedder), embedder.dimension, serving=self._serving)
        preparation = Preparation(recipe, EmbedderLimits.of(embedder), serving=self._serving)
        self.removal.stores.append(store)
        ingester = Ingester(
            catalog,
            store,
            preparation,
            model=EmbedderIdentity(label(embedder), probes, key),
            recipe=recipe,
            writers=self._writers,
            removal=self.removal,
        )
        document_writer = DocumentWriter(catalog, ingester, preparation, recipe=recipe, max_bytes=plan.max_file_bytes)
        okapi = OkapiArm(catalog, store) if plan.search.lexical == "okapi" else None
        retriever = Retriever(
            catalog, store, embedder, plan.search, probes=probes, reranker=self._reranker, okapi=okapi
        )
        if (curves := self._curves(label(embedder), probes)) is not None:
            retriever.use_curves(curves)
        await retriever.warm()
        return VectorSpace(key, embedder, store, preparation, ingester, document_writer, retriever)

    def _curves(self, embedder: str, probes: Matrix) -> Curves | None:
        """The embedder's fitted curves of relevance; None: the built-in ones."""
        try:
            return read_curves(Path(self._plan.data), embedder, probes)
        except RetrievalError as error:
            self.curve_problems.append(str(error))
            log.warning("%s: the built-in ones count until `ragway calibrate` is run", error)
            return None


class VectorSpaces:
    """An index's open vector spaces, and each collection's vector space."""

    def __init__(self, opener: Opener, catalog: Catalog, configured: VectorSpace, pairing: Pairing | None) -> None:
        """pairing: of a catalog in a file beside the index."""
        self.configured = configured
        self._opener = opener
        self._catalog = catalog
        self._pairing = pairing
        self._open = {configured.key: configured}
        self._opening = asyncio.Lock()
        self._pinned: dict[str, VectorSpace] = {}  # collection -> vector space, other than `configured`

    def __iter__(self) -> Iterator[VectorSpace]:
        return iter(self._open.values())

    def of(self, collection: str) -> VectorSpace:
        return self._pinned.get(collection, self.configured)

    def by_space(self, collections: Sequence[str]) -> list[tuple[VectorSpace, list[str]]]:
        """Collections grouped by vector space; without any, the configured vector space."""
        groups: dict[str, tuple[VectorSpace, list[str]]] = {}
        for name in collections:
            space = self.of(name)
            groups.setdefault(space.key, (space, []))[1].append(name)
        return list(groups.values()) or [(self.configured, [])]

    def searched(self) -> list[VectorSpace]:
        """The configured vector space, and all others that have collections."""
        return list({id(space): space for space in (self.configured, *self._pinned.values())}.values())

    async def open(self, choice: EmbedderChoice) -> VectorSpace:
        """An embedder's vector space, opened if necessary. Raises RetrievalError."""
        key = as_text(choice)
        async with self._opening:
            if key not in self._open:
                self._open[key] = await self._opener.open(choice)
        return self._open[key]

    async def open_pinned(self) -> None:
        """Open vector spaces of collections whose embedder is not the configured one."""
        for collection, choice in Builds(self._catalog).embedders().items():
            try:
                await self.open(from_text(choice))
            except RetrievalError as error:  # the other collections can still be searched
                log.error("collection %r cannot be searched: %s", collection, error)
        needed = {name: as_text(from_text(choice)) for name, choice in Builds(self._catalog).embedders().items()}
        self._pinned = {name: self._open[key] for name, key in needed.items() if key in self._open}

    def pin(self, collection: str, space: VectorSpace) -> None:
        """Search a collection in `space` from now on."""
        self.unpin(collection)
        if space is not self.configured:
            self._pinned[collection] = space

    def unpin(self, collection: str) -> None:
        self._pinned.pop(collection, None)

    def collections_changed(self, collection: str | None = None) -> None:
        """Drop cached answers for a collection; None: for all."""
        for space in self:
            space.retriever.collections_changed(collection)
        if self._pairing is not None:
            self._pairing.note(self._catalog)


def choice_of(plan: Plan) -> EmbedderChoice:
    """The configured embedder."""
    return EmbedderChoice(*(getattr(plan.embedding, field.name) for field in fields(EmbedderChoice)))


def chosen(plan: Plan, choice: EmbedderChoice) -> Plan:
    """The plan with the embedder in `choice`. A key is sent only to the configured address."""
    api_key = plan.embedding.api_key if choice.api_base == plan.embedding.api_base else ""
    return replace(plan, embedding=replace(plan.embedding, **asdict(choice), api_key=api_key))


def as_text(choice: EmbedderChoice) -> str:
    """Text for the catalog, which `from_text` reads."""
    return orjson.dumps(asdict(choice), option=orjson.OPT_SORT_KEYS).decode()


def from_text(text: str) -> EmbedderChoice:
    return msgspec.json.decode(text, type=EmbedderChoice)


# --- search -----------------------------------------------------------------------------------------------------------


_CHECKED = "check"  # a text to embed, and a tenant of no collection (a collection's tenant contains an @)


class IndexSearch:
    """Implements `Search`."""

    def __init__(self, catalog: Catalog, spaces: VectorSpaces, options: SearchOptions) -> None:
        self._catalog = catalog
        self._spaces = spaces
        self._options = options

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        collections, options = request.collections, self._options
        while True:  # a rebuild may replace and empty the generation meanwhile: then search again
            rows_dropped = self._catalog.rows_dropped
            try:
                by_space = self._spaces.by_space(collections)
                calls = [space.retriever.retrieve(replace(request, collections=names)) for space, names in by_space]
                parts = await asyncio.gather(*calls) if len(calls) > 1 else [await calls[0]]
            except RetrievalError:
                if self._catalog.rows_dropped == rows_dropped:
                    raise
            else:
                if self._catalog.rows_dropped == rows_dropped:
                    budget_tokens = options.budget_tokens if request.budget_tokens is None else request.budget_tokens
                    k = request.k or options.k
                    if len(parts) == 1:
                        return parts[0]
                    result = merged(parts, k=k, budget_tokens=budget_tokens)
                    if request.hit_options is not None:
                        return result
                    said_in = min(k, options.k)
                    context, hits, _ = unsaid_first(result.context, list(result.hits), request.turns, k=said_in)
                    return replace(result, context=context, hits=tuple(hits))

    async def passages(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        existing = {row.name for row in self._catalog.collections()}
        spaces = self._spaces.by_space([name for name in collections if name in existing])
        found = await asyncio.gather(*(space.store.read(ids) for space, _ in spaces))
        return {id: passage for passages in found for id, passage in passages.items()}

    async def check(self) -> None:
        for space in self._spaces.searched():
            vector = (await asyncio.to_thread(space.embedder.embed_query, [_CHECKED]))[0]
            await space.store.search([_CHECKED], vector, {}, k=1)


def merged(parts: Sequence[Retrieved], *, k: int, budget_tokens: int) -> Retrieved:
    """Answers from several vector spaces, merged: hits by score, passages in turns.

    Fusion scores are comparable between vector spaces with the same arms. Passages go in turns, so a vector space's
    first passage never gives way to another's second.
    """
    hits = sorted((hit for part in parts for hit in part.hits), key=lambda hit: (-hit.score, hit.id))[:k]
    passages: list[Passage] = []
    tokens, dropped = 0, sum(part.context.dropped for part in parts)
    for turn in range(max(len(part.context.passages) for part in parts)):
        for part in parts:
            for passage in part.context.passages[turn : turn + 1]:
                if len(passages) < k and tokens + passage.tokens <= budget_tokens:
                    passages.append(passage)
                    tokens += passage.tokens
                else:
                    dropped += 1
    timings_ms: dict[str, float] = {}
    for part in parts:
        for stage, took_ms in part.timings_ms.items():
            timings_ms[stage] = round(timings_ms.get(stage, 0.0) + took_ms, 3)
    relevances = [part.relevance for part in parts if part.relevance is not None]
    context = Context(tuple(passages), tokens, dropped)
    return replace(
        parts[0],
        hits=tuple(hits),
        context=context,
        timings_ms=timings_ms,
        relevance=max(relevances, default=None),
        trace=merge_traces(parts, context),
        note=next((part.note for part in parts if part.note), ""),
    )
