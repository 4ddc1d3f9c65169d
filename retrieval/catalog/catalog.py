"""The catalog: which collections and documents there are, their text, and which revision of each is current.

The catalog is the truth, the index is made from it. A document is replaced as a revision:

    stage (durable)  ->  its points are written to the store  ->  publish (one transaction: staged becomes
    current, the one before it retired)  ->  retired points are deleted by their ids  ->  forget

Revision numbers are never used twice, so points left by a crash between two steps can never be taken for
current ones; `leftovers` names what such a crash left, for `recover` to clear. What every
question asks for (a collection's row, the current revisions) is answered from memory: in a file, only the process that
holds the data folder's lock writes; on a server, `replicas` tells what others wrote.
"""

import re
import secrets
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from time import time
from typing import Any, cast

import numpy as np
from sqlalchemy import (
    Connection,
    Engine,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError

from retrieval.catalog import descriptions
from retrieval.catalog.changes import Change, What, note
from retrieval.catalog.revisions import NAMESPACE, Collection, Known, Revision, State, tenant_of
from retrieval.catalog.tables import (
    AnyText,
)
from retrieval.catalog.tables import (
    builds as _builds,
)
from retrieval.catalog.tables import (
    collections as _collections,
)
from retrieval.catalog.tables import (
    documents as _documents,
)
from retrieval.catalog.tables import (
    languages as _languages,
)
from retrieval.catalog.tables import (
    revisions as _revisions,
)
from retrieval.catalog.tables import (
    schema as _schema,
)
from retrieval.embedding.embed import Matrix
from retrieval.errors import Invalid, RetrievalError, UnknownCollection
from retrieval.lexical.language import DEFAULT
from retrieval.records.documents import Document, Format, Groups
from runtime import database
from runtime.database import open_file, open_server, prepare
from runtime.locks import transaction

_MOST_CHANGES = 2**31 - 1  # SQLite keeps such numbers in 32 bits
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Catalog:
    """Collections and documents in SQL (SQLAlchemy Core; SQLite in WAL mode, or PostgreSQL)."""

    def __init__(self, engine: Engine, *, lasting: bool = True) -> None:
        self.lockable, self._lasting = engine, lasting
        self.shared = engine.name != "sqlite"  # other processes may write to it, too
        self.process = uuid.uuid4().hex  # its name among them
        # A question to a server is one exchange that way, without a transaction around it.
        self.engine = engine.execution_options(isolation_level="AUTOCOMMIT") if self.shared else engine
        # An SQL statement takes .2 to .6 ms, of the 2 ms that a search takes without the embedding.
        self._collections: dict[str, Collection] = {}
        self._languages: dict[tuple[str, int], str] | None = None  # by collection and generation; None: to be read
        self._current: dict[str, int] | None = None  # document -> revision, of all; None: to be read

    @staticmethod
    def is_current(file: Path, url: str) -> bool:
        """Whether there is one in the database, else in the file, that `open` need not make or bring up to date."""
        if not url and not file.is_file():
            return False
        engine = open_server(url) if url else open_file(file)
        try:
            return database.is_current(engine, _schema)
        finally:
            engine.dispose()

    @staticmethod
    def open(file: Path, *, lasting: bool = True) -> "Catalog":
        """The catalog in an SQLite file, made where missing. Raises RetrievalError if it is no catalog.

        lasting: False for one thrown away soon: no fsync, and ids follow from keys, so that ties fall alike each time.
        """
        return Catalog._opened(open_file(file, durable=lasting), lasting, f"{file} is not a usable catalog")

    @staticmethod
    def connect(url: str) -> "Catalog":
        """The catalog in a PostgreSQL database, made where missing. Raises RetrievalError, IndexDown."""
        return Catalog._opened(open_server(url), True, "the database of catalog.url holds no usable catalog")

    @staticmethod
    def _opened(engine: Engine, lasting: bool, refusal: str) -> "Catalog":
        try:
            prepare(engine, _schema)
        except RetrievalError:
            engine.dispose()
            raise
        except DatabaseError as error:
            engine.dispose()
            raise RetrievalError(
                f"{refusal} ({error.orig}): restore it from a backup, or move it away and ingest again"
            ) from error
        return Catalog(engine, lasting=lasting)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction."""
        return transaction(self.lockable)

    def close(self) -> None:
        self.lockable.dispose()

    # Collections

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollection, naming those there are."""
        if name in self._collections:
            return self._collections[name]
        with self.engine.connect() as sql:
            row = sql.execute(select(_collections).where(_collections.c.name == name)).one_or_none()
            if row is None:
                names = ", ".join(sql.scalars(select(_collections.c.name).order_by(_collections.c.name)))
                raise UnknownCollection(f"there is no collection {name!r}; there are: {names or 'none yet'}")
        return self._collections.setdefault(name, self._collection_of(row))

    def collections(self) -> list[Collection]:
        """All of them, by name."""
        with self.engine.connect() as sql:
            return [self._collection_of(row) for row in sql.execute(select(_collections).order_by(_collections.c.name))]

    def create(self, name: str, *, embedder: str, probes: Matrix, language: str | None = DEFAULT) -> Collection:
        """The collection of that name, made with this embedder and in this language if it is new.

        language: None leaves it to `speak`. Raises Invalid where no header, model prefix or URL could hold the name.
        """
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"a collection cannot be named {name!r}: use letters, digits, '.', '_' and '-', at most 64, "
                "beginning with a letter or digit"
            )
        with suppress(IntegrityError), self.writing() as sql:  # another process may be quicker
            if sql.execute(select(_collections.c.name).where(_collections.c.name == name)).one_or_none() is None:
                sql.execute(
                    insert(_collections).values(
                        name=name,
                        generation=1,
                        embedder=embedder,
                        dimension=probes.shape[1],
                        probes=probes.astype("<f4").tobytes(),
                        updated_s=time(),
                    )
                )
                if language is not None:
                    self._speak(sql, name, 1, language)
                self._note(sql, "collections")
        return self.collection(name)

    def language(self, collection: str, generation: int) -> str:
        """The language of a generation: the one last set for it or for one before it."""
        if self._languages is None:
            with self.engine.connect() as sql:
                self._languages = {(row[0], row[1]): row[2] for row in sql.execute(select(_languages))}
        set_for = [of for name, of in self._languages if name == collection and of <= generation]
        return self._languages[collection, max(set_for)] if set_for else DEFAULT

    def spoken(self, collection: str) -> bool:
        """Whether anybody has said yet which language it is in."""
        return bool(self.language(collection, 0)) and any(name == collection for name, _ in self._languages or ())

    def speak(self, collection: str, generation: int, language: str) -> None:
        """Set the language of a generation that has no points yet."""
        with self.writing() as sql:
            self._speak(sql, collection, generation, language)
            self._note(sql, "collections")
        self._collections.pop(collection, None)

    def _speak(self, sql: Any, collection: str, generation: int, language: str) -> None:
        ours = (_languages.c.collection == collection) & (_languages.c.generation == generation)
        sql.execute(delete(_languages).where(ours))
        sql.execute(insert(_languages).values(collection=collection, generation=generation, language=language))
        self._languages = None

    def empty(self, name: str) -> None:
        """Take all of a collection's documents away at once; their revisions are leftovers then."""
        ours = select(_documents.c.id).where(_documents.c.collection == name)
        with self.writing() as sql:
            sql.execute(update(_revisions).where(_revisions.c.document.in_(ours)).values(state="retired"))
            sql.execute(update(_collections).where(_collections.c.name == name).values(updated_s=time()))
            self._note(sql, "documents")
        self._current = None

    def remove(self, name: str) -> None:
        """Drop the rows of a collection without documents. A later one of its name is a new one."""
        with self.writing() as sql:
            for table in (_languages, _builds):
                sql.execute(delete(table).where(table.c.collection == name))
            sql.execute(delete(_collections).where(_collections.c.name == name))
            self._note(sql, "collections")
        self._collections.pop(name, None)
        self._languages = None

    # Documents and their revisions

    def known(self, collection: str, keys: Sequence[str] | None = None) -> dict[str, Known]:
        """The current revision of every document of the collection, or of those of these keys, by key."""
        query = (
            select(_documents.c.key, *_revisions.c["document", "revision", "content_hash", "recipe"])
            .join(_revisions, _revisions.c.document == _documents.c.id)
            .where(_documents.c.collection == collection, _revisions.c.state == "current")
        )
        query = query if keys is None else query.where(_documents.c.key.in_(keys))
        with self.engine.connect() as sql:
            return {row.key: Known(*row[1:]) for row in sql.execute(query)}

    def collection_of(self, document: str) -> str | None:
        """The name of a document's collection."""
        with self.engine.connect() as sql:
            return sql.scalar(select(_documents.c.collection).where(_documents.c.id == document))

    def document(self, id: str, revision: int) -> Document:
        """A revision's text and description. Raises KeyError."""
        query = select(_revisions).where(_revisions.c.document == id, _revisions.c.revision == revision)
        with self.engine.connect() as sql:
            row = sql.execute(query).one_or_none()
            described = descriptions.read(sql, [(id, revision)])[id, revision]
        if row is None:
            raise KeyError((id, revision))
        return Document(row.source, row.title, row.text, cast(Format, row.format), row.modified_s, *described)

    def spans(self, wanted: Sequence[tuple[str, int, int, int]]) -> list[str]:
        """Pieces of texts: of each (document, revision, start, end) those characters; "" where there is no such one."""
        with self.engine.connect() as sql:
            return [
                sql.scalar(_SPAN, {"id": id, "revision": revision, "at": start + 1, "n": end - start}) or ""
                for id, revision, start, end in wanted
            ]

    def short(self, documents: Sequence[str], *, most_chars: int) -> dict[tuple[str, int], str]:
        """(document, current revision) -> text, of those of the documents that are not longer."""
        text = _revisions.c.text
        query = select(*_revisions.c["document", "revision"], text).where(
            _revisions.c.document.in_(documents), _revisions.c.state == "current", func.length(text) <= most_chars
        )
        with self.engine.connect() as sql:
            return {(row.document, row.revision): row.text for row in sql.execute(query)}

    def stage(
        self,
        collection: Collection,
        key: str,
        document: Document,
        *,
        content_hash: str,
        recipe: str,
        chunks: int,
        generation: int,
    ) -> Revision:
        """Record a new revision, not yet visible, under a number never used before."""
        with self.writing() as sql:
            this = _documents.c.collection == collection.name, _documents.c.key == key
            found = sql.execute(select(*_documents.c["id", "last_revision"]).where(*this)).one_or_none()
            if found is None:
                made = uuid.uuid4() if self._lasting else uuid.uuid5(NAMESPACE, f"{collection.name}/{key}")
                id, revision = made.hex, 1
                sql.execute(
                    insert(_documents).values(id=id, collection=collection.name, key=key, last_revision=revision)
                )
            else:
                id, revision = found.id, found.last_revision + 1
                sql.execute(update(_documents).where(_documents.c.id == id).values(last_revision=revision))
            sql.execute(
                insert(_revisions).values(
                    document=id,
                    revision=revision,
                    generation=generation,
                    state="staged",
                    source=document.source,
                    title=document.title,
                    format=document.format,
                    text=document.text,
                    modified_s=document.modified_s,
                    content_hash=content_hash,
                    recipe=recipe,
                    chunks=chunks,
                )
            )
            descriptions.write(sql, (id, revision), document)
        return Revision(id, revision, self._tenant(collection.name, generation), chunks)

    def publish(self, staged: Revision) -> list[Revision]:
        """Make a staged revision the current one; returns those it replaced, whose points may go."""
        with self.writing() as sql:
            replaced = self._find(sql, _documents.c.id == staged.document, _revisions.c.state == "current")
            for old in replaced:
                sql.execute(_set_state(old, "retired"))
            sql.execute(_set_state(staged, "current"))
            self._touch(sql, staged.document)
            self._note(sql, "document", staged)
        if self._current is not None:
            self._current[staged.document] = staged.revision
        return replaced

    def retire(self, document: str) -> list[Revision]:
        """Take a document away; returns the revisions whose points may go."""
        with self.writing() as sql:
            gone = self._find(sql, _documents.c.id == document, _revisions.c.state == "current")
            for old in gone:
                sql.execute(_set_state(old, "retired"))
            self._touch(sql, document)
            for old in gone:
                self._note(sql, "document", old, gone=True)
        (self._current or {}).pop(document, None)
        return gone

    def switch(self, collection: Collection, generation: int, *, embedder: str, probes: Matrix) -> None:
        """Make a generation built beside the current one the current one, all documents at once."""
        ours = select(_documents.c.id).where(_documents.c.collection == collection.name)
        with self.writing() as sql:
            for before, after, of in (("current", "retired", collection.generation), ("ready", "current", generation)):
                sql.execute(
                    update(_revisions)
                    .where(_revisions.c.document.in_(ours), _revisions.c.state == before, _revisions.c.generation == of)
                    .values(state=after)
                )
            sql.execute(
                update(_collections)
                .where(_collections.c.name == collection.name)
                .values(
                    generation=generation,
                    embedder=embedder,
                    dimension=probes.shape[1],
                    probes=probes.astype("<f4").tobytes(),
                    updated_s=time(),
                )
            )
            self._note(sql, "documents")
        self._collections.pop(collection.name, None)
        self._current = None

    def forget(self, revision: Revision) -> None:
        """Drop a revision whose points are gone, and its document if that was the last one."""
        with self.writing() as sql:
            sql.execute(
                delete(_revisions).where(
                    _revisions.c.document == revision.document, _revisions.c.revision == revision.revision
                )
            )
            left = select(_revisions.c.document).where(_revisions.c.document == revision.document)
            sql.execute(delete(_documents).where(_documents.c.id == revision.document, ~left.exists()))

    def leftovers(self, collection: str | None = None) -> list[Revision]:
        """What a crash left staged or retired, of all or of one: points to delete, then rows to forget."""
        ours = () if collection is None else (_documents.c.collection == collection,)
        with self.engine.connect() as sql:
            return self._find(sql, _revisions.c.state.in_(("staged", "retired")), *ours)

    def current(self, documents: Sequence[str]) -> dict[str, int]:
        """The current revision of each of these documents; those without one are left out."""
        if self._current is None:
            with self.engine.connect() as sql:
                self._current = {row.document: row.revision for row in sql.execute(_CURRENT)}
        return {document: self._current[document] for document in documents if document in self._current}

    def chunks(self, collection: str, groups: Groups = None) -> int:
        """How many points the collection's current revisions that these groups may read must have in the store."""
        with self.engine.connect() as sql:
            return sql.scalar(_CHUNKS.where(descriptions.readable(groups)), {"name": collection}) or 0

    # Other processes

    def _note(self, sql: Connection, what: What, revision: Revision | None = None, *, gone: bool = False) -> None:
        """Tell them, or count it where there are none; the last thing in its transaction."""
        if self.shared:
            document, number = ("", 0) if revision is None else (revision.document, revision.revision)
            note(sql, self.process, Change(what, document, number, gone))
        else:
            changes = sql.exec_driver_sql("PRAGMA user_version").scalar_one()
            sql.exec_driver_sql(f"PRAGMA user_version = {min(changes + 1, _MOST_CHANGES)}")

    def identity(self) -> tuple[int, int]:
        """Which SQLite catalog this is, by a random number, and how often it has changed. Copies are alike."""
        with self.writing() as sql:
            name = sql.exec_driver_sql("PRAGMA application_id").scalar_one()
            if not name:
                name = secrets.randbelow(_MOST_CHANGES) + 1
                sql.exec_driver_sql(f"PRAGMA application_id = {name}")
            return name, sql.exec_driver_sql("PRAGMA user_version").scalar_one()

    def take_over(self, changes: Sequence[Change]) -> None:
        """Heed what others changed."""
        for change in changes:
            if change.what != "document":
                self._collections.clear()
                self._languages = None
                self._current = None if change.what == "documents" else self._current
            elif self._current is not None and change.revision >= self._current.get(change.document, 0):
                self._current.pop(change.document, None)
                if not change.gone:
                    self._current[change.document] = change.revision

    def reread(self, documents: Sequence[str]) -> None:
        """Look anew which revisions of these documents are current."""
        with self.engine.connect() as sql:
            found = list(sql.execute(_CURRENT.where(_revisions.c.document.in_(documents))))
        self.take_over([Change("document", *row) for row in found])

    def _find(self, sql: Any, *conditions: Any) -> list[Revision]:
        query = (
            select(_documents.c.collection, *_revisions.c["document", "revision", "generation", "chunks"])
            .join(_revisions, _revisions.c.document == _documents.c.id)
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
        return Collection(row.name, row.generation, row.embedder, probes, self.language(row.name, row.generation))

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
_SPAN = select(func.substr(_revisions.c.text, bindparam("at"), bindparam("n"), type_=AnyText)).where(
    _revisions.c.document == bindparam("id"), _revisions.c.revision == bindparam("revision")
)


def _set_state(revision: Revision, state: State) -> Any:
    return (
        update(_revisions)
        .where(_revisions.c.document == revision.document, _revisions.c.revision == revision.revision)
        .values(state=state)
    )
