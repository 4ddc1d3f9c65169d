"""Locks in PostgreSQL, bound to a connection: a lock ends with its connection, for any reason.

All writes under a lock use its connection. If that is lost, so is the lock, and no more writes are possible: a writer
that was cut off cannot write next to the next holder.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from hashlib import sha256

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from runtime.errors import Busy, IndexDown, RetrievalError

_WAITED_TOO_LONG = "55P03"  # SQLSTATE lock_not_available
_held: ContextVar[Connection | None] = ContextVar("held", default=None)


def lock_number(name: str) -> int:
    """The number by which PostgreSQL knows one of our locks."""
    return int.from_bytes(sha256(f"ragway {name}".encode()).digest()[:7])


@contextlib.contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction, over the lock's connection if the task holds one."""
    held = _held.get()
    # Closed: the task started while the lock was held and continues without it.
    if held is None or held.closed or held.engine is not engine:
        with engine.begin() as sql:
            yield sql
        return
    if held.invalidated:  # a reconnect would not hold the lock
        raise IndexDown("the connection to the database was lost while a collection was written: try again")
    with held.begin():
        yield held


@contextlib.contextmanager
def holding(held: Connection) -> Iterator[None]:
    """Transactions in this context use the lock's connection."""
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)


def take(
    engine: Engine, name: str, *, patience_s: float, shared: bool = False, waits: Callable[[int], None] = lambda _: None
) -> Connection:
    """Take the lock of a name; return the connection that holds it. shared: together with other shared holders.

    waits: called with a number for `interrupt` while the call waits. Raises Busy if the lock is not free within
    `patience_s`; IndexDown.
    """
    held = engine.connect()
    number, kind = f"{lock_number(name)} + hashtext(current_schema())", "_shared" if shared else ""
    try:
        waits(held.execute(text("SELECT pg_backend_pid()")).scalar_one())
        # Waiting calls get the lock in order of arrival. A timeout of 0 would mean none.
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
    """End a waiting `take`, without the lock."""
    with contextlib.suppress(RetrievalError), engine.connect() as sql:
        sql.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": waits})


def check(held: Connection) -> None:
    """Raises IndexDown if the connection was lost, and the lock with it."""
    if held.invalidated:  # a reconnect would not hold the lock
        raise IndexDown("the connection to the database was lost while a collection was written: try again")
    held.execute(text("SELECT 1"))
    held.commit()


def drop(held: Connection) -> None:
    """Close the connection, which releases its locks."""
    held.invalidate()
    held.close()


def release(held: Connection) -> None:
    """Release all of the connection's locks."""
    try:
        held.execute(text("SELECT pg_advisory_unlock_all()"))
        held.commit()
    except (SQLAlchemyError, RetrievalError):
        drop(held)
    else:
        held.close()
