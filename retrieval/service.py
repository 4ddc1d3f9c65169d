"""Index: everything that holds the data folder, in one object; and the index process, which serves it.

A command that finds no index process opens the `Index` itself. Either way it has the interface `Knowledge`, so
callers need not know which.

    python -m retrieval.service    reads a Plan as JSON from the first line of standard input, prints "step" now and
                                   then while it opens the index, "ready" when it answers on the socket, or "error",
                                   the error's class and its text; ends when standard input does: with its parent.
"""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import orjson
import uvloop

from retrieval import logs, wire
from retrieval.catalog import Catalog
from retrieval.embed import Embedder, probe
from retrieval.errors import DataInUse, DiskFull, RetrievalError
from retrieval.export import open_embedder
from retrieval.ingest.pipeline import Ingester
from retrieval.ingest.prepare import InChild, InThread, Recipe
from retrieval.knowledge import Knowledge, Plan, Progress
from retrieval.records import CollectionInfo, Report, Retrieved, Turn
from retrieval.remote import SOCKET, decode, framed, reachable, read_frame
from retrieval.search.pipeline import Retriever
from retrieval.stores.base import Store

log = logging.getLogger("ragway")
_BROKEN = ".broken"
_BACKLOG = 1024  # connections not yet accepted; beyond it a caller is refused at once
_STEP_S = 1.0  # between two signs of life while the index opens
_CHECKED = "check"  # a text to embed, and a tenant that no collection has (theirs have an @)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # as the engine says it
# What an operating system says of a disk, a memory or a limit: it may be otherwise in a moment.
_PASSING = {errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")
# That, and what it says of rights: nothing of it speaks against the files themselves.
_NOT_THE_SHARD = _PASSING | {errno.EPERM, errno.EACCES, errno.EROFS}


class Index:
    """The index in this process."""

    def __init__(
        self, lock: IO[str], catalog: Catalog, store: Store, embedder: Embedder, ingester: Ingester,
        retriever: Retriever, preparation: InThread | InChild,
    ) -> None:  # fmt: skip
        self._lock = lock
        self._catalog = catalog
        self._store = store
        self._embedder = embedder
        self._ingester = ingester
        self._retriever = retriever
        self._preparation = preparation

    @staticmethod
    async def open(plan: Plan, *, serving: bool) -> "Index":
        """Take the data folder and load everything. serving: files are read and embedded in a child process.

        Raises DataInUse if another process holds the folder, RetrievalError if something in it cannot be used.
        """
        data = Path(plan.data)
        lock = hold(data, f"process {os.getppid()} (ragway serve)" if serving else None)
        try:
            catalog = Catalog.open(data / "catalog.sqlite")
            recipe = Recipe(plan.model, plan.backend, data / "models", plan.chunk_tokens, plan.overlap_tokens)
            embedder = open_embedder(plan.model, backend=plan.backend, threads=plan.threads, cache=recipe.cache)
            store = await _open_store(plan, data, embedder)
            _remove_unused_shards(data / "index", {_shard(embedder.name, embedder.dimension), *_shards(catalog)})
        except BaseException:
            lock.close()
            raise
        preparation = InChild(recipe) if serving else InThread(recipe)
        probes = probe(embedder)
        ingester = Ingester(
            catalog, store, preparation, embedder=embedder.name, probes=probes, recipe=recipe.text,
            max_bytes=plan.max_file_bytes,
        )  # fmt: skip
        await ingester.recover()
        retriever = Retriever(catalog, store, embedder, plan.search, probes=probes)
        return Index(lock, catalog, store, embedder, ingester, retriever, preparation)

    async def retrieve(self, turns: Sequence[Turn], collections: Sequence[str], *, k: int | None) -> Retrieved:
        return await self._retriever.retrieve(turns, collections, k=k)

    async def ingest(self, paths: Sequence[Path], collection: str, progress: Progress) -> Report:
        try:
            return await self._ingester.ingest(paths, collection, progress)
        finally:
            self._retriever.collections_changed()

    async def rebuild(self, collection: str, progress: Progress) -> int:
        try:
            return await self._ingester.rebuild(collection, progress)
        finally:
            self._retriever.collections_changed()

    async def collections(self) -> list[CollectionInfo]:
        return self._catalog.describe()

    async def check(self) -> None:
        vector = (await asyncio.to_thread(self._embedder.embed_query, [_CHECKED]))[0]
        await self._store.search([_CHECKED], vector, [], k=1)

    async def close(self) -> None:
        """Close the store and give the data folder back."""
        await self._preparation.close()
        await self._store.close()
        self._catalog.close()
        self._lock.close()


async def _open_store(plan: Plan, data: Path, embedder: Embedder) -> Store:
    store: Store
    shard = _shard(embedder.name, embedder.dimension)
    if plan.qdrant_url:
        from retrieval.stores.qdrant import QdrantStore

        store = await QdrantStore.connect(
            plan.qdrant_url, api_key=plan.qdrant_api_key, collection=f"{plan.qdrant_collection}-{shard}",
            dimension=embedder.dimension, timeout_s=plan.qdrant_timeout_s,
        )  # fmt: skip
    else:
        store = _open_shard(data / "index" / shard, embedder.dimension)
    if plan.lexical == "okapi":
        from retrieval.stores.okapi import OkapiStore

        store = OkapiStore(store)
    return store


def _open_shard(folder: Path, dimension: int) -> Store:
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


def _shard(embedder: str, dimension: int) -> str:
    """One shard per embedder: the folder's name. A change of embedder builds beside the old shard, never in it."""
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', embedder)[-80:].strip('-.')}-{dimension}"


def _shards(catalog: Catalog) -> set[str]:
    return {_shard(row.embedder, row.probes.shape[1]) for row in catalog.collections()}


def _remove_unused_shards(folder: Path, used: set[str]) -> None:
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
        file = (data / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise RetrievalError(f"cannot use the data folder {data}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        other = file.read().strip() or "another process"
        file.close()
        raise DataInUse(
            f"the data folder {data} is in use by {other}: stop that process, or name another folder with --data"
        ) from error
    file.truncate(0)
    file.write(holder or f"process {os.getpid()} ({' '.join(Path(arg).name for arg in sys.argv[:2])})")
    file.flush()
    return file


class Server:
    """Answers calls on the socket from one `Knowledge`."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._callers: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, data: Path) -> AsyncIterator[None]:
        """Serve on the data folder's socket (mode 0600) while the context lasts; calls under way end with it."""
        (data / SOCKET).unlink(missing_ok=True)
        umask = os.umask(0o177)
        try:
            with reachable(data) as path:
                server = await asyncio.start_unix_server(self._serve, path, backlog=_BACKLOG)
        finally:
            os.umask(umask)
        try:
            yield
        finally:
            server.close()
            (data / SOCKET).unlink(missing_ok=True)
            for caller in self._callers:
                caller.cancel()
            if self._callers:
                await asyncio.wait(self._callers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = asyncio.current_task()
        assert caller is not None  # we are in a coroutine
        self._callers.add(caller)
        caller.add_done_callback(self._callers.discard)
        begun = b""
        try:
            while True:
                frame = await read_frame(reader, begun)
                begun = await self._call(frame, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the caller left, or the index ends
        finally:
            writer.close()

    async def _call(
        self, frame: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Answer one call; returns what the caller sent of the next. Raises OSError when the caller left."""
        call = asyncio.ensure_future(self._answer(frame, writer))
        # Nothing may come before the answer but the end of the connection: then the caller left.
        ahead = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({call, ahead}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise ConnectionAbortedError
            fault = call.exception()
            if isinstance(fault, ConnectionError):
                raise fault
            if fault is not None:  # without an answer the caller would take the index for dead
                log.error("the call %r failed", frame.get("call"), exc_info=fault)
                said = RetrievalError(f"the index failed ({_named(fault)}): the log of `ragway serve` has more")
                writer.write(_failed(said))
                await writer.drain()
        finally:
            call.cancel()
            ahead.cancel()
            await asyncio.wait({call, ahead})
            _ = ahead.cancelled() or ahead.exception()  # looked at: a caller's broken connection is no news
        return b"" if ahead.cancelled() else ahead.result()

    async def _answer(self, frame: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        def progress(done: int, total: int, chunks: int) -> None:
            writer.write(framed({"progress": [done, total, chunks]}))

        try:
            result = await self._run(frame["call"], frame["args"], progress)
        except RetrievalError as error:
            writer.write(_failed(error))
        else:
            writer.write(framed({"result": result}))
        await writer.drain()

    async def _run(self, call: str, args: Mapping[str, Any], progress: Progress) -> Any:
        match call:
            case "retrieve":
                turns = [Turn(**turn) for turn in args["turns"]]
                return wire.rows(await self._knowledge.retrieve(turns, args["collections"], k=args["k"]))
            case "ingest":
                paths = [Path(os.fsdecode(name.encode("latin-1"))) for name in args["paths"]]
                return await self._knowledge.ingest(paths, args["collection"], progress)
            case "rebuild":
                return await self._knowledge.rebuild(args["collection"], progress)
            case "collections":
                return await self._knowledge.collections()
            case "check":
                return await self._knowledge.check()
            case "ping":
                return None
        raise RetrievalError(f"the index process knows no call {call!r}: is it of another version?")


def _named(fault: BaseException) -> str:
    """The kind of a fault, and what the system says of it; its own words may quote a document or a question."""
    said = fault.strerror if isinstance(fault, OSError) else None
    return f"{type(fault).__name__}: {said}" if said else type(fault).__name__


def _failed(error: RetrievalError) -> bytes:
    return framed({"error": {"kind": type(error).__name__, "text": str(error)}})


async def run(plan: Plan, parent: IO[str]) -> None:
    """The index process: open, listen, tell the parent so, and end with it. Raises RetrievalError, OSError."""
    telling = asyncio.create_task(_tell_of_progress(parent))
    try:
        index = await Index.open(plan, serving=True)
    finally:
        telling.cancel()
        await asyncio.wait({telling})
    try:
        async with Server(index).listening(Path(plan.data)):
            parent.write("ready\n")
            parent.flush()
            await _parent_gone()
    finally:
        await index.close()


async def _tell_of_progress(parent: IO[str]) -> None:
    """A sign of life now and then: a large index has much to clear after a crash, and that is no hang."""
    while True:
        parent.write("step\n")
        parent.flush()
        await asyncio.sleep(_STEP_S)


async def _parent_gone() -> None:
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, gone.set)
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    waits = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(stdin.read())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the gateway, which ends us
    with os.fdopen(os.dup(0), "rb", buffering=0) as unbuffered:  # the rest of the input is asyncio's to watch
        plan: Plan = decode(Plan, orjson.loads(unbuffered.readline()))
    parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is talk: nobody reads it here, and it must not pass for our answer
    logs.to_stderr("info", "%(message)s")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(plan, parent))
    except (RetrievalError, OSError) as error:  # OSError: a disk that is full, a folder of somebody else's
        with contextlib.suppress(BrokenPipeError):  # the parent may be gone
            kind = "IndexDown" if passing(error) else type(error).__name__
            parent.write(f"error {kind} {' '.join(str(error).split())}\n")
            parent.flush()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
