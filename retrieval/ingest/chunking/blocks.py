"""Text to structural blocks with exact spans: units that stay together when a document is cut.

Each format's reader (`markdown`, `rst`, `paragraphs` below) only reports on which line a block begins. It ends where
the next one begins, so blocks always cover the whole text, even if a reader misunderstands a part.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["heading", "text", "code", "table", "list", "item", "quote"]

_HEADING_CHARS = 120  # a longer "heading" is a paragraph marked as one; the rest stays in the text
_HEAD_CHARS = 400  # for a table's column names; further ones are cut

# "== Setup ==" in a wiki, and "= = Setup = =" in tokenised dumps: as many signs before the title as after.
_WIKI_HEADING = re.compile(r"^ ?(=(?: ?=){0,5})[ ]+([^\s=][^\n]{0,200}?)(?<! )[ ]++\1[ \r]*$", re.MULTILINE)
_NOT_BLANK = re.compile(r"\n[^\S\n]*+\S")  # the next line


@dataclass(frozen=True, slots=True)
class Mark:
    """A block's start: its first line, counted from 0."""

    kind: Kind
    line: int
    children: tuple["Mark", ...] = ()
    level: int = 0  # of a heading; 1 is the outermost level
    heading: str = ""  # a heading's text; a table's head


@dataclass(frozen=True, slots=True)
class Block:
    """A block of `text[start:end]`; children, if any, cover it completely."""

    kind: Kind
    start: int
    end: int
    children: tuple["Block", ...] = ()
    level: int = 0
    heading: str = ""  # a heading's text; for rows of a table, its head
    cut: int = 0  # 0: as written; 1, 2 …: a part of an oversized block, cut at finer and finer boundaries


def line_starts(text: str) -> list[int]:
    """Return where each line's first character is; only newline characters end lines."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def blocks_of_marks(marks: Sequence[Mark], starts: Sequence[int], start: int, end: int) -> tuple[Block, ...]:
    """Return blocks that begin at `marks`, covering [start, end); marks at the same place become one block."""
    if not marks:
        return ()
    begins = [start, *(max(start, min(end, starts[mark.line])) for mark in marks[1:])]
    blocks: list[Block] = []
    for mark, begin, until in zip(marks, begins, [*begins[1:], end], strict=True):
        if begin < until:
            inner = blocks_of_marks(mark.children, starts, begin, until)
            blocks.append(Block(mark.kind, begin, until, inner, mark.level, mark.heading))
    return tuple(blocks)


def paragraphs(text: str) -> list[Mark]:
    """Return the blocks of plain text, which blank lines separate."""
    marks: list[Mark] = []
    blank = True
    for number, line in enumerate(text.split("\n")):
        if blank and line.strip():
            marks.append(Mark("text", number))
        blank = not line.strip()
    return marks


def with_wiki_headings(text: str, marks: Sequence[Mark], starts: Sequence[int]) -> list[Mark]:
    """Return `marks`, plus wiki headings among lines of running text.

    Wiki headings need no blank lines around them, so readers of Markdown and plain text take them for sentences.
    """
    begins = [mark.line for mark in marks]
    marks_by_line = {mark.line: mark for mark in marks}
    for match in _WIKI_HEADING.finditer(text):
        line = bisect_right(starts, match.start()) - 1
        around = bisect_right(begins, line) - 1
        if around >= 0 and marks[around].kind == "text":
            marks_by_line[line] = Mark("heading", line, level=match[1].count("="), heading=plain_heading(match[2]))
            if _NOT_BLANK.match(text, match.end()):
                marks_by_line.setdefault(line + 1, Mark("text", line + 1))
    return [marks_by_line[line] for line in sorted(marks_by_line)]


def table_head(cells: Sequence[str]) -> str:
    """Return a table's column names as one heading: "name | price"; a column without a name keeps its place."""
    last = max((n for n, cell in enumerate(cells, 1) if cell.strip()), default=0)
    names = " | ".join(" ".join(cell.split()) for cell in cells[:last])
    return names if len(names) <= _HEAD_CHARS else names[: _HEAD_CHARS - 1].rstrip() + "…"


def plain_heading(heading: str) -> str:
    """Return a heading or title without markup, on one line, with at most 120 characters."""
    text = " ".join(heading[: 4 * _HEADING_CHARS].split())
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", text)  # [text](target)
    text = re.sub(r"\s*\{#[^{}]*\}$|</?(?:a|b|i|em|strong|code|span|br|img|kbd|sub|sup)\b[^<>]*>", "", text)
    text = re.sub(r":[\w:+.-]+:`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", text)  # :role:`text <target>`
    text = re.sub(r"(\*\*|__|``?)(?=\S)(.+?)(?<=\S)\1", r"\2", text)  # **bold**, `code`
    text = re.sub(r"\\([^\w\s])", r"\1", text).strip()
    if len(text) <= _HEADING_CHARS:
        return text
    return text[: _HEADING_CHARS - 1].rstrip() + "…"
