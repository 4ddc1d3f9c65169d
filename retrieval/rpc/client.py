"""The index process over a Unix socket in the data folder: its protocol, and a client that is a `Knowledge`.

Operations are read from method declarations in `Search`, `Library` and `Writing`. A call carries the operation's name
and its arguments in declared order; msgspec encodes arguments and answer as MessagePack by type hint. Bytes travel as
bytes. A passage in both hits and context travels twice: a search with eight passages sends 14.5 KB in place of 8.5 KB.
Decoding that takes 45 µs; decoding JSON with each passage once took 82 µs.

A frame is four bytes of length (big endian), then a message of that length. A connection carries one call at a time:
any number of `ProgressReport` messages answer a `Call`, then an `Answer` or a `Failed`. A client cancels a call by
closing its connection. `server` is the other end.

An index that hangs must not cost every question its deadline. So after a cancelled search, the client checks it in the
background, and while this gets no answer either, searches fail at once (`IndexSilent`). Cancellation for another
reason costs only this check.
"""

import asyncio
import contextlib
import functools
import inspect
import math
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import msgspec

from retrieval import errors
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError
from retrieval.knowledge import Library, Progress, Search, Writing

PARTS = {"search": Search, "library": Library, "writing": Writing}  # attribute of `Knowledge` -> protocol
_HEAD_BYTES = 4  # hold the length of a frame's message
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
PING = "ping"  # answered by the index process, not by its index


@dataclass(frozen=True, slots=True)
class RemoteMethod:
    """A method of `Search`, `Library` or `Writing`."""

    part: str  # attribute of `Knowledge`
    name: str
    arguments: Any  # a msgspec.Struct with a field per parameter; that of a `Progress` travels as None
    decode_arguments: Callable[[msgspec.Raw], Any]  # -> `arguments`
    decode_answer: Callable[[msgspec.Raw], Any]
    progress: str  # parameter of type `Progress`; "": none


class Call(msgspec.Struct, array_like=True):
    """From the client: run an operation."""

    operation: str
    arguments: msgspec.Raw


class ProgressReport(msgspec.Struct, tag=True, array_like=True):
    """From the server: a `Progress` call's arguments."""

    done: int
    total: int
    chunks: int
    source: str


class Answer(msgspec.Struct, tag=True, array_like=True):
    """From the server, last: the return value."""

    value: msgspec.Raw


class Failed(msgspec.Struct, tag=True, array_like=True):
    """From the server, last: a RetrievalError."""

    kind: str  # class name in `retrieval.errors`
    text: str


IndexReply = ProgressReport | Answer | Failed


def _encoded_path(value: Any) -> bytes:
    """A path may hold any byte but NUL: it travels as bytes, and absolute, since working folders may differ."""
    if isinstance(value, Path):
        return os.fsencode(value.absolute())
    raise NotImplementedError(f"cannot encode a {type(value).__name__}")


def _decoded_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(os.fsdecode(value))
    raise NotImplementedError(f"cannot decode a {kind.__name__}")


encode = msgspec.msgpack.Encoder(enc_hook=_encoded_path).encode
decode_call = msgspec.msgpack.Decoder(Call).decode
decode_reply: Callable[[bytes], IndexReply] = msgspec.msgpack.Decoder(IndexReply).decode


def _decoder(kind: Any) -> Callable[[msgspec.Raw], Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_decoded_path).decode


def _operation(part: str, protocol: type, name: str) -> RemoteMethod:
    method = getattr(protocol, name)
    hints = get_type_hints(method)
    fields: list[Any] = []
    progress = ""
    for parameter in list(inspect.signature(method).parameters.values())[1:]:  # without self
        kind = hints[parameter.name]
        if kind == Progress:
            progress, kind = parameter.name, None
        required = parameter.default is parameter.empty
        fields.append((parameter.name, kind) if required else (parameter.name, kind, parameter.default))
    arguments = msgspec.defstruct(name, fields, array_like=True)
    return RemoteMethod(part, name, arguments, _decoder(arguments), _decoder(hints["return"]), progress)


OPERATIONS = {
    name: _operation(part, protocol, name)
    for part, protocol in PARTS.items()
    for name in vars(protocol)
    if not name.startswith("_")
}


def remote(part: str, call: Callable[..., Awaitable[Any]]) -> Any:
    """A part of `Knowledge`, whose methods await `call(operation, *arguments, **named_arguments)`."""
    operations = [operation for operation in OPERATIONS.values() if operation.part == part]
    return SimpleNamespace(**{operation.name: functools.partial(call, operation) for operation in operations})


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(_HEAD_BYTES, "big") + message


def call_frame(operation: str, arguments: Any) -> bytes:
    """A client's call."""
    return framed(encode(Call(operation, msgspec.Raw(encode(arguments)))))


def answer_frame(value: Any) -> bytes:
    """The answer to a call."""
    return framed(encode(Answer(msgspec.Raw(encode(value)))))


class Frames:
    """Cuts received bytes into messages."""

    def __init__(self) -> None:
        self._read = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Messages that these bytes complete. Raises OSError for a frame over the limit."""
        self._read += data
        messages = []
        while len(self._read) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(self._read[:_HEAD_BYTES], "big")
            if end - _HEAD_BYTES > _MAX_MESSAGE_BYTES:
                raise OSError(f"a frame of {end - _HEAD_BYTES} bytes")
            if len(self._read) < end:
                break
            messages.append(bytes(self._read[_HEAD_BYTES:end]))
            del self._read[:end]
        return messages


class FramedConnection(asyncio.Protocol):
    """One end of a connection, with the messages that have come."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._received: deque[bytes] = deque()  # messages that nobody has taken yet
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._received.extend(self._frames.feed(data))
        except OSError:  # the other end speaks another protocol
            self.close()
        self._take()

    def close(self) -> None:
        """Close at once, and drop unsent bytes."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self) -> None:
        """Go on with what has come."""
        raise NotImplementedError


SOCKET = "index.sock"
_MOST_IDLE = 64  # connections kept after a burst of calls; each is an open file at both ends
_MAX_SOCKET_PATH = 100  # sun_path holds 108 bytes on Linux, 104 on macOS
_CHECK_S = 1.0  # a working index checks itself within milliseconds; a slower one would miss deadlines


class IndexClient:
    """Calls the index process. Connections are kept and reused; any number of calls may run at once."""

    def __init__(self, data: Path) -> None:
        self.search: Search = remote("search", self._search)
        self.library: Library = remote("library", self._run)
        self.writing: Writing = remote("writing", self._run)
        self._start_decided = asyncio.Event()  # cleared while the index process starts for the first time
        self._start_decided.set()
        self._patient_until_s = 0.0  # when to stop waiting for the start, by `time.monotonic`
        self._data = data
        self._idle: list[_Line] = []
        self._checking: asyncio.Task[None] | None = None
        self._doubted_s = 0.0  # when the check started, by the loop's clock

    @property
    def silent(self) -> bool:
        """Whether a search was cancelled and the index has not answered a check since."""
        if self._checking is None or self._checking.done():
            return False
        return asyncio.get_running_loop().time() - self._doubted_s > _CHECK_S

    def expect_start(self, patience_s: float) -> None:
        """From now on, calls without a connection raise IndexStarting; `until_started` waits at most `patience_s`."""
        self._start_decided.clear()
        self._patient_until_s = time.monotonic() + patience_s

    def end_start(self) -> None:
        """The index process has started, or has failed to start."""
        self._start_decided.set()

    async def until_started(self) -> None:
        """Return when the index process has started or failed to, or when patience ends."""
        if not self._start_decided.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._patient_until_s - time.monotonic())):
                    await self._start_decided.wait()

    async def ping(self) -> None:
        """Return when the index process's event loop answers, whether or not searches work. Raises IndexDown."""
        await self._call(call_frame(PING, ()))

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        for line in self._idle:
            line.close()
        self._idle.clear()

    async def _search(self, operation: RemoteMethod, *args: Any, **named: Any) -> Any:
        if operation.name != "retrieve":
            return await self._run(operation, *args, **named)
        if self.silent:
            raise IndexSilent("the index does not answer: searches go on as soon as it does")
        try:
            return await self._run(operation, *args, **named)
        except asyncio.CancelledError:  # past its deadline, or its caller left: the check finds out
            self._doubt()
            raise

    async def _run(self, operation: RemoteMethod, *args: Any, **named: Any) -> Any:
        arguments = operation.arguments(*args, **named)
        progress: Progress | None = None
        if operation.progress:
            progress = getattr(arguments, operation.progress)
            setattr(arguments, operation.progress, None)
        value = await self._call(call_frame(operation.name, arguments), progress)
        try:
            return operation.decode_answer(value)
        except msgspec.DecodeError as error:
            raise _nonsense() from error

    def _doubt(self) -> None:
        if self._checking is None or self._checking.done():
            self._doubted_s = asyncio.get_running_loop().time()
            self._checking = asyncio.create_task(self._until_quick())

    async def _until_quick(self) -> None:
        """Return once the index answers a check soon, even with an error: then it answers searches soon, too."""
        clock, took_s = asyncio.get_running_loop().time, math.inf
        while took_s > _CHECK_S:
            began = clock()
            with contextlib.suppress(RetrievalError):
                await self.search.check()
            took_s = clock() - began

    async def _call(self, frame: bytes, progress: Progress | None = None) -> msgspec.Raw:
        """The encoded answer. Raises RetrievalError."""
        line = await self._line()
        finished = False
        try:
            line.send(frame)
            while isinstance(reply := decode_reply(await line.next()), ProgressReport):
                if progress is not None:
                    progress(reply.done, reply.total, reply.chunks, reply.source)
            finished = True
        except msgspec.DecodeError as error:
            raise _nonsense() from error
        except OSError as error:
            raise IndexDown(
                "the index process went away during the call: try again (an ingest goes on from what was finished)"
            ) from error
        finally:  # cancelled or failed: the next call must not receive this one's reply
            if finished and len(self._idle) < _MOST_IDLE:
                self._idle.append(line)
            else:
                line.close()
        if isinstance(reply, Failed):
            raise error_of(reply.kind, reply.text)
        return reply.value

    async def _line(self) -> "_Line":
        while self._idle:
            line = self._idle.pop()
            if line.clean:
                return line
            line.close()
        try:
            with reachable(self._data) as path:
                _, line = await asyncio.get_running_loop().create_unix_connection(_Line, path)
        except OSError as error:
            if not self._start_decided.is_set():
                raise IndexStarting("the index is still starting: try again in a moment") from error
            raise IndexDown(f"the index process does not answer ({error.strerror or error})") from error
        return line


class _Line(FramedConnection):
    """One connection to the index process."""

    def __init__(self) -> None:
        super().__init__()
        self.open = False
        self._more: asyncio.Future[None] | None = None  # while `next` waits

    @property
    def clean(self) -> bool:
        """Whether a call may be sent: the connection is open, and holds no stray reply."""
        return self.open and not self._received

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    async def next(self) -> bytes:
        """The server's next message. Raises OSError once the connection is closed."""
        while not self._received:
            if not self.open:
                raise ConnectionResetError("the connection was closed")
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        return self._received.popleft()

    def close(self) -> None:
        self.open = False
        super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.open = True

    def connection_lost(self, _error: Exception | None) -> None:
        self.open = False
        self._take()

    def _take(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


_ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


def error_of(kind: str, text: str) -> RetrievalError:
    """An error of the class with this name; a RetrievalError for an unknown name."""
    error: RetrievalError = _ERRORS.get(kind, RetrievalError)(text)
    return error


def _nonsense() -> IndexDown:
    return IndexDown("the index process answered nonsense: restart `ragway serve`, so that all of it is of one version")


@contextlib.contextmanager
def reachable(data: Path) -> Iterator[str]:
    """The socket's path; one too long for the kernel is shortened through the folder's descriptor."""
    path = str(data.absolute() / SOCKET)
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        yield path
        return
    if not Path("/proc/self/fd").is_dir():
        raise RetrievalError(f"the data folder's path is too long for a socket: {data}; choose a shorter one")
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
