"""Collections and documents for display: lists and full texts, from the catalog's current revisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, false, func, or_, select

from retrieval.catalog import descriptions
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.catalog_tables import collections, documents, revisions
from retrieval.catalog.revisions import catalog_key, client_key
from retrieval.errors import UnknownDocument
from retrieval.records.documents import (
    RESERVED,
    Attribute,
    CollectionInfo,
    DocumentInfo,
    DocumentLocation,
    FullDocument,
    Groups,
)


class DocumentReader:
    """Reads the current documents of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """Return all collections, by name, with the number of documents that `groups` may read."""
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
        with self._catalog.engine.connect() as sql:
            rows, language = list(sql.execute(query)), self._catalog.language  # a row begins with name and generation
        return [
            CollectionInfo(
                row.name, row.documents or 0, row.chunks or 0, row.embedder, row.updated_s, language(*row[:2])
            )
            for row in rows
        ]

    def page(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """Return at most `limit` documents of the collection that `groups` may read, by id, after the id `after`.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        rows = _current(groups).where(documents.c.collection == collection, documents.c.id > after)
        with self._catalog.engine.connect() as sql:
            page = list(sql.execute(rows.order_by(documents.c.id).limit(limit)))
            descriptions_by_key = descriptions.read(sql, [(row.id, row.revision) for row in page])
        return [_info(row, descriptions_by_key[row.id, row.revision]) for row in page]

    def find(self, collection: str, key: str, groups: Groups = ()) -> str:
        """Return the id of the document that a client put under this key. Raises UnknownDocument."""
        id = self.ids(collection, [key], groups).get(key)
        if id is None:
            raise UnknownDocument(f"there is no document {key!r}")
        return id

    def ids(self, collection: str, keys: Sequence[str], groups: Groups = ()) -> dict[str, str]:
        """Return key -> id of the documents that clients put; a key without a readable document is left out."""
        by_key = {catalog_key(key): key for key in keys}
        query = _current(groups).with_only_columns(documents.c.id, documents.c.key)
        with self._catalog.engine.connect() as sql:
            rows = sql.execute(query.where(documents.c.collection == collection, documents.c.key.in_(by_key)))
            return {by_key[row.key]: row.id for row in rows}

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Return document -> a client's key, for the documents that clients put."""
        query = select(*documents.c["id", "key"]).where(documents.c.id.in_(ids))
        with self._catalog.engine.connect() as sql:
            return {row.id: key for row in sql.execute(query) if (key := client_key(row.key))}

    def keys_under(self, collection: str, prefix: str) -> list[str]:
        """Return the keys that begin with the prefix, of documents that clients put. Raises UnknownCollection."""
        self._catalog.collection(collection)
        key, start = documents.c.key, catalog_key(prefix)
        under = key >= start, key < start[:-1] + chr(ord(start[-1]) + 1)  # a range: read from the index of the keys
        query = _current(None).with_only_columns(key).where(documents.c.collection == collection, *under)
        with self._catalog.engine.connect() as sql:
            return [client_key(each) for each in sql.scalars(query.order_by(key))]

    def locations(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Return the present location of each existing document that `groups` may read."""
        query = _current(groups).with_only_columns(*documents.c["id", "collection"], revisions.c.revision)
        with self._catalog.engine.connect() as sql:
            return [
                DocumentLocation(row[0], row[1], row[2]) for row in sql.execute(query.where(documents.c.id.in_(ids)))
            ]

    def read(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """Return the full document.

        collections: names or patterns (ending with *) of the collections that the reader may read. No pattern matches
            a reserved collection.

        Raises UnknownDocument if the document does not exist or the reader may not read the document. Both cases take
        the same time: one statement without a row. A check after reading the text would reveal by its duration that
        the document exists.
        """
        query = _current(groups).add_columns(revisions.c.text).where(documents.c.id == id, _among(collections))
        with self._catalog.engine.connect() as sql:
            row = sql.execute(query).one_or_none()
            if row is None:
                raise UnknownDocument(f"there is no document {id!r}")
            descriptions_by_key = descriptions.read(sql, [(row.id, row.revision)])
        return FullDocument(_info(row, descriptions_by_key[row.id, row.revision]), row.text)


def _current(groups: Groups) -> Select[Any]:
    """Select the current documents that `groups` may read."""
    columns = revisions.c["revision", "source", "title", "format", "modified_s", "chunks"]
    of_documents = documents.c["id", "collection", "key"]
    return (
        select(*of_documents, *columns, func.length(revisions.c.text).label("chars"))
        .join(revisions, (revisions.c.document == documents.c.id) & (revisions.c.state == "current"))
        .where(descriptions.readable(groups))
    )


def _among(collections: Sequence[str]) -> ColumnElement[bool]:
    """Return the SQL condition on a row of `documents`: the collection's name matches a name or pattern.

    No pattern matches a reserved collection.
    """
    name = documents.c.collection
    exact = [granted for granted in collections if not granted.endswith("*")]
    prefixes = [granted[:-1] for granted in collections if granted.endswith("*")]
    # Not LIKE: LIKE treats "Red" and "red" as equal in SQLite.
    matched = or_(false(), *(func.substr(name, 1, len(prefix)) == prefix for prefix in prefixes))
    return or_(name.in_(exact), matched & (func.substr(name, 1, 1) != RESERVED))


def _info(row: Row[Any], description: tuple[Mapping[str, Attribute], tuple[str, ...]]) -> DocumentInfo:
    return DocumentInfo(
        row.id,
        row.collection,
        row.source,
        row.title,
        row.format,
        row.modified_s,
        row.chunks,
        row.chars,
        *description,
        client_key(row.key),
    )
