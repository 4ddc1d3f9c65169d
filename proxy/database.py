"""A database of the gateway's own: a file of the data folder that its owner alone can read, or tables on a server.

The file is made with the first thing that is written. Until then nobody pays for SQL: importing it takes 200 ms.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.errors import RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from runtime.database import Schema


class Database:
    """Tables of one schema, opened on first use."""

    def __init__(self, file: Path, url: str, *, what: str, schema: "Callable[[], Schema]") -> None:
        """url: of a PostgreSQL database; "" = the file. what: is in it, for messages. schema: imported on first use."""
        self._file, self._url = file, url
        self._what, self._schema = what, schema
        self._engine: Engine | None = None
        self._opening = threading.Lock()  # threads ask at the same time
        self._seen = bool(url)  # whether there has been a database

    def there(self) -> bool:
        """Whether there is, or was, a database."""
        self._seen = self._seen or self._file.exists()
        return self._seen

    def empty(self) -> bool:
        """Whether nothing was ever written, or the file is gone."""
        return not self._url and not self._file.exists()

    @contextmanager
    def reading(self) -> "Iterator[Connection]":
        """Raises RetrievalError for what the database refuses."""
        from sqlalchemy.exc import DatabaseError

        try:
            with self._opened(make=False).connect() as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be read ({error.orig})") from error

    @contextmanager
    def writing(self) -> "Iterator[Connection]":
        """A transaction without others beside it. Raises RetrievalError."""
        from sqlalchemy.exc import DatabaseError

        from runtime.database import exclusive

        try:
            with exclusive(self._opened(make=True), self._schema().name) as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be written ({error.orig})") from error

    def close(self) -> None:
        """Let go of the database."""
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
                raise RetrievalError(f"{self._what} are gone: {self._file} is not there any more")
            engine = open_file(self._file, what=f"{self._what} in {self._file}", pooled=False)
        try:
            prepare(engine, self._schema())
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _make(self) -> None:
        """An empty database that nobody else can read, not even while it is made."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR))
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error
