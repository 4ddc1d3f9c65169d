"""An embedder's curve of relevance, fitted to collections without judged questions.

A sentence of a document stands for a question that the collection answers: it is searched without the chunk it comes
from, which it would find by its own words, so what it finds is another chunk on the same subject. Texts about anything
(those that measure noise) stand for questions without an answer. Of the evidence of each kind only the median counts:
a sentence may be a menu's line, or the only one on its subject, and a logistic fit would take the curve for flatter.

With the default embedder, the curves fitted on judged questions rise by `_RISE` between the two medians, and reach an
even chance at `_EVEN` of the way. docs/why/ranking.md has the measurements on judged sets, also of an embedder that had
no part in these two numbers.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from retrieval.catalog.audit import current
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, point_id
from retrieval.errors import RetrievalError
from retrieval.search.ranking import UNRELATED_PASSAGES, UNRELATED_QUESTIONS, Curve
from retrieval.search.retriever import Retriever
from retrieval.stores.base import Store

_RISE = 8.6  # of the log-odds; judged questions: 9.3 in hybrid, 7.9 in dense searches
_EVEN = 0.41  # .39 and .43
UNRELATED = (*UNRELATED_QUESTIONS, *UNRELATED_PASSAGES)
MOST_SENTENCES = 100  # of a collection
LEAST_SENTENCES = 30
# Medians nearer than _LEAST_GAP count as so far apart, lest few sentences make a step of the curve.
_LEAST_GAP = 2.0
_NO_GAP = 0.5
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORDS = range(5, 41)
_LEAST_CHARS = 20  # of a sentence without blanks


@dataclass(frozen=True, slots=True)
class Evidence:
    """What made questions find in one collection, the collection's noise subtracted."""

    answered: Sequence[float]  # for sentences of its documents
    unrelated: Sequence[float]


async def sentences(catalog: Catalog, store: Store, collection: Collection) -> list[tuple[str, str]]:
    """Sentences of a collection, each of another chunk and with its point's id; the same ones each time."""
    draw = random.Random(collection.name)
    revisions = current(catalog, collection)
    chunks = [one.chunks for one in revisions]
    if not chunks:
        return []
    drawn = draw.choices(revisions, chunks, k=3 * MOST_SENTENCES)  # some are repeated, or without a sentence
    ids = dict.fromkeys(point_id(one.tenant, one.document, one.revision, draw.randrange(one.chunks)) for one in drawn)
    found = []
    for id, passage in (await store.read(list(ids))).items():
        if whole := [one for one in map(str.strip, _SENTENCE_END.split(passage.text)) if _is_sentence(one)]:
            found.append((draw.choice(whole), id))
    return found[:MOST_SENTENCES]


def _is_sentence(text: str) -> bool:
    words = len(text.split())
    return words in _WORDS or (words < _WORDS[0] and len(text) >= _LEAST_CHARS)


async def evidence_of(
    retriever: Retriever, collection: str, made: Sequence[tuple[str, str]], asked: Callable[[], object]
) -> Evidence:
    """Ask a collection its sentences (with their points' ids) and unrelated texts. asked: called for each."""

    async def best(text: str, without: str = "") -> float:
        found = await retriever.evidence(text, collection, without=without)
        asked()
        return found

    answered = [await best(text, id) for text, id in made]
    return Evidence(answered, [await best(text) for text in UNRELATED])


def fitted(found: Sequence[Evidence], base: Curve) -> Curve:
    """The curve for these collections' embedder, each with the same weight. base: a curve for the same arms.

    Raises RetrievalError if the two kinds are too alike.
    """
    high = fmean([median(one.answered) for one in found])
    low = fmean([median(one.unrelated) for one in found])
    if high - low < _NO_GAP:
        raise RetrievalError(
            f"sentences of the documents find hardly more than texts about anything (AUC {area(found):.2f}): "
            "no curve fits; ingest more documents, or choose another embedder"
        )
    gap = max(high - low, _LEAST_GAP)
    slope = _RISE / gap
    offset = -slope * (low + _EVEN * gap)
    sure = (base.slope * base.sure + base.offset - offset) / slope  # the same probability as before
    return Curve(round(slope, 3), round(offset, 3), round(sure, 3))


def area(found: Sequence[Evidence]) -> float:
    """How often a sentence's evidence exceeds an unrelated text's in its collection; ties count half."""
    return fmean(
        [fmean([(high > low) + 0.5 * (high == low) for high in one.answered for low in one.unrelated]) for one in found]
    )
