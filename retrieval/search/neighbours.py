"""Passages of one document that follow one another to one passage: one label, and no overlap twice.

A chunk's text is a span of its document's text, and between two chunks that follow one another lie blanks at most.
So a joined passage is the span of them all, taken from the stored text. Passages of another kind (made texts, that
are no span of their document) stay as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from retrieval.records.documents import Passage, shown_text

Place = tuple[str, int, int]  # document, revision, ordinal


def place_of(passage: Passage) -> Place:
    """Where the passage stands among all."""
    return passage.document, passage.revision, passage.ordinal


def runs(passages: Sequence[Passage]) -> list[list[Passage]]:
    """The passages in groups that follow one another without a gap, each group in the document's order.

    The groups come in the order of their best: of the first of them in `passages`.
    """
    rank = {place_of(one): at for at, one in enumerate(passages)}
    groups: list[list[Passage]] = []
    for one in sorted(passages, key=place_of):
        if groups and follows(groups[-1][-1], one):
            groups[-1].append(one)
        else:
            groups.append([one])
    return sorted(groups, key=lambda group: min(rank[place_of(one)] for one in group))


def stitched(run: Sequence[Passage]) -> str | None:
    """The text of a run that overlaps or touches throughout; None where blanks lie between, which its texts lack."""
    text = run[0].text
    for before, one in pairwise(run):
        overlap = before.end - one.start
        if overlap < 0 or not text.endswith(one.text[:overlap]):
            return None
        text += one.text[overlap:]
    return text


def joined(run: Sequence[Passage], text: str) -> list[Passage]:
    """A run as one passage; text: the document's from the start of the first to the end of the last.

    The run as it is where its texts are no spans of that. The headings are those of the first: where another section
    begins, its heading stands in the text.
    """
    first, last = run[0], run[-1]
    if any(text[one.start - first.start : one.end - first.start] != one.text for one in run):
        return list(run)
    return [replace(first, end=last.end, text=text, tokens=tokens_of(run))]


def tokens_of(passages: Iterable[Passage]) -> int:
    """The tokens that passages take, those that follow one another (in this order) joined."""
    listed = list(passages)
    return sum(one.tokens for one in listed) - sum(_saved(*pair) for pair in pairwise(listed) if follows(*pair))


def saving(passage: Passage, chosen: Mapping[Place, Passage]) -> int:
    """The tokens that `passage` takes less because its neighbours are among those chosen."""
    document, revision, ordinal = place_of(passage)
    before = chosen.get((document, revision, ordinal - 1))
    behind = chosen.get((document, revision, ordinal + 1))
    saved = _saved(before, passage) if before is not None and follows(before, passage) else 0
    return saved + (_saved(passage, behind) if behind is not None and follows(passage, behind) else 0)


def follows(first: Passage, second: Passage) -> bool:
    """Whether the second is the next chunk of the same text."""
    return (
        second.ordinal == first.ordinal + 1
        and first.document == second.document
        and first.revision == second.revision
        and first.start < second.start
        and first.end < second.end
    )


def around(passages: Sequence[Passage], reach: int) -> list[tuple[Passage, int]]:
    """The ordinals up to `reach` before and behind each passage that are none of them, with the passage they are near.

    The nearest first, and among these the best passage's.
    """
    taken = {place_of(one) for one in passages}
    found = []
    for distance in range(1, reach + 1):
        for one in passages:
            for ordinal in (one.ordinal - distance, one.ordinal + distance):
                place = (one.document, one.revision, ordinal)
                if ordinal >= 0 and place not in taken:
                    taken.add(place)
                    found.append((one, ordinal))
    return found


def run_around(passage: Passage, known: Mapping[Place, Passage], reach: int) -> list[Passage]:
    """The passage with up to `reach` of those known on each side that follow one another without a gap."""
    run = [passage]
    for step in (-1, 1):
        for distance in range(1, reach + 1):
            one = known.get((passage.document, passage.revision, passage.ordinal + step * distance))
            if one is None or not (follows(one, run[0]) if step < 0 else follows(run[-1], one)):
                break
            run.insert(0 if step < 0 else len(run), one)
    return run


def _saved(first: Passage, second: Passage) -> int:
    """About how many tokens less the two take as one: the second's label, and the text that both have.

    By their share of its characters: counting the tokens of a text would take longer than packing the context does.
    """
    shown = len(shown_text(second.source, second.title, second.headings, second.text))
    repeated = shown - len(second.text) + max(0, first.end - second.start)
    return int(second.tokens * min(repeated, shown) / shown) if shown else 0
