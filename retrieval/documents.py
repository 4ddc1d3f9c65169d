"""Documents as they are read: lists of a collection, and whole texts, from the catalog's current revisions."""

from typing import Any

from sqlalchemy import Row, Select, func, select

from retrieval.catalog import Catalog
from retrieval.catalog_tables import documents, revisions
from retrieval.errors import UnknownDocument
from retrieval.records import DocumentInfo, FullDocument


class Documents:
    """The documents of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def page(self, collection: str, *, after: str, limit: int) -> list[DocumentInfo]:
        """At most `limit` documents of the collection, by id, from behind the id `after` on.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        rows = _current().where(documents.c.collection == collection, documents.c.id > after)
        with self._catalog.engine.connect() as sql:
            return [_info(row) for row in sql.execute(rows.order_by(documents.c.id).limit(limit))]

    def read(self, id: str) -> FullDocument:
        """The document, whole. Raises UnknownDocument."""
        with self._catalog.engine.connect() as sql:
            row = sql.execute(_current().add_columns(revisions.c.text).where(documents.c.id == id)).one_or_none()
        if row is None:
            raise UnknownDocument(f"there is no document {id!r}")
        return FullDocument(_info(row), row.text)


def _current() -> Select[Any]:
    columns = revisions.c["source", "title", "format", "modified_s", "chunks"]
    return select(documents.c.id, documents.c.collection, *columns, func.length(revisions.c.text).label("chars")).join(
        revisions, (revisions.c.document == documents.c.id) & (revisions.c.state == "current")
    )


def _info(row: Row[Any]) -> DocumentInfo:
    return DocumentInfo(
        row.id, row.collection, row.source, row.title, row.format, row.modified_s, row.chunks, row.chars
    )
