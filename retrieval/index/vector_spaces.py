"""Vector spaces: each embedder in use with a store, an ingester and a retriever.

The configured embedder has one. `reindex` may move a collection to another embedder's vector space, until a `reindex`
with the configured one moves it back. So searches work throughout a change of embedder.
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
from retrieval.embedding.embed import Embedder, label, probe
from retrieval.errors import RetrievalError
from retrieval.index.data_folder import open_store
from retrieval.index.pairing import Pairing
from retrieval.ingest.document_writer import DocumentWriter
from retrieval.ingest.ingester import EmbedderIdentity, Ingester
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.removal import Removal
from retrieval.ingest.splitting import EmbedderLimits, Recipe
from retrieval.knowledge import EmbedderChoice, Plan
from retrieval.search.okapi import OkapiArm
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
        await retriever.warm()
        return VectorSpace(key, embedder, store, preparation, ingester, document_writer, retriever)


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
        """Open the vector spaces of collections whose embedder is not the configured one."""
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
