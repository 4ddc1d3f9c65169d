"""Writes a run's drafted questions into the file that a person edits.

    drafted.jsonl  in the run's folder: a row per reply, with the reason for a dropped draft, or null

A line is written once, at the end, so that a person's changes and deletions stay. If the file is missing, it is written
again from the replies in the folder.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import orjson

from evaluation.answers.drafted.drafts import ALIKE, Draft, Dropped, KnownQuestions, draft_of, row_of
from evaluation.answers.question_file import read_any
from evaluation.answers.records import Question, Reply
from evaluation.answers.run_folder import JsonLinesFile, Run, append_to, rows_of

FILE = "drafted.jsonl"


class DraftFile:
    """The file of drafted questions, and a log of all replies so far. One process at a time holds the log."""

    def __init__(self, run: Run, out: Path) -> None:
        """Raises OSError; BenchError: another process holds the log, or a line cannot be read."""
        self._run = run
        self._out = out
        self._model = run.manifest.variants[0].model
        self._asked = {question.id: question for question in run.questions}
        self._looked_at = JsonLinesFile(run.folder / FILE)
        try:
            self._made = not out.exists()
            if self._made:
                self._looked_at.clear()
                out.touch()
            self._dropped = {row["question"]: row["dropped"] for row in rows_of(run.folder / FILE)}
            self._catch_up()
        except BaseException:
            self._looked_at.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            if self._made and not self._out.stat().st_size:  # no question was written
                self._out.unlink()
        self._looked_at.close()

    def take(self, reply: Reply) -> None:
        """Write a reply's drafted question, or why there is none. Raises OSError."""
        why = None
        try:
            asked = self._asked[reply.question]
            draft = draft_of(asked, reply)
            if asked.id not in self._there:
                if self._known.has(draft):
                    raise Dropped(ALIKE)
                self._write(self._line(asked, draft, reply))
                self._known.add(draft)
        except Dropped as error:
            why = str(error)
        self._looked_at.append({"question": reply.question, "dropped": why})
        self._dropped[reply.question] = why

    def describe(self) -> str:
        """How many questions were drafted, and why others were dropped, as lines of text."""
        reasons = Counter(why for why in self._dropped.values() if why is not None)
        lines = [f"{self._out}: {self.drafted} questions drafted of {len(self._dropped)} passages"]
        return "\n".join([*lines, *(f"  {count} dropped: {why}" for why, count in reasons.most_common())])

    @property
    def drafted(self) -> int:
        """How many questions were written."""
        return list(self._dropped.values()).count(None)

    def _catch_up(self) -> None:
        """Process replies that a crash left without a row in the log."""
        left = [reply for reply in self._run.replies().values() if reply.done and reply.question not in self._dropped]
        self._mend(left)
        there = read_any(self._out)
        self._there = {question.id for question in there}
        self._known = KnownQuestions(there)
        for reply in left:
            self.take(reply)

    def _mend(self, left: Sequence[Reply]) -> None:
        """Cut off half a line that a crash left; keep half a line that a person wrote."""
        tail = self._out.read_bytes().rpartition(b"\n")[2]
        if tail and any(line.startswith(tail) for line in self._lines(left)):
            with self._out.open("r+b") as file:
                file.truncate(self._out.stat().st_size - len(tail))

    def _lines(self, replies: Iterable[Reply]) -> Iterator[bytes]:
        for reply in replies:
            asked = self._asked[reply.question]
            with contextlib.suppress(Dropped):
                yield self._line(asked, draft_of(asked, reply), reply)

    def _line(self, asked: Question, draft: Draft, reply: Reply) -> bytes:
        return orjson.dumps(row_of(asked, draft, reply, self._model), option=orjson.OPT_APPEND_NEWLINE)

    def _write(self, content: bytes) -> None:
        """Append a line. The file is opened each time, because an editor may have replaced it."""
        with self._out.open("a+b", buffering=0) as file:
            whole = not file.tell() or os.pread(file.fileno(), 1, file.tell() - 1) == b"\n"
            append_to(file, content if whole else b"\n" + content)
