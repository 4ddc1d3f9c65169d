"""Uploaded files in the catalog, visible only to their owner; a job can turn one into a document (`job_store`)."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import LargeBinary, delete, func, insert, select

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.catalog_tables import files
from retrieval.catalog.job_store import new_id
from retrieval.errors import UnknownFile
from retrieval.records.files import FILE_ID_PREFIX, UploadedFile

_SHOWN = files.c["id", "name", "purpose", "created_s", "bytes"]


class UploadedFiles:
    """One catalog's uploaded files. For a caller, other owners' files do not exist."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add(self, owner: str, name: str, purpose: str, content: bytes) -> UploadedFile:
        file = UploadedFile(new_id(FILE_ID_PREFIX), name, purpose, time.time(), len(content))
        with self._catalog.writing() as sql:
            sql.execute(insert(files).values(**asdict(file), owner=owner, content=content))
        return file

    def find(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        """Return existing files with these ids, unordered."""
        return self._rows(select(*_SHOWN).where(files.c.id.in_(ids), files.c.owner == owner))

    def page(self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool) -> list[UploadedFile]:
        """Return at most `limit` files, after the id `after`; purpose, after: "" for all."""
        query = select(*_SHOWN).where(files.c.owner == owner)
        if purpose:
            query = query.where(files.c.purpose == purpose)
        if after:
            query = query.where(files.c.id < after if newest_first else files.c.id > after)
        return self._rows(query.order_by(files.c.id.desc() if newest_first else files.c.id).limit(limit))

    def part(self, id: str, owner: str, start: int, length: int) -> bytes:
        """Return `length` bytes of content from `start`. Raises UnknownFile."""
        content: Any = func.substr(files.c.content, start + 1, length, type_=LargeBinary)
        rows = self._catalog.rows(select(files.c.id, content).where(files.c.id == id, files.c.owner == owner))
        if not rows:
            raise _unknown(id)
        return bytes(rows[0][1] or b"")  # SQLite returns NULL for a part of empty content

    def delete(self, id: str, owner: str) -> None:
        """Raises UnknownFile."""
        with self._catalog.writing() as sql:
            if not sql.execute(delete(files).where(files.c.id == id, files.c.owner == owner)).rowcount:
                raise _unknown(id)

    def _rows(self, query: Any) -> list[UploadedFile]:
        return [UploadedFile(*row) for row in self._catalog.rows(query)]


def _unknown(id: str) -> UnknownFile:
    return UnknownFile(f"there is no file {id!r}")
