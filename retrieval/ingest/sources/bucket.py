"""An object store or file server as a source: an S3-compatible bucket, or whatever else `fsspec` opens.

A process of its own lists and reads it: the libraries are large, and a server that hangs holds up nothing else. They
find credentials themselves, in the environment or in their own files.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import RetrievalError, Unreachable, Unreadable, UnreadableRights
from retrieval.ingest.containers import container_of, file_path
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats.registry import why_unused
from retrieval.ingest.load import FileCandidate, FoundFiles, content_hash, too_large, why_left_out
from retrieval.ingest.rules import SIDECAR
from retrieval.ingest.sources.source import Known, LeftOut
from retrieval.ingest.splitting import SourceFile
from retrieval.records.documents import Attribute
from retrieval.records.ingest import Failure
from retrieval.records.sync import SourceSpec
from runtime.logs import printable
from runtime.sandbox import Sandbox, SandboxJob

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_READ_S = 300.0  # of processor time, for the list or an object; four times as long by the clock
_MEMORY_MB = 2_048
_RACY_S = 120.0  # FTP servers list minutes: a younger time proves nothing
_DIGESTS = ("ETag", "etag", "md5Hash", "generation", "content_md5", "version_id", "VersionId")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "modify", "created")
_PASSWORD = re.compile(r"//[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class _Object:
    path: str  # below the place; of a place that is a file, its name
    url: str
    size_bytes: int
    modified_s: float  # 0: unknown
    mark: str  # as in `FileCandidate`
    sidecar: str = ""  # its path


@dataclass(frozen=True, slots=True)
class _Listing:
    objects: tuple[_Object, ...]
    skipped: dict[str, int]


class BucketSource:
    """Objects below a place. One with the same ETag, or time and size, is not read again."""

    def __init__(self, spec: SourceSpec, *, max_bytes: int) -> None:
        job = SandboxJob(
            partial(_reader, spec, max_bytes),
            RetrievalError,
            "the server may hang, or the source be too large: declare a part of it",
            "the process that reads the source died, perhaps out of memory",
            attempts=1,
            seconds=_READ_S,
            memory_mb=_MEMORY_MB,
        )
        self._reading: Sandbox[str, Any] = Sandbox(job, processes=1, idle=1)
        self._spec = spec
        self._prefix = bucket_prefix(spec.name)
        self._shown = _name(spec.places[0])
        self._max_bytes = max_bytes
        self._objects: dict[str, _Object] = {}  # by key

    async def list(self) -> FoundFiles:
        try:
            listing: _Listing = await self._reading.run("")
        except RetrievalError as error:
            raise Unreachable(str(error)) from error
        found, failures = list[FileCandidate](), list[Failure]()
        for one in listing.objects:
            key = self._prefix + one.path
            if one.size_bytes > self._max_bytes:
                failures.append(Failure(key, too_large(one.size_bytes, self._max_bytes, PurePosixPath(one.path))))
                continue
            source = printable(one.path if one.path == self._shown else f"{self._shown}/{one.path}")
            found.append(FileCandidate(Path(one.path), source, key, one.mark, one.size_bytes))
            self._objects[key] = one
        return FoundFiles(tuple(found), listing.skipped, tuple(failures))

    async def read(self, candidate: FileCandidate, mark: str = "") -> SourceFile:
        one = self._objects[candidate.key]
        try:
            data: bytes = await self._reading.run(one.path)
        except RetrievalError as error:
            raise Unreadable(str(error)) from error
        try:
            sidecars = (await self._reading.run(one.sidecar),) if one.sidecar else ()
        except RetrievalError as error:
            raise UnreadableRights(f"its sidecar cannot be read: {error}") from error
        if reason := why_unused(candidate.path, lambda most: data[:most]):
            raise LeftOut(reason)
        described: dict[str, Attribute] = {"url": printable(one.url)}
        modified_s = one.modified_s or time.time()
        named, mark = (candidate.path, candidate.source), one.mark
        return SourceFile(*named, data, modified_s, mark=mark, sidecars=sidecars, described=described)

    def version(self, file: SourceFile) -> str:
        return content_hash(file.data, file.sidecars)

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        there = {candidate.key for candidate in found.candidates} | {failure.path for failure in found.failures}
        ours = [key for key in known if key.startswith(self._prefix)]
        return {key for key in ours if container_of(key) not in there or self.leaves_out(key)}

    def leaves_out(self, key: str) -> bool:
        return _is_excluded(PurePosixPath(file_path(key).removeprefix(self._prefix)), self._spec)

    async def aclose(self) -> None:
        await self._reading.close()


def bucket_prefix(name: str) -> str:
    """What the catalog keys of a bucket's documents begin with."""
    return f"bucket:{name}:/"


def _name(place: str) -> str:
    """A place's name for people: the last part of its address."""
    return PurePosixPath(place.partition("://")[2]).name or "bucket"


def _is_excluded(path: PurePosixPath, spec: SourceSpec) -> bool:
    root = Path("/") / _name(spec.places[0])
    return any(excluded(root / at, root, spec.exclude) for at in (path, *path.parents))


# --- in the process of its own ---------------------------------------------------------------------------------------


def _reader(spec: SourceSpec, max_bytes: int) -> Callable[[str], "_Listing | bytes"]:
    """A function that answers "" with all objects, and a path with its bytes."""
    opened: list[_Place] = []

    def answer(path: str) -> _Listing | bytes:
        try:
            if not path:
                opened[:] = [_opened(spec)]
                return _listing(opened[0], spec)
            data: bytes = opened[0].store.cat_file(f"{opened[0].folder}/{path}")
        except ImportError as error:
            known = "`pip install 'ragway[buckets]'` lets ragway read S3 buckets"
            raise Unreachable(known if spec.places[0].startswith("s3") else printable(str(error))) from error
        except FileNotFoundError as error:
            raise Unreachable(f"there is nothing at {spec.places[0]}") from error
        except Exception as error:  # each library has its own
            text = _PASSWORD.sub("//", printable(str(error)))
            raise Unreachable(f"cannot be read ({type(error).__name__}: {text})") from error
        if len(data) > max_bytes:
            raise Unreadable(too_large(len(data), max_bytes))
        return data

    return answer


@dataclass(frozen=True, slots=True)
class _Place:
    store: "AbstractFileSystem"
    root: str
    folder: str  # the root, or that of a root that is a file


def _opened(spec: SourceSpec) -> _Place:
    from fsspec.core import url_to_fs

    store, root = url_to_fs(spec.places[0], use_listings_cache=False, skip_instance_cache=True, **spec.options)
    root = root.rstrip("/")
    return _Place(store, root, root.rpartition("/")[0] if store.isfile(root) else root)


def _listing(place: _Place, spec: SourceSpec) -> _Listing:
    objects, skipped, sidecars = list[_Object](), Counter[str](), dict[str, _Object]()
    store, root = place.store, place.root
    for name, about in _files(store, root) if root == place.folder else [(root, store.info(root))]:
        below = name.removeprefix(place.folder).lstrip("/")
        path = PurePosixPath(below)
        if below.endswith(SIDECAR):
            sidecars[below.removesuffix(SIDECAR)] = _object(below, "", about)
        elif about.get("islink") or about.get("type") != "file":
            skipped["link or device"] += 1
        elif _is_excluded(path, spec):
            skipped["excluded"] += 1
        elif reason := why_left_out(path):
            skipped[reason] += 1
        else:
            objects.append(_object(below, store.unstrip_protocol(name), about))
    described = (_with_sidecar(one, sidecars.get(one.path)) for one in objects)
    return _Listing(tuple(sorted(described, key=lambda one: one.path)), dict(skipped))


def _with_sidecar(one: _Object, sidecar: _Object | None) -> _Object:
    if sidecar is None:
        return one
    mark = f"{one.mark} {sidecar.mark}" if one.mark and sidecar.mark else ""
    return replace(one, mark=mark, sidecar=sidecar.path)


def _files(store: "AbstractFileSystem", root: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every file below the root. Raises if a folder cannot be listed: `find` would pass over it in silence."""
    if "s3" in store.protocol:  # its `find` raises, too, and asks once for a thousand objects, not for each folder
        for name, about in store.find(root, detail=True).items():
            if not name.endswith("/"):  # what consoles make for an empty folder
                yield name, about
        return
    for folder, _, files in store.walk(root, detail=True, on_error="raise"):
        for name, about in files.items():
            yield f"{folder.rstrip('/')}/{name}", about


def _object(path: str, url: str, about: Mapping[str, Any]) -> _Object:
    size, modified_s = about.get("size"), _modified_s(about)
    digests = [str(about[name]) for name in _DIGESTS if about.get(name)]
    if not digests and 0 < modified_s < time.time() - _RACY_S and size is not None:
        digests = [str(modified_s)]
    mark = f"{' '.join(digests)} {size}" if digests else ""
    return _Object(path, url, size or 0, modified_s, mark)


def _modified_s(about: Mapping[str, Any]) -> float:
    said = next((about[name] for name in _TIMES if about.get(name)), None)
    if isinstance(said, str):
        try:
            said = datetime.fromisoformat(said)
        except ValueError:
            return 0.0
    if isinstance(said, datetime):
        return said.timestamp()
    return float(said) if isinstance(said, int | float) else 0.0
