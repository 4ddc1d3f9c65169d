"""Text cut by size alone: at the coarsest separators whose pieces fit (`recursive`) or every n tokens (`fixed`).

Most tools start with these. ragway offers both as options, and as peers to measure the structural method by. Neither
reads headings.
"""

from itertools import pairwise

from retrieval.ingest.chunking.boundaries import TokenIndex

_SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ")  # paragraphs, lines, sentences, words

Span = tuple[int, int]


def recursive(text: str, token_index: TokenIndex, *, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Return spans of at most `limit_tokens`, in order, that cover `text`.

    As in RecursiveCharacterTextSplitter: cut at a separator, join neighbours while they fit, and cut an oversized
    piece at the next finer separator. Whole pieces of at most `overlap_tokens` are repeated.
    """
    spans: list[Span] = []
    pending = [(0, len(text), 0)]
    while pending:
        start, end, level = pending.pop()
        if token_index.between(start, end) <= limit_tokens:
            spans.append((start, end))
        elif level == len(_SEPARATORS):
            spans += _windows(token_index, start, end, limit_tokens, overlap_tokens)
        else:
            pieces = _cut_at(text, start, end, _SEPARATORS[level])
            joined = _join(pieces, token_index, limit_tokens, overlap_tokens)
            pending += [(begin, until, level + 1) for begin, until in reversed(joined)]
    return spans


def fixed(text: str, token_index: TokenIndex, *, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Return spans of exactly `limit_tokens`, except the last, each repeating `overlap_tokens` of the previous one."""
    return _windows(token_index, 0, len(text), limit_tokens, overlap_tokens)


def _cut_at(text: str, start: int, end: int, separator: str) -> list[Span]:
    """Return [start, end) cut after every occurrence of `separator`."""
    places = [start]
    at = text.find(separator, start, end)
    while at >= 0:
        places.append(at + len(separator))
        at = text.find(separator, at + len(separator), end)
    if places[-1] < end:
        places.append(end)
    return list(pairwise(places))


def _join(pieces: list[Span], token_index: TokenIndex, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    """Join neighbours while they fit; an oversized piece stays alone."""
    spans: list[Span] = []
    first = 0  # index of the current span's first piece
    for index, (_, end) in enumerate(pieces):
        if index == first or token_index.between(pieces[first][0], end) <= limit_tokens:
            continue
        before = pieces[index - 1][1]
        spans.append((pieces[first][0], before))
        while first < index and (
            token_index.between(pieces[first][0], before) > overlap_tokens
            or token_index.between(pieces[first][0], end) > limit_tokens
        ):
            first += 1
    return [*spans, (pieces[first][0], pieces[-1][1])] if pieces else spans


def _windows(token_index: TokenIndex, start: int, end: int, limit_tokens: int, overlap_tokens: int) -> list[Span]:
    spans = []
    while start < end:
        until = min(end, max(start + 1, token_index.reach(start, limit_tokens)))
        spans.append((start, until))
        if until == end:
            break
        start = max(start + 1, token_index.reach(start, max(1, limit_tokens - overlap_tokens)))
    return spans
