"""A gateway database: a file in the data folder, readable only by its owner, or tables on a PostgreSQL server.

The first write creates the file. A gateway that never writes does not import SQLAlchemy, which takes 200 ms.
"""

import asyncio
import fcntl
import importlib
import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import Busy, RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Select

    from runtime.database import Schema


log = logging.getLogger("ragway")
_LOOK_S = 0.1  # between two looks whether a lock is free
_TAKE_S = 0.05  # a look at a server's lock
_TELL_S = 1.0  # of silent waiting

Release = Callable[[], None]


class Database:
    """One schema's tables, opened on first use."""

    def __init__(self, file: Path, url: str, *, what: str, tables: str) -> None:
        """url: of a PostgreSQL database; "": the file. what: its content, in messages.

        tables: their module, with a `schema`; imported on first use.
        """
        self._file, self._url = file, url
        self._what, self._tables = what, tables
        self._engine: Engine | None = None
        self._opening = threading.Lock()  # several threads may open it at the same time
        self._seen = bool(url)  # whether it existed at any time

    def there(self) -> bool:
        """Whether a database exists, or existed."""
        self._seen = self._seen or self._file.exists()
        return self._seen

    @property
    def schema(self) -> "Schema":
        schema: Schema = importlib.import_module(self._tables).schema
        return schema

    def empty(self) -> bool:
        """Whether the file does not exist: not yet written, or deleted."""
        return not self._url and not self._file.exists()

    @contextmanager
    def reading(self) -> "Iterator[Connection]":
        """A connection for reading. Raises RetrievalError if the database refuses."""
        from sqlalchemy.exc import DatabaseError

        try:
            with self._opened(make=False).connect() as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be read ({error.orig})") from error

    def rows(self, query: "Select[Any]") -> Sequence[Any]:
        """Rows that a query finds; none without a database. Raises RetrievalError."""
        if self.empty():
            return []
        with self.reading() as sql:
            return sql.execute(query).all()

    @contextmanager
    def writing(self) -> "Iterator[Connection]":
        """An exclusive transaction. Raises RetrievalError."""
        from sqlalchemy.exc import DatabaseError

        from runtime.database import exclusive

        try:
            with exclusive(self._opened(make=True), self.schema.name) as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be written ({error.orig})") from error

    @asynccontextmanager
    async def turn(self, part: str) -> AsyncIterator[None]:
        """Keep other turns on a part of the content waiting, in all processes, while it is written.

        For a database file, another file beside it, named after the part, keeps turns apart. Raises RetrievalError.
        """
        loop = asyncio.get_running_loop()
        begun, told, release = loop.time(), False, None
        while release is None:
            taking = loop.run_in_executor(None, self._take, part)
            try:
                release = await asyncio.shield(taking)
            except asyncio.CancelledError:  # the thread continues
                taking.add_done_callback(_release)
                raise
            if release is None:
                if loop.time() - begun > _TELL_S and not told:
                    told = True
                    log.info("another process writes %s of %s: waiting", self._what, part)
                await asyncio.sleep(_LOOK_S)
        try:
            yield
        finally:
            await asyncio.shield(loop.run_in_executor(None, release))

    def _take(self, part: str) -> Release | None:
        """Take the lock for the part's turns; None: another turn has it. Raises RetrievalError."""
        if self._url:
            from runtime import locks

            try:
                held = locks.take(self._opened(make=True), f"{self.schema.name} turn {part}", patience_s=_TAKE_S)
            except Busy:
                return None
            return lambda: locks.release(held)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._file.with_suffix(f".{part}.lock"), os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return lambda: os.close(file)

    def close(self) -> None:
        """Close all connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @property
    def _where(self) -> str:
        return "the database of catalog.url" if self._url else str(self._file)

    def _opened(self, *, make: bool) -> "Engine":
        with self._opening:
            if self._engine is None or self.empty():
                self.close()
                self._engine = self._open(make=make)
            return self._engine

    def _open(self, *, make: bool) -> "Engine":
        from runtime.database import open_file, open_server, prepare

        if self._url:
            engine = open_server(self._url, what=self._what)
        else:
            if make:
                self._make()
            elif self.empty():
                raise RetrievalError(f"{self._what} are gone: the file {self._file} does not exist any more")
            engine = open_file(self._file, what=f"{self._what} in {self._file}", pooled=False)
        try:
            prepare(engine, self.schema)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _make(self) -> None:
        """Create an empty database with mode 0600 from the first moment."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # not opened: closing it would end this process's SQLite locks
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error


def _release(taking: "asyncio.Future[Release | None]") -> None:
    """Release the lock that a thread took for a task that ended."""
    if not taking.cancelled() and taking.exception() is None and (release := taking.result()) is not None:
        release()
