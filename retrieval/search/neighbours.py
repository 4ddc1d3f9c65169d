"""Join a document's adjacent passages into one, with one label and without repeated overlap.

A chunk's text is a span of its document's text, and at most blanks separate two adjacent chunks. So a joined passage
is one span of stored text. Passages of another kind (generated texts, not spans of the document) stay separate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from retrieval.records.documents import Passage, shown_text

Place = tuple[str, int, int]  # document, revision, ordinal


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
    shown = len(shown_text(second.source, second.title, second.headings, second.text))
    repeated = shown - len(second.text) + max(0, first.end - second.start)
    return int(second.tokens * min(repeated, shown) / shown) if shown else 0
