"""Uploaded files in the catalog, each seen by its owner alone; documents can be made of them (`jobs`)."""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import LargeBinary, delete, func, insert, select

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.jobs import new_id
from retrieval.catalog.tables import files
from retrieval.errors import UnknownFile
from retrieval.records.files import FILE_ID_PREFIX, UploadedFile

_SHOWN = files.c["id", "name", "purpose", "created_s", "bytes"]


class Files:
    """The files of one catalog. What is somebody else's is not there."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add(self, owner: str, name: str, purpose: str, content: bytes) -> UploadedFile:
        id = new_id(FILE_ID_PREFIX)
        file = UploadedFile(id, name, purpose, time.time(), len(content))
        with self._catalog.writing() as sql:
            sql.execute(
                insert(files).values(
                    id=id,
                    owner=owner,
                    name=name,
                    purpose=purpose,
                    created_s=file.created_s,
                    bytes=file.bytes,
                    content=content,
                )
            )
        return file

    def find(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        """Those of these that are there, in no order."""
        return self._rows(select(*_SHOWN).where(files.c.id.in_(ids), files.c.owner == owner))

    def page(self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool) -> list[UploadedFile]:
        """At most `limit` of them, from behind the id `after` on; purpose, after: "" for all."""
        query = select(*_SHOWN).where(files.c.owner == owner)
        if purpose:
            query = query.where(files.c.purpose == purpose)
        if after:
            query = query.where(files.c.id < after if newest_first else files.c.id > after)
        return self._rows(query.order_by(files.c.id.desc() if newest_first else files.c.id).limit(limit))

    def part(self, id: str, owner: str, start: int, length: int) -> bytes:
        """So many bytes of its content. Raises UnknownFile."""
        content: Any = func.substr(files.c.content, start + 1, length, type_=LargeBinary)
        with self._catalog.engine.connect() as sql:
            row = sql.execute(select(files.c.id, content).where(files.c.id == id, files.c.owner == owner)).one_or_none()
        if row is None:
            raise _unknown(id)
        return bytes(row[1] or b"")  # SQLite takes a part of nothing for NULL

    def delete(self, id: str, owner: str) -> None:
        """Raises UnknownFile."""
        with self._catalog.writing() as sql:
            if not sql.execute(delete(files).where(files.c.id == id, files.c.owner == owner)).rowcount:
                raise _unknown(id)

    def _rows(self, query: Any) -> list[UploadedFile]:
        with self._catalog.engine.connect() as sql:
            return [UploadedFile(*row) for row in sql.execute(query)]


def _unknown(id: str) -> UnknownFile:
    return UnknownFile(f"there is no file {id!r}")
