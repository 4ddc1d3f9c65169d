"""SQLite as the catalog wants it: durable, and its refusals told as ours."""

from typing import Any

from retrieval.errors import RetrievalError

# What the disk, the folder's rights or another process refuse: nothing of it speaks against the file.
_REFUSALS = {"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_NOMEM"}


def tune(connection: Any, _record: Any, sync: str = "FULL") -> None:
    """For every new connection."""
    connection.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    connection.execute(f"PRAGMA synchronous={sync}")  # FULL: a published document survives a power cut
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA busy_timeout=5000")


def name_refusals(context: Any) -> None:
    """Raise RetrievalError for what SQLite refused. context: SQLAlchemy's ExceptionContext."""
    name = getattr(context.original_exception, "sqlite_errorname", "")
    if "_".join(name.split("_")[:2]) in _REFUSALS:
        raise RetrievalError(
            f"the catalog cannot be read or written ({context.original_exception}): look at the disk's free space and "
            "at the rights of the data folder; nothing that was finished is lost"
        ) from context.original_exception
