"""All action sets' operations, in SQL.

The text for search is a document in the collection `COLLECTION`; the definition, by which an operation is called, is a
row here. So a worker reads only rows of operations that a search found.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import NamedTuple

import msgspec

from proxy.apis.openapi.operation import Operation, Uncallable
from runtime.lazy_database import Database

_FILE = "actions.db"
_ROWS = 500  # written at a time
COLLECTION = ".actions"  # reserved (`retrieval.records.documents.is_reserved`)

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class ActionSet:
    name: str
    title: str
    base_url: str
    updated_s: float
    uncallable: Sequence[Uncallable]
    source: str = ""  # document's file or URL; "" = sent by a client
    document: str = ""  # its `document_hash`; "" = a write was interrupted
    count: int = 0


class StoredOperation(NamedTuple):
    name: str
    revision: str
    definition: bytes


def stored(operation: Operation, title: str) -> StoredOperation:
    """An operation as stored. title: the API's."""
    return StoredOperation(operation.name, revision_of(operation, title), _encode(operation))


def revision_of(operation: Operation, title: str) -> str:
    """A hash of definition and API title, by which the operation is found."""
    return hashlib.sha256(_encode((operation, title))).hexdigest()[:32]


def document_hash(raw: bytes) -> str:
    """A hash of a document and of the version that reads it: another may read other operations."""
    return hashlib.sha256(version("ragway").encode() + raw).hexdigest()[:32]


class ActionStore(Database):
    """Action sets in a data folder or on a server. The first set creates the file."""

    def __init__(self, data: Path, url: str = "", *, now_s: Callable[[], float] = time) -> None:
        """url: a PostgreSQL database; "" = the data folder."""
        super().__init__(data / _FILE, url, what="the actions", tables="proxy.apis.tables")
        self._now_s = now_s

    def sets(self) -> list[ActionSet]:
        """All sets, by name. Raises RetrievalError."""
        from sqlalchemy import func, select

        from proxy.apis.tables import action_sets, actions

        counted = select(func.count()).where(actions.c.set == action_sets.c.name).scalar_subquery().label("number")
        rows = self.rows(select(action_sets, counted).order_by(action_sets.c.name))
        decode = msgspec.json.Decoder(list[Uncallable]).decode
        return [replace(ActionSet(*row), uncallable=decode(row.uncallable)) for row in rows]

    def revisions(self, name: str) -> dict[str, str]:
        """A set's operation names -> revisions. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.apis.tables import actions

        query = select(actions.c.name, actions.c.revision).where(actions.c.set == name).order_by(actions.c.name)
        return {row.name: row.revision for row in self.rows(query)}

    def operations(self, name: str, *, after: str = "", limit: int | None = None) -> list[Operation]:
        """At most `limit` of a set's operations, by name, after the name `after`. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.apis.tables import actions

        query = select(actions.c.definition).where(actions.c.set == name, actions.c.name > after)
        rows = self.rows(query.order_by(actions.c.name).limit(limit))
        return [msgspec.json.decode(row.definition, type=Operation) for row in rows]

    def found(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Operation]:
        """(set, name) -> operation, for those that exist. Raises RetrievalError."""
        by_set: dict[str, list[str]] = {}
        for each, name in names:
            by_set.setdefault(each, []).append(name)
        if not by_set:
            return {}
        from sqlalchemy import and_, or_, select

        from proxy.apis.tables import actions

        wanted = or_(*(and_(actions.c.set == each, actions.c.name.in_(some)) for each, some in by_set.items()))
        rows = self.rows(select(actions.c.set, actions.c.name, actions.c.definition).where(wanted))
        return {(row.set, row.name): msgspec.json.decode(row.definition, type=Operation) for row in rows}

    def find(self, name: str) -> ActionSet | None:
        return next((one for one in self.sets() if one.name == name), None)

    def note_document(self, name: str, document: str) -> None:
        """Note the hash of the document that a set was written from; "": a write begins. Raises RetrievalError."""
        if self.empty():
            return
        from proxy.apis.tables import action_sets

        with self.writing() as sql:
            sql.execute(action_sets.update().where(action_sets.c.name == name).values(document=document))

    def put(self, row: ActionSet, operations: Sequence[StoredOperation]) -> None:
        """Replace a set, completely or not at all; its document is noted afterwards. Raises RetrievalError."""
        from proxy.apis.tables import action_sets, actions

        rows = [
            {"set": row.name, "name": one.name, "revision": one.revision, "definition": one.definition}
            for one in operations
        ]
        with self.writing() as sql:
            sql.execute(action_sets.delete().where(action_sets.c.name == row.name))
            sql.execute(actions.delete().where(actions.c.set == row.name))
            uncallable = _encode(list(row.uncallable))
            values = (row.name, row.title, row.base_url, self._now_s(), uncallable, row.source, "")
            sql.execute(action_sets.insert().values(values))
            for at in range(0, len(rows), _ROWS):
                sql.execute(actions.insert(), rows[at : at + _ROWS])

    def remove(self, name: str) -> bool:
        """Delete a set; returns whether it existed. Raises RetrievalError."""
        if self.empty():
            return False
        from proxy.apis.tables import action_sets, actions

        with self.writing() as sql:
            sql.execute(actions.delete().where(actions.c.set == name))
            return bool(sql.execute(action_sets.delete().where(action_sets.c.name == name)).rowcount)
