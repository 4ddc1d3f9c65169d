"""The orchestrator: a folder of judged questions -> an index -> every question on every rung -> results.

The index is the product's own index, built in a temporary folder that is always removed; or an existing collection.
Every rung starts with an empty cache. All rungs get a question before the next question, so that other load on the
machine affects all rungs equally.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.retrieval.judged import Corpus, JudgedQuestion, JudgedSet, corpus, judged_id
from evaluation.retrieval.ladder import Rung, ladder
from evaluation.retrieval.metrics import scores
from evaluation.retrieval.results import QuestionResult, RankedDocument, SetResult, rung_results
from retrieval.index.index import Index
from retrieval.knowledge import Plan, Progress
from retrieval.records.search import ALL, Retrieved, Turn
from retrieval.search.pipeline import Retriever

_COLLECTION = "eval"
_WARM_UP = Turn("user", "Is everything loaded and ready?")
_SHOWN = 20  # documents stored per ranking


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What to measure, and how."""

    plan: Plan  # of the configured data folder, whose models are used
    cache: Path  # folder of vectors kept between runs
    collection: str = ""  # in the data folder; "" = build a temporary collection
    k: int | None = None  # passages injected at most; None = as configured
    limit: int | None = None  # questions of a set, drawn at random
    seed: int = 0
    rungs: tuple[str, ...] = ()  # names; () = all
    timed: bool = True  # False: the vectors of questions are cached between runs, so times have no meaning


@dataclass(frozen=True, slots=True)
class _Subject:
    """The collection under test."""

    index: Index
    collection: str
    corpus: Corpus | None  # None: an existing collection


async def measure(judged: JudgedSet, how: MeasureOptions, progress: Callable[[str, str], Progress]) -> SetResult:
    """Ask every question on every rung. progress: (task, unit) -> a progress callback.

    Raises RetrievalError: from the documents, the index, or because no rung has a requested name.
    """
    rungs = ladder(how.plan.search, okapi=how.plan.lexical == "okapi", human=judged.rewritten)
    rungs = [rung for rung in rungs if not how.rungs or rung.name in how.rungs]
    questions = _drawn(judged.questions, how)
    load_before = os.getloadavg()[0]
    async with _subject(judged, how, progress) as subject:
        outcomes = await _ask(rungs, questions, judged, subject, how, progress)
        (info,) = [one for one in await subject.index.library.collections(None) if one.name == subject.collection]
    origin = subject.corpus.origin if subject.corpus else f"collection {subject.collection}"
    return SetResult(
        name=judged.name,
        origin=origin,
        embedder=info.embedder,
        documents=info.documents,
        chunks=info.chunks,
        questions=len(questions),
        k=how.k or how.plan.search.k,
        timed=how.timed,
        load=(load_before, os.getloadavg()[0]),
        notes=(*judged.notes, *(subject.corpus.notes if subject.corpus else ())),
        rungs=rung_results(rungs, outcomes, seed=how.seed),
    )


@asynccontextmanager
async def _subject(
    judged: JudgedSet, how: MeasureOptions, progress: Callable[[str, str], Progress]
) -> AsyncIterator[_Subject]:
    """The collection to search: an existing collection, or a temporary collection of the folder's documents."""
    if how.collection:
        index = await Index.open(how.plan, serving=False)
        try:
            yield _Subject(index, how.collection, None)
        finally:
            await index.close()
        return
    documents = await asyncio.to_thread(corpus, judged, max_bytes=how.plan.max_file_bytes)
    with tempfile.TemporaryDirectory(prefix="ragway-eval-", ignore_cleanup_errors=True) as folder:
        index = await Index.open(scratch_plan(how.plan, Path(folder)), serving=False, scratch=how.cache)
        try:
            await index.writing.learn(documents.documents, _COLLECTION, progress(f"{judged.name}: embed", "documents"))
            yield _Subject(index, _COLLECTION, documents)
        finally:
            await index.close()


def scratch_plan(plan: Plan, folder: Path) -> Plan:
    """The plan for a temporary data folder, with the embedded engine and the models of the real data folder."""
    models = Path(plan.data) / "models"
    models.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(models)
    return replace(plan, data=str(folder), qdrant_url="", lexical="bm25")


def _drawn(questions: Sequence[JudgedQuestion], how: MeasureOptions) -> Sequence[JudgedQuestion]:
    """At most `limit` questions, in file order; the same seed draws the same questions."""
    if how.limit is None or how.limit >= len(questions):
        return questions
    chosen = sorted(random.Random(how.seed).sample(range(len(questions)), how.limit))
    return [questions[i] for i in chosen]


async def _ask(
    rungs: Sequence[Rung],
    questions: Sequence[JudgedQuestion],
    judged: JudgedSet,
    subject: _Subject,
    how: MeasureOptions,
    progress: Callable[[str, str], Progress],
) -> dict[str, list[QuestionResult]]:
    """Rung -> results; the unanswerable questions come last."""
    kept = None if how.timed else how.cache
    retrievers = {
        rung.name: subject.index.retriever_with(rung.options, okapi=rung.okapi, questions=kept) for rung in rungs
    }
    for retriever in retrievers.values():
        await retriever.retrieve([_WARM_UP], [subject.collection], k=how.k, view=ALL)
    outcomes: dict[str, list[QuestionResult]] = {rung.name: [] for rung in rungs}
    everything = [(question, True) for question in questions]
    everything += [(question, False) for question in judged.unanswerable]
    shown = progress(f"{judged.name}: ask", "questions")
    for number, (question, answerable) in enumerate(everything, 1):
        for rung in rungs:
            asked = await _ask_one(retrievers[rung.name], rung, question, subject.collection, how)
            outcomes[rung.name].append(_outcome(question, *asked, ids=judged.ids, answerable=answerable))
        shown(number, len(everything), 0)
    return outcomes


async def _ask_one(
    retriever: Retriever, rung: Rung, question: JudgedQuestion, collection: str, how: MeasureOptions
) -> tuple[Retrieved, Retrieved, float]:
    """The result for a chat, the full ranking, and the milliseconds for the chat's result."""
    turns = rung.turns(question.turns, question.rewrite)
    start = time.perf_counter()
    injected = await retriever.retrieve(turns, [collection], k=how.k, view=ALL)
    took_ms = (time.perf_counter() - start) * 1000
    # All candidates of both retrievers: a ranking too deep and slow for a chat.
    ranked = await retriever.retrieve(turns, [collection], k=2 * rung.options.candidates, view=ALL)
    return injected, ranked, took_ms


def _outcome(
    question: JudgedQuestion,
    injected: Retrieved,
    ranked: Retrieved,
    took_ms: float,
    *,
    ids: frozenset[str],
    answerable: bool,
) -> QuestionResult:
    best: dict[str, RankedDocument] = {}  # a document has the rank of the first passage
    for hit in ranked.hits:
        id = judged_id(hit.passage.source, ids)
        best.setdefault(id, RankedDocument(id, hit.score, dict(hit.ranks), dict(hit.scores)))
    passages = [judged_id(passage.source, ids) for passage in injected.context.passages]
    return QuestionResult(
        id=question.id,
        answerable=answerable,
        asked=question.text,
        rewritten=injected.query.text,
        reason=injected.query.reason,
        found=tuple(best.values())[:_SHOWN],
        injected=tuple(passages),
        expected=dict(question.gold),
        scores=scores(list(best), passages, question.gold) if answerable else {},
        ms=took_ms,
        stages_ms=dict(injected.timings_ms),
    )
