"""The catalog: which collections and documents there are, their text, and which revision of each is current.

The catalog is the truth, the index is made from it. A document is replaced as a revision:

    stage (durable)  ->  its points are written to the store  ->  publish (one transaction: staged becomes
    current, the one before it retired)  ->  retired points are deleted by their ids  ->  forget

Revision numbers are never used twice, so points left by a crash between two steps can never be taken for
current ones; `leftovers` names what such a crash left, for `recover` to clear. Only the process that holds
the data folder's lock writes here, so what every question asks for (a collection's row, the current revisions) is
answered from memory.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Literal, cast

import numpy as np

# isort: off
from sqlalchemy import (
    URL, Column, Engine, Float, ForeignKey, Integer, LargeBinary, MetaData, String, Table, Text,
    UniqueConstraint, bindparam, create_engine, delete, event, func, insert, select, update,
)  # fmt: skip

# isort: on
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DatabaseError

from retrieval.embed import Matrix
from retrieval.errors import RetrievalError, UnknownCollection
from retrieval.records import CollectionInfo, Document, Format

State = Literal["staged", "current", "retired"]
_NAMESPACE = uuid.UUID("6f1d3c1e-7c0b-5b0e-9a55-3d1f5f6a2b10")  # of point ids; ours, fixed for ever

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_metadata = MetaData()
_collections = Table(
    "collections", _metadata,
    Column("name", String, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("embedder", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("probes", LargeBinary, nullable=False),  # (4, dimension) float32: identify the embedder
    Column("updated_s", Float, nullable=False),
)  # fmt: skip
_documents = Table(
    "documents", _metadata,
    Column("id", String, primary_key=True),
    Column("collection", ForeignKey("collections.name"), nullable=False),
    Column("key", String, nullable=False),  # the file's absolute path
    Column("last_revision", Integer, nullable=False),  # highest number ever given out
    UniqueConstraint("collection", "key"),
)  # fmt: skip
_revisions = Table(
    "revisions", _metadata,
    Column("document", ForeignKey("documents.id"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("state", String, nullable=False, index=True),
    Column("source", String, nullable=False),
    Column("title", String, nullable=False),
    Column("format", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("modified_s", Float, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("recipe", String, nullable=False),  # how its chunks were made
    Column("chunks", Integer, nullable=False),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Collection:
    """A row of the catalog: a collection and the embedder its current generation was built with."""

    name: str
    generation: int
    embedder: str
    probes: Matrix

    @property
    def tenant(self) -> str:
        """The name under which its points stand in the store."""
        return tenant_of(self.name, self.generation)


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog says of a file's current revision."""

    document: str
    revision: int
    content_hash: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision by name: enough to find its points."""

    document: str
    revision: int
    tenant: str
    chunks: int

    def point_ids(self) -> list[str]:
        """Ids of its points: UUIDv5 of tenant, document, revision and ordinal."""
        return [point_id(self.tenant, self.document, self.revision, i) for i in range(self.chunks)]


def tenant_of(collection: str, generation: int) -> str:
    """The store's tenant for one generation of a collection."""
    return f"{collection}@{generation}"


def point_id(tenant: str, document: str, revision: int, ordinal: int) -> str:
    """The id of a chunk's point; the same again for the same chunk, so that a repeated write changes nothing."""
    return str(uuid.uuid5(_NAMESPACE, f"{tenant}/{document}/{revision}/{ordinal}"))


class Catalog:
    """Collections and documents in SQL (SQLAlchemy Core; SQLite in WAL mode)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # An SQL statement takes .2 to .6 ms, of the 2 ms that a search takes without the embedding.
        self._collections: dict[str, Collection] = {}
        self._current: dict[str, int] | None = None  # document -> revision, of all; None: to be read

    @staticmethod
    def open(file: Path) -> "Catalog":
        """The catalog in an SQLite file, created where missing. Raises RetrievalError if it is no catalog."""
        engine = create_engine(URL.create("sqlite", database=str(file)))  # in a text, ? and % would not be the path's
        event.listen(engine, "connect", _tune_sqlite)
        event.listen(engine, "handle_error", _name_refusals)
        try:
            _metadata.create_all(engine)
            with engine.connect() as sql:
                for table in _metadata.tables.values():  # tables of those names may be others'
                    sql.execute(select(table).limit(0))
        except (RetrievalError, DatabaseError) as error:
            engine.dispose()
            if isinstance(error, RetrievalError):
                raise
            raise RetrievalError(
                f"{file} is not a usable catalog ({error.orig}): restore it from a backup, or move it away and "
                "ingest again"
            ) from error
        return Catalog(engine)

    def close(self) -> None:
        self._engine.dispose()

    # Collections

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollection, naming those there are."""
        if name in self._collections:
            return self._collections[name]
        with self._engine.connect() as sql:
            row = sql.execute(select(_collections).where(_collections.c.name == name)).one_or_none()
            if row is None:
                names = ", ".join(sql.scalars(select(_collections.c.name).order_by(_collections.c.name)))
                raise UnknownCollection(f"there is no collection {name!r}; there are: {names or 'none yet'}")
        return self._collections.setdefault(name, _collection_of(row))

    def collections(self) -> list[Collection]:
        """All of them, by name."""
        with self._engine.connect() as sql:
            return [_collection_of(row) for row in sql.execute(select(_collections).order_by(_collections.c.name))]

    def create(self, name: str, *, embedder: str, probes: Matrix) -> Collection:
        """The collection of that name, made with this embedder if it is new.

        Raises RetrievalError if the name could not be written in a header, a model prefix or a URL.
        """
        if not _NAME.fullmatch(name):
            raise RetrievalError(
                f"a collection cannot be named {name!r}: use letters, digits, '.', '_' and '-', at most 64, "
                "beginning with a letter or digit"
            )
        with self._engine.begin() as sql:
            if sql.execute(select(_collections.c.name).where(_collections.c.name == name)).one_or_none() is None:
                sql.execute(
                    insert(_collections).values(
                        name=name, generation=1, embedder=embedder, dimension=probes.shape[1],
                        probes=probes.astype("<f4").tobytes(), updated_s=time(),
                    )
                )  # fmt: skip
        return self.collection(name)

    def describe(self) -> list[CollectionInfo]:
        """What `ragway collections` shows."""
        counts = (
            select(
                _documents.c.collection,
                func.count().label("documents"),
                func.coalesce(func.sum(_revisions.c.chunks), 0).label("chunks"),
            )
            .join(_revisions, (_revisions.c.document == _documents.c.id) & (_revisions.c.state == "current"))
            .group_by(_documents.c.collection)
            .subquery()
        )
        query = (
            select(_collections, counts.c.documents, counts.c.chunks)
            .join(counts, counts.c.collection == _collections.c.name, isouter=True)
            .order_by(_collections.c.name)
        )
        with self._engine.connect() as sql:
            return [
                CollectionInfo(row.name, row.documents or 0, row.chunks or 0, row.embedder, row.updated_s)
                for row in sql.execute(query)
            ]

    # Documents and their revisions

    def known(self, collection: str) -> dict[str, Known]:
        """The current revision of every document of the collection, by key."""
        query = (
            select(_documents.c.key, *_revisions.c["document", "revision", "content_hash", "recipe"])
            .join(_revisions, _revisions.c.document == _documents.c.id)
            .where(_documents.c.collection == collection, _revisions.c.state == "current")
        )
        with self._engine.connect() as sql:
            return {
                row.key: Known(row.document, row.revision, row.content_hash, row.recipe) for row in sql.execute(query)
            }

    def document(self, id: str, revision: int) -> Document:
        """A revision's text and description. Raises KeyError."""
        query = select(_revisions).where(_revisions.c.document == id, _revisions.c.revision == revision)
        with self._engine.connect() as sql:
            row = sql.execute(query).one_or_none()
        if row is None:
            raise KeyError((id, revision))
        return Document(row.source, row.title, row.text, cast(Format, row.format), row.modified_s)

    def stage(
        self, collection: Collection, key: str, document: Document, *,
        content_hash: str, recipe: str, chunks: int, generation: int,
    ) -> Revision:  # fmt: skip
        """Record a new revision, not yet visible, under a number never used before."""
        with self._engine.begin() as sql:
            found = sql.execute(
                select(*_documents.c["id", "last_revision"]).where(
                    _documents.c.collection == collection.name, _documents.c.key == key
                )
            ).one_or_none()
            if found is None:
                id, revision = uuid.uuid4().hex, 1
                sql.execute(
                    insert(_documents).values(id=id, collection=collection.name, key=key, last_revision=revision)
                )
            else:
                id, revision = found.id, found.last_revision + 1
                sql.execute(update(_documents).where(_documents.c.id == id).values(last_revision=revision))
            sql.execute(
                insert(_revisions).values(
                    document=id, revision=revision, generation=generation, state="staged", source=document.source,
                    title=document.title, format=document.format, text=document.text, modified_s=document.modified_s,
                    content_hash=content_hash, recipe=recipe, chunks=chunks,
                )
            )  # fmt: skip
        return Revision(id, revision, tenant_of(collection.name, generation), chunks)

    def publish(self, staged: Revision) -> list[Revision]:
        """Make a staged revision the current one; returns those it replaced, whose points may go."""
        with self._engine.begin() as sql:
            replaced = self._find(sql, _documents.c.id == staged.document, _revisions.c.state == "current")
            for old in replaced:
                sql.execute(_set_state(old, "retired"))
            sql.execute(_set_state(staged, "current"))
            self._touch(sql, staged.document)
        if self._current is not None:
            self._current[staged.document] = staged.revision
        return replaced

    def retire(self, document: str) -> list[Revision]:
        """Take a document away; returns the revisions whose points may go."""
        with self._engine.begin() as sql:
            gone = self._find(sql, _documents.c.id == document, _revisions.c.state == "current")
            for old in gone:
                sql.execute(_set_state(old, "retired"))
            self._touch(sql, document)
        (self._current or {}).pop(document, None)
        return gone

    def switch(self, collection: Collection, generation: int, *, embedder: str, probes: Matrix) -> None:
        """Make a generation built beside the current one the current one, all documents at once."""
        ours = select(_documents.c.id).where(_documents.c.collection == collection.name)
        with self._engine.begin() as sql:
            for before, after, of in (("current", "retired", collection.generation), ("staged", "current", generation)):
                sql.execute(
                    update(_revisions)
                    .where(_revisions.c.document.in_(ours), _revisions.c.state == before, _revisions.c.generation == of)
                    .values(state=after)
                )
            sql.execute(
                update(_collections)
                .where(_collections.c.name == collection.name)
                .values(
                    generation=generation, embedder=embedder, dimension=probes.shape[1],
                    probes=probes.astype("<f4").tobytes(), updated_s=time(),
                )
            )  # fmt: skip
        self._collections.pop(collection.name, None)
        self._current = None

    def forget(self, revision: Revision) -> None:
        """Drop a revision whose points are gone, and its document if that was the last one."""
        with self._engine.begin() as sql:
            sql.execute(
                delete(_revisions).where(
                    _revisions.c.document == revision.document, _revisions.c.revision == revision.revision
                )
            )
            left = select(_revisions.c.document).where(_revisions.c.document == revision.document)
            sql.execute(delete(_documents).where(_documents.c.id == revision.document, ~left.exists()))

    def leftovers(self) -> list[Revision]:
        """What a crash left staged or retired: points to delete, then rows to forget."""
        with self._engine.connect() as sql:
            return self._find(sql, _revisions.c.state != "current")

    def current(self, documents: Sequence[str]) -> dict[str, int]:
        """The current revision of each of these documents; those without one are left out."""
        if self._current is None:
            with self._engine.connect() as sql:
                self._current = {row.document: row.revision for row in sql.execute(_CURRENT)}
        return {document: self._current[document] for document in documents if document in self._current}

    def chunks(self, collection: str) -> int:
        """How many points the collection's current revisions must have in the store."""
        with self._engine.connect() as sql:
            return sql.scalar(_CHUNKS, {"name": collection}) or 0

    def _find(self, sql: Any, *conditions: Any) -> list[Revision]:
        query = (
            select(_documents.c.collection, *_revisions.c["document", "revision", "generation", "chunks"])
            .join(_revisions, _revisions.c.document == _documents.c.id)
            .where(*conditions)
        )
        return [
            Revision(row.document, row.revision, tenant_of(row.collection, row.generation), row.chunks)
            for row in sql.execute(query)
        ]

    def _touch(self, sql: Any, document: str) -> None:
        of = select(_documents.c.collection).where(_documents.c.id == document).scalar_subquery()
        sql.execute(update(_collections).where(_collections.c.name == of).values(updated_s=time()))


# Built once: they run for every question.
_CURRENT = select(*_revisions.c["document", "revision"]).where(_revisions.c.state == "current")
_CHUNKS = (
    select(func.sum(_revisions.c.chunks))
    .join(_documents, _documents.c.id == _revisions.c.document)
    .where(_documents.c.collection == bindparam("name"), _revisions.c.state == "current")
)


def _collection_of(row: Any) -> Collection:
    probes = np.frombuffer(row.probes, "<f4").reshape(-1, row.dimension)
    return Collection(row.name, row.generation, row.embedder, probes.astype(np.float32))


def _set_state(revision: Revision, state: State) -> Any:
    return (
        update(_revisions)
        .where(_revisions.c.document == revision.document, _revisions.c.revision == revision.revision)
        .values(state=state)
    )


def _tune_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    cursor.execute("PRAGMA synchronous=FULL")  # a published document survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=5000")
    cursor.close()


# What the disk, the folder's rights or another process refuse: nothing of it speaks against the file.
_REFUSALS = {"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_NOMEM"}


def _name_refusals(context: ExceptionContext) -> None:
    name = getattr(context.original_exception, "sqlite_errorname", "")
    if "_".join(name.split("_")[:2]) in _REFUSALS:
        raise RetrievalError(
            f"the catalog cannot be read or written ({context.original_exception}): look at the disk's free space and "
            "at the rights of the data folder; nothing that was finished is lost"
        ) from context.original_exception
