"""The data folder: who holds it, and the stores in it, one for each embedder.

Which faults of a disk pass by themselves is known here as well: a shard is put aside only for what will not.
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
from runtime.database import close_to_others
from runtime.scheduling import this_process

if TYPE_CHECKING:
    from retrieval.stores.edge import EdgeStore

log = logging.getLogger("ragway")
_BROKEN = ".broken"
_TEXTS = ("index", "bench")  # folders with words of documents
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # as the engine says it
# What an operating system says of a disk, a memory or a limit: it may be otherwise in a moment.
_PASSING = {errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")
# That, and what it says of rights: nothing of it speaks against the files themselves.
_NOT_THE_SHARD = _PASSING | {errno.EPERM, errno.EACCES, errno.EROFS}


async def open_store(plan: Plan, embedder: str, dimension: int, *, serving: bool) -> Store:
    """The store of an embedder's vectors, made where there is none. serving: with what it does by itself now and then.

    Raises RetrievalError.
    """
    data = Path(plan.data)
    store: Store
    shard = shard_name(embedder, dimension)
    if plan.qdrant_url:
        from retrieval.stores.qdrant import Layout, QdrantStore

        store = await QdrantStore.connect(
            plan.qdrant_url,
            api_key=plan.qdrant_api_key,
            collection=f"{plan.qdrant_collection}-{shard}",
            dimension=dimension,
            timeout_s=plan.qdrant_timeout_s,
            layout=Layout(plan.qdrant_shards, plan.qdrant_replicas, plan.qdrant_quantisation),
        )
    else:
        store = embedded = open_shard(data / "index" / shard, dimension)
        if serving:
            embedded.start_maintenance()
    return with_okapi(store) if plan.lexical == "okapi" else store


def with_okapi(store: Store) -> Store:
    from retrieval.stores.okapi import OkapiStore

    return OkapiStore(store)


def open_shard(folder: Path, dimension: int) -> "EdgeStore":
    """The embedded store; one that cannot be read is put aside, for everything in it can be made again."""
    from retrieval.stores.edge import EdgeStore

    try:
        return EdgeStore.open(folder, dimension=dimension)
    except (DataInUse, DiskFull):
        raise
    except RetrievalError as error:
        if _os_error(error) in _NOT_THE_SHARD:
            raise
        broken = folder.with_name(folder.name + _BROKEN)
        shutil.rmtree(broken, ignore_errors=True)
        folder.rename(broken)
        log.warning("the index was put aside as %s, run `ragway rebuild` for each collection: %s", broken, error)
        return EdgeStore.open(folder, dimension=dimension)


def _os_error(error: BaseException) -> int | None:
    """The operating system's number for it, where the engine names one."""
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else None


def passing(error: Exception) -> bool:
    """Whether the index may open after a while without anybody changing a setting."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    refused = getattr(error.__cause__, "sqlite_errorname", "")
    return isinstance(error, DiskFull) or _os_error(error) in _PASSING or refused.startswith(_PASSING_SQLITE)


def shard_name(embedder: str, dimension: int) -> str:
    """One shard per embedder: the folder's name. A change of embedder builds beside the old shard, never in it."""
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', embedder)[-80:].strip('-.')}-{dimension}"


def remove_unused_shards(folder: Path, used: set[str]) -> None:
    """Once every collection was rebuilt with another embedder, nothing reads the old one's shard any more."""
    for shard in folder.iterdir() if folder.is_dir() else ():
        if shard.name.removesuffix(_BROKEN) not in used:
            shutil.rmtree(shard, ignore_errors=True)


def hold(data: Path, holder: str | None = None) -> IO[str]:
    """Take the data folder for this process (it is made where missing): the lock lasts until the file is closed.

    Raises DataInUse naming its holder (default: this process), RetrievalError if the folder cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "index").mkdir(exist_ok=True, mode=0o700)
        for folder in _TEXTS:  # the data folder may be somebody else's, and open to all
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
