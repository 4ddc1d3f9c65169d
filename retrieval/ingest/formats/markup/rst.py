"""reStructuredText to first lines of blocks, by our own scanner.

docutils does not fit: it reports where nodes begin but not where they end, and refuses Sphinx directives and roles,
which most reStructuredText uses. Splitting needs less than rendering: section titles, literal text, tables, list
items, directive bodies, and blank lines between the rest.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from retrieval.ingest.chunking.blocks import Mark, plain_heading

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")
_DIRECTIVE = re.compile(r"[ ]*\.\.[ ]+(?:\|[^|]+\|[ ]+)?([\w:+.-]+?)::(?:\s|$)")
_EXPLICIT = re.compile(r"[ ]*\.\.(?:\s|$)")
_ITEM = re.compile(r"[ ]*(?:[-*+•‣⁃]|\(?(?:\d{1,9}|[A-Za-z]|[ivxlcdmIVXLCDM]{1,9}|#)[.)])[ ]+(?=\S)")
_SIMPLE_TABLE = re.compile(r"[ ]*=+(?:[ ]+=+)+[ ]*")
_GRID_TABLE = re.compile(r"[ ]*\+(?:[-=]+\+)+[ ]*")

_CODE = frozenset(
    "code code-block sourcecode literalinclude parsed-literal math doctest testcode testoutput highlight raw graphviz"
    " prompt productionlist mermaid uml io-code-block input output".split()
)
_TABLES = frozenset({"table", "list-table", "csv-table", "flat-table"})
_MAX_NESTING = 20  # deeper parts stay one block; limits the work, as in markdown-it


@dataclass(slots=True)
class _Scan:
    lines: Sequence[str]
    indents: Sequence[int]  # of each line; -1 for a blank line
    styles: list[tuple[str, bool]] = field(default_factory=list)  # adornments in order of appearance: 1, 2, 3 …
    unclosed: set[int] = field(default_factory=set)  # ends before which no simple table closes: never searched twice

    def level(self, adornment: str, overlined: bool) -> int:
        style = (adornment, overlined)
        if style not in self.styles:
            self.styles.append(style)
        return self.styles.index(style) + 1


def marks(text: str) -> list[Mark]:
    """Return the blocks of reStructuredText `text` in order."""
    lines = text.split("\n")
    indents = [len(line) - len(line.lstrip()) if line.strip() else -1 for line in lines]
    scan = _Scan(lines, indents)
    return _blocks(scan, 0, len(lines), 0)


def first_heading(text: str) -> str:
    """Return the first section title's text, or ""."""
    return next((mark.heading for mark in marks(text) if mark.kind == "heading"), "")


def _blocks(scan: _Scan, line: int, end: int, depth: int) -> list[Mark]:
    blocks: list[Mark] = []
    while line < end:
        if scan.indents[line] < 0:
            line += 1
            continue
        title = _title(scan, line, end) if depth == 0 else None
        if title:
            mark, line = title
            blocks.append(mark)
            continue
        after = _table_end(scan, line, end)
        if after:
            blocks.append(Mark("table", line))
            line = after
        elif _EXPLICIT.match(scan.lines[line]):
            mark, line = _explicit(scan, line, end, depth)
            blocks.append(mark)
        elif _ITEM.match(scan.lines[line]):
            mark, line = _list(scan, line, end, depth)
            blocks.append(mark)
        else:
            line = _paragraph(scan, line, end, blocks)
    return blocks


def _title(scan: _Scan, line: int, end: int) -> tuple[Mark, int] | None:
    """Return the section title that begins at `line`, and the line after it."""
    lines, first = scan.lines, scan.lines[line]
    if line + 2 < end and _ADORNMENT.fullmatch(first) and scan.indents[line + 1] >= 0:
        below = lines[line + 2].rstrip()
        if below == first.rstrip() and not _ADORNMENT.fullmatch(lines[line + 1]):
            level = scan.level(first[0], True)
            return Mark("heading", line, level=level, heading=plain_heading(lines[line + 1])), line + 3
    if line + 1 >= end or scan.indents[line] != 0 or not _ADORNMENT.fullmatch(lines[line + 1]):
        return None
    # docutils accepts an underline shorter than the title from four characters on, with a warning.
    if len(lines[line + 1].rstrip()) < min(4, len(first.rstrip())) or _ADORNMENT.fullmatch(first):
        return None
    level = scan.level(lines[line + 1][0], False)
    return Mark("heading", line, level=level, heading=plain_heading(first)), line + 2


def _table_end(scan: _Scan, line: int, end: int) -> int:
    """Return the line after a table that begins at `line`; 0 without one."""
    if _GRID_TABLE.fullmatch(scan.lines[line]):
        while line < end and scan.lines[line].lstrip()[:1] in ("+", "|"):
            line += 1
        return line
    if not _SIMPLE_TABLE.fullmatch(scan.lines[line]):
        return 0
    borders, at = 0, line
    while at < end and end not in scan.unclosed:
        if _SIMPLE_TABLE.fullmatch(scan.lines[at]):
            borders += 1
            last = at + 1 >= end or scan.indents[at + 1] < 0
            if borders > 1 and last:  # a line under the head is a border too, but rows follow
                return at + 1
        at += 1
    scan.unclosed.add(end)
    return 0


def _explicit(scan: _Scan, line: int, end: int, depth: int) -> tuple[Mark, int]:
    """Return the directive, comment, target or footnote at `line` with its indented body, and the line after."""
    after = _body_end(scan, line, end)
    directive = _DIRECTIVE.match(scan.lines[line])
    name = directive[1].rpartition(":")[2] if directive else ""
    if name in _CODE:
        return Mark("code", line), after
    if name in _TABLES:
        return Mark("table", line), after
    if not name or depth >= _MAX_NESTING:
        return Mark("text", line), after
    children = (Mark("text", line), *_blocks(scan, line + 1, after, depth + 1))
    return Mark("quote", line, children), after


def _list(scan: _Scan, line: int, end: int, depth: int) -> tuple[Mark, int]:
    """Return the list whose first item is at `line`, and the line after its last."""
    first, indent = line, scan.indents[line]
    items: list[Mark] = []
    while line < end and scan.indents[line] == indent and _ITEM.match(scan.lines[line]):
        after = _body_end(scan, line, end)
        children = _children(scan, line, after, depth) if depth < _MAX_NESTING else ()
        items.append(Mark("item", line, children))
        line = after
        while line < end and scan.indents[line] < 0:
            line += 1
    return Mark("list", first, tuple(items)), line


def _children(scan: _Scan, line: int, end: int, depth: int) -> tuple[Mark, ...]:
    """Return a list item's blocks: its first line's paragraph, then the rest."""
    blocks: list[Mark] = []
    rest = _paragraph(scan, line, end, blocks)
    return (*blocks, *_blocks(scan, rest, end, depth + 1))


def _paragraph(scan: _Scan, line: int, end: int, blocks: list[Mark]) -> int:
    """Add the paragraph at `line` and any literal block that it announces; return the line after both."""
    first = line
    blocks.append(Mark("text", first))
    while line < end and scan.indents[line] >= 0:
        line += 1
    if not scan.lines[line - 1].rstrip().endswith("::"):
        return line
    while line < end and scan.indents[line] < 0:
        line += 1
    if line >= end or scan.indents[line] <= scan.indents[first]:
        return line
    blocks.append(Mark("code", line))
    return _body_end(scan, line, end, scan.indents[first])


def _body_end(scan: _Scan, line: int, end: int, indent: int | None = None) -> int:
    """Return the line after blank and deeper lines; deeper than `indent` (default: that of `line`)."""
    indent = scan.indents[line] if indent is None else indent
    line += 1
    while line < end and (scan.indents[line] < 0 or scan.indents[line] > indent):
        line += 1
    return line
