"""What was changed in a catalog that several processes have open, for those that keep parts of it in memory.

A row is written in the transaction of the change itself, under a lock that the transaction holds to its end: rows are
numbered in the order in which their changes can be seen, and who has read up to a number has missed nothing before it.
"""

from dataclasses import dataclass
from time import time
from typing import Literal

from sqlalchemy import Connection, Row, delete, func, insert, select, text

from retrieval.catalog.tables import changes
from runtime.database import lock_number

# One document; collections made, removed or of another language; or any document of a collection.
What = Literal["document", "collections", "documents"]
HEARD_S = 3.0  # by then every process that reaches the database has heard: it looks once a second
_LOCK = text(f"SELECT pg_advisory_xact_lock({lock_number('changes')} + hashtext(current_schema()))")


@dataclass(frozen=True, slots=True)
class Change:
    """One change by another process."""

    what: What
    document: str = ""
    revision: int = 0  # that is current now, or was the last one
    gone: bool = False


def note(sql: Connection, writer: str, change: Change) -> None:
    """Tell the others. The last thing in its transaction: everybody else who notes anything waits for its end."""
    sql.execute(_LOCK)
    sql.execute(
        insert(changes).values(
            number=last(sql) + 1,
            writer=writer,
            at_s=time(),
            what=change.what,
            document=change.document,
            revision=change.revision,
            gone=change.gone,
        )
    )


def last(sql: Connection) -> int:
    """The number of the last change; 0 before the first."""
    return sql.scalar(select(func.max(changes.c.number))) or 0


def since(sql: Connection, number: int, reader: str) -> tuple[int, list[Change]]:
    """The number of the last change, and what others changed after that one.

    Anything, where that is not kept any more.
    """
    rows = list(sql.execute(select(changes).where(changes.c.number > number).order_by(changes.c.number)))
    if not rows:
        return number, []
    if rows[0].number > number + 1:
        return rows[-1].number, [Change("documents")]
    return rows[-1].number, [_change(row) for row in rows if row.writer != reader]


def forget(sql: Connection, before_s: float) -> None:
    """Drop what all have read by now. The last one stays, for its number."""
    sql.execute(delete(changes).where(changes.c.at_s < before_s, changes.c.number < last(sql)))


def _change(row: Row[tuple[object, ...]]) -> Change:
    return Change(row.what, row.document, row.revision, row.gone)
