"""Scores an answer by rules alone: the same answer always gets the same scores, without a model.

A score is between 0 and 1, or None if the question has no fact to compare with. Verdicts use `score`.
docs/why/verdicts.md explains how they compare, and why no evaluation library is used.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from evaluation.answers.scoring.normalize import holds, numbers, terms, words
from evaluation.answers.scoring.refusals import refuses
from evaluation.retrieval import metrics
from evaluation.retrieval.judged import judged_id

Scores = dict[str, float | None]

_MARKS = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")


def answer_scores(
    answer: str, *, reference: str | None, must: Sequence[str], must_not: Sequence[str], answerable: bool | None
) -> Scores:
    """An answer's scores, from facts in the question's row.

    exact, normalised: it equals the reference, literally or in SQuAD's form. f1: SQuAD's token F1. reference: 1 if it
    contains the reference as a phrase, else f1. numbers: share of the reference's numbers and versions that it has.
    must: share of required facts that it has. must_not: share of forbidden facts that it lacks. facts: must, or 0 if it
    has a forbidden fact. refusal: 1 if it refuses an unanswerable question or answers an answerable one (only if the
    question has `answerable`).
    """
    held, refused = terms(answer), refuses(answer)
    there = [states(answer, held, fact) for fact in must]
    forbidden = [states(answer, held, fact) for fact in must_not]
    scores: Scores = {
        **dict.fromkeys(("exact", "normalised", "f1", "reference", "numbers")),
        "must": _share(there),
        "must_not": _share([not found for found in forbidden]),
        "facts": None,
        "refusal": None,
    }
    if reference is not None:
        scores |= _against(answer, held, reference)
    if must or must_not:
        scores["facts"] = 0.0 if any(forbidden) else 1.0 if not must else scores["must"]
    if answerable is not None:
        scores["refusal"] = float(refused is not answerable)
    score = _score(scores, answerable=answerable, refused=refused)
    return {"score": 0.0 if score is not None and not answer.strip() else score, **scores}


def found_scores(answer: str, *, sources: Sequence[str], documents: Sequence[str], gold: Sequence[str]) -> Scores:
    """Scores of injected passages, given best first, and of citations in the answer.

    sources, documents: one per passage (documents may be empty). gold: sources or ids of documents; without gold or
    passages, every score is None. An answer cites a document by a passage's number in brackets, for example [2], or by
    its source. cited: share of injected gold documents that are cited. cited_gold: share of citations that cite gold
    documents.
    """
    names = ("context_precision", "context_recall", "ndcg", "cited", "cited_gold")
    if not gold:
        return dict.fromkeys(names)
    wanted = frozenset(gold)
    ids = [_gold_id(source, document, wanted) for source, document in _paired(sources, documents)]
    grades = dict.fromkeys(wanted, 1)
    once = list(dict.fromkeys(ids))
    cited = _cited(answer, sources, ids)
    there = wanted & set(ids)
    return {
        "context_precision": metrics.context_precision(ids, grades),
        "context_recall": metrics.context_recall(ids, grades),
        "ndcg": metrics.ndcg(once, grades, max(len(once), 1)),
        "cited": len(cited & there) / len(there) if there else None,
        "cited_gold": len(cited & wanted) / len(cited) if cited else None,
    }


def _score(scores: Scores, *, answerable: bool | None, refused: bool) -> float | None:
    """The main score: refusal for an unanswerable question, else facts, else reference.

    A refusal shares words with many references; those count 0.
    """
    if answerable is False:
        return scores["refusal"]
    if scores["facts"] is not None:
        return scores["facts"]
    return 0.0 if refused and scores["reference"] not in (None, 1.0) else scores["reference"]


def _against(answer: str, held: Sequence[str], reference: str) -> Scores:
    answered, wanted = words(answer), words(reference)
    f1 = _f1(answered, wanted)
    there = numbers(reference)
    return {
        "exact": float(answer.strip() == reference.strip()),
        "normalised": float(answered == wanted),
        "f1": f1,
        "reference": 1.0 if holds(held, terms(reference)) else f1,
        "numbers": len(there & set(held)) / len(there) if there else None,
    }


def _f1(answered: Sequence[str], wanted: Sequence[str]) -> float:
    """SQuAD's F1: harmonic mean of the shares of common words; both texts empty: 1, one empty: 0."""
    if not answered or not wanted:
        return float(not answered and not wanted)
    common = (Counter(answered) & Counter(wanted)).total()
    return 2 * common / (len(answered) + len(wanted))


def states(answer: str, held: Sequence[str], fact: str) -> bool:
    """Whether an answer contains a fact. One without words or numbers ("--", "=>") is searched literally.

    held: the answer's terms.
    """
    phrase = terms(fact)
    return holds(held, phrase) if phrase else bool(fact.strip()) and fact.strip() in answer


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None


def _paired(sources: Sequence[str], documents: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(sources, documents or [""] * len(sources), strict=True)


def _gold_id(source: str, document: str, wanted: frozenset[str]) -> str:
    return document if document in wanted else judged_id(source, wanted)


def _cited(answer: str, sources: Sequence[str], ids: Sequence[str]) -> set[str]:
    marked = {int(number) for marks in _MARKS.findall(answer) for number in re.findall(r"\d+", marks)}
    named = {at for at, source in enumerate(sources, 1) if source and source in answer}
    return {ids[at - 1] for at in marked | named if 0 < at <= len(ids)}
