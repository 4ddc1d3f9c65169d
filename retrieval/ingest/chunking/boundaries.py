"""Where a text may be cut, and how many tokens lie between two places."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.ingest.chunking.blocks import Block

# Longer runs count as several tokens: a word piece model reads a 5 MB word as one unknown token, and blanks as none,
# but a passage of 5 MB is useless. The longest WordPiece vocabulary entries have 18 letters.
_CHARS_PER_TOKEN = 32
_WORDS = 3  # `Block.cut` of a block with only word boundaries left
_SEGMENT_CHARS = 8_000  # tokenised together: small enough to share among cores, large enough for few calls

_SENTENCE = re.compile(r"""[.!?…]["')\]”’»]*+\s++(?=[^\sa-z])|[。！？｡][”’」』）]*+\s*+|\n\s*?\n\s*+""")

_LINE_SENTENCE = re.compile(r"""[.!?…。！？｡]["')\]”’」』）»]*+[ \t\r]*+\n\s*+""")

_BLANK_LINES = re.compile(r"\n(?:[ \t]*+\n)++")


class TokenIndex:
    """Tokens between any two positions of a text, found in O(log n)."""

    def __init__(self, text: str, tokens: EmbedderTokenizer) -> None:
        bounds = _segments(text)
        located = tokens.offsets_of([text[start:end] for start, end in bounds])
        self._starts: list[int] = []
        last = 0
        for (base, _), spans in zip(bounds, located, strict=True):
            for begin, _ in spans:
                last = self._add(last, base + begin)
        self._add(last, len(text))
        self._end = len(text)

    def _add(self, last: int, at: int) -> int:
        while at - last > _CHARS_PER_TOKEN:
            last += _CHARS_PER_TOKEN
            self._starts.append(last)
        at = max(at, last)
        self._starts.append(at)
        return at

    def between(self, start: int, end: int) -> int:
        """Return how many tokens begin in [start, end)."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def reach(self, start: int, n_tokens: int) -> int:
        """Return the last position with at most `n_tokens` tokens after `start`."""
        index = bisect_left(self._starts, start) + n_tokens
        return self._starts[index] if index < len(self._starts) else self._end

    def reach_back(self, end: int, n_tokens: int) -> int:
        """Return the first position with at most `n_tokens` tokens before `end`."""
        index = bisect_left(self._starts, end) - n_tokens - 1
        return self._starts[index] + 1 if index >= 0 else 0


def finer_blocks(text: str, block: Block) -> list[Block]:
    """Return `block` cut at the coarsest boundaries not used yet; [] if only word boundaries are left.

    In order: the block's children (list items, paragraphs of an item); for code and tables, blank lines, then lines;
    for text, sentences at line ends (the only sign if each line is a paragraph), then sentences, then lines.
    """
    if block.children:
        return list(block.children)
    cutters = (_blank_lines, _lines) if block.kind in ("code", "table") else (_line_sentences, _sentences, _lines)
    for cut in range(block.cut, len(cutters)):
        places = cutters[cut](text, block.start, block.end)
        if places:
            bounds = zip([block.start, *places], [*places, block.end], strict=True)
            pieces = [Block(block.kind, start, end, cut=cut + 1, heading=block.heading) for start, end in bounds]
            return [_first_piece(block, pieces[0]), *pieces[1:]]
    return []


def split_at(text: str, block: Block, limit: int) -> tuple[Block, Block]:
    """Return `block` cut after a word before `limit`; both halves skip coarser boundaries later."""
    at = word_end(text, block.start, limit)
    before = Block(block.kind, block.start, at, cut=_WORDS, heading=block.heading)
    return _first_piece(block, before), replace(before, start=at, end=block.end)


def _first_piece(block: Block, piece: Block) -> Block:
    """Return `block`'s first piece: an uncut table's first piece contains its head."""
    return piece if block.cut else replace(piece, heading="")


def word_end(text: str, start: int, limit: int) -> int:
    """Return the last word end before `limit`, in the further half of [start, limit); else `limit`."""
    for at in range(limit, start + (limit - start) // 2, -1):
        if text[at - 1].isspace():
            return at
    return limit


def overlap_start(text: str, blocks: Sequence[Block], earliest: int) -> int:
    """Return where repeating the end of `blocks` may begin, from `earliest` on: at a sentence, else a line.

    Code and tables are repeated whole or not at all. Returns the end of `blocks` if there is no such place.
    """
    sentence = line = blocks[-1].end
    for block in _leaves_backwards(blocks):
        solid = block.kind in ("code", "table")
        if block.kind == "heading" or (solid and (block.cut or block.start < earliest)):
            break
        if solid:
            sentence = line = block.start
            continue
        begins = [block.start, *_sentences(text, block.start, block.end)]
        sentence = next((at for at in begins if at >= earliest), sentence)
        line = next((at for at in _lines(text, block.start, block.end) if at >= earliest), line)
        if block.start < earliest:
            break
    return sentence if sentence < blocks[-1].end else line


def _leaves_backwards(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in reversed(blocks):
        if block.children:
            yield from _leaves_backwards(block.children)
        else:
            yield block


def _sentences(text: str, start: int, end: int) -> list[int]:
    return [at for match in _SENTENCE.finditer(text, start, end) if start < (at := match.end()) < end]


def _line_sentences(text: str, start: int, end: int) -> list[int]:
    return [at for match in _LINE_SENTENCE.finditer(text, start, end) if start < (at := match.end()) < end]


def _blank_lines(text: str, start: int, end: int) -> list[int]:
    return [at for match in _BLANK_LINES.finditer(text, start, end) if start < (at := match.end()) < end]


def _lines(text: str, start: int, end: int) -> list[int]:
    places = []
    at = text.find("\n", start, end)
    while 0 <= at < end - 1:
        places.append(at + 1)
        at = text.find("\n", at + 1, end)
    return places


def _segments(text: str) -> list[tuple[int, int]]:
    """Return spans that cover `text`, cut at line ends, else at blanks, else anywhere."""
    segments = []
    start = 0
    while start < len(text):
        end = min(len(text), start + _SEGMENT_CHARS)
        if end < len(text):
            line = text.rfind("\n", start + 1, end)
            blank = text.rfind(" ", start + 1, end)
            end = line if line > 0 else blank if blank > 0 else end
        segments.append((start, end))
        start = end
    return segments
