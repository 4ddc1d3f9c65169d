"""The orchestrator: a folder of judged questions -> an index -> every rung asked every question -> outcomes.

The index is the product's own, made in a folder of its own that goes when the work ends, however it ends; or an
existing collection is asked. Every rung has a retriever with nothing in memory, and all rungs are asked one question
before the next one, so that whatever else the machine does meets them all alike.
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

from evaluation.retrieval.judged import Corpus, Judged, Question, corpus, judged_id
from evaluation.retrieval.ladder import Rung, ladder
from evaluation.retrieval.metrics import scores
from evaluation.retrieval.results import Found, Outcome, SetResult, rung_results
from retrieval.index.index import Index
from retrieval.knowledge import Plan, Progress
from retrieval.records.search import ALL, Retrieved, Turn
from retrieval.search.pipeline import Retriever

_COLLECTION = "eval"
_WARM_UP = Turn("user", "Is everything loaded and ready?")
_SHOWN = 20  # documents of a ranking that are kept with its question


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is to be measured and how."""

    plan: Plan  # of the configured data folder: its models are used
    cache: Path  # folder of vectors kept between runs
    collection: str = ""  # of the data folder; "" = a temporary one is made
    k: int | None = None  # passages injected at most; None = as configured
    limit: int | None = None  # questions of a set, drawn at random
    seed: int = 0
    rungs: tuple[str, ...] = ()  # names; () = all
    timed: bool = True  # False: the questions' vectors are kept between runs as well, so that times say nothing


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is asked."""

    index: Index
    collection: str
    corpus: Corpus | None  # None: an existing collection


async def measure(judged: Judged, how: Measuring, progress: Callable[[str, str], Progress]) -> SetResult:
    """Ask every rung every question. progress: (what is done, unit) -> its callback.

    Raises RetrievalError: of the folder's documents, the index, or because no rung has one of the names wanted.
    """
    rungs = ladder(how.plan.search, okapi=how.plan.lexical == "okapi", human=judged.rewritten)
    rungs = [rung for rung in rungs if not how.rungs or rung.name in how.rungs]
    questions = _drawn(judged.questions, how)
    load_before = os.getloadavg()[0]
    async with _subject(judged, how, progress) as subject:
        outcomes = await _ask(rungs, questions, judged, subject, how, progress)
        (info,) = [one for one in await subject.index.collections(None) if one.name == subject.collection]
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
async def _subject(judged: Judged, how: Measuring, progress: Callable[[str, str], Progress]) -> AsyncIterator[_Subject]:
    """The collection to ask: an existing one, or the folder's documents in one made for this."""
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
            await index.learn(documents.documents, _COLLECTION, progress(f"{judged.name}: embed", "documents"))
            yield _Subject(index, _COLLECTION, documents)
        finally:
            await index.close()


def scratch_plan(plan: Plan, folder: Path) -> Plan:
    """The plan on a folder of its own, in the embedded engine, with the models that are prepared already."""
    models = Path(plan.data) / "models"
    models.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(models)
    return replace(plan, data=str(folder), qdrant_url="", lexical="bm25")


def _drawn(questions: Sequence[Question], how: Measuring) -> Sequence[Question]:
    """As many questions as wanted, the same ones for the same seed, in the file's order."""
    if how.limit is None or how.limit >= len(questions):
        return questions
    chosen = sorted(random.Random(how.seed).sample(range(len(questions)), how.limit))
    return [questions[i] for i in chosen]


async def _ask(
    rungs: Sequence[Rung],
    questions: Sequence[Question],
    judged: Judged,
    subject: _Subject,
    how: Measuring,
    progress: Callable[[str, str], Progress],
) -> dict[str, list[Outcome]]:
    """Rung -> its outcomes, those of unanswerable questions last."""
    kept = None if how.timed else how.cache
    retrievers = {rung.name: subject.index.searching(rung.options, okapi=rung.okapi, questions=kept) for rung in rungs}
    for retriever in retrievers.values():
        await retriever.retrieve([_WARM_UP], [subject.collection], k=how.k, view=ALL)
    outcomes: dict[str, list[Outcome]] = {rung.name: [] for rung in rungs}
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
    retriever: Retriever, rung: Rung, question: Question, collection: str, how: Measuring
) -> tuple[Retrieved, Retrieved, float]:
    """What a chat gets, all that was ranked, and the milliseconds that the first took."""
    turns = rung.turns(question.turns, question.rewrite)
    start = time.perf_counter()
    injected = await retriever.retrieve(turns, [collection], k=how.k, view=ALL)
    took_ms = (time.perf_counter() - start) * 1000
    # Both arms' candidates at most: so deep a ranking costs reading them, which no chat pays.
    ranked = await retriever.retrieve(turns, [collection], k=2 * rung.options.candidates, view=ALL)
    return injected, ranked, took_ms


def _outcome(
    question: Question,
    injected: Retrieved,
    ranked: Retrieved,
    took_ms: float,
    *,
    ids: frozenset[str],
    answerable: bool,
) -> Outcome:
    best: dict[str, Found] = {}  # each document where its first passage stands
    for hit in ranked.hits:
        id = judged_id(hit.passage.source, ids)
        best.setdefault(id, Found(id, hit.score, dict(hit.ranks), dict(hit.scores)))
    passages = [judged_id(passage.source, ids) for passage in injected.context.passages]
    return Outcome(
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
