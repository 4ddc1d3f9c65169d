"""Where an upload rests until it is in the catalog: files in the data folder, each locked by who writes it.

Their names are ours, never a client's. What a gateway that died left has no lock, and goes when the index opens.
"""

import contextlib
import fcntl
import re
import secrets
from io import FileIO
from pathlib import Path

from retrieval.errors import RetrievalError

_FOLDER = "spool"
_NAME = re.compile(r"[0-9a-f]{32}")


def create(data: Path) -> FileIO:
    """A new file, open and locked; whoever makes it deletes it. Raises OSError."""
    folder = data / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / secrets.token_hex(16)).open("xb", buffering=0)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def read(data: Path, name: str, *, max_bytes: int) -> bytes:
    """The content of one of them. Raises RetrievalError where it is gone, or larger."""
    if not _NAME.fullmatch(name):
        raise RetrievalError(f"{name!r} is no name of an upload")
    try:
        with (data / _FOLDER / name).open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise RetrievalError(f"an upload cannot be read ({error.strerror}): upload it again") from error
    if len(content) > max_bytes:
        raise RetrievalError(f"an upload is larger than {max_bytes:,} bytes (ingest.max_file_mb)")
    return content


def sweep(data: Path) -> None:
    """Delete what nobody writes any more."""
    for file in (data / _FOLDER).glob("*"):
        with contextlib.suppress(OSError), file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
