"""Pack hits into a context: best first, no near-duplicates, within a token budget."""

import re
from collections.abc import Sequence

from retrieval.records.documents import Passage
from retrieval.records.search import Context, Hit
from retrieval.search.neighbours import Place, place_of, tokens_saved
from retrieval.traces import Fate

# Two chunks of 200 words that differ in a version number share about 95 % of their words, two neighbours with the usual
# overlap about 30 %.
_NEAR_DUPLICATE = 0.8
_WORD = re.compile(r"\w+")
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False) -> Context:
    """The first passages of `hits` (best first) that fit: at most `k` passages and `budget_tokens` tokens in all.

    A passage over the budget is skipped; a later, shorter passage may still fit. merge: count adjacent passages as
    joined (`neighbours`). `dropped` counts the hits left out.
    """
    return pack_with_fates(hits, k=k, budget_tokens=budget_tokens, merge=merge)[0]


def pack_with_fates(
    hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False
) -> tuple[Context, dict[str, Fate]]:
    """As `pack`, with the fate of each examined hit by id."""
    chosen: list[Passage] = []
    places: dict[Place, Passage] = {}  # of the chosen passages, if adjacent passages are joined
    word_sets: list[frozenset[str]] = []
    fates: dict[str, Fate] = {}
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        words = word_set(hit.passage.text)
        if any(_near_duplicates(words, other) for other in word_sets):
            fates[hit.id] = "duplicate"
            continue
        tokens = hit.passage.tokens - (tokens_saved(hit.passage, places) if merge else 0)
        if used + tokens > budget_tokens:
            fates[hit.id] = "budget"
            continue
        fates[hit.id] = "kept"
        chosen.append(hit.passage)
        word_sets.append(words)
        used += tokens
        if merge:
            places[place_of(hit.passage)] = hit.passage
    return Context(tuple(chosen), used, len(hits) - len(chosen)), fates


def word_set(text: str) -> frozenset[str]:
    """The words of a text, in lower case."""
    text = text.lower()
    # Twelve passages by the pattern take .3 ms of each question; splitting ASCII text takes half the time.
    return frozenset(text.translate(_GAPS).split() if text.isascii() else _WORD.findall(text))


def _near_duplicates(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether the Jaccard index of two sets of words is at least the threshold for near-duplicates.

    The index: shared words / all words; 1 for two empty sets.
    """
    if min(len(a), len(b)) < _NEAR_DUPLICATE * max(len(a), len(b)):
        return False  # the common words are at most the smaller set; most pairs end here
    either, common = len(a) + len(b), len(a & b)
    return not either or common / (either - common) >= _NEAR_DUPLICATE
