"""A run's folder: what was asked and every reply, kept as they come, so that an interruption loses nothing.

    run.json         the Head: variants, seed, repeats …; its presence says that the folder is a run
    questions.jsonl  the questions
    asked.jsonl      a line before each request, with the most that it may cost
    replies.jsonl    a line for each attempt that ended
    whole-*.txt      the text of each collection that was put whole into prompts

An attempt that `asked.jsonl` has and `replies.jsonl` has not was cut off by a crash: it may have been paid, and counts
at its most. Of several rows for one question, variant and repeat the last one stands.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from io import FileIO
from pathlib import Path
from typing import Any, Self

import orjson

from evaluation.answers.records import (
    Asked,
    BenchError,
    Leak,
    Question,
    Reply,
    Variant,
    Worst,
    leak_from,
    question_from,
    reply_from,
    variant_from,
)

_FORMAT = 1
_MOST_NAME_CHARS = 80
_HEAD, _QUESTIONS, _ASKED, _REPLIES = "run.json", "questions.jsonl", "asked.jsonl", "replies.jsonl"


@dataclass(frozen=True, slots=True)
class Head:
    """What a run is, as `run.json` has it."""

    id: str
    created_s: float
    questions_file: str
    base_url: str | None  # of the gateway that is asked; None: begun for the run
    repeats: int
    seed: int
    variants: Sequence[Variant]
    left_out: Mapping[str, str] = field(default_factory=dict)  # name of a variant -> why it could not be asked
    ceiling_usd: float | None = None
    ceiling_tokens: int | None = None
    gateway: Mapping[str, Any] = field(default_factory=dict)
    leaked: Mapping[str, Leak] = field(default_factory=dict)  # question -> where it stands in the collections
    draft: Mapping[str, Any] | None = None  # where the questions ask a model to draft others: of what, and how many


class Lines:
    """A file of JSON Lines that only grows. One process at a time has it; what is appended is on the disk."""

    def __init__(self, path: Path) -> None:
        """Open or make it; half a line at its end, left by a crash, is cut off. Raises BenchError: another has it."""
        self._file: FileIO = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise BenchError(f"another process works on {path.parent}: wait for it, or end it") from error
        _cut_half_a_line(self._file)

    def append(self, row: object) -> None:
        """Write one row, a dict or a record, and have it on the disk. Raises OSError, and leaves no half of it."""
        append_to(self._file, orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def clear(self) -> None:
        """Take all rows out."""
        os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append_to(file: FileIO, content: bytes) -> None:
    """Write behind the end of a file, and have it on the disk. Raises OSError, and leaves no half of it."""
    end, rest = file.seek(0, os.SEEK_END), content
    try:
        while rest:  # a disk that is full takes a part
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), end)
        raise


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON Lines, () where it is not there; half a line at its end is left out.

    Raises BenchError with the line's number where one is no JSON object.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                what = f"is no JSON from column {error.colno} on ({error.msg})"
                raise BenchError(f"{path}, line {number} {what}: mend it or take it out") from error
            if not isinstance(row, dict):
                raise BenchError(f"{path}, line {number} must be a JSON object: mend it or take it out")
            yield row


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its folder has it."""

    folder: Path
    head: Head
    questions: Sequence[Question]

    @staticmethod
    def read(folder: Path) -> "Run":
        """Raises BenchError where the folder is no run, or of another version."""
        try:
            row = orjson.loads((folder / _HEAD).read_bytes())
            version = row.pop("ragway_bench")
            if version != _FORMAT:
                raise BenchError(f"{folder} is of format {version}, and this version of ragway reads {_FORMAT}")
            variants = [variant_from(variant) for variant in row.pop("variants")]
            row["leaked"] = {id: leak_from(leak) for id, leak in (row.get("leaked") or {}).items()}
            known = {one.name: row[one.name] for one in fields(Head) if one.name in row}
            questions = [question_from(each) for each in rows_of(folder / _QUESTIONS)]
            return Run(folder, Head(**known, variants=variants), questions)
        except OSError as error:
            text = f"{folder} is not a run of ragway bench: {_HEAD} cannot be read ({error.strerror or error})"
            raise BenchError(text) from error
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{folder} is not a run of ragway bench, or is damaged: {error}") from error

    @staticmethod
    def answered(folder: Path) -> "Run":
        """The same of a run whose replies are answers. Raises BenchError where they are drafts of questions."""
        run = Run.read(folder)
        if run.head.draft is not None:
            raise BenchError(f"{folder} has drafts of questions (ragway bench draft), no answers")
        return run

    @staticmethod
    def at(folder: Path) -> "Run | None":
        """The run of a folder that may have none yet. Raises BenchError."""
        return Run.read(folder) if (folder / _HEAD).exists() else None

    @staticmethod
    def begin(folder: Path, head: Head, questions: Sequence[Question]) -> "Run":
        """Make the folder of a new run. Raises BenchError where other things are in it, OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # answers may hold words of documents
        if any(each.name not in (_QUESTIONS, f"{_HEAD}.new", f"{_QUESTIONS}.new") for each in folder.iterdir()):
            raise BenchError(f"{folder} is not empty and holds no run: name another folder with --run")
        lines = [orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE) for question in questions]
        _written(folder / _QUESTIONS, b"".join(lines))
        run = Run(folder, head, questions)
        run.write_head()
        return run

    def write_head(self) -> None:
        """Write run.json, whole or not at all."""
        row = {"ragway_bench": _FORMAT, **asdict(self.head)}
        _written(self.folder / _HEAD, orjson.dumps(row, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    def attempts(self) -> Iterator[Reply]:
        """Every row of replies.jsonl, in the order written."""
        return (reply_from(row) for row in rows_of(self.folder / _REPLIES))

    def replies(self) -> dict[Asked, Reply]:
        """The reply that stands of each question, variant and repeat that was asked."""
        return {reply.asked: reply for reply in self.attempts()}

    def done(self) -> set[Asked]:
        """What has a reply that stands, and is not asked again."""
        standing = {reply.asked: reply.done for reply in self.attempts()}
        return {asked for asked, done in standing.items() if done}

    def sent(self) -> Iterator[tuple[Asked, float, Worst]]:
        """Every row of asked.jsonl: what was asked, when, and the most that it may have used."""
        for row in rows_of(self.folder / _ASKED):
            worst = Worst(row["prompt_tokens"], row["answer_tokens"], row["usd"])
            yield (row["question"], row["variant"], row["repeat"]), row["at_s"], worst

    def asked_file(self) -> Path:
        return self.folder / _ASKED

    def replies_file(self) -> Path:
        return self.folder / _REPLIES

    @staticmethod
    def whole_file(folder: Path, collections: Sequence[str]) -> Path:
        """Where the text of collections stands that is put whole into prompts."""
        digest = hashlib.blake2b("\0".join(collections).encode(), digest_size=4).hexdigest()
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", "+".join(collections))[:_MOST_NAME_CHARS]
        return folder / f"whole-{plain}-{digest}.txt"

    def keep(self, name: str, text: str) -> None:
        """A text of the run, whole or not at all."""
        if not (self.folder / name).exists():
            _written(self.folder / name, text.encode("utf-8"))


def differences(before: Run, head: Head, questions: Sequence[Question]) -> list[str]:
    """How a run that is wanted differs from one that was begun; [] where it goes on with it."""
    drafts = [dict(each.draft or {}) for each in (before.head, head)]
    told = [
        f"{name} was {drafts[0].get(name)!r}, now {drafts[1].get(name)!r}"
        for name in {**drafts[0], **drafts[1]}
        if drafts[0].get(name) != drafts[1].get(name)
    ]
    told += [
        f"{what} was {old!r}, now {new!r}"
        for what, old, new in (
            ("--base-url", before.head.base_url, head.base_url),
            ("--repeats", before.head.repeats, head.repeats),
            ("--seed", before.head.seed, head.seed),
        )
        if old != new
    ]
    told += _changes("variant", *(({one.name: one for one in each.variants}) for each in (before.head, head)))
    return told + _changes("question", *({one.id: one for one in each} for each in (before.questions, questions)))


def _changes(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    told = [f"{kind} {name!r} is gone" for name in before if name not in now]
    told += [f"{kind} {name!r} is new" for name in now if name not in before]
    for name in before:
        if name in now:
            old, new = (_plain(each[name]) for each in (before, now))
            told += [f"{kind} {name!r} has another {member}" for member in old if old[member] != new[member]]
    return told


def _plain(record: object) -> dict[str, Any]:
    """A record as its file has it, where a tuple and a list are the same."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(record))
    return plain


def _cut_half_a_line(file: FileIO) -> None:
    size = file.seek(0, os.SEEK_END)
    kept, step = size, 1 << 16
    while kept:
        start = max(0, kept - step)
        file.seek(start)
        block = file.read(kept - start)
        if (end := block.rfind(b"\n")) >= 0:
            kept = start + end + 1
            break
        kept = start
    if kept != size:
        os.ftruncate(file.fileno(), kept)


def _written(path: Path, content: bytes) -> None:
    """The file with this content, after a crash as well: the old one or the new one."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
