"""Locks in PostgreSQL, held by a connection: they end with it, whatever ends it.

What is written while a lock is held goes over the same connection. If that is lost, and the lock with it, nothing more
is written: a writer that was cut off cannot write beside the one that took its place.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from retrieval.errors import Busy, IndexDown, RetrievalError
from runtime.database import lock_number

_WAITED_TOO_LONG = "55P03"  # SQLSTATE lock_not_available
_held: ContextVar[Connection | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction, over the connection that holds the lock where there is one."""
    held = _held.get()
    # Closed: this task was begun while the lock was held, and goes on without it.
    if held is None or held.closed or held.engine is not engine:
        with engine.begin() as sql:
            yield sql
        return
    if held.invalidated:  # it would connect anew, without the lock
        raise IndexDown("the connection to the database was lost while a collection was written: try again")
    with held.begin():
        yield held


@contextlib.contextmanager
def holding(held: Connection) -> Iterator[None]:
    """Transactions within go over this connection."""
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)


def take(
    engine: Engine, name: str, *, patience_s: float, shared: bool = False, waits: Callable[[int], None] = lambda _: None
) -> Connection:
    """A connection that holds the lock of that name. shared: with all others that take it so.

    waits: is told by which number `interrupt` knows who waits here. Raises Busy where somebody else has it for longer,
    IndexDown.
    """
    held = engine.connect()
    number, kind = f"{lock_number(name)} + hashtext(current_schema())", "_shared" if shared else ""
    try:
        waits(held.execute(text("SELECT pg_backend_pid()")).scalar_one())
        # Who waits is served in the order of coming. A timeout of 0 would be none.
        held.execute(text(f"SET LOCAL lock_timeout = {max(1, round(patience_s * 1000))}"))
        held.execute(text(f"SELECT pg_advisory_lock{kind}({number})"))
        held.commit()
    except BaseException as error:
        drop(held)
        if getattr(error.__cause__, "sqlstate", "") == _WAITED_TOO_LONG:
            raise Busy(f"somebody else holds {name!r}") from error
        raise
    return held


def interrupt(engine: Engine, waits: int) -> None:
    """Let who waits wait no more: the lock is not taken."""
    with contextlib.suppress(RetrievalError), engine.connect() as sql:
        sql.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": waits})


def drop(held: Connection) -> None:
    """Close it, and give its locks back so."""
    held.invalidate()
    held.close()


def release(held: Connection) -> None:
    """Give all its locks back."""
    try:
        held.execute(text("SELECT pg_advisory_unlock_all()"))
        held.commit()
    except (SQLAlchemyError, RetrievalError):
        drop(held)
    else:
        held.close()
