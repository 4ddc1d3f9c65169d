"""A document as sections in reading order: each with its path of headings and the blocks under them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from retrieval.ingest.chunking.blocks import (
    Block,
    line_starts,
    paragraphs,
    placed,
    plain,
    with_wiki_headings,
)
from retrieval.ingest.formats import markdown, rst
from retrieval.records.documents import Document


@dataclass(frozen=True, slots=True)
class Section:
    """`text[start:body]` is its heading lines, `text[body:end]` what they stand over: never empty."""

    start: int
    body: int
    end: int
    level: int  # of the outermost heading it begins with; 0: text before any heading
    headings: tuple[str, ...]  # outermost first, without the document's title
    blocks: tuple[Block, ...]  # cover [body, end)
    alone: bool = False  # shares no chunk with another section


def sections(document: Document) -> list[Section]:
    """The sections of `document`; together they cover its whole text.

    A heading with only deeper headings under it begins the first section under it. A heading with nothing under it
    at all is its own body: its words must be somewhere.
    """
    found: list[Section] = []
    path: list[Block] = []
    heads: list[Block] = []  # headings whose text has not begun yet
    body: list[Block] = []
    title = plain(document.title)
    for block in [*_blocks(document), None]:
        if block is not None and block.kind != "heading":
            body.append(block)
            continue
        deeper = block is not None and bool(heads) and block.level > heads[-1].level
        if body or (heads and not deeper):
            found.append(_section(heads, body, path, title))
            heads, body = [], []
        if block is not None:
            while path and path[-1].level >= block.level:
                path.pop()
            path.append(block)
            heads.append(block)
    return found


def holding(blocks: Sequence[Block], place: int) -> int:
    """The number of the block that holds `place`; that of the next one where `place` lies before it."""
    return bisect_right(blocks, place, key=attrgetter("end"))


def within(blocks: Sequence[Block], start: int, end: int) -> tuple[Block, ...]:
    """The blocks that cover [start, end): whole where they lie in it, as plain text where they are cut."""
    found = []
    for number in range(holding(blocks, start), len(blocks)):
        block = blocks[number]
        begin, until = max(start, block.start), min(end, block.end)
        if begin >= until:
            break
        whole = (begin, until) == (block.start, block.end)
        found.append(block if whole else Block("text", begin, until))
    return tuple(found)


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
    return placed(marks, starts, 0, len(text))
