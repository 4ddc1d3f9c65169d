"""Hits to a context: best first, no near-duplicates, within a token budget."""

import re
from collections.abc import Sequence

from retrieval.records import Context, Hit, Passage

# Two chunks of 200 words that differ in a version number share about 95 % of their words, two neighbours with
# the usual overlap about 30 %.
_NEAR_DUPLICATE = 0.8
_WORD = re.compile(r"\w+")
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int) -> Context:
    """The first passages of `hits` (best first) that fit: at most `k`, together at most `budget_tokens`.

    A passage that does not fit is passed over, a later shorter one may still
    fit. `dropped` counts what was left out.
    """
    chosen: list[Passage] = []
    words: list[frozenset[str]] = []
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        bag = _words(hit.passage.text.lower())
        if any(_alike(bag, other) for other in words):
            continue
        if used + hit.passage.tokens > budget_tokens:
            continue
        chosen.append(hit.passage)
        words.append(bag)
        used += hit.passage.tokens
    return Context(tuple(chosen), used, len(hits) - len(chosen))


def _words(text: str) -> frozenset[str]:
    # Twelve passages by the pattern take .3 ms of each question; what is ASCII can be split in half of that.
    return frozenset(text.translate(_GAPS).split() if text.isascii() else _WORD.findall(text))


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether the Jaccard similarity of two sets of words is that of near-duplicates."""
    if min(len(a), len(b)) < _NEAR_DUPLICATE * max(len(a), len(b)):
        return False  # what they have in common is no more than the smaller one has; most pairs end here
    common = len(a & b)
    return common >= _NEAR_DUPLICATE * (len(a) + len(b) - common)
