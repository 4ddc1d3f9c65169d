"""Operations in action sets answer judged questions, as in a chat with these sets.

A judgement names an operation as "METHOD /path", by name or by the document's operationId; with several sets, after the
set's name and a slash. Results name it SET/NAME.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluation.retrieval.judged import JudgedSet
from evaluation.retrieval.results import RankedDocument
from evaluation.retrieval.subjects import SearchAnswer, Subject, configured_index, temporary_index
from proxy.agent.actions import SEARCHED
from proxy.apis.library import COLLECTION, ActionLibrary, ActionStore, FoundAction
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.specs import ReadDocument, read_document, rows_of
from retrieval.errors import RetrievalError
from retrieval.knowledge import Library, Plan, Progress, SearchOptions, SearchRequest, Writing
from retrieval.records.search import ALL, Retrieved, Turn
from retrieval.search.retriever import Retriever

_RANKED = 20  # operations in a question's ranking


@dataclass(frozen=True, slots=True)
class OperationSubject(Subject):
    """Operations in action sets; `judged` has SET/NAME for each judged one."""

    store: ActionStore
    sets: Sequence[str]

    async def ask(
        self, retriever: Retriever, options: SearchOptions, turns: Sequence[Turn], k: int | None
    ) -> SearchAnswer:
        """Search for operations. `injected` has those that a chat is offered: the ones that only read."""
        searched = _Searched(_Search(retriever, options), self.index.library, self.index.writing)
        library = ActionLibrary(self.store, searched)
        k = k or options.k
        start = time.perf_counter()
        asked = await library.find(turns, self.sets, k=k * SEARCHED, view=ALL)
        took_ms = (time.perf_counter() - start) * 1000
        ranked = await library.find(turns, self.sets, k=_RANKED, view=ALL)
        assert asked.texts is not None  # the sets have operations
        offered = [one.label for one in asked.actions if not one.operation.why_not_called][:k]
        found = [_ranked(one) for one in ranked.actions]
        return SearchAnswer(asked.texts.query, found, offered, took_ms, asked.texts.timings_ms, None)


def _ranked(one: FoundAction) -> RankedDocument:
    if one.hit is None:
        return RankedDocument(one.label, 0.0, {}, {})
    return RankedDocument(one.label, one.hit.score, dict(one.hit.ranks), dict(one.hit.scores))


class _Search:
    """A rung's search for texts."""

    def __init__(self, retriever: Retriever, options: SearchOptions) -> None:
        self._retriever = retriever
        self._options = options

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        """As `Search.retrieve`. Only the last rung decides whether an operation fits."""
        if request.hit_options is not None and not self._options.min_relevance:
            request = replace(request, hit_options=replace(request.hit_options, min_relevance=0.0))
        return await self._retriever.retrieve(request)


@dataclass(frozen=True, slots=True)
class _Searched:
    """An index's documents, with a rung's search."""

    search: Any
    library: Library
    writing: Writing

    async def close(self) -> None:
        """Leave the index open."""


@asynccontextmanager
async def stored_operations(judged: JudgedSet, plan: Plan, sets: Sequence[str]) -> AsyncIterator[OperationSubject]:
    """Action sets in the data folder. Raises RetrievalError, also for a judgement without an operation."""
    with closing(ActionStore(Path(plan.data), plan.catalog_url)) as store:
        known = {name: await asyncio.to_thread(store.operations, name) for name in dict.fromkeys(sets)}
        judged, notes = _with_labels(judged, known)
        async with configured_index(plan) as index:
            origin = f"action set{'s' if len(known) > 1 else ''} {', '.join(known)}"
            count = sum(map(len, known.values()))
            yield OperationSubject(index, judged, COLLECTION, "operations", origin, notes, count, store, list(known))


@asynccontextmanager
async def operations_of_specs(
    judged: JudgedSet, plan: Plan, cache: Path, specs: Sequence[Path], progress: Callable[[str, str], Progress]
) -> AsyncIterator[OperationSubject]:
    """Operations from OpenAPI documents, in temporary action sets. Raises RetrievalError, like `stored_operations`."""
    read = {file.stem: await asyncio.to_thread(_read, file) for file in specs}
    known = {name: one.operations for name, one in read.items()}
    judged, notes = _with_labels(judged, known)
    async with temporary_index(plan, cache) as (index, folder):
        with closing(ActionStore(folder)) as store:
            library = ActionLibrary(store, index)
            for name, one in read.items():
                rows = await asyncio.to_thread(rows_of, name, one, "")
                await library.write(name, rows, progress=progress(f"{judged.name}: embed {name}", "operations"))
            origin = ", ".join(file.name for file in specs)
            count = sum(map(len, known.values()))
            yield OperationSubject(index, judged, COLLECTION, "operations", origin, notes, count, store, list(known))


def _read(file: Path) -> ReadDocument:
    try:
        return read_document(file.read_bytes())
    except OSError as error:
        raise RetrievalError(f"{file} cannot be read: {error.strerror}") from error
    except UnreadableSpec as error:
        raise RetrievalError(f"{file}: {error}") from error


def _with_labels(judged: JudgedSet, operations: Mapping[str, Sequence[Operation]]) -> tuple[JudgedSet, Sequence[str]]:
    """The judged set with SET/NAME for each judged operation, and notes."""
    rows = [(name, one) for name, some in operations.items() for one in some]
    labels: dict[str, str] = {}
    for name, one in rows:
        for form in one.names:
            for id in (f"{name}/{form}", *([form] if len(operations) == 1 else [])):
                labels.setdefault(id, f"{name}/{one.name}")
    if missing := sorted(judged.ids - labels.keys()):
        form = 'SET/NAME or "SET/METHOD /path"' if len(operations) > 1 else 'the name or "METHOD /path"'
        raise RetrievalError(
            f"{judged.folder}: {len(missing)} of {len(judged.ids)} judged operations are not in "
            f"{', '.join(operations)} ({missing[0]!r} …): expected {form} of an operation that can be called"
        )
    questions = []
    for question in judged.questions:
        gold: dict[str, int] = {}
        for id, grade in question.gold.items():
            gold[labels[id]] = max(grade, gold.get(labels[id], grade))
        questions.append(replace(question, gold=gold))
    judged = replace(judged, questions=tuple(questions))
    reading = {f"{name}/{one.name}" for name, one in rows if not one.why_not_called}
    writing = sorted(judged.ids - reading)
    count = f"{len(writing)} of {len(judged.ids)} judged operations"
    return judged, [f"{count} could change something and are offered to no chat ({writing[0]!r} …)"] if writing else []
