"""A document as sections in reading order, each with a heading path and the blocks below it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from retrieval.ingest.chunking.blocks import (
    Block,
    blocks_of_marks,
    line_starts,
    paragraphs,
    plain_heading,
    with_wiki_headings,
)
from retrieval.ingest.formats.markup import markdown, rst
from retrieval.records.documents import Document


@dataclass(frozen=True, slots=True)
class Section:
    """`text[start:body]` holds heading lines, `text[body:end]` content, which is never empty."""

    start: int
    body: int
    end: int
    level: int  # of its outermost heading line; 0: text before any heading
    headings: tuple[str, ...]  # outermost first, without the document's title
    blocks: tuple[Block, ...]  # cover [body, end)
    own_chunk: bool = False  # shares no chunk with another section


def sections(document: Document) -> list[Section]:
    """Return the sections of `document`; together they cover the whole text.

    A heading with only deeper headings below begins the first section below. One without any content is its own body,
    because no words may be lost.
    """
    result: list[Section] = []
    path: list[Block] = []
    heads: list[Block] = []  # headings without text so far
    body: list[Block] = []
    title = plain_heading(document.title)
    for block in [*_blocks(document), None]:
        if block is not None and block.kind != "heading":
            body.append(block)
            continue
        deeper = block is not None and bool(heads) and block.level > heads[-1].level
        if body or (heads and not deeper):
            result.append(_section(heads, body, path, title))
            heads, body = [], []
        if block is not None:
            while path and path[-1].level >= block.level:
                path.pop()
            path.append(block)
            heads.append(block)
    return result


def block_index_at(blocks: Sequence[Block], place: int) -> int:
    """Return the index of the block that holds `place`, or of the next one if `place` lies between blocks."""
    return bisect_right(blocks, place, key=attrgetter("end"))


def blocks_between(blocks: Sequence[Block], start: int, end: int) -> tuple[Block, ...]:
    """Return the blocks that cover [start, end), unchanged if whole, as plain text if cut."""
    result = []
    for number in range(block_index_at(blocks, start), len(blocks)):
        block = blocks[number]
        begin, until = max(start, block.start), min(end, block.end)
        if begin >= until:
            break
        whole = (begin, until) == (block.start, block.end)
        result.append(block if whole else Block("text", begin, until))
    return tuple(result)


def _section(heads: Sequence[Block], body: Sequence[Block], path: Sequence[Block], title: str) -> Section:
    headings = tuple(
        block.heading for block in path if block.heading and not (block.level == 1 and block.heading == title)
    )
    start = heads[0].start if heads else body[0].start
    level = heads[0].level if heads else 0
    if not body:
        lines = Block("text", start, heads[-1].end)
        return Section(start, start, lines.end, level, headings[:-1], (lines,))
    return Section(start, body[0].start, body[-1].end, level, headings, tuple(body))


def _blocks(document: Document) -> tuple[Block, ...]:
    text, starts = document.text, line_starts(document.text)
    match document.format:
        case "markdown" | "html":
            marks = with_wiki_headings(text, markdown.marks(text), starts)
        case "rst":
            marks = rst.marks(text)
        case "code" | "csv":
            marks = paragraphs(text)
        case "text":
            marks = with_wiki_headings(text, paragraphs(text), starts)
    return blocks_of_marks(marks, starts, 0, len(text))
