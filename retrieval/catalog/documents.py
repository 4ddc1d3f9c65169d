"""Collections and documents as they are shown: lists, and whole texts, from the catalog's current revisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, or_, select

from retrieval.catalog import descriptions
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.tables import collections, documents, revisions
from retrieval.errors import UnknownDocument
from retrieval.ingest.given import catalog_key, client_key
from retrieval.records.documents import Attribute, CollectionInfo, DocumentInfo, DocumentLocation, FullDocument, Groups


class Documents:
    """What one catalog has to show."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """All collections, by name, each with the number of documents that these groups may read."""
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
            rows, of = list(sql.execute(query)), self._catalog.language  # a row begins with name and generation
        return [
            CollectionInfo(row.name, row.documents or 0, row.chunks or 0, row.embedder, row.updated_s, of(*row[:2]))
            for row in rows
        ]

    def page(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """At most `limit` documents of the collection that these groups may read, by id, from behind `after` on.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        rows = _current(groups).where(documents.c.collection == collection, documents.c.id > after)
        with self._catalog.engine.connect() as sql:
            page = list(sql.execute(rows.order_by(documents.c.id).limit(limit)))
            described = descriptions.read(sql, [(row.id, row.revision) for row in page])
        return [_info(row, described[row.id, row.revision]) for row in page]

    def find(self, collection: str, key: str, groups: Groups = ()) -> str:
        """The id of the document that a client put under this key. Raises UnknownDocument."""
        this = documents.c.collection == collection, documents.c.key == catalog_key(key)
        with self._catalog.engine.connect() as sql:
            id = sql.scalar(_current(groups).with_only_columns(documents.c.id).where(*this))
        if id is None:
            raise UnknownDocument(f"there is no document {key!r}")
        return str(id)

    def keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document -> the key under which a client put it, of those that clients put."""
        query = select(*documents.c["id", "key"]).where(documents.c.id.in_(ids))
        with self._catalog.engine.connect() as sql:
            return {row.id: key for row in sql.execute(query) if (key := client_key(row.key))}

    def standing(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Where those of the documents are now that are still there and that these groups may read."""
        query = _current(groups).with_only_columns(*documents.c["id", "collection"], revisions.c.revision)
        with self._catalog.engine.connect() as sql:
            return [
                DocumentLocation(row[0], row[1], row[2]) for row in sql.execute(query.where(documents.c.id.in_(ids)))
            ]

    def hides(self, collection: str, key: str, groups: Groups) -> bool:
        """Whether there is a document that a client put under this key, and these groups may not read it."""
        this = documents.c.collection == collection, documents.c.key == catalog_key(key)
        with self._catalog.engine.connect() as sql:
            there, seen = [
                sql.scalar(_current(of).with_only_columns(func.count()).where(*this)) for of in (None, groups)
            ]
        return there != seen

    def read(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """The document, whole. collections: those that the reader may read, as names or patterns that end with *.

        Raises UnknownDocument where there is no such document or the reader may not read it. Both cost the same: one
        statement that finds no row. A check after the text was read would tell by its time that the document is there.
        """
        this = _current(groups).add_columns(revisions.c.text).where(documents.c.id == id, _among(collections))
        with self._catalog.engine.connect() as sql:
            row = sql.execute(this).one_or_none()
            if row is None:
                raise UnknownDocument(f"there is no document {id!r}")
            described = descriptions.read(sql, [(row.id, row.revision)])
        return FullDocument(_info(row, described[row.id, row.revision]), row.text)


def _current(groups: Groups) -> Select[Any]:
    """Of the documents that these groups may read."""
    columns = revisions.c["revision", "source", "title", "format", "modified_s", "chunks"]
    of_documents = documents.c["id", "collection", "key"]
    return (
        select(*of_documents, *columns, func.length(revisions.c.text).label("chars"))
        .join(revisions, (revisions.c.document == documents.c.id) & (revisions.c.state == "current"))
        .where(descriptions.readable(groups))
    )


def _among(collections: Sequence[str]) -> ColumnElement[bool]:
    """Of a row of `documents`: whether its collection is one of these names or begins as one of these patterns."""
    name = documents.c.collection
    exact = [granted for granted in collections if not granted.endswith("*")]
    prefixes = [granted[:-1] for granted in collections if granted.endswith("*")]
    # Not LIKE, which takes "Red" for "red" in SQLite.
    return or_(name.in_(exact), *(func.substr(name, 1, len(prefix)) == prefix for prefix in prefixes))


def _info(row: Row[Any], described: tuple[Mapping[str, Attribute], tuple[str, ...]]) -> DocumentInfo:
    return DocumentInfo(
        row.id,
        row.collection,
        row.source,
        row.title,
        row.format,
        row.modified_s,
        row.chunks,
        row.chars,
        *described,
        client_key(row.key),
    )
