"""Collections and documents for display: lists and full texts, from current revisions."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, false, func, or_, select

from retrieval.catalog import descriptions
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.catalog_tables import collections, documents, revisions
from retrieval.catalog.revisions import catalog_key, client_key
from retrieval.errors import UnknownDocument
from retrieval.records.documents import (
    RESERVED,
    CollectionInfo,
    DocumentInfo,
    DocumentLocation,
    FullDocument,
    Groups,
)


class DocumentReader:
    """Reads one catalog's current documents."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """Return all collections, by name, each with its number of documents that `groups` may read."""
        counts = (
            select(
                documents.c.collection,
                func.count().label("documents"),
                func.coalesce(func.sum(revisions.c.chunks), 0).label("chunks"),
            )
            .join(revisions, (revisions.c.document == documents.c.id) & (revisions.c.state == "current"))
            .where(descriptions.readable(groups))
            .group_by(documents.c.collection)
            .subquery()
        )
        query = (
            select(collections, counts.c.documents, counts.c.chunks)
            .join(counts, counts.c.collection == collections.c.name, isouter=True)
            .order_by(collections.c.name)
        )
        language = self._catalog.language  # a row begins with name and generation
        return [
            CollectionInfo(
                row.name, row.documents or 0, row.chunks or 0, row.embedder, row.updated_s, language(*row[:2])
            )
            for row in self._catalog.rows(query)
        ]

    def page(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """Return at most `limit` of the collection's documents that `groups` may read, by id, after the id `after`.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        rows = _current(groups).where(documents.c.collection == collection, documents.c.id > after)
        return self._infos(self._catalog.rows(rows.order_by(documents.c.id).limit(limit)))

    def find(self, collection: str, key: str, groups: Groups = ()) -> str:
        """Return the id of the document that a client put under this key. Raises UnknownDocument."""
        id = self.ids(collection, [key], groups).get(key)
        if id is None:
            raise UnknownDocument(f"there is no document {key!r}")
        return id

    def ids(self, collection: str, keys: Sequence[str], groups: Groups = ()) -> dict[str, str]:
        """Return key -> id of documents that clients put; a key without a readable document is left out."""
        by_key = {catalog_key(key): key for key in keys}
        query = _current(groups).with_only_columns(documents.c.id, documents.c.key)
        rows = self._catalog.rows(query.where(documents.c.collection == collection, documents.c.key.in_(by_key)))
        return {by_key[row.key]: row.id for row in rows}

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Return document -> a client's key, for documents that clients put."""
        query = select(*documents.c["id", "key"]).where(documents.c.id.in_(ids))
        return {row.id: key for row in self._catalog.rows(query) if (key := client_key(row.key))}

    def keys_under(self, collection: str, prefix: str) -> list[str]:
        """Return keys that begin with the prefix, of documents that clients put. Raises UnknownCollection."""
        self._catalog.collection(collection)
        key, start = documents.c.key, catalog_key(prefix)
        under = key >= start, key < start[:-1] + chr(ord(start[-1]) + 1)  # a range: read from the key index
        query = _current(None).with_only_columns(key).where(documents.c.collection == collection, *under)
        return [client_key(row.key) for row in self._catalog.rows(query.order_by(key))]

    def locations(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Return where each existing document that `groups` may read is now."""
        query = _current(groups).with_only_columns(*documents.c["id", "collection"], revisions.c.revision)
        return [DocumentLocation(*row) for row in self._catalog.rows(query.where(documents.c.id.in_(ids)))]

    def read(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """Return a full document.

        collections: those that the reader may read, as names or patterns (ending with *). No pattern matches a
            reserved collection.

        Raises UnknownDocument if the document does not exist or the reader may not read it. Both cases take the same
        time: one statement without a row. A check after reading the text would reveal by its duration that it exists.
        """
        query = _current(groups).add_columns(revisions.c.text).where(documents.c.id == id, _among(collections))
        rows = self._catalog.rows(query)
        if not rows:
            raise UnknownDocument(f"there is no document {id!r}")
        return FullDocument(self._infos(rows)[0], rows[0].text)

    def _infos(self, rows: Sequence[Any]) -> list[DocumentInfo]:
        """rows: of `_current`, whose columns begin with `DocumentInfo`'s fields."""
        with self._catalog.engine.connect() as sql:
            described = descriptions.read(sql, [(row.id, row.revision) for row in rows])
        fields: list[tuple[Any, ...]] = [
            (*row[:8], *described[row.id, row.revision], client_key(row.key)) for row in rows
        ]
        return [DocumentInfo(*of_one) for of_one in fields]


def _current(groups: Groups) -> Select[Any]:
    """Select current documents that `groups` may read."""
    shown = revisions.c["source", "title", "format", "modified_s", "chunks"]
    chars = func.length(revisions.c.text).label("chars")
    return (
        select(*documents.c["id", "collection"], *shown, chars, documents.c.key, revisions.c.revision)
        .join(revisions, (revisions.c.document == documents.c.id) & (revisions.c.state == "current"))
        .where(descriptions.readable(groups))
    )


def _among(collections: Sequence[str]) -> ColumnElement[bool]:
    """Return the SQL condition on a row of `documents`: its collection's name matches a name or pattern.

    No pattern matches a reserved collection.
    """
    name = documents.c.collection
    exact = [granted for granted in collections if not granted.endswith("*")]
    prefixes = [granted[:-1] for granted in collections if granted.endswith("*")]
    # Not LIKE: LIKE treats "Red" and "red" as equal in SQLite.
    matched = or_(false(), *(func.substr(name, 1, len(prefix)) == prefix for prefix in prefixes))
    return or_(name.in_(exact), matched & (func.substr(name, 1, 1) != RESERVED))
