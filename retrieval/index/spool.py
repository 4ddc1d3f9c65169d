"""Uploads on disk before the catalog stores them: one folder per request, locked by the gateway.

All file names are ours, never a client's. A dead gateway's folders have no lock, and are deleted when the index opens.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from retrieval.errors import RetrievalError

_FOLDER = "spool"
_NAME = re.compile(r"[0-9a-f]{32}/[0-9]{1,4}")


class Spool:
    """One request's folder."""

    def __init__(self, data: Path) -> None:
        """Raises OSError."""
        parent = data / _FOLDER
        parent.mkdir(mode=0o700, exist_ok=True)
        self._folder = parent / secrets.token_hex(16)
        self._folder.mkdir(mode=0o700)
        self._lock = os.open(self._folder, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._writing = threading.Lock()  # a cancelled request leaves a writing thread
        self._closed = False

    def append(self, number: int, data: bytes) -> None:
        """Append to the file with this number; ignored after `close`. Raises OSError."""
        with self._writing:
            if self._closed:
                return
            with (self._folder / str(number)).open("ab", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]

    def name(self, number: int) -> str:
        """The name of a file for `read`."""
        return f"{self._folder.name}/{number}"

    def close(self) -> None:
        """Delete this folder with its files."""
        with self._writing:
            self._closed = True
            shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def read(data: Path, name: str, *, max_bytes: int) -> bytes:
    """A file's content. Raises RetrievalError if it is missing or over `max_bytes`."""
    if not _NAME.fullmatch(name):
        raise RetrievalError(f"{name!r} is not the name of an upload")
    try:
        with (data / _FOLDER / name).open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise RetrievalError(f"an upload cannot be read ({error.strerror}): upload it again") from error
    if len(content) > max_bytes:
        raise RetrievalError(f"an upload is larger than {max_bytes:,} bytes (ingest.max_file_mb)")
    return content


def sweep(data: Path) -> None:
    """Delete folders without a lock."""
    for folder in _folders(data):
        lock = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _folders(data: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from list((data / _FOLDER).iterdir())
