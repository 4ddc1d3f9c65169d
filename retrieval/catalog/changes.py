"""Changes in a catalog that several processes share, for those that cache parts of it.

A change's transaction also writes a row, under a lock until it ends. So row numbers follow the order in which changes
become visible, and a process that has read up to a number has missed no earlier change.
"""

from dataclasses import dataclass
from time import time
from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select, text

from retrieval.catalog.catalog_tables import changes, fingerprints
from runtime.locks import lock_number

# One document; collections created, removed or of another language; or any documents of a collection.
ChangeKind = Literal["document", "collections", "documents"]
PROPAGATION_S = 3.0  # by then every connected process knows: each reads changes once a second
_LOCK = text(f"SELECT pg_advisory_xact_lock({lock_number('changes')} + hashtext(current_schema()))")


@dataclass(frozen=True, slots=True)
class Change:
    """One change by another process."""

    what: ChangeKind
    document: str = ""
    revision: int = 0  # the current revision, or else the last
    gone: bool = False
    fingerprint: int | None = None  # of the revision; not recorded, as it has a row of its own


def record_change(sql: Connection, writer: str, change: Change) -> None:
    """Record a change; must come last in the transaction, because all other recorders wait for its end."""
    sql.execute(_LOCK)
    what = {"what": change.what, "document": change.document, "revision": change.revision, "gone": change.gone}
    sql.execute(insert(changes).values(number=last(sql) + 1, writer=writer, at_s=time(), **what))


def last(sql: Connection) -> int:
    """Return the last change's number; 0 before the first."""
    return sql.scalar(select(func.max(changes.c.number))) or 0


def since(sql: Connection, number: int, reader: str) -> tuple[int, list[Change]]:
    """Return the last change's number, and other processes' changes after `number`.

    If any of these were pruned, the result is a change of all documents.
    """
    says = (fingerprints.c.document == changes.c.document) & (fingerprints.c.revision == changes.c.revision)
    query = select(changes, fingerprints.c.fingerprint).outerjoin(fingerprints, says)
    rows = list(sql.execute(query.where(changes.c.number > number).order_by(changes.c.number)))
    if not rows:
        return number, []
    if rows[0].number > number + 1:
        return rows[-1].number, [Change("documents")]
    return rows[-1].number, [
        Change(row.what, row.document, row.revision, row.gone, row.fingerprint) for row in rows if row.writer != reader
    ]


def prune(sql: Connection, before_s: float) -> None:
    """Delete changes that all processes have read. The last change stays, for its number."""
    sql.execute(delete(changes).where(changes.c.at_s < before_s, changes.c.number < last(sql)))
