"""Pack hits into a context: best first, no copies, within a token budget, adjacent passages joined.

Texts that share nearly all words are not copies: two years' rules, two models' data sheets, or one form filled in by
two people differ in exactly the fact somebody asks for. So a copy says the same words in the same order under the same
title and headings, and any differing word makes another text: a number, a unit, a name, a "not". A model that reads one
of six versions takes it for the only one; a copy too many costs a few hundred tokens.

Whole documents may say the same, such as a mirror, or one text as PDF and as Word file. The catalog has a fingerprint
of what each says, and `Repeats` leaves out their further passages before reranking. Only hits are compared: whoever may
read one of two documents only gets that one.

Only meaningless differences are ignored: blanks, line ends, case, markup, punctuation around words, invisible
characters, link hosts, and lines at the edges that come from a web page or a printer (navigation, print date). A word
of the question always counts, even there or in a file's path.

What an earlier answer already said is in the conversation: such passages go behind the others, but stay, because a
person may ask for them again.

A chunk's text is a span of its document's text, and at most blanks separate two adjacent chunks. So a joined passage is
one span of stored text, with one label and without repeated overlap. Passages of another kind (generated texts, not
spans of the document) stay separate.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from retrieval.lexical.said import is_copy, is_shown, said_label
from retrieval.lexical.terms import visible
from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Context, Hit, Turn
from retrieval.records.traces import Fate

_SHARED_WORDS = 0.5  # of the shorter passage: with fewer, no slower comparison is needed
_SAID_WORDS = 20  # of so many words of a passage, an answer that says it lacks at most one
_WORD = re.compile(r"\w+")
_EMPHASIS = "*`~"  # ends no word
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))} | dict.fromkeys(map(ord, _EMPHASIS))


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = "") -> Context:
    """The first passages of `hits` (best first) that fit: at most `k` passages and `budget_tokens` tokens in all.

    A passage over budget is skipped; a later, shorter one may still fit. merge: count adjacent passages as joined
    (`join`). question: a passage with a word of the question that a better passage lacks is not a copy.
    `dropped` counts hits left out.
    """
    return pack_with_fates(hits, k=k, budget_tokens=budget_tokens, merge=merge, question=question)[0]


def pack_with_fates(
    hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = ""
) -> tuple[Context, dict[str, Fate]]:
    """As `pack`, with each examined hit's fate by id."""
    chosen: list[Passage] = []
    labelled: dict[tuple[str, ...], list[Passage]] = {}  # chosen passages by comparable label
    places: dict[Place, Passage] = {}  # of chosen passages, if adjacent ones are joined
    fates: dict[str, Fate] = {}
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        same_label = labelled.setdefault(said_label(hit.passage), [])
        if same_label and _repeats_one(hit.passage, same_label, question):
            fates[hit.id] = "duplicate"
            continue
        tokens = hit.passage.tokens - (tokens_saved(hit.passage, places) if merge else 0)
        if used + tokens > budget_tokens:
            fates[hit.id] = "budget"
            continue
        fates[hit.id] = "kept"
        chosen.append(hit.passage)
        same_label.append(hit.passage)
        used += tokens
        if merge:
            places[place_of(hit.passage)] = hit.passage
    return Context(tuple(chosen), used, len(hits) - len(chosen)), fates


def _repeats_one(passage: Passage, same_label: Sequence[Passage], question: str) -> bool:
    """Whether a chosen passage says the same. Most pairs share few words, which ends the comparison."""
    words, alike = word_set(passage.text), []
    for other in same_label:
        others = word_set(other.text)
        if len(words & others) >= _SHARED_WORDS * min(len(words), len(others)):
            alike.append(other)
    return bool(alike) and is_copy(passage, alike, question)


@dataclass(slots=True)
class Repeats:
    """The distinct hits of one question, and the fates of those left out."""

    question: str
    fates: dict[str, Fate] = field(default_factory=dict)
    _shown: dict[int, list[Passage]] = field(default_factory=dict)  # fingerprint -> passages

    def without(self, hits: Sequence[Hit], says: Mapping[str, int]) -> list[Hit]:
        """Return further hits (best first) without those whose text other hits show.

        says: document -> fingerprint of what it says.
        """
        distinct = []
        for hit in hits:
            if (fingerprint := says.get(hit.passage.document)) is not None:
                shown = self._shown.setdefault(fingerprint, [])
                same = [other for other in shown if other.document != hit.passage.document]
                if same and is_shown(hit.passage, same, self.question):
                    self.fates[hit.id] = "duplicate"
                    continue
                shown.append(hit.passage)
            distinct.append(hit)
        return distinct


@lru_cache(maxsize=1024)
def word_set(text: str) -> frozenset[str]:
    """A text's words, in lower case."""
    return _words(text)


def _words(text: str) -> frozenset[str]:
    text = text.lower()
    # Twelve passages by pattern take .3 ms per question; splitting ASCII text takes half that time.
    if text.isascii():
        return frozenset(text.translate(_GAPS).split())
    for sign in _EMPHASIS:
        text = text.replace(sign, "")
    return frozenset(_WORD.findall(visible(text)))


# --- what the conversation already said -------------------------------------------------------------------------------


def unsaid_first(context: Context, hits: list[Hit], turns: Sequence[Turn], *, k: int) -> tuple[Context, list[Hit], int]:
    """Context and hits, with passages that an earlier answer said behind the others of the first `k`.

    Also how many of these passages were said before.
    """
    answers = [turn.text for turn in turns[:-1] if turn.role == "assistant"]
    if not answers:
        return context, hits, 0
    passages = context.passages
    said = _said_before([*passages[:k], *(hit.passage for hit in hits[:k])], answers)
    if not said:
        return context, hits, 0
    first = sorted(passages[:k], key=lambda passage: place_of(passage) in said)
    first_hits = sorted(hits[:k], key=lambda hit: place_of(hit.passage) in said)
    count = sum(place_of(passage) in said for passage in first)
    return replace(context, passages=(*first, *passages[k:])), [*first_hits, *hits[k:]], count


def _said_before(passages: Iterable[Passage], answers: Iterable[str]) -> set["Place"]:
    """The places of passages of which one answer has nearly all words."""
    said_by = [_words(answer) for answer in answers]  # not cached: answers may be long
    said = frozenset[str]().union(*said_by)  # most passages have words that no answer has
    places = set()
    for place, passage in {place_of(passage): passage for passage in passages}.items():
        words = word_set(passage.text)
        most = len(words) // _SAID_WORDS
        if words and len(words - said) <= most and any(len(words - one) <= most for one in said_by):
            places.add(place)
    return places


# --- adjacent passages ------------------------------------------------------------------------------------------------


Place = tuple[str, int, int]  # document, revision, ordinal
Stitched = tuple[list[Passage], str | None]  # a run of adjacent passages, and its text if known


def place_of(passage: Passage) -> Place:
    return passage.document, passage.revision, passage.ordinal


def adjacent_runs(passages: Sequence[Passage]) -> list[list[Passage]]:
    """Passages in groups without gaps, each in document order.

    Groups are sorted by their best passage, the first of each in `passages`.
    """
    rank = {place_of(passage): index for index, passage in enumerate(passages)}
    groups: list[list[Passage]] = []
    for passage in sorted(passages, key=place_of):
        if groups and follows(groups[-1][-1], passage):
            groups[-1].append(passage)
        else:
            groups.append([passage])
    return sorted(groups, key=lambda group: min(rank[place_of(passage)] for passage in group))


def stitched_runs(passages: Sequence[Passage]) -> list[Stitched]:
    """`adjacent_runs`, each with its text (`stitch`)."""
    return [(run, stitch(run)) for run in adjacent_runs(passages)]


def stitch(run: Sequence[Passage]) -> str | None:
    """The text of a run whose passages overlap or touch; None if they are separated by blanks, which no passage has."""
    text = run[0].text
    for before, after in pairwise(run):
        overlap = before.end - after.start
        if overlap < 0 or not text.endswith(after.text[:overlap]):
            return None
        text += after.text[overlap:]
    return text


def join(run: Sequence[Passage], text: str) -> list[Passage]:
    """A run as one passage; text: document text from the start of its first to the end of its last passage.

    Returns the run unchanged if its passages are not spans of `text`. Headings are the first passage's: a later
    section's heading stands in the text.
    """
    first, last = run[0], run[-1]
    if any(text[piece.start - first.start : piece.end - first.start] != piece.text for piece in run):
        return list(run)
    return [replace(first, end=last.end, text=text, tokens=tokens_of(run))]


def tokens_of(passages: Iterable[Passage]) -> int:
    """How many tokens these passages have after adjacent ones are joined (in this order)."""
    listed = list(passages)
    return sum(passage.tokens for passage in listed) - sum(
        _saved_by_joining(*pair) for pair in pairwise(listed) if follows(*pair)
    )


def tokens_saved(passage: Passage, chosen: Mapping[Place, Passage]) -> int:
    """How many tokens `passage` saves by joining adjacent chosen passages."""
    document, revision, ordinal = place_of(passage)
    before = chosen.get((document, revision, ordinal - 1))
    after = chosen.get((document, revision, ordinal + 1))
    saved = _saved_by_joining(before, passage) if before is not None and follows(before, passage) else 0
    return saved + (_saved_by_joining(passage, after) if after is not None and follows(passage, after) else 0)


def follows(first: Passage, second: Passage) -> bool:
    """Whether the second passage is the next chunk of the same text."""
    return (
        second.ordinal == first.ordinal + 1
        and first.document == second.document
        and first.revision == second.revision
        and first.start < second.start
        and first.end < second.end
    )


def ordinals_around(passages: Sequence[Passage], reach: int) -> list[tuple[Passage, int]]:
    """Other ordinals up to `reach` before and after each passage, each with that passage.

    Nearest ordinals come first; at equal distance, the best passage's do.
    """
    taken = {place_of(passage) for passage in passages}
    ordinals = []
    for distance in range(1, reach + 1):
        for passage in passages:
            for ordinal in (passage.ordinal - distance, passage.ordinal + distance):
                place = (passage.document, passage.revision, ordinal)
                if ordinal >= 0 and place not in taken:
                    taken.add(place)
                    ordinals.append((passage, ordinal))
    return ordinals


def run_around(passage: Passage, known: Mapping[Place, Passage], reach: int) -> list[Passage]:
    """A passage with up to `reach` known passages on each side, without gaps."""
    run = [passage]
    for step in (-1, 1):
        for distance in range(1, reach + 1):
            neighbour = known.get((passage.document, passage.revision, passage.ordinal + step * distance))
            if neighbour is None or not (follows(neighbour, run[0]) if step < 0 else follows(run[-1], neighbour)):
                break
            run.insert(0 if step < 0 else len(run), neighbour)
    return run


def _saved_by_joining(first: Passage, second: Passage) -> int:
    """About how many tokens joining two passages saves: the second one's label, and shared text.

    Estimated from the second passage's share of characters: counting a text's tokens takes longer than packing the
    context.
    """
    shown = len(shown_text(second.cited, second.title, second.headings, second.text))
    repeated = shown - len(second.text) + max(0, first.end - second.start)
    return int(second.tokens * min(repeated, shown) / shown) if shown else 0
