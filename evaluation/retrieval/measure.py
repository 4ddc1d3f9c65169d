"""Orchestrates: a folder of judged questions -> an index -> every question on every rung -> results.

The index is the product's own, built in a temporary folder that is always removed, or the data folder's.
Every rung starts with an empty cache. All rungs get a question before the next one comes, so that other load on the
machine affects them equally.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.retrieval.judged import JudgedQuestion, JudgedSet, corpus
from evaluation.retrieval.ladder import Rung, ladder
from evaluation.retrieval.metrics import scores
from evaluation.retrieval.results import QuestionResult, SetResult, rung_results
from evaluation.retrieval.subjects import DocumentSubject, SearchAnswer, Subject, configured_index, temporary_index
from retrieval.knowledge import Plan, Progress, SearchRequest
from retrieval.records.search import ALL, Turn

_COLLECTION = "eval"
_WARM_UP = Turn("user", "Is everything loaded and ready?")
_SHOWN = 20  # documents stored per ranking
_FOREIGN = 60  # questions of other sets
_INT8 = "questions were embedded in int8; embedder.precision: fp32 gives the same figures on every processor"


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What to measure, and how."""

    plan: Plan  # for the configured data folder, whose models are used
    cache: Path  # folder for vectors kept between runs
    collection: str = ""  # in the data folder; "" = build a temporary collection
    action_sets: tuple[str, ...] = ()  # in the data folder: search operations instead of documents
    specs: tuple[Path, ...] = ()  # OpenAPI documents: search their operations, in temporary action sets
    k: int | None = None  # passages injected, or operations offered, at most; None = `retrieval.k`
    limit: int | None = None  # questions per set, drawn at random
    seed: int = 0
    rungs: tuple[str, ...] = ()  # names; () = all
    timed: bool = True  # False: question vectors are cached between runs, so times mean nothing


async def measure(
    judged: JudgedSet,
    how: MeasureOptions,
    progress: Callable[[str, str], Progress],
    others: Sequence[JudgedSet] = (),
) -> SetResult:
    """Ask every question on every rung. progress: (task, unit) -> a progress callback.

    others: sets whose questions these documents do not answer; some are asked to see what relevance is found.

    Raises RetrievalError: from documents, from the index, or because no rung has a requested name.
    """
    rungs = ladder(how.plan.search, okapi=how.plan.search.lexical == "okapi", human=judged.rewritten)
    rungs = [rung for rung in rungs if not how.rungs or rung.name in how.rungs]
    load_before = os.getloadavg()[0]
    async with _subject(judged, how, progress) as subject:
        questions = _drawn(subject.judged.questions, how)
        outcomes, foreign = await _ask(rungs, questions, _foreign(judged, others, how), subject, how, progress)
        run_notes = [_INT8] if subject.index.int8_questions else []
        if subject.kind == "documents" and (curve := subject.index.curve):
            run_notes.append(f"relevance is estimated by {curve}")
        (info,) = [one for one in await subject.index.library.collections(None) if one.name == subject.collection]
    return SetResult(
        name=judged.name,
        origin=subject.origin,
        embedder=info.embedder,
        documents=subject.operations or info.documents,
        chunks=info.chunks,
        questions=len(questions),
        k=how.k or how.plan.search.k,
        timed=how.timed,
        load=(load_before, os.getloadavg()[0]),
        notes=(*judged.notes, *subject.notes, *run_notes),
        rungs=rung_results(rungs, outcomes, foreign, seed=how.seed),
        kind=subject.kind,
    )


@asynccontextmanager
async def _subject(
    judged: JudgedSet, how: MeasureOptions, progress: Callable[[str, str], Progress]
) -> AsyncIterator[Subject]:
    """The collection or action sets to search: from the data folder, or temporary."""
    if how.action_sets or how.specs:
        from evaluation.retrieval.operations import operations_of_specs, stored_operations  # takes 0.3 s

        async with (
            stored_operations(judged, how.plan, how.action_sets)
            if how.action_sets
            else operations_of_specs(judged, how.plan, how.cache, how.specs, progress)
        ) as operations:
            yield operations
    elif how.collection:
        async with configured_index(how.plan) as index:
            yield DocumentSubject(index, judged, how.collection, "documents", f"collection {how.collection}", (), 0)
    else:
        documents = await asyncio.to_thread(corpus, judged, max_bytes=how.plan.max_file_bytes)
        async with temporary_index(how.plan, how.cache) as (index, _):
            await index.writing.learn(documents.documents, _COLLECTION, progress(f"{judged.name}: embed", "documents"))
            yield DocumentSubject(index, judged, _COLLECTION, "documents", documents.origin, documents.notes, 0)


def _drawn(questions: Sequence[JudgedQuestion], how: MeasureOptions) -> Sequence[JudgedQuestion]:
    """At most `limit` questions, in file order; the same seed draws the same questions."""
    if how.limit is None or how.limit >= len(questions):
        return questions
    chosen = sorted(random.Random(how.seed).sample(range(len(questions)), how.limit))
    return [questions[i] for i in chosen]


def _foreign(judged: JudgedSet, others: Sequence[JudgedSet], how: MeasureOptions) -> Sequence[JudgedQuestion]:
    """About _FOREIGN of the other sets' questions, as many of each set."""
    sets = [other for other in others if other is not judged]
    draw = random.Random(how.seed)
    each = -(-_FOREIGN // max(len(sets), 1))
    return [one for other in sets for one in draw.sample(other.questions, min(each, len(other.questions)))]


async def _ask(
    rungs: Sequence[Rung],
    questions: Sequence[JudgedQuestion],
    foreign: Sequence[JudgedQuestion],
    subject: Subject,
    how: MeasureOptions,
    progress: Callable[[str, str], Progress],
) -> tuple[dict[str, list[QuestionResult]], dict[str, list[float]]]:
    """Rung -> results, unanswerable questions last; and rung -> probabilities of relevance of foreign questions."""
    kept = None if how.timed else how.cache
    retrievers = {
        rung.name: subject.index.retriever_with(rung.options, okapi=rung.okapi, questions=kept) for rung in rungs
    }
    for rung in rungs:
        retriever = retrievers[rung.name]
        await retriever.retrieve(SearchRequest([_WARM_UP], [subject.collection], k=how.k, view=ALL))
    outcomes: dict[str, list[QuestionResult]] = {rung.name: [] for rung in rungs}
    everything = [(question, True) for question in questions]
    everything += [(question, False) for question in subject.judged.unanswerable]
    shown = progress(f"{subject.judged.name}: ask", "questions")
    for number, (question, answerable) in enumerate(everything, 1):
        for rung in rungs:
            turns = rung.turns(question.turns, question.rewrite)
            answer = await subject.ask(retrievers[rung.name], rung.options, turns, how.k)
            outcomes[rung.name].append(_outcome(question, answer, answerable=answerable))
        shown(number, len(everything), 0, "")
    relevances: dict[str, list[float]] = {rung.name: [] for rung in rungs}
    for question in foreign if subject.kind == "documents" else ():
        for rung in rungs:
            turns = rung.turns(question.turns, question.rewrite)
            found = await retrievers[rung.name].retrieve(SearchRequest(turns, [subject.collection], k=1, view=ALL))
            if found.relevance is not None:
                relevances[rung.name].append(found.relevance)
    return outcomes, relevances


def _outcome(question: JudgedQuestion, answer: SearchAnswer, *, answerable: bool) -> QuestionResult:
    ranking = [document.id for document in answer.found]
    return QuestionResult(
        id=question.id,
        answerable=answerable,
        asked=question.text,
        rewritten=answer.query.text,
        reason=answer.query.reason,
        found=tuple(answer.found)[:_SHOWN],
        injected=tuple(answer.injected),
        expected=dict(question.gold),
        scores=scores(ranking, answer.injected, question.gold) if answerable else {},
        ms=answer.ms,
        stages_ms=dict(answer.stages_ms),
        relevance=answer.relevance,
    )
