"""Hits to a context: best first, no near-duplicates, within a token budget."""

import re
from collections.abc import Sequence

from retrieval.records.documents import Passage
from retrieval.records.search import Context, Hit
from retrieval.search.neighbours import Place, place_of, saving
from retrieval.traces import Fate

# Two chunks of 200 words that differ in a version number share about 95 % of their words, two neighbours with
# the usual overlap about 30 %.
_NEAR_DUPLICATE = 0.8
_WORD = re.compile(r"\w+")
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False) -> Context:
    """The first passages of `hits` (best first) that fit: at most `k`, together at most `budget_tokens`.

    A passage that does not fit is passed over, a later shorter one may still
    fit. merge: those that follow one another will become one (`neighbours`), and are counted so. `dropped` counts
    what was left out.
    """
    return packed(hits, k=k, budget_tokens=budget_tokens, merge=merge)[0]


def packed(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False) -> tuple[Context, dict[str, Fate]]:
    """The same, and why: by id, of the hits that were looked at."""
    chosen: list[Passage] = []
    places: dict[Place, Passage] = {}  # of those chosen, where they will be joined
    bags: list[frozenset[str]] = []
    fates: dict[str, Fate] = {}
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        bag = bag_of(hit.passage.text)
        if any(_alike(bag, other) for other in bags):
            fates[hit.id] = "duplicate"
            continue
        tokens = hit.passage.tokens - (saving(hit.passage, places) if merge else 0)
        if used + tokens > budget_tokens:
            fates[hit.id] = "budget"
            continue
        fates[hit.id] = "kept"
        chosen.append(hit.passage)
        bags.append(bag)
        used += tokens
        if merge:
            places[place_of(hit.passage)] = hit.passage
    return Context(tuple(chosen), used, len(hits) - len(chosen)), fates


def bag_of(text: str) -> frozenset[str]:
    """The words of a text, in lower case."""
    text = text.lower()
    # Twelve passages by the pattern take .3 ms of each question; what is ASCII can be split in half of that.
    return frozenset(text.translate(_GAPS).split() if text.isascii() else _WORD.findall(text))


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether the Jaccard similarity of two sets of words is that of near-duplicates."""
    if min(len(a), len(b)) < _NEAR_DUPLICATE * max(len(a), len(b)):
        return False  # what they have in common is no more than the smaller one has; most pairs end here
    return jaccard(a, b) >= _NEAR_DUPLICATE


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of both sets' words that both have; two empty sets are alike."""
    either = len(a) + len(b)
    common = len(a & b)
    return common / (either - common) if either else 1.0
