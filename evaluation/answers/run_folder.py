"""A run's folder: every request and reply is written at once, so that an interruption loses nothing.

    run.json         RunManifest: variants, seed, repeats …; a folder with this file is a run
    questions.jsonl  all questions
    asked.jsonl      a line before each request, with its maximum cost
    replies.jsonl    a line for each finished attempt
    whole-*.txt      each collection that a prompt contains as a whole

An attempt in `asked.jsonl` without a row in `replies.jsonl` was cut off by a crash. The provider may have charged for
it, so it counts at its maximum cost. Of several rows for one question, variant and repeat, the last is valid.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson

from evaluation.answers.records import BenchError, Leak, MaxCost, Question, Reply, RequestKey, Variant

_FORMAT = 1
_ID_BYTES = 6
_MOST_NAME_CHARS = 80
_MANIFEST, _QUESTIONS, _ASKED, _REPLIES = "run.json", "questions.jsonl", "asked.jsonl", "replies.jsonl"


@dataclass(frozen=True, slots=True)
class RunManifest:
    """What `run.json` contains."""

    id: str
    created_s: float
    questions_file: str
    base_url: str | None  # the gateway's; None: one is started for the run
    repeats: int
    seed: int
    variants: Sequence[Variant]
    left_out: Mapping[str, str] = field(default_factory=dict)  # variant name -> why it was left out
    ceiling_usd: float | None = None
    ceiling_tokens: int | None = None
    gateway: Mapping[str, Any] = field(default_factory=dict)
    leaked: Mapping[str, Leak] = field(default_factory=dict)  # question -> the document that contains it
    draft: Mapping[str, Any] | None = None  # if it drafts questions: collection, count, prompt


def new_id() -> str:
    """An id for a new run."""
    return f"run-{os.urandom(_ID_BYTES).hex()}"


class JsonLinesFile:
    """An append-only JSON Lines file. One process at a time holds it; `append` returns after fsync."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, and cut off half a line left by a crash.

        Raises BenchError: another process holds it.
        """
        self._file: FileIO = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise BenchError(
                f"another process uses {path.parent}: wait until the process ends, or end the process"
            ) from error
        _cut_half_a_line(self._file)

    def append(self, row: object) -> None:
        """Append a row (a dict or a record) and fsync. Raises OSError, and then leaves no half row."""
        append_to(self._file, orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def clear(self) -> None:
        """Remove all rows."""
        os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append_to(file: FileIO, content: bytes) -> None:
    """Append bytes to a file and fsync. Raises OSError, and then leaves no half row."""
    end, rest = file.seek(0, os.SEEK_END), content
    try:
        while rest:  # a full disk takes only part of it
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), end)
        raise


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Rows in a JSON Lines file, without half a line at its end; no rows if the file is missing.

    Raises BenchError with the line number if a line is not a JSON object.
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
                what = f"is not JSON from column {error.colno} on ({error.msg})"
                raise BenchError(f"{path}, line {number} {what}: correct or delete the line") from error
            if not isinstance(row, dict):
                raise BenchError(f"{path}, line {number} must be a JSON object: correct or delete the line")
            yield row


@dataclass(frozen=True, slots=True)
class Run:
    """A run, read from its folder."""

    folder: Path
    manifest: RunManifest
    questions: Sequence[Question]

    @staticmethod
    def read(folder: Path) -> "Run":
        """Raises BenchError if the folder is not a run, or one of another version."""
        try:
            row = orjson.loads((folder / _MANIFEST).read_bytes())
            version = row.pop("ragway_bench")
            if version != _FORMAT:
                raise BenchError(
                    f"{folder} has format {version}, but this version of ragway reads format {_FORMAT}: use the "
                    "version that wrote the run"
                )
            questions = [msgspec.convert(row, Question) for row in rows_of(folder / _QUESTIONS)]
            return Run(folder, msgspec.convert(row, RunManifest), questions)
        except OSError as error:
            text = f"{folder} is not a run of ragway bench: {_MANIFEST} cannot be read ({error.strerror or error})"
            raise BenchError(text) from error
        except (orjson.JSONDecodeError, msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{folder} is not a run of ragway bench, or is damaged: {error}") from error

    @staticmethod
    def read_answers(folder: Path) -> "Run":
        """Read a run of answers. Raises BenchError if it holds drafted questions."""
        run = Run.read(folder)
        if run.manifest.draft is not None:
            raise BenchError(
                f"{folder} holds drafted questions (ragway bench draft), not answers: name the folder of a run"
            )
        return run

    @staticmethod
    def read_if_exists(folder: Path) -> "Run | None":
        """Read a folder's run; None if it has none yet. Raises BenchError."""
        return Run.read(folder) if (folder / _MANIFEST).exists() else None

    @staticmethod
    def create(folder: Path, manifest: RunManifest, questions: Sequence[Question]) -> "Run":
        """Create a new run's folder. Raises OSError; BenchError if it holds other files."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # answers may quote documents
        if any(each.name not in (_QUESTIONS, f"{_MANIFEST}.new", f"{_QUESTIONS}.new") for each in folder.iterdir()):
            raise BenchError(f"{folder} is not empty and does not hold a run: name another folder with --run")
        lines = [orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE) for question in questions]
        write_atomically(folder / _QUESTIONS, b"".join(lines))
        run = Run(folder, manifest, questions)
        run.write_manifest()
        return run

    def write_manifest(self) -> None:
        """Write run.json, whole or not at all."""
        row = {"ragway_bench": _FORMAT, **asdict(self.manifest)}
        write_atomically(
            self.folder / _MANIFEST, orjson.dumps(row, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )

    def attempts(self) -> Iterator[Reply]:
        """Every row in replies.jsonl, as written."""
        return (msgspec.convert(row, Reply) for row in rows_of(self.folder / _REPLIES))

    def replies(self) -> dict[RequestKey, Reply]:
        """The last reply for each question, variant and repeat."""
        return {reply.asked: reply for reply in self.attempts()}

    def done(self) -> set[RequestKey]:
        """Requests with a final reply, which are not asked again."""
        standing = {reply.asked: reply.done for reply in self.attempts()}
        return {asked for asked, done in standing.items() if done}

    def sent_requests(self) -> Iterator[tuple[RequestKey, float, MaxCost]]:
        """Every row in asked.jsonl: request, time in seconds since the epoch, maximum cost."""
        for row in rows_of(self.folder / _ASKED):
            max_cost = MaxCost(row["prompt_tokens"], row["answer_tokens"], row["usd"], row.get("calls", 1))
            yield (row["question"], row["variant"], row["repeat"]), row["at_s"], max_cost

    def sent_path(self) -> Path:
        return self.folder / _ASKED

    def replies_path(self) -> Path:
        return self.folder / _REPLIES

    @staticmethod
    def whole_text_path(folder: Path, collections: Sequence[str]) -> Path:
        """Where a whole collection's text goes."""
        digest = hashlib.blake2b("\0".join(collections).encode(), digest_size=4).hexdigest()
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", "+".join(collections))[:_MOST_NAME_CHARS]
        return folder / f"whole-{plain}-{digest}.txt"

    def save_text(self, name: str, text: str) -> None:
        """Write a text of the run, whole or not at all."""
        if not (self.folder / name).exists():
            write_atomically(self.folder / name, text.encode("utf-8"))


def differences(before: Run, manifest: RunManifest, questions: Sequence[Question]) -> list[str]:
    """How the requested run differs from the one in the folder; [] if it continues that one."""
    drafts = [dict(each.draft or {}) for each in (before.manifest, manifest)]
    values = [(name, *(draft.get(name) for draft in drafts)) for name in {**drafts[0], **drafts[1]}]
    values += [
        ("--base-url", before.manifest.base_url, manifest.base_url),
        ("--repeats", before.manifest.repeats, manifest.repeats),
        ("--seed", before.manifest.seed, manifest.seed),
    ]
    changes = [f"{what} was {old!r}, now {new!r}" for what, old, new in values if old != new]
    changes += _changed_items(
        "variant", *(({variant.name: variant for variant in each.variants}) for each in (before.manifest, manifest))
    )
    return changes + _changed_items(
        "question", *({one.id: one for one in each} for each in (before.questions, questions))
    )


def _changed_items(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changes = [f"{kind} {name!r} is gone" for name in before if name not in now]
    changes += [f"{kind} {name!r} is new" for name in now if name not in before]
    for name in before:
        if name in now:
            old, new = (_as_json(each[name]) for each in (before, now))
            changes += [f"{kind} {name!r} has another {member}" for member in old if old[member] != new[member]]
    return changes


def _as_json(record: object) -> dict[str, Any]:
    """A record as JSON has it: a tuple becomes a list."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(record))
    return plain


def _cut_half_a_line(file: FileIO) -> None:
    size = file.seek(0, os.SEEK_END)
    end_of_lines, step = size, 1 << 16
    while end_of_lines:
        start = max(0, end_of_lines - step)
        file.seek(start)
        block = file.read(end_of_lines - start)
        if (end := block.rfind(b"\n")) >= 0:
            end_of_lines = start + end + 1
            break
        end_of_lines = start
    if end_of_lines != size:
        os.ftruncate(file.fileno(), end_of_lines)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically: after a crash it has either its old or its new content. Raises OSError."""
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
