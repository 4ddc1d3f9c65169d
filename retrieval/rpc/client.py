"""The client of the index process: `Knowledge` over a Unix socket in the data folder.

`frames` says what travels; the other end is `service`.

An index that hangs must not cost every question its deadline. So a search that was given up is followed by a check
in the background, and while that check has no answer either, searches fail at once (`IndexSilent`). A caller that
left for another reason costs nothing but the check.
"""

import asyncio
import contextlib
import dataclasses
import math
import os
import types
import typing
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from retrieval import errors
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError
from retrieval.knowledge import EmbedderChoice, Lookup, Progress
from retrieval.records.documents import CollectionInfo, DocumentInfo, DocumentLocation, FullDocument, Groups, Passage
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import EnrichmentPlan, IngestReport, PendingDocument
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.search import PUBLIC, Retrieved, Turn, View
from retrieval.rpc import codec
from retrieval.rpc.framing import Frame, Frames, framed

SOCKET = "index.sock"
_MOST_IDLE = 64  # connections kept after a burst of calls; each is an open file at both ends
_MAX_SOCKET_PATH = 100  # sun_path holds 108 bytes on Linux, 104 on macOS
_CHECK_S = 1.0  # an index that works checks itself within milliseconds; one that needs longer would miss deadlines


class Client:
    """Asks the index process. Connections are kept and used again; any number of calls may run at once."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.starting = False  # as whoever starts the index says: it was never there yet
        self._idle: list[_Line] = []
        self._checking: asyncio.Task[None] | None = None
        self._doubted = 0.0  # when the check began, by the loop's clock

    @property
    def silent(self) -> bool:
        """Whether a search was given up and the index has not shown since that it answers."""
        if self._checking is None or self._checking.done():
            return False
        return asyncio.get_running_loop().time() - self._doubted > _CHECK_S

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        lookup: Lookup | None = None,
        traced: bool = False,
    ) -> Retrieved:
        if self.silent:
            raise IndexSilent("the index does not answer: searches go on as soon as it does")
        try:
            args = {
                "turns": list(turns),
                "collections": list(collections),
                "k": k,
                "budget_tokens": budget_tokens,
                "view": view,
                "lookup": lookup,
                "traced": traced,
            }
            answer = await self._call("retrieve", args)
        except asyncio.CancelledError:  # out of patience, or the caller left: the check tells
            self._doubt()
            raise
        try:
            return codec.retrieved(answer)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _nonsense() from error

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        args = {"paths": _named(paths), "collection": collection, "exclude": list(exclude)}
        report: IngestReport = _record(IngestReport, await self._call("ingest", args, progress))
        return report

    async def changes(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        args = {"paths": _named(paths), "collection": collection, "exclude": list(exclude)}
        return tuple(_record(PendingDocument, row) for row in await self._call("changes", args))

    async def outline(self, changed: PendingDocument, collection: str) -> EnrichmentPlan:
        found: EnrichmentPlan = _record(
            EnrichmentPlan, await self._call("outline", {"changed": changed, "collection": collection})
        )
        return found

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        return int(await self._call("rebuild", {"collection": collection, "embedder": embedder}, progress))

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        return [_record(CollectionInfo, row) for row in await self._call("collections", {"groups": groups})]

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        args = {"collection": collection, "after": after, "limit": limit, "groups": groups}
        return [_record(DocumentInfo, row) for row in await self._call("documents", args)]

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        found: FullDocument = _record(
            FullDocument, await self._call("document", {"id": id, "groups": groups, "collections": list(collections)})
        )
        return found

    async def points(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        rows = await self._call("points", {"collections": list(collections), "ids": list(ids)})
        return {id: codec.passage(row) for id, row in rows.items()}

    async def standing(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        rows = await self._call("standing", {"ids": list(ids), "groups": groups})
        return [_record(DocumentLocation, row) for row in rows]

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        return str(await self._call("find_document", {"collection": collection, "key": key, "groups": groups}))

    async def create_collection(self, name: str, language: str | None) -> None:
        await self._call("create_collection", {"name": name, "language": language})

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        rows = await self._call("put", {"collection": collection, "given": codec.given_rows(given)})
        return tuple(_record(WriteResult, row) for row in rows)

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        args = {"collection": collection, "given": codec.given_rows(given), "spooled": list(spooled)}
        return self._job(await self._call("start_job", args))

    async def job(self, id: str, groups: Groups = ()) -> Job:
        return self._job(await self._call("job", {"id": id, "groups": groups}))

    async def finished_job(self, id: str) -> Job:
        return self._job(await self._call("finished_job", {"id": id}))

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        args = {"collections": list(collections), "before": before, "limit": limit, "groups": groups}
        return [self._job(row) for row in await self._call("jobs", args)]

    async def cancel_job(self, id: str) -> Job:
        return self._job(await self._call("cancel_job", {"id": id}))

    async def attached(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        rows = await self._call("attached", {"collections": list(collections), "groups": groups})
        return [_record(UnfinishedAttachment, row) for row in rows]

    async def detach(self, collection: str, key: str, groups: Groups = ()) -> bool:
        return bool(await self._call("detach", {"collection": collection, "key": key, "groups": groups}))

    async def holders(self, key: str) -> list[str]:
        return list(await self._call("holders", {"key": key}))

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._call("document_keys", {"ids": list(ids)}))

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        args = {"owner": owner, "name": name, "purpose": purpose, "spooled": spooled}
        file: UploadedFile = _record(UploadedFile, await self._call("add_file", args))
        return file

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        rows = await self._call("find_files", {"ids": list(ids), "owner": owner})
        return [_record(UploadedFile, row) for row in rows]

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        args = {"owner": owner, "purpose": purpose, "after": after, "limit": limit, "newest_first": newest_first}
        return [_record(UploadedFile, row) for row in await self._call("files", args)]

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        args = {"id": id, "owner": owner, "start": start, "length": length}
        return codec.from_text(await self._call("file_part", args))

    async def delete_file(self, id: str, owner: str) -> None:
        await self._call("delete_file", {"id": id, "owner": owner})

    @staticmethod
    def _job(row: Any) -> Job:
        job: Job = _record(Job, row)
        return job

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        await self._call("delete_document", {"id": id, "groups": groups})

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        await self._call("delete_collection", {"name": name, "groups": groups})

    async def check(self) -> None:
        await self._call("check", {})

    async def ping(self) -> None:
        """Return when the index process's event loop answers, whatever may be wrong behind it. Raises IndexDown."""
        await self._call("ping", {})

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        for line in self._idle:
            line.close()
        self._idle.clear()

    def _doubt(self) -> None:
        if self._checking is None or self._checking.done():
            self._doubted = asyncio.get_running_loop().time()
            self._checking = asyncio.create_task(self._until_quick())

    async def _until_quick(self) -> None:
        """Return once a check is answered soon, be it by an error: then searches are answered soon, too."""
        clock, took_s = asyncio.get_running_loop().time, math.inf
        while took_s > _CHECK_S:
            began = clock()
            with contextlib.suppress(RetrievalError):
                await self.check()
            took_s = clock() - began

    async def _call(self, name: str, args: Mapping[str, Any], progress: Progress | None = None) -> Any:
        line = await self._line()
        finished = False
        try:
            line.send({"call": name, "args": args})
            while "progress" in (frame := await line.next()):
                if progress is not None:
                    progress(*frame["progress"])
            finished = True
        except OSError as error:
            raise IndexDown(
                "the index process went away during the call: try again (an ingest goes on from what was finished)"
            ) from error
        finally:  # cancelled or failed: the reply still to come must not meet the next call
            if finished and len(self._idle) < _MOST_IDLE:
                self._idle.append(line)
            else:
                line.close()
        match frame:
            case {"result": result}:
                return result
            case {"error": {"kind": kind, "text": text}}:
                raise error_of(kind, text)
        raise _nonsense()

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
            if self.starting:
                raise IndexStarting("the index is still starting: try again in a moment") from error
            raise IndexDown(f"the index process does not answer ({error.strerror or error})") from error
        return line


class _Line(asyncio.Protocol):
    """One connection to the index process."""

    def __init__(self) -> None:
        self.open = False
        self._transport: asyncio.WriteTransport | None = None
        self._frames = Frames()
        self._said: deque[Frame] = deque()
        self._more: asyncio.Future[None] | None = None  # there while somebody waits for it

    @property
    def clean(self) -> bool:
        """Whether it can take a call: it is open, and nothing came that nobody asked for."""
        return self.open and not self._said

    def send(self, frame: Frame) -> None:
        if self._transport is not None:
            self._transport.write(framed(frame))

    async def next(self) -> Frame:
        """The next frame from the other end. Raises OSError where none comes any more."""
        while not self._said:
            if not self.open:
                raise ConnectionResetError("the connection was closed")
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        return self._said.popleft()

    def close(self) -> None:
        """At once: what was not sent yet is not worth waiting for."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.open = cast(asyncio.WriteTransport, transport), True

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        try:
            while (frame := self._frames.next()) is not None:
                self._said.append(frame)
        except OSError:
            self.close()
        self._wake()

    def connection_lost(self, _error: Exception | None) -> None:
        self.open = False
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


_ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


def error_of(kind: str, text: str) -> RetrievalError:
    """The error of that class name; a RetrievalError where there is no such class here."""
    error: RetrievalError = _ERRORS.get(kind, RetrievalError)(text)
    return error


def _named(paths: Sequence[Path]) -> list[str]:
    """A path is bytes, and JSON is text: each byte travels as one character."""
    return [os.fsencode(path.absolute()).decode("latin-1") for path in paths]


def _nonsense() -> IndexDown:
    return IndexDown("the index process answered nonsense: restart `ragway serve`, so that all of it is of one version")


def _record(kind: Any, value: Any) -> Any:
    try:
        return decode(kind, value)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _nonsense() from error


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
