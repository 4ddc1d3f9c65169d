"""The index process: an `Index` behind a socket in the data folder.

A command that finds no index process opens the `Index` itself. Either way it has the interface `Knowledge`, so
callers need not know which.

    python -m retrieval.rpc.server    reads a Plan as JSON from the first line of standard input, prints "step" now and
                                   then while it opens the index, "ready" when it answers on the socket, or "error",
                                   the error's class and its text; ends when standard input does: with its parent.
                                   `scheduling.child_command` starts the process, with the parent's name.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import orjson
import uvloop

from retrieval.errors import RetrievalError
from retrieval.index.data_folder import passing
from retrieval.index.index import Index
from retrieval.knowledge import EmbedderChoice, Knowledge, Lookup, Outlines, Plan, Progress
from retrieval.records.ingest import PendingDocument
from retrieval.records.search import Turn
from retrieval.rpc import codec
from retrieval.rpc.client import SOCKET, decode, reachable
from retrieval.rpc.framing import Frame, Frames, framed
from runtime import garbage, logs

Write = Callable[[bytes], None]
log = logging.getLogger("ragway")
_BACKLOG = 1024  # connections not yet accepted; beyond it a caller is refused at once
# Calls whose arguments and answers are what JSON holds.
_AS_THEY_ARE = {
    "collections", "documents", "document", "standing", "find_document", "create_collection", "delete_document",
    "delete_collection", "check", "job", "finished_job", "jobs", "cancel_job",
    "attached", "detach", "holders", "document_keys", "add_file", "find_files", "files", "delete_file",
}  # fmt: skip
_STEP_S = 1.0  # between two signs of life while the index opens


class Server:
    """Answers calls on the socket from one `Knowledge`."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._callers: set[_Caller] = set()

    @contextlib.asynccontextmanager
    async def listening(self, data: Path) -> AsyncIterator[None]:
        """Serve on the data folder's socket (mode 0600) while the context lasts; calls under way end with it."""
        (data / SOCKET).unlink(missing_ok=True)
        umask = os.umask(0o177)
        try:
            with reachable(data) as path:
                loop = asyncio.get_running_loop()
                server = await loop.create_unix_server(self._caller, path, backlog=_BACKLOG)
        finally:
            os.umask(umask)
        try:
            yield
        finally:
            server.close()
            (data / SOCKET).unlink(missing_ok=True)
            calls = [call for caller in list(self._callers) if (call := caller.leave()) is not None]
            if calls:
                await asyncio.wait(calls)

    def _caller(self) -> "_Caller":
        return _Caller(self._answer, self._callers)

    async def _answer(self, frame: Frame, write: Write) -> None:
        def progress(done: int, total: int, chunks: int) -> None:
            write(framed({"progress": [done, total, chunks]}))

        try:
            said = framed({"result": await self._run(frame["call"], frame["args"], progress)})
        except RetrievalError as error:
            said = _failed(error)
        write(said)

    async def _run(self, call: str, args: Mapping[str, Any], progress: Progress) -> Any:
        knowledge = self._knowledge
        answer: Any = None
        match call:
            case "retrieve":
                turns = [Turn(**turn) for turn in args["turns"]]
                view, lookup = codec.view(args["view"]), args["lookup"] and Lookup(**args["lookup"])
                found = await knowledge.retrieve(**{**args, "turns": turns, "view": view, "lookup": lookup})
                answer = codec.rows(found)
            case "ingest":
                answer = await knowledge.ingest(_paths(args["paths"]), args["collection"], progress, args["exclude"])
            case "changes" if isinstance(knowledge, Outlines):
                answer = await knowledge.changes(_paths(args["paths"]), args["collection"], args["exclude"])
            case "outline" if isinstance(knowledge, Outlines):
                answer = await knowledge.outline(PendingDocument(**args["changed"]), args["collection"])
            case "put":
                answer = await knowledge.put(args["collection"], codec.given(args["given"]))
            case "start_job":
                answer = await knowledge.start_job(args["collection"], codec.given(args["given"]), args["spooled"])
            case "file_part":
                answer = codec.as_text(await knowledge.file_part(**args))
            case "rebuild":
                embedder = args["embedder"] and decode(EmbedderChoice, args["embedder"])
                answer = await knowledge.rebuild(args["collection"], progress, embedder=embedder)
            case _ if call in _AS_THEY_ARE:
                answer = await getattr(knowledge, call)(**args)
            case "points":
                answer = {id: codec.passage_row(one) for id, one in (await knowledge.points(**args)).items()}
            case "ping":
                pass
            case _:
                raise RetrievalError(f"the index process does not know the call {call!r}: is it of another version?")
        return answer


class _Caller(asyncio.Protocol):
    """One connection: a call at a time is answered, and ends where its caller leaves."""

    def __init__(self, answer: Callable[[Frame, Write], Coroutine[Any, Any, None]], callers: "set[_Caller]") -> None:
        self._answer = answer
        self._callers = callers
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._call: asyncio.Task[None] | None = None

    def leave(self) -> asyncio.Task[None] | None:
        """Close the connection; returns the call under way, which was told to end."""
        if self._transport is not None:
            self._transport.abort()
        if self._call is not None:
            self._call.cancel()
        return self._call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._callers.add(self)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        self._next()

    def connection_lost(self, _error: Exception | None) -> None:
        self._callers.discard(self)
        if self._call is not None:
            self._call.cancel()

    def _next(self) -> None:
        """Begin the next call, if there is one and none is under way."""
        if self._call is not None or self._transport is None or self._transport.is_closing():
            return
        try:
            frame = self._frames.next()
        except OSError:  # no caller of ours
            self._transport.abort()
            return
        if frame is not None:
            self._call = asyncio.create_task(self._answer(frame, self._transport.write), name=str(frame.get("call")))
            self._call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._call = None
        fault = None if call.cancelled() else call.exception()
        if fault is not None and self._transport is not None:  # without an answer the caller takes the index for dead
            log.error("the call %r failed", call.get_name(), exc_info=fault)
            said = RetrievalError(f"the index failed ({_named(fault)}): the log of `ragway serve` has more")
            self._transport.write(_failed(said))
        self._next()


def _paths(names: Sequence[str]) -> list[Path]:
    return [Path(os.fsdecode(name.encode("latin-1"))) for name in names]


def _named(fault: BaseException) -> str:
    """The kind of a fault, and what the system says of it; its own words may quote a document or a question."""
    said = fault.strerror if isinstance(fault, OSError) else None
    return f"{type(fault).__name__}: {said}" if said else type(fault).__name__


def _failed(error: RetrievalError) -> bytes:
    return framed({"error": {"kind": type(error).__name__, "text": str(error)}})


async def run(plan: Plan, parent: IO[str], holder: str | None = None) -> None:
    """The index process: open, listen, tell the parent so, and end with it. Raises RetrievalError, OSError.

    holder: the process that others are told has the data folder (default: this one).
    """
    telling = asyncio.create_task(_tell_of_progress(parent))
    try:
        index = await Index.open(plan, serving=True, holder=holder)
    finally:
        telling.cancel()
        await asyncio.wait({telling})
    try:
        garbage.tune_gc()
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
            runner.run(run(plan, parent, next(iter(sys.argv[2:]), None)))
    except (RetrievalError, OSError) as error:  # OSError: a disk that is full, a folder of somebody else's
        with contextlib.suppress(BrokenPipeError):  # the parent may be gone
            kind = "IndexDown" if passing(error) else type(error).__name__
            parent.write(f"error {kind} {' '.join(str(error).split())}\n")
            parent.flush()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
