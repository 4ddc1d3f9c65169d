"""Paths to documents: which files there are, their bytes, and the text, title and format of each.

`find` walks, `read` opens one file, `parse` makes a document of its bytes; `load` is the last two in a row. They are
apart so that a caller can compare a file's content with what it knows before it pays for parsing. Whatever is wrong
with one file is an `Unreadable` of one line (or, in `find`, a `Failure`) and never concerns the next one.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

from retrieval.attributes import of_front_matter
from retrieval.errors import Unreadable
from retrieval.ingest import markdown, questions, rst, webpage
from retrieval.ingest.blocks import plain
from retrieval.ingest.decode import decode
from retrieval.ingest.definitions import GRAMMARS
from retrieval.records import Attribute, Document, Failure, Format

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

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n((?:(?!---|\.\.\.|\+\+\+).*\n)*?)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)")
_LOOK_BYTES = 65_536
_FRONT_KEY = re.compile(r"^[\w.-]+[ \t]*[:=]", re.MULTILINE)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_TITLE_WITHIN_CHARS = 20_000  # a first heading further down is not the title of the whole


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may become a document."""

    path: Path  # absolute, symbolic links resolved
    source: str  # as people and models see it, e.g. "docs/guide/connect.md"


@dataclass(frozen=True, slots=True)
class Front:
    """What a document's front matter says of it."""

    title: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What is below some paths: files to read, files passed over (reason -> how many), and what is wrong."""

    candidates: tuple[Candidate, ...]
    skipped: dict[str, int]
    failures: tuple[Failure, ...]


def find(paths: Sequence[Path], *, max_bytes: int) -> Found:
    """The files to ingest under `paths`, in the order given, each folder's sorted; every file once.

    Hidden files and folders and linked folders below a folder are left out. A file that was named itself and cannot
    be used is a failure; so is a path that does not exist, a folder that cannot be listed, a file over `max_bytes`.
    """
    candidates: dict[Path, Candidate] = {}
    skipped: Counter[str] = Counter()
    failures: list[Failure] = []
    for given in paths:
        root = Path(os.path.realpath(given))
        for file in _walk(root, failures) if _is_folder(root) else [root]:
            other, bad = _other(file), _bad(file, max_bytes)
            if other and not bad and file != root:
                skipped[other] += 1
            elif bad or other:
                failures.append(Failure(shown(file), bad or f"{other}; expected one of {' '.join(FORMATS)}"))
            else:
                source = PurePosixPath(root.name) / file.relative_to(root).as_posix()
                path = Path(os.path.realpath(file))
                candidates.setdefault(path, Candidate(path, shown(source)))
    return Found(tuple(candidates.values()), dict(sorted(skipped.items())), tuple(failures))


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
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
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
    data: bytes, path: Path, source: str, modified_s: float, *, named: str = "", kind: Format | None = None
) -> Document:
    """The document that `data`, the content of `path`, holds. Raises Unreadable where there is none.

    named, kind: its title and its format, where somebody says so; else what the content and the ending say.
    """
    # The source first: a link may have the extension that its target lacks.
    kind = kind or FORMATS.get(PurePosixPath(source).suffix.lower()) or FORMATS.get(path.suffix.lower())
    if kind is None:
        raise Unreadable(f"{_unsupported(path)}; expected one of {' '.join(FORMATS)}")
    text = decode(data, html=kind == "html")
    title = ""
    front = Front()
    shown_as = PurePosixPath(source)
    match kind:
        case "markdown":
            front, text = _front_matter(text)
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
                text = questions.of_json(text)
    if not text.strip():
        raise Unreadable("empty: there is no text in it")
    title = named or title or _readable(shown_as.stem)
    return Document(source, title, text, kind, modified_s, front.attributes, front.groups)


def _walk(folder: Path, failures: list[Failure]) -> Iterator[Path]:
    """The visible files below `folder`, sorted by path; iterative, because folders nest deeper than Python recurses."""
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        if at != folder and not _is_folder(at):
            yield at
            continue
        try:
            with os.scandir(at) as listing:
                entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            failures.append(Failure(shown(at), f"cannot list this folder: {_os_reason(error)}"))
            continue
        for entry in entries:
            path = Path(entry.path)
            hidden = entry.name.startswith(".") or entry.name in _NOT_OURS
            if not hidden and not (entry.is_symlink() and _is_folder(path)):
                waiting.append(path)


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
    """A path as text that can be printed and stored: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(str(path)).decode("utf-8", "replace")


def _front_matter(text: str) -> tuple[Front, str]:
    """What the front matter says, and the text after it. Raises Unreadable where it names groups that cannot be.

    A text that merely begins with a thematic break has no `key:` on the lines up to the next one, and stays whole. The
    title is found in front matter that no parser takes, too.
    """
    found = _FRONT_MATTER.match(text)
    if not found or (found[2].strip() and not _FRONT_KEY.search(found[2])):
        return Front(), text
    title = _FRONT_TITLE.search(found[2])
    named = title[1].strip() if title else ""
    if len(named) > 1 and named[0] == named[-1] and named[0] in "\"'":
        named = named[1:-1]
    try:
        attributes, groups = of_front_matter(found[2], found[1])
    except ValueError as error:  # nobody knows who may read it
        raise Unreadable(f"its front matter: {error}") from error
    named = plain(named) if named.strip("|>-+ ") else ""
    return Front(named, attributes, groups), text[found.end() :].lstrip("\n")


def _readable(stem: str) -> str:
    words = " ".join(re.split(r"[\s_-]+", stem)).strip() or stem
    return words[0].upper() + words[1:] if words.islower() else words
