"""The data folder: its lock, and its stores, one per embedder.

Also disk faults that may pass without help: only a lasting one puts a shard aside.
"""

import errno
import fcntl
import logging
import re
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING

from retrieval.errors import DataInUse, DiskFull, RetrievalError
from retrieval.knowledge import Plan
from retrieval.stores.base import Store
from retrieval.stores.schema import DENSE, Vectors
from runtime.database import close_to_others
from runtime.scheduling import this_process

if TYPE_CHECKING:
    from retrieval.stores.edge import EdgeStore

log = logging.getLogger("ragway")
_BROKEN = ".broken"
_TEXTS = ("index", "bench")  # folders with words from documents
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # in engine messages
# Errors of disk, memory or a limit: each may pass in a moment.
_PASSING = {errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")
# Passing errors, and those of access rights: the files themselves may be sound.
_NOT_THE_SHARD = _PASSING | {errno.EPERM, errno.EACCES, errno.EROFS}


async def open_store(plan: Plan, embedder: str, dimension: int, *, serving: bool) -> Store:
    """The store for an embedder's vectors, made if missing. serving: an embedded store maintains itself.

    Raises RetrievalError.
    """
    data = Path(plan.data)
    shard, vectors = shard_name(embedder, dimension), {DENSE: dimension}
    qdrant = plan.qdrant
    if qdrant.url:
        from retrieval.stores.qdrant import Layout, QdrantStore

        return await QdrantStore.connect(
            *qdrant.url,
            api_key=plan.qdrant_api_key,
            ca_file=qdrant.ca_file,
            collection=f"{qdrant.collection}-{shard}",
            vectors=vectors,
            timeout_s=qdrant.timeout_s,
            layout=Layout(qdrant.shards, qdrant.replicas, qdrant.quantisation),
        )
    store = open_shard(data / "index" / shard, vectors)
    if serving:
        store.start_maintenance()
    return store


def open_shard(folder: Path, vectors: Vectors) -> "EdgeStore":
    """The embedded store. An unreadable one is put aside, since a rebuild makes all its content again."""
    from retrieval.stores.edge import EdgeStore

    try:
        return EdgeStore.open(folder, vectors=vectors)
    except (DataInUse, DiskFull):
        raise
    except RetrievalError as error:
        if _os_error(error) in _NOT_THE_SHARD:
            raise
        broken = folder.with_name(folder.name + _BROKEN)
        shutil.rmtree(broken, ignore_errors=True)
        folder.rename(broken)
        log.warning("the index was put aside as %s, run `ragway rebuild` for each collection: %s", broken, error)
        return EdgeStore.open(folder, vectors=vectors)


def _os_error(error: BaseException) -> int | None:
    """The operating system's error number in the engine's message; None without one."""
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else None


def passing(error: Exception) -> bool:
    """Whether the index may open after a while, without changed settings."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    refused = getattr(error.__cause__, "sqlite_errorname", "")
    return isinstance(error, DiskFull) or _os_error(error) in _PASSING or refused.startswith(_PASSING_SQLITE)


def shard_name(embedder: str, dimension: int) -> str:
    """One shard per embedder: its folder's name. A change of embedder builds beside the old shard, never in it."""
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', embedder)[-80:].strip('-.')}-{dimension}"


def remove_unused_shards(folder: Path, used: set[str]) -> None:
    """Delete shards outside `used`: one is unused once all collections were rebuilt with another embedder."""
    for shard in folder.iterdir() if folder.is_dir() else ():
        if shard.name.removesuffix(_BROKEN) not in used:
            shutil.rmtree(shard, ignore_errors=True)


def hold(data: Path, holder: str | None = None) -> IO[str]:
    """Lock the data folder, made if missing, for this process. Closing the returned file unlocks it.

    Raises DataInUse, which names the holder (default: this process), RetrievalError if it cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "index").mkdir(exist_ok=True, mode=0o700)
        for folder in _TEXTS:  # another account may own the data folder, and leave it open to all
            close_to_others(data / folder)
        file = (data / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise RetrievalError(f"cannot use the data folder {data}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        other = file.read().strip() or "another process"
        file.close()
        message = f"the data folder {data} is in use by {other}: stop that process, or name another folder with --data"
        raise DataInUse(message, other) from error
    file.truncate(0)
    file.write(holder or this_process())
    file.flush()
    return file
