"""The catalog: all collections and documents, with texts and current revisions.

The catalog is the source of truth; the index is derived from it. A new revision replaces a document:

    stage (durable)  ->  write the points to the store  ->  publish (one transaction: staged becomes current,
    the previous revision becomes retired)  ->  delete the retired points by id  ->  forget

Revision numbers are never reused, so points left by a crash between two steps never pass for current points.
`leftovers` lists what a crash left, for `recover` to clear. Answers that every question needs (a collection's row,
current revisions and their fingerprints) come from memory. In a file, only the process that holds the data folder's
lock writes. On a server, `replicas` reports what other processes write.
"""

import re
import secrets
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from time import time
from typing import Any, cast

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError

from retrieval.catalog import descriptions
from retrieval.catalog.catalog_tables import (
    AnyText,
    builds,
    collections,
    documents,
    fingerprints,
    languages,
    revisions,
    schema,
)
from retrieval.catalog.changes import Change, ChangeKind, record_change
from retrieval.catalog.revisions import NAMESPACE, Collection, Revision, RevisionRecord, State, tenant_of
from retrieval.embedding.embed import Matrix
from retrieval.errors import Invalid, RetrievalError, UnknownCollection
from retrieval.lexical.terms import DEFAULT
from retrieval.records.documents import Document, Format, Groups, is_reserved
from runtime import database
from runtime.database import open_file, open_server, prepare
from runtime.locks import transaction

_MAX_CHANGES = 2**31 - 1  # SQLite stores such numbers in 32 bits
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Catalog:
    """Collections and documents in SQL (SQLAlchemy Core; SQLite in WAL mode, or PostgreSQL)."""

    def __init__(self, engine: Engine, *, durable: bool = True) -> None:
        self.lockable, self._durable = engine, durable
        self.shared = engine.name != "sqlite"  # other processes may write as well
        self.process = uuid.uuid4().hex  # this process's name among writers
        # With autocommit a query to a server is one exchange, without a surrounding transaction.
        self.engine = engine.execution_options(isolation_level="AUTOCOMMIT") if self.shared else engine
        # An SQL statement takes .2 to .6 ms; a search without embedding takes 2 ms. So rows are cached.
        self._collections: dict[str, Collection] = {}
        self.rows_dropped = 0  # times that cached rows were dropped: generations may have been switched
        self._languages: dict[tuple[str, int], str] | None = None  # by collection and generation; None: not read yet
        # document -> current revision, for all documents; None: not read yet
        self._current: dict[str, int] | None = None
        self._fingerprints: dict[str, int] = {}  # document -> fingerprint of its current revision; read with `_current`

    @staticmethod
    def is_current(file: Path, url: str) -> bool:
        """Whether the database (or else the file) has a catalog that `open` need not create or migrate."""
        if not url and not file.is_file():
            return False
        engine = open_server(url) if url else open_file(file)
        try:
            return database.is_current(engine, schema)
        finally:
            engine.dispose()

    @staticmethod
    def open(file: Path, *, durable: bool = True) -> "Catalog":
        """Open a catalog in an SQLite file, created if missing. Raises RetrievalError if it is not a catalog.

        durable: False for a temporary catalog: no fsync, and ids derive from keys, so that ties are ordered equally
            in each run.
        """
        return Catalog._open(open_file(file, durable=durable), durable, f"{file} is not a usable catalog")

    @staticmethod
    def connect(url: str) -> "Catalog":
        """Open a catalog in a PostgreSQL database; create missing tables. Raises RetrievalError, IndexDown."""
        return Catalog._open(open_server(url), True, "the database of catalog.url holds no usable catalog")

    @staticmethod
    def _open(engine: Engine, durable: bool, refusal: str) -> "Catalog":
        try:
            prepare(engine, schema)
        except RetrievalError:
            engine.dispose()
            raise
        except DatabaseError as error:
            engine.dispose()
            raise RetrievalError(
                f"{refusal} ({error.orig}): restore a backup, or move the catalog away and ingest again"
            ) from error
        return Catalog(engine, durable=durable)

    def writing(self) -> AbstractContextManager[Connection]:
        return transaction(self.lockable)

    def close(self) -> None:
        self.lockable.dispose()

    def rows(self, query: Executable) -> list[Any]:
        with self.engine.connect() as sql:
            return list(sql.execute(query))

    def scalar(self, query: Executable) -> Any:
        with self.engine.connect() as sql:
            return sql.scalar(query)

    # Collections

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollection, naming all collections."""
        if name in self._collections:
            return self._collections[name]
        with self.engine.connect() as sql:
            row = sql.execute(select(collections).where(collections.c.name == name)).one_or_none()
            if row is None:
                names = ", ".join(sql.scalars(select(collections.c.name).order_by(collections.c.name)))
                raise UnknownCollection(f"there is no collection {name!r}; there are: {names or 'none yet'}")
        return self._collections.setdefault(name, self._collection_of(row))

    def _drop_row(self, name: str) -> None:
        self._collections.pop(name, None)
        self.rows_dropped += 1

    def collections(self) -> list[Collection]:
        """Return all collections, by name."""
        return [self._collection_of(row) for row in self.rows(select(collections).order_by(collections.c.name))]

    def changed_s(self, name: str) -> float:
        """Return when a collection's documents last changed, in any process."""
        return self.scalar(select(collections.c.updated_s).where(collections.c.name == name)) or 0.0

    def create(self, name: str, *, embedder: str, probes: Matrix, language: str | None = DEFAULT) -> Collection:
        """Return the collection of this name, created with this embedder and language if missing.

        language: None leaves the language to `set_language`. Raises Invalid if a header, model prefix or URL cannot
            hold the name.
        """
        if not _NAME.fullmatch(name) and not is_reserved(name):
            raise Invalid(
                f"a collection cannot be named {name!r}: use letters, digits, '.', '_' and '-', at most 64 characters, "
                "beginning with a letter or digit"
            )
        with suppress(IntegrityError), self.writing() as sql:  # another process may be faster
            if sql.execute(select(collections.c.name).where(collections.c.name == name)).one_or_none() is None:
                sql.execute(insert(collections).values(name=name, generation=1, **_embedder_columns(embedder, probes)))
                if language is not None:
                    self._set_language(sql, name, 1, language)
                self._record_change(sql, "collections")
        return self.collection(name)

    def language(self, collection: str, generation: int) -> str:
        """Return a generation's language: the latest one set for it or for an earlier one."""
        if self._languages is None:
            self._languages = {(row[0], row[1]): row[2] for row in self.rows(select(languages))}
        generations = [of for name, of in self._languages if name == collection and of <= generation]
        return self._languages[collection, max(generations)] if generations else DEFAULT

    def has_language(self, collection: str) -> bool:
        """Whether the collection's language has been set."""
        return bool(self.language(collection, 0)) and any(name == collection for name, _ in self._languages or ())

    def set_language(self, collection: str, generation: int, language: str) -> None:
        """Set the language for a generation without points."""
        with self.writing() as sql:
            self._set_language(sql, collection, generation, language)
            self._record_change(sql, "collections")
        self._drop_row(collection)

    def _set_language(self, sql: Any, collection: str, generation: int, language: str) -> None:
        condition = (languages.c.collection == collection) & (languages.c.generation == generation)
        sql.execute(delete(languages).where(condition))
        sql.execute(insert(languages).values(collection=collection, generation=generation, language=language))
        self._languages = None

    def empty(self, name: str) -> None:
        """Retire all of a collection's documents at once; their revisions become leftovers."""
        of_collection = select(documents.c.id).where(documents.c.collection == name)
        with self.writing() as sql:
            sql.execute(update(revisions).where(revisions.c.document.in_(of_collection)).values(state="retired"))
            sql.execute(update(collections).where(collections.c.name == name).values(updated_s=time()))
            self._record_change(sql, "documents")
        self._current = None

    def remove(self, name: str) -> None:
        """Delete the rows of a collection without documents. A later one of this name is a new collection."""
        with self.writing() as sql:
            for table in (languages, builds):
                sql.execute(delete(table).where(table.c.collection == name))
            sql.execute(delete(collections).where(collections.c.name == name))
            self._record_change(sql, "collections")
        self._drop_row(name)
        self._languages = None

    # Documents and their revisions

    def current_revisions(self, collection: str, keys: Sequence[str] | None = None) -> dict[str, RevisionRecord]:
        """Return key -> current revision, for the collection's documents or those in `keys`."""
        conditions: list[ColumnElement[bool]] = [revisions.c.state == "current"]
        if keys is not None:  # by document ids: SQLite would look through all current revisions for many keys
            named = select(documents.c.id).where(documents.c.collection == collection, documents.c.key.in_(keys))
            conditions.append(revisions.c.document.in_(named))
        return self.records(collection, *conditions)

    def records(self, collection: str, *conditions: ColumnElement[bool]) -> dict[str, RevisionRecord]:
        """Return key -> revision, for the collection's revisions that meet these conditions."""
        query = (
            select(documents.c.key, *revisions.c["document", "revision", "content_hash", "recipe"])
            .join(revisions, revisions.c.document == documents.c.id)
            .where(documents.c.collection == collection, *conditions)
        )
        return {row.key: RevisionRecord(*row[1:]) for row in self.rows(query)}

    def collection_of(self, document: str) -> str | None:
        found: str | None = self.scalar(select(documents.c.collection).where(documents.c.id == document))
        return found

    def source(self, id: str, revision: int) -> str:
        """Return a revision's name for people. Raises KeyError."""
        this = (revisions.c.document == id, revisions.c.revision == revision)
        source: str | None = self.scalar(select(revisions.c.source).where(*this))
        if source is None:
            raise KeyError((id, revision))
        return source

    def document(self, id: str, revision: int) -> Document:
        """Return a revision's text and description. Raises KeyError."""
        query = select(revisions).where(revisions.c.document == id, revisions.c.revision == revision)
        with self.engine.connect() as sql:
            row = sql.execute(query).one_or_none()
            described = descriptions.read(sql, [(id, revision)])[id, revision]
            places = descriptions.read_places(sql, (id, revision))
        if row is None:
            raise KeyError((id, revision))
        fields = row.source, row.title, row.text, cast(Format, row.format), row.modified_s
        return Document(*fields, *described, places)

    def spans(self, wanted: Sequence[tuple[str, int, int, int]]) -> list[str]:
        """Return the text of each (document, revision, start, end); "" if the revision does not exist."""
        with self.engine.connect() as sql:
            return [
                sql.scalar(_SPAN, {"id": id, "revision": revision, "at": start + 1, "n": end - start}) or ""
                for id, revision, start, end in wanted
            ]

    def short_texts(self, ids: Sequence[str], *, max_chars: int) -> dict[tuple[str, int], str]:
        """Return (document, current revision) -> text, for documents with at most `max_chars` characters."""
        text = revisions.c.text
        query = select(*revisions.c["document", "revision"], text).where(
            revisions.c.document.in_(ids), revisions.c.state == "current", func.length(text) <= max_chars
        )
        return {(row.document, row.revision): row.text for row in self.rows(query)}

    def repeated(self, collection: str) -> int:
        """Return how many of a collection's documents say the same as another, apart from one of each text."""
        more = (
            _FINGERPRINTS.with_only_columns((func.count() - 1).label("more"))
            .join(documents, documents.c.id == fingerprints.c.document)
            .where(documents.c.collection == collection)
            .group_by(fingerprints.c.fingerprint)
            .subquery()
        )
        return int(self.scalar(select(func.sum(more.c.more))) or 0)

    def stage(  # noqa: PLR0913 - each is a column of the revision
        self,
        collection: Collection,
        key: str,
        document: Document,
        *,
        content_hash: str,
        recipe: str,
        chunks: int,
        generation: int,
        fingerprint: int | None = None,
    ) -> Revision:
        """Record a new, invisible revision under a new number.

        fingerprint: as in `said.fingerprint`; None if documents that say the same must all be found.
        """
        with self.writing() as sql:
            condition = documents.c.collection == collection.name, documents.c.key == key
            row = sql.execute(select(*documents.c["id", "last_revision"]).where(*condition)).one_or_none()
            if row is None:
                new = uuid.uuid4() if self._durable else uuid.uuid5(NAMESPACE, f"{collection.name}/{key}")
                id, revision = new.hex, 1
                values = {"id": id, "collection": collection.name, "key": key, "last_revision": revision}
                sql.execute(insert(documents).values(**values))
            else:
                id, revision = row.id, row.last_revision + 1
                sql.execute(update(documents).where(documents.c.id == id).values(last_revision=revision))
            sql.execute(
                insert(revisions).values(
                    document=id,
                    revision=revision,
                    generation=generation,
                    state="staged",
                    **{name: getattr(document, name) for name in ("source", "title", "format", "text", "modified_s")},
                    content_hash=content_hash,
                    recipe=recipe,
                    chunks=chunks,
                )
            )
            descriptions.write(sql, (id, revision), document, fingerprint)
        return Revision(id, revision, self._tenant(collection.name, generation), chunks)

    def rename_content(self, hashes: Sequence[tuple[RevisionRecord, str]]) -> None:
        """Set the content hash of revisions whose content is unchanged."""
        with self.writing() as sql:
            for record, content_hash in hashes:
                sql.execute(update(revisions).where(_is(record)).values(content_hash=content_hash))

    def publish(self, staged: Revision) -> list[Revision]:
        """Make a staged revision current. Return the replaced ones: the caller may delete their points."""
        with self.writing() as sql:
            replaced = self._find(sql, documents.c.id == staged.document, revisions.c.state == "current")
            for old in replaced:
                sql.execute(set_state(old, "retired"))
            sql.execute(set_state(staged, "current"))
            self._touch(sql, staged.document)
            says = sql.scalar(select(fingerprints.c.fingerprint).where(_is_row(fingerprints, staged)))
            self._record_change(sql, "document", staged)
        self._remember(Change("document", staged.document, staged.revision, fingerprint=says))
        return replaced

    def retire(self, *ids: str) -> list[Revision]:
        """Retire documents at once. Return the retired revisions: the caller may delete their points."""
        with self.writing() as sql:
            retired = self._find(sql, documents.c.id.in_(ids), revisions.c.state == "current")
            for old in retired:
                sql.execute(set_state(old, "retired"))
            for document in ids:
                self._touch(sql, document)
            for old in retired:
                self._record_change(sql, "document", old, retired=True)
        for old in retired:
            self._remember(Change("document", old.document, old.revision, gone=True))
        return retired

    def switch(self, collection: Collection, generation: int, *, embedder: str, probes: Matrix) -> None:
        """Make a finished generation current, all documents at once."""
        of_collection = select(documents.c.id).where(documents.c.collection == collection.name)
        with self.writing() as sql:
            for before, after, of in (("current", "retired", collection.generation), ("ready", "current", generation)):
                sql.execute(
                    update(revisions)
                    .where(
                        revisions.c.document.in_(of_collection),
                        revisions.c.state == before,
                        revisions.c.generation == of,
                    )
                    .values(state=after)
                )
            sql.execute(
                update(collections)
                .where(collections.c.name == collection.name)
                .values(generation=generation, **_embedder_columns(embedder, probes))
            )
            self._record_change(sql, "documents")
        self._drop_row(collection.name)
        self._current = None

    def forget(self, *gone: Revision) -> None:
        """Delete revisions without points, and documents left without any revision."""
        with self.writing() as sql:
            for one in gone:
                sql.execute(delete(revisions).where(_is(one)))
                left = select(revisions.c.document).where(revisions.c.document == one.document)
                sql.execute(delete(documents).where(documents.c.id == one.document, ~left.exists()))

    def leftovers(self, collection: str | None = None) -> list[Revision]:
        """Return revisions that a crash left staged or retired, in one or all collections."""
        condition = () if collection is None else (documents.c.collection == collection,)
        with self.engine.connect() as sql:
            return self._find(sql, revisions.c.state.in_(("staged", "retired")), *condition)

    def current(self, ids: Iterable[str]) -> dict[str, int]:
        """Return document -> current revision; documents without one are left out."""
        current, _ = self._remembered()
        return {document: current[document] for document in ids if document in current}

    def fingerprints(self, ids: Iterable[str]) -> dict[str, int]:
        """Return document -> fingerprint of its current revision; documents without one are left out."""
        _, says = self._remembered()
        return {document: says[document] for document in ids if document in says}

    def _remembered(self) -> tuple[dict[str, int], dict[str, int]]:
        if self._current is None:
            rows = self.rows(_CURRENT)
            self._fingerprints = {row.document: row.fingerprint for row in rows if row.fingerprint is not None}
            self._current = {row.document: row.revision for row in rows}
        return self._current, self._fingerprints

    def _remember(self, change: Change) -> None:
        if self._current is None:
            return
        self._current.pop(change.document, None)
        self._fingerprints.pop(change.document, None)
        if not change.gone:
            self._current[change.document] = change.revision
            if change.fingerprint is not None:
                self._fingerprints[change.document] = change.fingerprint

    def chunks(self, collection: str, groups: Groups = None) -> int:
        """Return how many points the store must hold for current revisions that `groups` may read."""
        return self.scalar(_CHUNKS.where(descriptions.readable(groups)).params(name=collection)) or 0

    # Other processes

    def _record_change(
        self, sql: Connection, what: ChangeKind, revision: Revision | None = None, *, retired: bool = False
    ) -> None:
        """Record a change for other processes, or count changes in SQLite; must come last in the transaction."""
        if self.shared:
            document, number = ("", 0) if revision is None else (revision.document, revision.revision)
            record_change(sql, self.process, Change(what, document, number, retired))
        else:
            changes = sql.exec_driver_sql("PRAGMA user_version").scalar_one()
            sql.exec_driver_sql(f"PRAGMA user_version = {min(changes + 1, _MAX_CHANGES)}")

    def identity(self) -> tuple[int, int]:
        """Return an SQLite catalog's random number and its number of changes.

        A copy of a catalog has the same identity.
        """
        with self.writing() as sql:
            name = sql.exec_driver_sql("PRAGMA application_id").scalar_one()
            if not name:
                name = secrets.randbelow(_MAX_CHANGES) + 1
                sql.exec_driver_sql(f"PRAGMA application_id = {name}")
            return name, sql.exec_driver_sql("PRAGMA user_version").scalar_one()

    def apply_changes(self, changes: Sequence[Change]) -> None:
        """Apply other processes' changes to the cache."""
        for change in changes:
            if change.what != "document":
                for name in list(self._collections):
                    self._drop_row(name)
                self._languages = None
                self._current = None if change.what == "documents" else self._current
            elif change.revision >= (self._current or {}).get(change.document, 0):
                self._remember(change)

    def reload(self, ids: Sequence[str]) -> None:
        """Read again which of these documents' revisions are current."""
        rows = self.rows(_CURRENT.where(revisions.c.document.in_(ids)))
        self.apply_changes(
            [Change("document", row.document, row.revision, fingerprint=row.fingerprint) for row in rows]
        )

    def _find(self, sql: Any, *conditions: Any) -> list[Revision]:
        query = (
            select(documents.c.collection, *revisions.c["document", "revision", "generation", "chunks"])
            .join(revisions, revisions.c.document == documents.c.id)
            .where(*conditions)
        )
        return [
            Revision(row.document, row.revision, self._tenant(row.collection, row.generation), row.chunks)
            for row in sql.execute(query)
        ]

    def _tenant(self, collection: str, generation: int) -> str:
        return tenant_of(collection, generation, self.language(collection, generation))

    def _collection_of(self, row: Any) -> Collection:
        probes = np.frombuffer(row.probes, "<f4").reshape(-1, row.dimension).astype(np.float32)
        language = self.language(row.name, row.generation)
        tenant = tenant_of(row.name, row.generation, language)
        return Collection(row.name, row.generation, row.embedder, probes, language, tenant)

    def _touch(self, sql: Any, document: str) -> None:
        of = select(documents.c.collection).where(documents.c.id == document).scalar_subquery()
        sql.execute(update(collections).where(collections.c.name == of).values(updated_s=time()))


# Built once, because these statements run for every question.
_FINGERPRINTS = (
    select(fingerprints)
    .join(
        revisions,
        (revisions.c.document == fingerprints.c.document) & (revisions.c.revision == fingerprints.c.revision),
    )
    .where(revisions.c.state == "current")
)
_CURRENT = (
    select(*revisions.c["document", "revision"], fingerprints.c.fingerprint)
    .outerjoin(
        fingerprints,
        (fingerprints.c.document == revisions.c.document) & (fingerprints.c.revision == revisions.c.revision),
    )
    .where(revisions.c.state == "current")
)
_CHUNKS = (
    select(func.sum(revisions.c.chunks))
    .join(documents, documents.c.id == revisions.c.document)
    .where(documents.c.collection == bindparam("name"), revisions.c.state == "current")
)
_SPAN = select(func.substr(revisions.c.text, bindparam("at"), bindparam("n"), type_=AnyText)).where(
    revisions.c.document == bindparam("id"), revisions.c.revision == bindparam("revision")
)


def set_state(revision: Revision | RevisionRecord, state: State) -> Update:
    return update(revisions).where(_is(revision)).values(state=state)


def _is(revision: Revision | RevisionRecord) -> ColumnElement[bool]:
    return _is_row(revisions, revision)


def _is_row(table: Table, revision: Revision | RevisionRecord) -> ColumnElement[bool]:
    return (table.c.document == revision.document) & (table.c.revision == revision.revision)


def _embedder_columns(embedder: str, probes: Matrix) -> dict[str, Any]:
    stored = probes.astype("<f4").tobytes()
    return {"embedder": embedder, "dimension": probes.shape[1], "probes": stored, "updated_s": time()}
