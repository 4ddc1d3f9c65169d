"""Paths to documents: which files there are, a file's bytes, and a document's text, title and format.

`find` walks folders, `read` opens one file, `parse` turns bytes into a document; `load` is `read` and `parse`. They
are separate so that a caller can compare a file's content with the catalog before parsing it. An error in one file is
an `Unreadable` with one line of text (in `find`: a `Failure`) and never affects the next.
"""

import contextlib
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal

from config.sections import RecordFields
from retrieval.errors import HoldsSecrets, Unreadable, UnreadableRights
from retrieval.ingest.encoded import without_encoded_bytes
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats import pictures
from retrieval.ingest.formats.decode import EMPTY
from retrieval.ingest.formats.front_matter import Front
from retrieval.ingest.formats.registry import FORMATS, READABLE, format_of, is_container, read_records, why_unused
from retrieval.ingest.rules import MOST_SIDECAR_BYTES, SIDECAR, one_of
from retrieval.ingest.secret_scan import masked, secrets_in
from retrieval.records.documents import Document, Format, Places
from retrieval.records.ingest import Failure
from runtime.logs import printable

# Left out in folders, like hidden files: other people's code, and generated code.
_VENDORED = frozenset({"node_modules", "bower_components", "site-packages", "__pycache__", "__MACOSX"})
_MINIFIED = re.compile(r"[.-]min\.[cm]?js", re.IGNORECASE)

_MOST_NAMED = 10  # secrets in a message
MOST_UNREAD = 100  # files named in a report
_RACY_S = 2.0  # a file may change twice within a tick of the file system's clock: a younger time proves nothing
_CONVERSIONS = (  # endings, and how to get a file that can be read
    ((".pages", ".key", ".numbers", ".wpd", ".one"), "export the file as PDF, or as an Office file; "),
    (pictures.ENDINGS, f"{pictures.INSTALL}; "),
    ((".gif",), "save the picture as PNG; "),
    ((".7z", ".rar", ".zst"), "unpack the archive, or pack it as ZIP; "),
)
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileCandidate:
    """A file that may become a document."""

    path: Path  # absolute, symbolic links resolved; if it is not a file, a name that tells its type
    source: str  # its name for people and models, e.g. "docs/guide/connect.md"
    key: str = ""  # in the catalog; "": the path
    # A text that differs once the content may have changed; "": only reading tells.
    mark: str = field(default="", compare=False)
    size_bytes: int = field(default=0, compare=False)  # as far as known: small documents come first

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", str(self.path))


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A symbolic link in a folder to a target outside all given paths."""

    source: str  # as in a candidate
    target: Path  # absolute, symbolic links resolved


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files under some paths: candidates, skipped files (reason -> count), and failures.

    Paths of failures are the file system's own: show people `printable_path`. left_out: links not followed.
    """

    candidates: tuple[FileCandidate, ...]
    skipped: dict[str, int]
    failures: tuple[Failure, ...]
    left_out: tuple[Link, ...] = ()
    unread: tuple[str, ...] = ()  # first files of an unsupported type, by source


def find(
    paths: Sequence[Path], *, max_bytes: int, follow_links: bool = False, exclude: Sequence[str] = ()
) -> FoundFiles:
    """Return files to ingest under `paths`, in the given order, sorted within each folder, each once.

    Hidden files and folders in a folder are left out. Links to targets outside `paths` are left out unless
    `follow_links`: a person who can put a link into a folder may not be allowed to choose which files ragway reads. A
    failure is: an unusable file named directly, a missing path, a folder that cannot be listed, a file over
    `max_bytes`.

    exclude: patterns (`exclude.excluded`) of files and folders to leave out, even if named directly; an excluded
        folder counts as one.
    """
    candidates: dict[Path, FileCandidate] = {}
    skipped: Counter[str] = Counter()
    failures: list[Failure] = []
    links: list[Link] = []
    unread: list[str] = []
    roots = [Path(os.path.realpath(path)) for path in paths]
    walk = _Walk([*roots], follow_links, failures, exclude)
    for root in roots:
        if not _is_folder(root) and excluded(root, root, exclude):
            skipped["excluded"] += 1
            continue
        for file in walk.files(root) if _is_folder(root) else [root]:
            other, bad = _unsupported_reason(file), _unreadable_reason(file, max_bytes)
            if other and not bad and file != root:
                skipped[other] += 1
                unread.append(_source(root, file))
            elif bad or other:
                failures.append(Failure(str(file), bad or f"{other}; {_expected(file)}"))
            else:
                path = Path(os.path.realpath(file))
                candidates.setdefault(path, _candidate(path, _source(root, file)))
        links += [Link(_source(root, link), Path(os.path.realpath(link))) for link in walk.left_out]
        walk.left_out.clear()
    if walk.excluded:
        skipped["excluded"] += walk.excluded
    if links:
        skipped["links out of the folder"] = len(links)
    return FoundFiles(
        tuple(candidates.values()),
        dict(sorted(skipped.items())),
        tuple(failures),
        tuple(sorted(links)),
        tuple(unread[:MOST_UNREAD]),
    )


def _candidate(path: Path, source: str) -> FileCandidate:
    try:
        status = path.stat()
    except (OSError, ValueError):  # reported by `read`
        return FileCandidate(path, source)
    found = [status]
    with contextlib.suppress(OSError):
        found.append(Path(f"{path}{SIDECAR}").lstat())
    settled = all(time.time() - one.st_mtime > _RACY_S for one in found)
    mark = " ".join(f"{one.st_mtime_ns} {one.st_size} {one.st_ino}" for one in found) if settled else ""
    return FileCandidate(path, source, mark=mark, size_bytes=status.st_size)


def _source(root: Path, file: Path) -> str:
    return printable_path(PurePosixPath(root.name) / file.relative_to(root).as_posix())


def load(path: Path, source: str, *, max_bytes: int) -> Document:
    """Return one file's document. Raises Unreadable."""
    data, modified_s = read(path, max_bytes=max_bytes)
    return parse(data, path, source, modified_s)


def read(path: Path, *, max_bytes: int) -> tuple[bytes, float]:
    """Return a regular file's bytes and time of change. Raises Unreadable; never waits for a pipe or a device."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer; the check below refuses other file types. `find` has
        # resolved links: O_NOFOLLOW refuses one that has replaced the file since.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{_kind(status.st_mode)}, not a regular file")
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(_os_reason(error)) from error
    if len(data) > max_bytes:
        raise Unreadable(too_large(max(status.st_size, len(data)), max_bytes, path))
    return data, status.st_mtime


def sidecars_of(path: Path) -> tuple[bytes, ...]:
    """Return the sidecar beside a file, if there is one. Raises UnreadableRights if it cannot be read."""
    sidecar = Path(f"{path}{SIDECAR}")
    if not os.path.lexists(sidecar):
        return ()
    try:
        return (read(sidecar, max_bytes=MOST_SIDECAR_BYTES)[0],)
    except Unreadable as error:
        raise UnreadableRights(f"its sidecar cannot be read: {error}") from error


def content_hash(data: bytes, sidecars: Sequence[bytes] = ()) -> str:
    """Return the SHA-256 of a file's bytes, and of its sidecars, in hexadecimal."""
    hash = sha256(data)
    for sidecar in sidecars:
        hash.update(sha256(sidecar).digest())
    return hash.hexdigest()


def parse(  # noqa: PLR0913 - each is what a caller may know
    data: bytes,
    path: Path,
    source: str,
    modified_s: float,
    *,
    named: str = "",
    kind: Format | None = None,
    groups: tuple[str, ...] | None = None,
    fields: RecordFields | None = None,
    beside: Front | None = None,
    secrets: Literal["warn", "skip", "mask"] = "warn",
) -> Document:
    """Return the document in `data`, the content of `path`. Raises Unreadable.

    named, kind, groups: title, format and readers as given by the caller; otherwise content and file extension decide.
        Raises UnreadableRights if the content does not clearly state who may read it.
    fields: of the records of a JSON file. beside: what is known beside the content.
    secrets: "mask" replaces them by their kind, and "skip" raises HoldsSecrets.
    """
    shown_as = PurePosixPath(source)
    found = format_of(shown_as, path, kind)
    if found is None:
        raise Unreadable(f"{_unsupported(path)}; {_expected(path)}")
    if not data.strip():
        raise Unreadable(EMPTY)
    kind, parser = found
    rights = groups is None
    parsed = parser(data, shown_as, rights) if fields is None else read_records(data, fields, rights)
    front, text = parsed.front, parsed.text
    text = _SURROGATES.sub("\ufffd", text)  # of JSON; no tokenizer and no database takes half a character
    held = _secrets(data, text)
    if held and secrets == "skip":
        where = ", ".join(f"line {line}: {kind}" for line, kind in held[:_MOST_NAMED])
        raise HoldsSecrets(f"holds secrets ({len(held)}): {where}; remove them (ingest.secrets is skip)")
    places = parsed.places
    if held and secrets == "mask":
        text, places = _changed(text, places, masked)
    text, places = _changed(text, places, without_encoded_bytes)
    if not text.strip():
        raise Unreadable(EMPTY)
    beside = beside or Front()
    title = _SURROGATES.sub("\ufffd", named or front.title or beside.title or parsed.title)
    title = printable(title) or title_of(shown_as)
    readers = one_of(front.groups, beside.groups) if groups is None else groups
    kind = parsed.format or kind
    attributes = {**parsed.properties, **beside.attributes, **front.attributes}
    return Document(source, title, text, kind, modified_s, attributes, readers, places, parsed.note, held)


def _secrets(data: bytes, text: str) -> tuple[tuple[int, str], ...]:
    """Return line and kind of each secret; the line of the file, if the text is its end, as after front matter."""
    found = secrets_in(text)
    if not found:
        return ()
    lines = data.replace(b"\r\n", b"\n")
    before = lines.count(b"\n") - text.count("\n") if lines.endswith(text.encode("utf-8", "replace")) else 0
    return tuple((before + text.count("\n", 0, one.start) + 1, one.kind) for one in found)


def _changed(text: str, places: Places, change: Callable[[str], str]) -> tuple[str, Places]:
    """Return the text after a change of each page, and where its pages begin."""
    starts = [start for start, _ in places]
    pieces = [change(text[start:end]) for start, end in pairwise([0, *starts, len(text)])]
    moved = accumulate(map(len, pieces[:-1]))
    return "".join(pieces), tuple(zip(moved, (name for _, name in places), strict=True))


@dataclass(slots=True)
class _Walk:
    """Walks folders; links lead to no folder twice."""

    read: list[Path]  # given or walked paths, symbolic links resolved
    follow_links: bool
    failures: list[Failure]
    exclude: Sequence[str]
    excluded: int = 0
    left_out: list[Path] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)  # each folder's device and inode

    def files(self, folder: Path) -> Iterator[Path]:
        """Yield visible files, sorted by path; iterative, because folders may nest deeper than Python's stack."""
        pending = [folder]
        while pending:
            path = pending.pop()
            if path != folder and not _is_folder(path):
                yield path
                continue
            try:
                status = path.stat()
                if (inode := (status.st_dev, status.st_ino)) in self.seen:
                    continue
                self.seen.add(inode)
                with os.scandir(path) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
            except OSError as error:
                self.failures.append(Failure(str(path), f"cannot list this folder: {_os_reason(error)}"))
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _VENDORED:
                    continue
                if self.exclude and excluded(Path(entry.path), folder, self.exclude):
                    self.excluded += 1
                elif not entry.is_symlink() or self._follows(Path(entry.path)):
                    pending.append(Path(entry.path))

    def _follows(self, link: Path) -> bool:
        """Whether to follow a link: out of these paths only with `follow_links`, to folders within them never."""
        target = Path(os.path.realpath(link))
        if any(target.is_relative_to(path) for path in self.read):
            return not _is_folder(target)
        if not self.follow_links:
            self.left_out.append(link)
            return False
        if _is_folder(target):
            self.read.append(target)
        return True


def why_left_out(path: PurePath) -> str:
    """Return why a file below a folder is left out, by its path there alone; "" if it is not."""
    return "hidden or generated" if is_hidden(path) else _why_of_type(path)


def is_hidden(path: PurePath) -> bool:
    """Whether a relative path leads through a hidden folder, or one of other people's code."""
    return any(part.startswith(".") or part in _VENDORED for part in path.parts)


def _why_of_type(path: PurePath) -> str:
    if _MINIFIED.search(path.name):
        return "minified code"
    if path.name.endswith(SIDECAR):
        return "sidecar"
    return "" if path.suffix.lower() in FORMATS or is_container(path) else _unsupported(path)


def _unsupported_reason(file: Path) -> str:
    """Return why a file's type is not supported; "" if it is."""
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(mode):
        return f"{_kind(mode)}, not a regular file"
    try:
        return passed_over(file, partial(_beginning, file))
    except OSError:  # reported when the file is read
        return ""


def _beginning(file: Path, most_bytes: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(most_bytes)


def passed_over(path: PurePath, beginning: Callable[[int], bytes]) -> str:
    """Return why a file's name and content do not make it a document; "" if they do.

    beginning: returns at most as many of its first bytes.
    """
    return _why_of_type(path) or why_unused(path, beginning)


def _unreadable_reason(file: Path, max_bytes: int) -> str:
    """Return why a supported file cannot be read; "" if no reason is known."""
    try:
        size_bytes = file.stat().st_size
    except (OSError, ValueError) as error:
        return _os_reason(error)
    return too_large(size_bytes, max_bytes, file) if size_bytes > max_bytes and not _unsupported_reason(file) else ""


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):  # `Path.is_dir` raises without permission
        return False


def _unsupported(file: PurePath) -> str:
    return f"unsupported type {printable_path(file.suffix.lower()) or '(no extension)'}"


def _expected(file: Path) -> str:
    """Which types can be read, and how to convert a file of another type."""
    way = next((way for endings, way in _CONVERSIONS if file.suffix.lower() in endings), "")
    return f"{way}expected one of {READABLE}"


def too_large(size_bytes: int, max_bytes: int, path: PurePath | None = None) -> str:
    """Why a file of this size is not read. path: if known; its ending tells an archive."""
    archive = path is not None and is_container(path) and path.suffix.lower() not in FORMATS
    remedy = "unpack it and read its files, or" if archive else "split the file or"
    return f"too large: {size_bytes:,} bytes, the limit is {max_bytes:,}; {remedy} raise the limit (ingest.max_file_mb)"


def _os_reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "a folder, not a regular file"
    if isinstance(error, PermissionError):
        return "no permission to read the file"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) else error}"


def _kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "a special file")


def printable_path(path: object) -> str:
    """Return a path as one printable line: bytes that are not UTF-8 become U+FFFD."""
    return printable(os.fsencode(str(path)).decode("utf-8", "replace"))


def title_of(source: PurePosixPath) -> str:
    """Return the title of a document that has none but its file's name."""
    return printable(_readable(source.stem))


def _readable(stem: str) -> str:
    words = " ".join(re.split(r"[\s_-]+", stem)).strip() or stem
    return words[0].upper() + words[1:] if words.islower() else words
