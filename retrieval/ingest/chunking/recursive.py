"""Text cut by size alone: at the coarsest separators that make it fit (`recursive`), or after every n tokens (`fixed`).

The two that most tools start with, for those who want them and as the peers the structure is measured against.
Neither reads headings.
"""

from itertools import pairwise

from retrieval.ingest.chunking.boundaries import Measure

_SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ")  # paragraphs, lines, sentences, words

Span = tuple[int, int]


def recursive(text: str, measure: Measure, *, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Spans of at most `limit_tokens`, in order, that cover `text`.

    As RecursiveCharacterTextSplitter does it: cut at a separator, put neighbours together while they fit, and cut
    what does not fit by itself at the next finer one. Whole pieces of at most `overlap_tokens` are repeated.
    """
    found: list[Span] = []
    waiting = [(0, len(text), 0)]
    while waiting:
        start, end, level = waiting.pop()
        if measure.between(start, end) <= limit_tokens:
            found.append((start, end))
        elif level == len(_SEPARATORS):
            found += _windows(measure, start, end, limit_tokens, overlap_tokens)
        else:
            pieces = _cut(text, start, end, _SEPARATORS[level])
            joined = _joined(pieces, measure, limit_tokens, overlap_tokens)
            waiting += [(begin, until, level + 1) for begin, until in reversed(joined)]
    return found


def fixed(text: str, measure: Measure, *, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Spans of exactly `limit_tokens`, but for the last one, each repeating `overlap_tokens` of the one before."""
    return _windows(measure, 0, len(text), limit_tokens, overlap_tokens)


def _cut(text: str, start: int, end: int, separator: str) -> list[Span]:
    """[start, end) cut behind every occurrence of `separator`."""
    places = [start]
    at = text.find(separator, start, end)
    while at >= 0:
        places.append(at + len(separator))
        at = text.find(separator, at + len(separator), end)
    if places[-1] < end:
        places.append(end)
    return list(pairwise(places))


def _joined(pieces: list[Span], measure: Measure, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Neighbours put together while they fit; a piece that does not fit stays alone."""
    found: list[Span] = []
    first = 0  # index of the piece the span at hand begins with
    for index, (_, end) in enumerate(pieces):
        if index == first or measure.between(pieces[first][0], end) <= limit_tokens:
            continue
        before = pieces[index - 1][1]
        found.append((pieces[first][0], before))
        while first < index and (
            measure.between(pieces[first][0], before) > overlap_tokens
            or measure.between(pieces[first][0], end) > limit_tokens
        ):
            first += 1
    return [*found, (pieces[first][0], pieces[-1][1])] if pieces else found


def _windows(measure: Measure, start: int, end: int, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    found = []
    while start < end:
        until = min(end, max(start + 1, measure.reach(start, limit_tokens)))
        found.append((start, until))
        if until == end:
            break
        start = max(start + 1, measure.reach(start, max(1, limit_tokens - overlap_tokens)))
    return found
