"""A new SQLite file with a first writer, while the code under test opens the file."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_HELD_S = 0.3


@contextmanager
def first_writer(file: Path) -> Iterator[None]:
    """Create the file, not in WAL mode, and hold the write lock for a moment from the start of the block on."""
    with closing(sqlite3.connect(file, check_same_thread=False)) as first:
        first.execute("CREATE TABLE t (n INTEGER)")
        first.commit()
        first.execute("BEGIN IMMEDIATE")
        end = threading.Timer(_HELD_S, first.commit)
        end.start()
        try:
            yield
        finally:
            end.join()
