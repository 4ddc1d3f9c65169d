"""Records of a kind (receipts, comparisons, histories …): in one SQL table, for a limited time and size.

Whoever makes the records names their kind.

Beside an SQLite catalog, records have a database of their own (`receipts.db`): no other write waits for receipts, and
no backup of keys contains any. With PostgreSQL, the table is in the catalog's database, which all gateways see.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from runtime.database import Database

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

RECEIPTS = "receipts"  # the first records' kind, and the file's name
_FILE = f"{RECEIPTS}.db"
_OVERHEAD_BYTES = 200  # of a row, beside its content
_PRUNE_EVERY_S = 60.0
_SHARE_OF_FUTURE = 0.1  # of the size limit, for records with a future time
_LEFT = 0.9  # of the size limit, once old records are deleted
_AT_A_TIME = 500  # rows in memory during a complete read


class RecordStore(Database):
    """Records of one kind, in a data folder or on a server. The first record creates the file."""

    def __init__(
        self,
        data: Path,
        url: str = "",
        *,
        keep_s: float,
        max_bytes: int,
        now_s: Callable[[], float] = time,
        kind: str = RECEIPTS,
    ) -> None:
        """url: of a PostgreSQL database; "" = the data folder. keep_s: 0 stores nothing. max_bytes: for all records of
        this kind.
        """
        super().__init__(data / _FILE, url, what=f"the {kind}", tables="runtime.record_tables")
        self.kind = kind
        self.keep_s, self._max_bytes = keep_s, max_bytes
        self._now_s = now_s
        self._pruned_s = 0.0

    def warm(self) -> None:
        """Import database modules (200 ms), if receipts are stored at all."""
        if self.keep_s:
            _ = self.schema

    def put(self, receipts: Iterable[tuple[str, float, bytes]]) -> None:
        """Store records: id, time and JSON. Raises RetrievalError."""
        table = self._table()
        rows = [self._row(*receipt) for receipt in receipts]
        with self.writing() as sql:
            # A write that seemed to fail may have succeeded.
            sql.execute(table.delete().where(self._mine(), table.c.id.in_([row["id"] for row in rows])))
            sql.execute(table.insert(), rows)
            if self._now_s() - self._pruned_s > _PRUNE_EVERY_S:
                self._prune(sql)

    def change(self, id: str, changed: Callable[[bytes], bytes]) -> None:
        """Replace a record's content, if it still exists. Raises RetrievalError."""
        from sqlalchemy import select

        table = self._table()
        if self.empty():
            return
        this = self._mine() & (table.c.id == id)
        with self.writing() as sql:
            found = sql.execute(select(table.c.at_s, table.c.content).where(this)).one_or_none()
            if found is not None:
                row = self._row(id, found.at_s, changed(found.content))
                sql.execute(table.update().where(this).values(row))

    def prune(self) -> None:
        """Delete expired records, and the oldest beyond the size limit. Raises RetrievalError."""
        if not self.empty():
            with self.writing() as sql:
                self._prune(sql)

    def read(self, id: str) -> bytes | None:
        """A record as JSON; None: no record has this id. Raises RetrievalError."""
        if self.empty():
            return None
        from sqlalchemy import select

        table, since_s = self._table(), self._now_s() - self.keep_s
        query = select(table.c.content).where(self._mine(), table.c.id == id, table.c.at_s > since_s)
        with self.reading() as sql:
            content: bytes | None = sql.scalar(query)
        return content

    def has_any(self, ids: Collection[str]) -> bool:
        """Whether a record has one of these ids. Raises RetrievalError."""
        if self.empty():
            return False
        from sqlalchemy import exists, select

        table, since_s = self._table(), self._now_s() - self.keep_s
        found = exists().where(self._mine(), table.c.id.in_(ids), table.c.at_s > since_s)
        with self.reading() as sql:
            return bool(sql.scalar(select(found)))

    def every(self, since_s: float = 0.0) -> Iterator[bytes]:
        """All records since a time, as JSON, oldest first. Raises RetrievalError."""
        if self.empty():
            return
        from sqlalchemy import select

        table = self._table()
        wanted = self._mine() & (table.c.at_s > max(since_s, self._now_s() - self.keep_s))
        with self.reading() as sql:
            found = sql.execution_options(yield_per=_AT_A_TIME).execute(
                select(table.c.content).where(wanted).order_by(table.c.at_s, table.c.id)
            )
            for (content,) in found:
                yield content

    def _prune(self, sql: "Connection") -> None:
        table, mine = self._table(), self._mine()
        at_s = table.c.at_s
        sql.execute(table.delete().where(mine, at_s <= self._now_s() - self.keep_s))
        # Cutting all records alike would spare those with a time in the future: at three chats a second, these filled
        # the table within two days, and all others were deleted.
        self._cut(sql, mine & (at_s > self._now_s() + self.keep_s / 2), self._max_bytes * _SHARE_OF_FUTURE)
        self._cut(sql, mine, self._max_bytes)
        self._pruned_s = self._now_s()

    def _cut(self, sql: "Connection", wanted: "ColumnElement[bool]", most_bytes: float) -> None:
        """Delete the oldest of these records if they exceed the size."""
        from sqlalchemy import func, select

        table = self._table()
        one = table.c
        total = sql.scalar(select(func.coalesce(func.sum(one.bytes), 0)).where(wanted)) or 0
        if total > most_bytes:
            so_far = func.sum(one.bytes).over(order_by=one.at_s).label("so_far")
            up_to = select(one.at_s, so_far).where(wanted).subquery()
            least = total - int(most_bytes * _LEFT)
            cut_s = select(func.min(up_to.c.at_s)).where(up_to.c.so_far >= least).scalar_subquery()
            sql.execute(table.delete().where(wanted, one.at_s <= cut_s))

    def _table(self) -> "Table":
        from runtime.record_tables import records

        return records

    def _mine(self) -> "ColumnElement[bool]":
        return self._table().c.kind == self.kind

    def _row(self, id: str, at_s: float, content: bytes) -> dict[str, object]:
        # Not compressed: compressing 30 KB to 9 KB takes 0.4 ms of CPU, writing 30 KB takes 0.2 ms.
        return {
            "kind": self.kind,
            "id": id,
            "at_s": at_s,
            "bytes": len(content) + _OVERHEAD_BYTES,
            "content": content,
        }
