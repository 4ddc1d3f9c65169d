"""Containers: archives, mailboxes, and mails with attachments. Each member is a document of its own.

`unpack` runs in the sandbox and writes nothing: a member's name is only a name. The key of a member is
`/srv/box.zip!/notes/a.md`, and its source `box.zip/notes/a.md`. A container within a container is unpacked with it,
within the same limits. A member that cannot be read is a failure of its own.
"""

import bz2
import gzip
import io
import lzma
import re
import stat
import tarfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath

from config.sections import IngestSettings, RecordFields
from retrieval.errors import Unreadable
from retrieval.ingest.exports import tidied
from retrieval.ingest.formats import mail, records
from retrieval.ingest.formats.decode import decode
from retrieval.ingest.formats.registry import FORMATS, is_container
from retrieval.ingest.load import MOST_UNREAD, is_hidden, passed_over, too_large
from retrieval.ingest.rules import RECORD_FILES, SIDECAR, fields_of
from retrieval.records.ingest import Failure

_MOST_MEMBERS = 20_000
_MOST_DEPTH = 3  # containers within each other
_MOST_RATIO = 200  # times its size that a container may unpack to, beyond _SMALL_BYTES
_SMALL_BYTES = 20 * 2**20
_MOST_NAME_BYTES = 1_000  # with the names of containers around; PostgreSQL's indexes hold keys of 2,700
_MARK = "!/"  # in keys, between a container and its member
_UNREADABLE = b"\xff"  # a sidecar that closes its document
_ENCRYPTED = 1  # a flag of ZIP
_FULL = (
    f"unpacks to more than {_MOST_MEMBERS:,} files, ingest.max_unpacked_mb or {_MOST_RATIO} times its size, and was "
    "read up to there: split it, or raise the limit"
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A container to unpack."""

    name: str
    data: bytes
    modified_s: float
    member_bytes: int  # at most of one member
    total_bytes: int  # at most of all members
    fields: RecordFields | None = None  # of the records of a JSON file

    @classmethod
    def of(cls, source: str, data: bytes, modified_s: float, ingest: IngestSettings) -> "Packed":
        name, fields = PurePosixPath(source).name, fields_of(ingest.rules, source)
        return cls(name, data, modified_s, ingest.max_file_mb * 2**20, ingest.max_unpacked_mb * 2**20, fields)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a container. name: "" for a mail's own text, which is the container's content."""

    name: str
    data: bytes
    modified_s: float
    shown: str = ""  # name for people, if not the same
    sidecars: tuple[bytes, ...] = ()  # as in `SourceFile`


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Members to read, files passed over (reason -> count), and failures by name ("": the container itself)."""

    members: tuple[Member, ...]
    skipped: dict[str, int]
    failures: tuple[Failure, ...]
    unread: tuple[str, ...]  # names of the first files of an unsupported type


def member_key(container: str, name: str) -> str:
    return f"{container}{_MARK}{name}" if name else container


def member_source(container: str, name: str) -> str:
    return f"{container}/{name.replace(_MARK, '/')}" if name else container


def container_of(key: str) -> str:
    """The file's own key: the outermost container's for a member's key, else the same key."""
    for match in re.finditer(_MARK, key):
        path = PurePosixPath(key[: match.start()])
        if is_container(path) or path.suffix.lower() in RECORD_FILES:
            return key[: match.start()]
    return key


def file_path(key: str) -> str:
    """The key as if each container were a folder."""
    file = container_of(key)
    return file + key.removeprefix(file).replace(_MARK, "/")


def unpack(packed: Packed) -> Unpacked:
    """Raises Unreadable if the container cannot be opened."""
    return _Unpacking(packed).result()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file in a container, not read yet."""

    name: str
    modified_s: float
    read: Callable[[int], bytes]  # returns at most as many bytes; raises Unreadable
    skipped: str = ""  # why it is not a document


class _Full(Exception):
    """The members exceed a limit."""


@dataclass(slots=True)
class _Unpacking:
    packed: Packed
    left_bytes: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    sidecars: dict[str, bytes] = field(default_factory=dict)  # by the name of what they describe

    def result(self) -> Unpacked:
        packed = self.packed
        self.left_bytes = _most_bytes(packed.data, packed.total_bytes)
        try:
            self._open(PurePosixPath(packed.name), packed.data, packed.modified_s, "", 1)
        except _Full:
            self.failures[""] = _FULL
        pages, left_out = tidied({name: member.data for name, member in self.members.items()})
        members = tuple(replace(self.members[name], data=page.data, shown=page.shown) for name, page in pages.items())
        self.skipped.update(left_out)
        failures = tuple(Failure(name, reason) for name, reason in self.failures.items())
        described = tuple(map(self._described, members))
        return Unpacked(described, dict(self.skipped), failures, tuple(self.unread[:MOST_UNREAD]))

    def _open(self, path: PurePosixPath, data: bytes, modified_s: float, name: str, depth: int) -> None:
        """Read a container's members. name: as a member, "" for the outermost. Raises Unreadable, _Full."""
        fields = self.packed.fields if depth == 1 else None
        if path.suffix.lower() in FORMATS and fields is None:  # a mail
            self.members[name] = Member(name, data, modified_s)
        for entry in _entries(path, data, self.left_bytes) if fields is None else _records(data, fields):
            self._take(entry, name + _MARK if name else "", modified_s, depth)

    def _described(self, member: Member) -> Member:
        around = [match.start() for match in re.finditer(_MARK, member.name)]
        names = [*(member.name[:end] for end in around), member.name]
        return replace(member, sidecars=tuple(self.sidecars[name] for name in names if name in self.sidecars))

    def _take(self, entry: _Entry, prefix: str, modified_s: float, depth: int) -> None:
        inner = _clean(entry.name)
        path, name = PurePosixPath(inner), prefix + inner
        if not inner or is_hidden(path):
            return
        try:
            if inner.endswith(SIDECAR):
                self.sidecars[name.removesuffix(SIDECAR)] = _UNREADABLE  # unless the next line succeeds
                self.sidecars[name.removesuffix(SIDECAR)] = _UNREADABLE if entry.skipped else self._read(entry)
                return
            reason = entry.skipped or passed_over(path, entry.read)
            if reason:
                self.skipped[reason] += 1
                self.unread.append(name)
                return
            if len(name.encode()) > _MOST_NAME_BYTES:
                name = name[:100] + "…"
                raise Unreadable(f"its name is longer than {_MOST_NAME_BYTES:,} bytes; give it a shorter one")
            data = self._read(entry)
            if not is_container(path):
                self.members[name] = Member(name, data, entry.modified_s or modified_s)
            elif depth == _MOST_DEPTH:
                raise Unreadable(f"more than {_MOST_DEPTH} containers within each other: unpack the outer one")
            else:
                self._open_within(path, data, entry.modified_s or modified_s, name, depth + 1)
        except Unreadable as error:
            self.failures[name] = str(error)

    def _open_within(self, path: PurePosixPath, data: bytes, modified_s: float, name: str, depth: int) -> None:
        """`_open` within its own limit, so that a bomb ends before it uses up the outer container's."""
        before = self.left_bytes
        most = self.left_bytes = _most_bytes(data, before)
        try:
            self._open(path, data, modified_s, name, depth)
        except _Full:
            if most == before:
                raise
            self.left_bytes = 0
            self.failures[name] = _FULL
        self.left_bytes += before - most

    def _read(self, entry: _Entry) -> bytes:
        if len(self.members) + len(self.failures) >= _MOST_MEMBERS:
            raise _Full
        most = self.packed.member_bytes
        data = entry.read(most + 1)
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise _Full
        if len(data) > most:
            raise Unreadable(too_large(len(data), most, PurePosixPath(entry.name)))
        return data


def _most_bytes(data: bytes, left_bytes: int) -> int:
    return min(left_bytes, max(_SMALL_BYTES, _MOST_RATIO * len(data)))


def _clean(name: str) -> str:
    """A member's name without what leads out of its container."""
    text = name.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\0", "\ufffd")
    return "/".join(part for part in re.split(r"[/\\]", text) if part not in ("", ".", ".."))


def _records(data: bytes, fields: RecordFields) -> Iterator[_Entry]:
    for name, modified_s, content in records.members(decode(data, html=False).text, fields):
        yield _Entry(name, modified_s, lambda most, content=content: content[:most])  # type: ignore[misc]


def _entries(path: PurePosixPath, data: bytes, most_bytes: int) -> Iterator[_Entry]:
    """Raises Unreadable, _Full."""
    kind = path.suffix.lower()
    if kind == ".zip":
        return _zip(data)
    if kind in mail.SUFFIXES:
        return (_Entry(one.name, one.modified_s, one.read) for one in mail.members(kind, data))
    if kind == ".tar":
        return _tar(data)
    inflated = _inflated(kind, data, most_bytes)
    if kind in _TARS or path.stem.lower().endswith(".tar"):
        return _tar(inflated)
    return iter([_Entry(path.stem, 0.0, lambda most: inflated[:most])])


def _zip(data: bytes) -> Iterator[_Entry]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise Unreadable(f"not a ZIP archive, or damaged ({error}); pack it again") from error
    for info in archive.infolist():
        if info.is_dir():
            continue
        name, modified_s = info.filename, 0.0
        if not info.flag_bits & 0x800:  # not declared as UTF-8, but often is
            with suppress(UnicodeError):
                name = name.encode("cp437").decode("utf-8")
        with suppress(ValueError, OverflowError):
            modified_s = time.mktime((*info.date_time, 0, 0, -1))
        link = "a symbolic link in an archive" if stat.S_ISLNK(info.external_attr >> 16) else ""
        yield _Entry(name, modified_s, partial(_read_zipped, archive, info), link)


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    if info.flag_bits & _ENCRYPTED:
        raise Unreadable("encrypted: put it into the archive without a password")
    try:
        with archive.open(info) as file:
            return file.read(most)
    except NotImplementedError as error:
        raise Unreadable(f"packed in a way that is not supported ({error}): pack it again with deflate") from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError) as error:
        raise Unreadable(f"damaged in the archive ({error}); pack it again") from error


def _tar(data: bytes) -> Iterator[_Entry]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                if info.isdir():
                    continue
                link = "a link in an archive" if info.issym() or info.islnk() else ""
                other = "" if info.isfile() else link or "a device in an archive"
                modified_s = float(info.mtime) if 0 < info.mtime < 2**33 else 0.0
                yield _Entry(info.name, modified_s, partial(_read_tarred, archive, info), other)
    except (tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise Unreadable(f"not a tar archive, or damaged ({error}); pack it again") from error


def _read_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo, most: int) -> bytes:
    try:
        file = archive.extractfile(info)
        return file.read(most) if file else b""
    except (tarfile.TarError, ValueError, OSError, KeyError) as error:
        raise Unreadable(f"damaged in the archive ({error}); pack it again") from error


_TARS = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz"}


def _inflated(kind: str, data: bytes, most: int) -> bytes:
    """Raises Unreadable for damaged data, _Full beyond `most` bytes."""
    kind = _TARS.get(kind, kind)
    file = io.BytesIO(data)
    try:
        if kind == ".gz":
            inflated = gzip.GzipFile(fileobj=file).read(most + 1)
        else:
            inflated = (bz2.BZ2File if kind == ".bz2" else lzma.LZMAFile)(file).read(most + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise Unreadable(f"not a {kind} file, or damaged ({error}); pack it again") from error
    if len(inflated) > most:
        raise _Full
    return inflated
