"""A database of the gateway: a file in the data folder, readable by the owner alone, or tables on a PostgreSQL server.

The first write creates the file. A gateway that never writes does not import SQLAlchemy, which takes 200 ms.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.errors import RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from runtime.database import Schema


class Database:
    """The tables of one schema, opened on first use."""

    def __init__(self, file: Path, url: str, *, what: str, schema: "Callable[[], Schema]") -> None:
        """url: of a PostgreSQL database; "": the file. what: the content, in messages. schema: loaded on first use."""
        self._file, self._url = file, url
        self._what, self._schema = what, schema
        self._engine: Engine | None = None
        self._opening = threading.Lock()  # several threads may open the database at the same time
        self._seen = bool(url)  # whether a database existed at any time

    def there(self) -> bool:
        """Whether a database exists, or existed."""
        self._seen = self._seen or self._file.exists()
        return self._seen

    def empty(self) -> bool:
        """Whether the file does not exist: no write yet, or a deleted file."""
        return not self._url and not self._file.exists()

    @contextmanager
    def reading(self) -> "Iterator[Connection]":
        """A connection for reading. Raises RetrievalError where the database refuses."""
        from sqlalchemy.exc import DatabaseError

        try:
            with self._opened(make=False).connect() as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be read ({error.orig})") from error

    @contextmanager
    def writing(self) -> "Iterator[Connection]":
        """An exclusive transaction. Raises RetrievalError."""
        from sqlalchemy.exc import DatabaseError

        from runtime.database import exclusive

        try:
            with exclusive(self._opened(make=True), self._schema().name) as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be written ({error.orig})") from error

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
            prepare(engine, self._schema())
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _make(self) -> None:
        """Create an empty database with mode 0600 from the first moment."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # not opened: to close the file would end SQLite's locks of this process
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error
