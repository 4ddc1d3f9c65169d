"""An MCP server as a child process: a transport for the SDK's client that never holds a line beyond a limit.

The SDK's own transport keeps a line of any length, and copies it for each piece that comes.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from mcp_types.jsonrpc import ErrorData

from proxy.apis.mcp.lines import TOO_LONG, Lines, LongLine

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

# What a server needs to start; everything else of the environment stays with the gateway.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR")
_READ_BYTES = 1 << 16
_PATIENCE_S = 2.0  # for each step of the end: closed input, SIGTERM, SIGKILL


@contextlib.asynccontextmanager
async def stdio(command: Sequence[str], env: Mapping[str, str], max_bytes: int) -> "AsyncIterator[TransportStreams]":
    """The streams of a server that is started and ended. env: beside what every server gets. Raises OSError."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**inherited, **env},
        start_new_session=True,  # its children end with it
    )
    received, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        assert process.stdout is not None
        lines = Lines(max_bytes)
        async with received:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while piece := await process.stdout.read(_READ_BYTES):
                    for line in lines.feed(piece):
                        if (message := _message(line)) is not None:
                            await received.send(message)

    async def write() -> None:
        assert process.stdin is not None
        async with to_send:
            async for message in to_send:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                with contextlib.suppress(ConnectionError):  # the end of the output tells
                    process.stdin.write(line.encode() + b"\n")
                    await process.stdin.drain()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            yield messages, sent
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
            for stream in (received, messages, sent, to_send):
                stream.close()


def _message(line: bytes | LongLine) -> SessionMessage | None:
    """A line's message; None: it is none, as what some servers print."""
    if isinstance(line, LongLine):
        if (id := line.id) is None:
            return None
        error = ErrorData(code=TOO_LONG, message="the answer is too long")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error))
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a server and what it started: the end of its input, then signals."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL, None):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE_S)
            break
        if number is not None:
            _signal(process, number)
    _signal(process, signal.SIGKILL)  # what it started, and left
    transport = getattr(process, "_transport", None)  # a descendant may hold the pipe open
    if transport is not None:
        transport.close()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
