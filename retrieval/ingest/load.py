"""Paths to documents: which files there are, their bytes, and the text, title and format of each.

`find` walks, `read` opens one file, `parse` makes a document of its bytes; `load` is the last two in a row. They are
apart so that a caller can compare a file's content with what it knows before it pays for parsing. Whatever is wrong
with one file is an `Unreadable` of one line (or, in `find`, a `Failure`) and never concerns the next one.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

from retrieval.errors import Unreadable
from retrieval.ingest.chunking import questions
from retrieval.ingest.chunking.definitions import GRAMMARS
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats import front_matter, markdown, rst, webpage
from retrieval.ingest.formats.decode import decode
from retrieval.records.documents import Document, Format
from retrieval.records.ingest import Failure
from runtime.logs import printable

FORMATS: dict[str, Format] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
    ".text": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "text",  # those of questions and answers
    ".jsonl": "text",
    **dict.fromkeys(GRAMMARS, "code"),
}
# Left out below a folder, like hidden ones: code that other people wrote, and what was made from code.
_NOT_OURS = frozenset({"node_modules", "bower_components", "site-packages", "__pycache__"})
_MADE = re.compile(r"[.-]min\.[cm]?js", re.IGNORECASE)

_LOOK_BYTES = 65_536
_TITLE_WITHIN_CHARS = 20_000  # a first heading further down is not the title of the whole


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may become a document."""

    path: Path  # absolute, symbolic links resolved
    source: str  # as people and models see it, e.g. "docs/guide/connect.md"


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of the disk is read: files up to a size, and whether links out of a folder are followed."""

    max_bytes: int
    follow_links: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A symbolic link below a folder that leads out of all that is read."""

    source: str  # like a candidate's
    target: Path  # absolute, symbolic links resolved


@dataclass(frozen=True, slots=True)
class Found:
    """What is below some paths: files to read, files passed over (reason -> how many), and what is wrong.

    The paths of failures are as the disk has them: `shown` is for people. left_out: links that were not followed.
    """

    candidates: tuple[Candidate, ...]
    skipped: dict[str, int]
    failures: tuple[Failure, ...]
    left_out: tuple[Link, ...] = ()


def find(paths: Sequence[Path], *, max_bytes: int, follow_links: bool = False, exclude: Sequence[str] = ()) -> Found:
    """The files to ingest under `paths`, in the order given, each folder's sorted; every file once.

    Hidden files and folders below a folder are left out, and so are links that lead out of `paths`, unless
    `follow_links`: who can put a link into a folder is not always one who may choose what is read. A file that was
    named itself and cannot be used is a failure; so is a path that does not exist, a folder that cannot be listed, a
    file over `max_bytes`. exclude: patterns (`exclude.excluded`) of files and folders that are left out, also where
    they were named themselves; a folder counts as one.
    """
    candidates: dict[Path, Candidate] = {}
    skipped: Counter[str] = Counter()
    failures: list[Failure] = []
    links: list[Link] = []
    roots = [Path(os.path.realpath(path)) for path in paths]
    walk = _Walk([*roots], follow_links, failures, exclude)
    for root in roots:
        if not _is_folder(root) and excluded(root, root, exclude):
            skipped["excluded"] += 1
            continue
        for file in walk.files(root) if _is_folder(root) else [root]:
            other, bad = _other(file), _bad(file, max_bytes)
            if other and not bad and file != root:
                skipped[other] += 1
            elif bad or other:
                failures.append(Failure(str(file), bad or f"{other}; expected one of {' '.join(FORMATS)}"))
            else:
                path = Path(os.path.realpath(file))
                candidates.setdefault(path, Candidate(path, _source(root, file)))
        links += [Link(_source(root, link), Path(os.path.realpath(link))) for link in walk.left_out]
        walk.left_out.clear()
    if walk.excluded:
        skipped["excluded"] += walk.excluded
    if links:
        skipped["links out of the folder"] = len(links)
    return Found(tuple(candidates.values()), dict(sorted(skipped.items())), tuple(failures), tuple(sorted(links)))


def _source(root: Path, file: Path) -> str:
    return shown(PurePosixPath(root.name) / file.relative_to(root).as_posix())


def load(path: Path, source: str, *, max_bytes: int) -> Document:
    """The document in one file. Raises Unreadable where there is none."""
    data = read(path, max_bytes=max_bytes)
    try:
        modified_s = path.stat().st_mtime
    except OSError as error:
        raise Unreadable(f"gone while it was being read ({error.strerror})") from error
    return parse(data, path, source, modified_s)


def read(path: Path, *, max_bytes: int) -> bytes:
    """The bytes of one regular file. Raises Unreadable; never waits for a pipe or a device."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody to write to it; what is opened is checked afterwards.
        # Links were resolved when the file was found: one that took its place since is not followed.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{_kind(status.st_mode)}, not a regular file")
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(_os_reason(error)) from error
    if len(data) > max_bytes:
        raise Unreadable(_too_large(max(status.st_size, len(data)), max_bytes))
    return data


def content_hash(data: bytes) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    return sha256(data).hexdigest()


def parse(
    data: bytes,
    path: Path,
    source: str,
    modified_s: float,
    *,
    named: str = "",
    kind: Format | None = None,
    groups: tuple[str, ...] | None = None,
) -> Document:
    """The document that `data`, the content of `path`, holds. Raises Unreadable where there is none.

    named, kind, groups: its title, its format and who may read it, where somebody says so; else what the content and
    the ending say. Raises UnreadableRights where the content says in no certain way who may read it.
    """
    # The source first: a link may have the extension that its target lacks.
    kind = kind or FORMATS.get(PurePosixPath(source).suffix.lower()) or FORMATS.get(path.suffix.lower())
    if kind is None:
        raise Unreadable(f"{_unsupported(path)}; expected one of {' '.join(FORMATS)}")
    text = decode(data, html=kind == "html")
    title = ""
    front = front_matter.Front()
    if kind != "markdown" and groups is None:
        front_matter.check_unread(text, prose=kind not in ("code", "csv"))
    shown_as = PurePosixPath(source)
    match kind:
        case "markdown":
            front, text = front_matter.read(text, rights=groups is None)
            title = front.title or markdown.first_heading(text[:_TITLE_WITHIN_CHARS])
        case "rst":
            title = rst.first_heading(text[:_TITLE_WITHIN_CHARS])
        case "html":
            title, text = webpage.to_markdown(text)
        case "code":  # "net/__init__.py": many files have the name alone
            title = "/".join(shown_as.parts[-2:])
        case "csv":
            pass
        case "text":
            if {".json", ".jsonl"} & {shown_as.suffix.lower(), path.suffix.lower()}:
                text = questions.of_json(text, rights=groups is None)
    if not text.strip():
        raise Unreadable("empty: there is no text in it")
    title = printable(named or title or _readable(shown_as.stem))
    return Document(source, title, text, kind, modified_s, front.attributes, front.groups if groups is None else groups)


@dataclass(slots=True)
class _Walk:
    """Walks folders, none of them twice by links."""

    read: list[Path]  # what is walked or was named, symbolic links resolved
    follow_links: bool
    failures: list[Failure]
    exclude: Sequence[str]
    excluded: int = 0
    left_out: list[Path] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)  # device and number of each folder

    def files(self, folder: Path) -> Iterator[Path]:
        """The visible ones, sorted by path; iterative, because folders nest deeper than Python recurses."""
        waiting = [folder]
        while waiting:
            at = waiting.pop()
            if at != folder and not _is_folder(at):
                yield at
                continue
            try:
                status = at.stat()
                if (place := (status.st_dev, status.st_ino)) in self.seen:
                    continue
                self.seen.add(place)
                with os.scandir(at) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
            except OSError as error:
                self.failures.append(Failure(str(at), f"cannot list this folder: {_os_reason(error)}"))
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _NOT_OURS:
                    continue
                if self.exclude and excluded(Path(entry.path), folder, self.exclude):
                    self.excluded += 1
                elif not entry.is_symlink() or self._takes(Path(entry.path)):
                    waiting.append(Path(entry.path))

    def _takes(self, link: Path) -> bool:
        """Whether a link is gone after: out of what is read only where that is wished, and never into what is."""
        target = Path(os.path.realpath(link))
        if any(target.is_relative_to(path) for path in self.read):
            return not _is_folder(target)
        if not self.follow_links:
            self.left_out.append(link)
            return False
        if _is_folder(target):
            self.read.append(target)
        return True


def _other(file: Path) -> str:
    """What kind of file this is where it is none of ours; "" if it is."""
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(mode):
        return f"{_kind(mode)}, not a regular file"
    if _MADE.search(file.name):
        return "minified code"
    if file.suffix.lower() in (".json", ".jsonl") and not _has_questions(file):
        return "JSON without questions and answers"
    return "" if file.suffix.lower() in FORMATS else _unsupported(file)


def _has_questions(file: Path) -> bool:
    """Whether a look at the beginning of a JSON file finds both; a file that cannot be read is found out later."""
    try:
        with file.open("rb") as opened:
            return questions.looks_like_pairs(opened.read(_LOOK_BYTES))
    except OSError:
        return True


def _bad(file: Path, max_bytes: int) -> str:
    """Why a file of ours cannot be read; "" if nothing is known against it."""
    try:
        size_bytes = file.stat().st_size
    except (OSError, ValueError) as error:
        return _os_reason(error)
    return _too_large(size_bytes, max_bytes) if size_bytes > max_bytes and not _other(file) else ""


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):  # `Path.is_dir` raises where there is no permission to look
        return False


def _unsupported(file: Path) -> str:
    return f"unsupported type {shown(file.suffix.lower()) or '(no extension)'}"


def _too_large(size_bytes: int, max_bytes: int) -> str:
    return f"too large: {size_bytes:,} bytes, at most {max_bytes:,} are read; split it or raise the limit"


def _os_reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "a folder, not a regular file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) else error}"


def _kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "something special")


def shown(path: object) -> str:
    """A path as one line that can be printed and stored: bytes that are not UTF-8 become U+FFFD."""
    return printable(os.fsencode(str(path)).decode("utf-8", "replace"))


def _readable(stem: str) -> str:
    words = " ".join(re.split(r"[\s_-]+", stem)).strip() or stem
    return words[0].upper() + words[1:] if words.islower() else words
