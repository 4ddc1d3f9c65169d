"""The index process: an `Index` on a socket in the data folder.

A command without an index process opens an `Index` directly. Client and `Index` both have the interface `Knowledge`,
so callers need not know which it is.

    python -m retrieval.rpc.server

reads a Plan as JSON from the first line of standard input. It prints "step" each second while the index opens, then
"ready" when its socket answers, or "error" with the error's class and text. It ends with its parent, when standard
input ends. `scheduling.beside` starts it, with the parent's name as holder.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import IO, Any

import msgspec
import uvloop

from retrieval.errors import RetrievalError
from retrieval.index.data_folder import passing
from retrieval.index.index import Index
from retrieval.knowledge import Knowledge, Plan, Progress
from retrieval.rpc.client import (
    OPERATIONS,
    PING,
    SOCKET,
    Call,
    Failed,
    FramedConnection,
    ProgressReport,
    answer_frame,
    decode_call,
    encode,
    framed,
    reachable,
)
from runtime import garbage, logs

Write = Callable[[bytes], None]
log = logging.getLogger("ragway")
_BACKLOG = 1024  # connections not yet accepted; further callers are refused at once
_STEP_S = 1.0  # between two signs of life while the index opens
# The thread that embeds waits so long for the event loop to let it go on, twice a question; Python's default is 5 ms.
_SWITCH_S = 0.0005


class IndexServer:
    """Answers calls on a socket from a `Knowledge`."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._callers: set[_Caller] = set()

    @contextlib.asynccontextmanager
    async def listening(self, data: Path) -> AsyncIterator[None]:
        """Serve on the data folder's socket (mode 0600) while this context lasts, then cancel running calls."""
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

    async def _answer(self, call: Call, write: Write) -> None:
        def progress(done: int, total: int, chunks: int, source: str) -> None:
            write(framed(encode(ProgressReport(done, total, chunks, source))))

        try:
            reply = answer_frame(await self._run(call, progress))
        except RetrievalError as error:
            reply = framed(encode(_failed(error)))
        write(reply)

    async def _run(self, call: Call, progress: Progress) -> Any:
        if call.operation == PING:
            return None
        try:
            operation = OPERATIONS[call.operation]
            arguments = msgspec.structs.asdict(operation.decode_arguments(call.arguments))
        except (KeyError, msgspec.DecodeError) as error:
            raise RetrievalError(
                f"the index process cannot read the call {call.operation!r}: is it of another version?"
            ) from error
        if operation.progress:
            arguments[operation.progress] = progress
        return await getattr(getattr(self._knowledge, operation.part), operation.name)(**arguments)


class _Caller(FramedConnection):
    """A connection: answers one call at a time, and cancels it if the caller leaves."""

    def __init__(self, answer: Callable[[Call, Write], Coroutine[Any, Any, None]], callers: "set[_Caller]") -> None:
        super().__init__()
        self._answer = answer
        self._callers = callers
        self._call: asyncio.Task[None] | None = None

    def leave(self) -> asyncio.Task[None] | None:
        """Close this connection and cancel its running call; returns the call's task."""
        self.close()
        if self._call is not None:
            self._call.cancel()
        return self._call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._callers.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._callers.discard(self)
        if self._call is not None:
            self._call.cancel()

    def _take(self) -> None:
        """Start the next received call, unless one is running."""
        if self._call is not None or not self._received or self._transport is None or self._transport.is_closing():
            return
        try:
            call = decode_call(self._received.popleft())
        except msgspec.DecodeError:  # not a client of ours
            self.close()
            return
        self._call = asyncio.create_task(self._answer(call, self._transport.write), name=call.operation)
        self._call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._call = None
        fault = None if call.cancelled() else call.exception()
        # without an answer its caller would take the index for dead
        if fault is not None and self._transport is not None:
            log.error("the call %r failed", call.get_name(), exc_info=fault)
            said = RetrievalError(f"the index failed ({_named(fault)}): the log of `ragway serve` has more")
            self._transport.write(framed(encode(_failed(said))))
        self._take()


def _named(fault: BaseException) -> str:
    """A fault's class, with the system's message. Other messages are left out: they may quote a document."""
    said = fault.strerror if isinstance(fault, OSError) else None
    return f"{type(fault).__name__}: {said}" if said else type(fault).__name__


def _failed(error: RetrievalError) -> Failed:
    return Failed(type(error).__name__, str(error))


async def run(plan: Plan, parent: IO[str], holder: str | None = None) -> None:
    """The index process: open, listen, report "ready", and end with its parent. Raises RetrievalError, OSError.

    holder: named to others as the data folder's holder (default: this process).
    """
    reporting = asyncio.create_task(_report_steps(parent))
    try:
        index = await Index.open(plan, serving=True, holder=holder)
    finally:
        reporting.cancel()
        await asyncio.wait({reporting})
    try:
        garbage.tune_gc()
        async with IndexServer(index).listening(Path(plan.data)):
            parent.write("ready\n")
            parent.flush()
            await _parent_gone()
    finally:
        await index.close()


async def _report_steps(parent: IO[str]) -> None:
    """Print a sign of life each second: after a crash, a large index may clear up for long without hanging."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal: the gateway ends this process
    with os.fdopen(os.dup(0), "rb", buffering=0) as unbuffered:  # asyncio watches the rest of it
        plan = msgspec.json.decode(unbuffered.readline(), type=Plan)
    parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to the log: the parent must not take it for a status
    logs.to_stderr("info", "%(message)s")
    sys.setswitchinterval(_SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(plan, parent, next(iter(sys.argv[2:]), None)))
    except (RetrievalError, OSError) as error:  # OSError: a full disk, another account's folder
        with contextlib.suppress(BrokenPipeError):  # the parent may be gone
            kind = "IndexDown" if passing(error) else type(error).__name__
            parent.write(f"error {kind} {' '.join(str(error).split())}\n")
            parent.flush()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
