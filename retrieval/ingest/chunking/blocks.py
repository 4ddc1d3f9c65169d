"""Text to structural blocks with exact spans: what must stay together when a document is cut.

Each format's reader (`markdown`, `rst`, `paragraphs` below) only says on which line a block begins. A block ends
where the next one begins, so the blocks of a text always cover all of it, whatever the reader failed to understand.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["heading", "text", "code", "table", "list", "item", "quote"]

_HEADING_CHARS = 120  # a longer "heading" is a paragraph somebody marked as one; the rest of it stays in the text
_HEAD_CHARS = 400  # of the names of a table's columns; behind that only the first ones are shown

# "== Setup ==" of a wiki, and "= = Setup = =" of its tokenised dumps: as many signs behind the title as before it.
_WIKI_HEADING = re.compile(r"^ ?(=(?: ?=){0,5})[ ]+([^\s=][^\n]{0,200}?)(?<! )[ ]++\1[ \r]*$", re.MULTILINE)
_NOT_BLANK = re.compile(r"\n[^\S\n]*+\S")  # the next line


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a block begins: its first line, counted from 0."""

    kind: Kind
    line: int
    children: tuple["Mark", ...] = ()
    level: int = 0  # of a heading, 1 is the outermost
    heading: str = ""  # its text; of a table, its head


@dataclass(frozen=True, slots=True)
class Block:
    """A block of `text[start:end]`; its children, where it has any, cover it completely."""

    kind: Kind
    start: int
    end: int
    children: tuple["Block", ...] = ()
    level: int = 0
    heading: str = ""  # its text; of rows of a table, the table's head
    cut: int = 0  # 0: whole as written; 1, 2 …: a part of a block that was too large, cut at ever finer seams


def line_starts(text: str) -> list[int]:
    """The position of each line's first character; lines end with newline characters only."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def placed(marks: Sequence[Mark], starts: Sequence[int], start: int, end: int) -> tuple[Block, ...]:
    """The blocks that begin at `marks`, covering [start, end); marks that begin at the same place become one."""
    if not marks:
        return ()
    begins = [start, *(max(start, min(end, starts[mark.line])) for mark in marks[1:])]
    blocks: list[Block] = []
    for mark, begin, until in zip(marks, begins, [*begins[1:], end], strict=True):
        if begin < until:
            inner = placed(mark.children, starts, begin, until)
            blocks.append(Block(mark.kind, begin, until, inner, mark.level, mark.heading))
    return tuple(blocks)


def paragraphs(text: str) -> list[Mark]:
    """The blocks of plain text: whatever stands between blank lines."""
    marks: list[Mark] = []
    blank = True
    for number, line in enumerate(text.split("\n")):
        if blank and line.strip():
            marks.append(Mark("text", number))
        blank = not line.strip()
    return marks


def with_wiki_headings(text: str, marks: Sequence[Mark], starts: Sequence[int]) -> list[Mark]:
    """`marks` with the headings of a wiki among them, wherever a line of running text is one.

    Such lines need no blank lines around them, so that a reader of Markdown or plain text takes them for a sentence.
    """
    begins = [mark.line for mark in marks]
    found = {mark.line: mark for mark in marks}
    for match in _WIKI_HEADING.finditer(text):
        line = bisect_right(starts, match.start()) - 1
        around = bisect_right(begins, line) - 1
        if around >= 0 and marks[around].kind == "text":
            found[line] = Mark("heading", line, level=match[1].count("="), heading=plain(match[2]))
            if _NOT_BLANK.match(text, match.end()):
                found.setdefault(line + 1, Mark("text", line + 1))
    return [found[line] for line in sorted(found)]


def head(cells: Sequence[str]) -> str:
    """The names of a table's columns as one heading: "name | price"."""
    named = " | ".join(" ".join(cell.split()) for cell in cells if cell.strip())
    return named if len(named) <= _HEAD_CHARS else named[: _HEAD_CHARS - 1].rstrip() + "…"


def plain(heading: str) -> str:
    """A heading or title as people read it: no markup, one line, at most 120 characters."""
    text = " ".join(heading[: 4 * _HEADING_CHARS].split())
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", text)  # [text](target)
    text = re.sub(r"\s*\{#[^{}]*\}$|</?(?:a|b|i|em|strong|code|span|br|img|kbd|sub|sup)\b[^<>]*>", "", text)
    text = re.sub(r":[\w:+.-]+:`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", text)  # :role:`text <target>`
    text = re.sub(r"(\*\*|__|``?)(?=\S)(.+?)(?<=\S)\1", r"\2", text)  # **bold**, `code`
    text = re.sub(r"\\([^\w\s])", r"\1", text).strip()
    if len(text) <= _HEADING_CHARS:
        return text
    return text[: _HEADING_CHARS - 1].rstrip() + "…"
