"""The client of the index process: `Knowledge` over a Unix socket in the data folder.

Frames are four bytes of length (big endian) and JSON. One connection carries one call at a time: a call
{"call", "args"} is answered by any number of {"progress"} and then one {"result"} or {"error"}. A caller that
leaves closes its connection, which ends the call.
The other end is `service`.
"""

import asyncio
import contextlib
import dataclasses
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from retrieval import errors
from retrieval.errors import IndexDown, RetrievalError
from retrieval.knowledge import Progress
from retrieval.records import CollectionInfo, Report, Retrieved, Turn

SOCKET = "index.sock"
_MAX_FRAME = 64 * 1024 * 1024
_MOST_IDLE = 64  # connections kept after a burst of calls; each is an open file at both ends
_MAX_SOCKET_PATH = 100  # sun_path holds 108 bytes on Linux, 104 on macOS


class Client:
    """Asks the index process. Connections are kept and used again; any number of calls may run at once."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def retrieve(self, turns: Sequence[Turn], collections: Sequence[str], *, k: int | None) -> Retrieved:
        answer = await self._call("retrieve", {"turns": list(turns), "collections": list(collections), "k": k})
        retrieved: Retrieved = decode(Retrieved, answer)
        return retrieved

    async def ingest(self, paths: Sequence[Path], collection: str, progress: Progress) -> Report:
        # A path is bytes, and JSON is text: each byte travels as one character.
        names = [os.fsencode(path.absolute()).decode("latin-1") for path in paths]
        args = {"paths": names, "collection": collection}
        report: Report = decode(Report, await self._call("ingest", args, progress))
        return report

    async def rebuild(self, collection: str, progress: Progress) -> int:
        return int(await self._call("rebuild", {"collection": collection}, progress))

    async def collections(self) -> list[CollectionInfo]:
        return [decode(CollectionInfo, row) for row in await self._call("collections", {})]

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _call(self, name: str, args: Mapping[str, Any], progress: Progress | None = None) -> Any:
        reader, writer = await self._connection()
        finished = False
        try:
            writer.write(framed({"call": name, "args": args}))
            await writer.drain()
            while True:
                frame = await read_frame(reader)
                if "progress" not in frame:
                    break
                if progress is not None:
                    progress(*frame["progress"])
            finished = True
        except (OSError, asyncio.IncompleteReadError) as error:
            raise IndexDown(
                "the index process went away during the call: try again (an ingest goes on from what was finished)"
            ) from error
        finally:  # cancelled or failed: the reply still to come must not meet the next call
            if finished and len(self._idle) < _MOST_IDLE:
                self._idle.append((reader, writer))
            else:
                writer.close()
        if "error" in frame:
            raise _ERRORS.get(frame["error"]["kind"], RetrievalError)(frame["error"]["text"])
        return frame["result"]

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            with reachable(self._data) as path:
                return await asyncio.open_unix_connection(path)
        except OSError as error:
            raise IndexDown(f"the index process does not answer ({error.strerror or error})") from error


_ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


@contextlib.contextmanager
def reachable(data: Path) -> typing.Iterator[str]:
    """The socket's path, short enough for the kernel: through the folder's descriptor where it is too long."""
    path = str(data.absolute() / SOCKET)
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        yield path
        return
    if not Path("/proc/self/fd").is_dir():
        raise RetrievalError(f"the path of the data folder is too long for a socket: {data}; choose a shorter one")
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


def framed(frame: Mapping[str, Any]) -> bytes:
    """A frame's bytes."""
    payload = orjson.dumps(frame)
    return len(payload).to_bytes(4, "big") + payload


async def read_frame(reader: asyncio.StreamReader, begun: bytes = b"") -> dict[str, Any]:
    """The next frame; begun: bytes of it that were read already."""
    length = int.from_bytes(begun + await reader.readexactly(4 - len(begun)), "big")
    if length > _MAX_FRAME:
        raise OSError(f"a frame of {length} bytes")
    frame: dict[str, Any] = orjson.loads(await reader.readexactly(length))
    return frame


def decode(hint: Any, value: Any) -> Any:
    """JSON back to the records it was made from, by their type hints."""
    if dataclasses.is_dataclass(hint):
        hints = _hints(hint)
        return hint(**{name: decode(hints[name], part) for name, part in value.items()})  # type: ignore[operator]
    origin = typing.get_origin(hint)
    if origin is tuple or origin is Sequence:
        inner = typing.get_args(hint)[0]
        return tuple(value) if inner in (str, int, float) else tuple(decode(inner, part) for part in value)
    return value


_known_hints: dict[Any, dict[str, Any]] = {}


def _hints(kind: Any) -> dict[str, Any]:
    if kind not in _known_hints:
        _known_hints[kind] = {
            name: float if hint is float else _plain(hint) for name, hint in typing.get_type_hints(kind).items()
        }
    return _known_hints[kind]


def _plain(hint: Any) -> Any:
    """`X | None` as X: decode passes None through for what is no record."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(arm for arm in typing.get_args(hint) if arm is not type(None))
    return hint
