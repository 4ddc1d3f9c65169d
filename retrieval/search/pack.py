"""Pack hits into a context: best first, no copies, within a token budget."""

import re
from collections.abc import Sequence

from retrieval.records.documents import Passage
from retrieval.records.search import Context, Hit
from retrieval.records.traces import Fate
from retrieval.search.copies import Said, repeats, said_in, said_words
from retrieval.search.neighbours import Place, place_of, tokens_saved

_SHARED_WORDS = 0.5  # of the shorter passage: with fewer, no slower comparison is needed
_WORD = re.compile(r"\w+")
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = "") -> Context:
    """The first passages of `hits` (best first) that fit: at most `k` passages and `budget_tokens` tokens in all.

    A passage over budget is skipped; a later, shorter one may still fit. merge: count adjacent passages as joined
    (`neighbours`). question: a passage with a word of the question that a better passage lacks is not a copy.
    `dropped` counts hits left out.
    """
    return pack_with_fates(hits, k=k, budget_tokens=budget_tokens, merge=merge, question=question)[0]


def pack_with_fates(
    hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = ""
) -> tuple[Context, dict[str, Fate]]:
    """As `pack`, with each examined hit's fate by id."""
    chosen: list[Passage] = []
    places: dict[Place, Passage] = {}  # of chosen passages, if adjacent ones are joined
    copies = _Copies(question)
    fates: dict[str, Fate] = {}
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        if copies.is_copy(hit.passage):
            fates[hit.id] = "duplicate"
            continue
        tokens = hit.passage.tokens - (tokens_saved(hit.passage, places) if merge else 0)
        if used + tokens > budget_tokens:
            fates[hit.id] = "budget"
            continue
        fates[hit.id] = "kept"
        chosen.append(hit.passage)
        copies.add(hit.passage)
        used += tokens
        if merge:
            places[place_of(hit.passage)] = hit.passage
    return Context(tuple(chosen), used, len(hits) - len(chosen)), fates


class _Copies:
    """Chosen passages, to compare further ones with. Most pairs share few words, which ends the comparison."""

    def __init__(self, question: str) -> None:
        self._asked = frozenset(said_words(question))
        self._chosen: list[tuple[frozenset[str], Passage]] = []
        self._said: dict[int, Said] = {}

    def add(self, passage: Passage) -> None:
        self._chosen.append((word_set(passage.text), passage))

    def is_copy(self, passage: Passage) -> bool:
        words = word_set(passage.text)
        alike = [
            other for known, other in self._chosen if len(words & known) >= _SHARED_WORDS * min(len(words), len(known))
        ]
        if not alike:
            return False
        said = said_in(passage)
        return any(repeats(said, self._said_by(other), self._asked) for other in alike)

    def _said_by(self, passage: Passage) -> Said:
        if id(passage) not in self._said:
            self._said[id(passage)] = said_in(passage)
        return self._said[id(passage)]


def word_set(text: str) -> frozenset[str]:
    """A text's words, in lower case."""
    text = text.lower()
    # Twelve passages by pattern take .3 ms per question; splitting ASCII text takes half that time.
    return frozenset(text.translate(_GAPS).split() if text.isascii() else _WORD.findall(text))
