"""Reads a folder of judged questions in BEIR's form into documents and questions; errors name file and line.

    corpus.jsonl         {"_id", "title"?, "text", "format"?}; or docs/: files, read as by `ragway ingest`
    queries.jsonl        {"_id", "text", "history"?: [{"role", "content"}], "rewrite"?, "answer"?}
    qrels.tsv            query-id, corpus-id, score between tabs, with or without a heading; or qrels/test.tsv
    unanswerable.jsonl   questions as in queries.jsonl, without an answer in the corpus (optional)

docs/ is used if the qrels name its files by path, with or without suffix.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from retrieval.errors import RetrievalError, Unreadable
from retrieval.ingest.load import FileCandidate, find, load
from retrieval.records.documents import Document, Format
from retrieval.records.search import Turn


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with its history, and relevant documents: corpus id -> grade."""

    id: str
    turns: tuple[Turn, ...]  # the last one is the user's question
    rewrite: str  # a person's standalone version; "" if missing
    gold: Mapping[str, int]

    @property
    def text(self) -> str:
        return self.turns[-1].text


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A folder's questions, without its documents."""

    name: str
    folder: Path
    questions: tuple[JudgedQuestion, ...]  # with a judgement, in file order
    unanswerable: tuple[JudgedQuestion, ...]
    notes: tuple[str, ...]  # skipped rows

    @property
    def ids(self) -> frozenset[str]:
        """All judged corpus ids."""
        return frozenset(id for question in self.questions for id in question.gold)

    @property
    def rewritten(self) -> bool:
        """Whether a person rewrote any question."""
        return any(question.rewrite for question in self.questions)


@dataclass(frozen=True, slots=True)
class Corpus:
    """A folder's documents; `judged_id` turns their `source` into a corpus id."""

    documents: tuple[Document, ...]
    origin: Literal["corpus.jsonl", "docs/"]
    notes: tuple[str, ...]


def read(folder: Path) -> JudgedSet:
    """Read a folder's questions. Raises RetrievalError with file, line and expected form."""
    if not folder.is_dir():
        raise RetrievalError(
            f"{folder} is not a folder: expected a folder with queries.jsonl, qrels.tsv and corpus.jsonl or docs/"
        )
    grades = _grades(folder)
    asked = list(_questions(folder / "queries.jsonl", grades))
    known = {question.id for question in asked}
    notes = []
    if unjudged := len(known - set(grades)):
        notes.append(f"{unjudged} of {len(known)} questions have no judgement and are left out")
    if unknown := sorted(set(grades) - known):
        notes.append(f"the qrels judge {len(unknown)} questions that queries.jsonl does not have ({unknown[0]!r} …)")
    questions = tuple(question for question in asked if question.gold)
    if not questions:
        raise RetrievalError(f"{folder}: no question of queries.jsonl is judged in the qrels: do their ids agree?")
    without = folder / "unanswerable.jsonl"
    unanswerable = tuple(_questions(without, {})) if without.exists() else ()
    return JudgedSet(folder.resolve().name, folder, questions, unanswerable, tuple(notes))


def corpus(judged: JudgedSet, *, max_bytes: int) -> Corpus:
    """The documents: docs/ if the qrels name only files there, else corpus.jsonl. Raises RetrievalError."""
    docs, lines = judged.folder / "docs", judged.folder / "corpus.jsonl"
    if docs.is_dir():
        found = find([docs], max_bytes=max_bytes)
        named = {judged_id(candidate.source, judged.ids) for candidate in found.candidates}
        if judged.ids <= named or not lines.exists():
            notes = [f"{failure.path} was not read: {failure.reason}" for failure in found.failures]
            documents = tuple(_read_files(found.candidates, notes, max_bytes=max_bytes))
            return Corpus(documents, "docs/", _with_missing(judged, documents, notes))
    if not lines.exists():
        raise RetrievalError(f"{judged.folder} has neither corpus.jsonl nor docs/: expected the documents to search")
    documents = tuple(_documents(lines))
    return Corpus(documents, "corpus.jsonl", _with_missing(judged, documents, []))


def judged_id(source: str, ids: frozenset[str]) -> str:
    """A source's corpus id: the source itself, without its suffix, or without its first folder."""
    if source in ids:
        return source
    path = PurePosixPath(source)
    inner = PurePosixPath(*path.parts[1:]) if len(path.parts) > 1 else path
    return next((str(one) for one in (path.with_suffix(""), inner, inner.with_suffix("")) if str(one) in ids), source)


def _with_missing(judged: JudgedSet, documents: Sequence[Document], notes: list[str]) -> tuple[str, ...]:
    if not documents:
        raise RetrievalError(f"{judged.folder} has no document that can be searched")
    relevant = {id for question in judged.questions for id, grade in question.gold.items() if grade > 0}
    if missing := sorted(relevant - {judged_id(document.source, judged.ids) for document in documents}):
        notes.append(f"{len(missing)} of {len(relevant)} relevant documents are not in the corpus ({missing[0]!r} …)")
    return tuple(notes)


def _read_files(candidates: Iterable[FileCandidate], notes: list[str], *, max_bytes: int) -> Iterator[Document]:
    for candidate in candidates:
        try:
            yield load(candidate.path, candidate.source, max_bytes=max_bytes)
        except Unreadable as error:
            notes.append(f"{candidate.source} was not read: {error}")


@dataclass(frozen=True, slots=True)
class _Row:
    """A line in a JSON Lines file."""

    file: Path
    number: int
    values: Mapping[str, Any]

    def wrong(self, what: str) -> RetrievalError:
        return _wrong(self.file, self.number, what)

    def text(self, name: str, *, empty: bool = False) -> str:
        value = self.values.get(name)
        if name == "_id" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not (empty or value.strip()):
            raise self.wrong(f'"{name}" is {_quoted(value)}; expected a text{"" if empty else " that is not empty"}')
        return value

    def optional(self, name: str) -> str:
        text = self.values.get(name) or ""
        if not isinstance(text, str):
            raise self.wrong(f'"{name}" is {_quoted(text)}; expected a text')
        return text

    def history(self) -> Iterator[Turn]:
        """User and assistant messages before the question; retrieval ignores other roles (system, tool)."""
        messages = self.values.get("history") or []
        if not isinstance(messages, list):
            raise self.wrong(f'"history" is {_quoted(messages)}; expected a list of messages')
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise self.wrong(f'"history" holds {_quoted(message)}; expected {{"role": …, "content": …}}')
            content = message.get("content")
            if isinstance(content, list):  # a message in parts: retrieval reads only texts
                content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
            if not isinstance(content, str | None):
                raise self.wrong(f'"content" of "history" is {_quoted(content)}; expected a text')
            role = message["role"]
            if content and content.strip() and role in ("user", "assistant"):
                yield Turn(role, content)


def _rows(file: Path) -> Iterator[tuple[str, _Row]]:
    """`_id` and row of each line; raises if an earlier line has the same `_id`."""
    seen: dict[str, int] = {}
    for number, line in _lines(file):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise _wrong(file, number, f"is not JSON ({error}); expected one object a line") from error
        if not isinstance(values, dict):
            raise _wrong(file, number, f"holds {_quoted(values)}; expected an object")
        row = _Row(file, number, values)
        id = row.text("_id")
        if id in seen:
            raise row.wrong(f"the _id {id!r} is already in line {seen[id]}; expected each _id once")
        seen[id] = number
        yield id, row


def _documents(file: Path) -> Iterator[Document]:
    for id, row in _rows(file):
        kind = row.values.get("format", "text")
        if kind not in get_args(Format):
            raise row.wrong(f'"format" is {kind!r}; expected one of {", ".join(get_args(Format))}')
        yield Document(id, row.optional("title"), row.text("text", empty=True), kind, 0.0)


def _questions(file: Path, grades: Mapping[str, Mapping[str, int]]) -> Iterator[JudgedQuestion]:
    for id, row in _rows(file):
        turns = (*row.history(), Turn("user", row.text("text")))
        yield JudgedQuestion(id, turns, row.optional("rewrite"), grades.get(id, {}))


def _grades(folder: Path) -> dict[str, dict[str, int]]:
    """Query id -> corpus id -> grade."""
    file = next(
        (one for one in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if one.exists()), folder / "qrels.tsv"
    )
    grades: dict[str, dict[str, int]] = {}
    for number, line in _lines(file):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3:
            raise _wrong(file, number, f"{len(cells)} columns between tabs; expected query-id, corpus-id, score")
        query, document, score = cells
        try:
            grade = int(score)
        except ValueError:
            if number == 1:  # the heading
                continue
            raise _wrong(file, number, f"the score is {score!r}; expected a whole number, 0 for not relevant") from None
        if grades.setdefault(query, {}).setdefault(document, grade) != grade:
            raise _wrong(file, number, f"{document!r} has two scores for {query!r}; expected one")
    return grades


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each non-blank line."""
    try:
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError as error:
        raise RetrievalError(f"{file} is missing: `ragway eval --help` says what a folder holds") from error
    except OSError as error:
        raise RetrievalError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RetrievalError(f"{file} is not UTF-8 (byte {error.start} of what was being read)") from error


def _quoted(value: Any) -> str:
    """A value of the wrong kind, shortened."""
    if value is None:
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"


def _wrong(file: Path, number: int, what: str) -> RetrievalError:
    return RetrievalError(f"{file}, line {number}: {what}")
