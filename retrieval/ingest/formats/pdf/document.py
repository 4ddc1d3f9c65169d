"""A PDF to Markdown with headings, tables and pages.

Headings are those of the file's tags, else of its outline, else lines in larger or bold letters. Lines that return at
the edge of most pages, and page numbers, are left out. A paragraph, a table or a list goes on over the end of a page.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrieval.errors import Unreadable
from retrieval.ingest.formats.pdf.layout import (
    Item,
    Line,
    PageTable,
    is_marker,
    joined,
    marked_text,
    pieces_of,
    regions,
    rows_of,
    text_left,
)
from retrieval.ingest.formats.pdf.page import SOFT_HYPHEN, Page, Word, read_page
from retrieval.ingest.formats.pdf.tables import aligned, between_rules, columns_by_tags, ruled, tagged_tables
from retrieval.records.documents import Places

_LARGER = 1.12  # times the size of the text: a heading
_MOST_HEADING_CHARS = 200
_BOLD_HEADING_CHARS = 100
_EDGE = 0.12  # of a page's height, above and below
_RETURNS = 3  # pages with the same line at the edge
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|página|pagina|p\.)\s*)?(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:/|of|von|de|di|sur)\s*\d{1,4})?\W*",
    re.IGNORECASE,
)
_BLANK = 1.75  # times the size from line to line: a blank lies between
_SENTENCE_END = re.compile(r"[.!?:;。！？][\"'”’»)\]]*$")
_HEADING_TAG = re.compile(r"H([1-6])?")
_RULE_OF_SIGNS = re.compile(r"[-=_*~.\s]+")
_ESCAPED = re.compile(r"^(#{1,6}(?=\s)|>|\+(?=\s)|```|~~~)")
_CUT_WORD = re.compile(rf"([\w-]*\w){SOFT_HYPHEN}(\w[\w-]*)")
_ALIGNED = 3.0  # points: left edges nearer than this are one
_FEW_CUTS = 0.03  # of the lines
_SCANNED = 0.5  # of a page: a picture of this share is a scan, if the page has hardly any text
_FEW_CHARS = 40
_NO_TITLE = re.compile(
    r"(?:untitled|title|document\d*|(?:microsoft \w+ - )?.*\.\w{2,5}|about:blank|https?://\S*)?", re.IGNORECASE
)

# Words of a page that is a picture, by index.
Scan = Callable[[Any, int], list[Word]]


@dataclass(slots=True)
class _Block:
    """A part of the text: pieces that stand after each other, each with its page."""

    kind: str  # heading, text, item, code, table
    parts: list[tuple[str, int]]
    columns: int = 0
    lines: tuple[Line, ...] = ()
    left: float = 0.0
    items: tuple[int, ...] | None = None  # of lists around it, by the tags
    indent: int = 0


@dataclass(slots=True)
class ReadPdf:
    """A PDF's text as Markdown, and what the file says about itself."""

    text: str
    title: str
    places: Places
    properties: dict[str, str] = field(default_factory=dict)  # author, created, modified


def read_pdf(data: bytes, scan: Scan | None) -> ReadPdf:
    """Return the text. scan: reads pages that are pictures; None if that is not installed. Raises Unreadable."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error):
            raise Unreadable("encrypted: a password opens this PDF; save a copy without one") from error
        raise Unreadable(f"not a readable PDF ({error}): open it in a PDF viewer and save it again") from error
    try:
        pages, scanned = _pages(pdf, scan)
        if not any(page.words or page.turned for page in pages):
            if scanned:
                raise Unreadable(
                    "the pages are pictures: `pip install 'ragway[ocr]'` lets ragway read pictures"
                    if scan is None
                    else "no text was found in its pages' pictures; scan it with more dots per inch, or leave it out"
                )
            raise Unreadable("empty: the PDF has no text; print it again with its text, or leave it out")
        said = _said(pdf)
        text, places = markdown_of(pages, _outline(pdf))
    finally:
        pdf.close()
    title = said.pop("title", "")
    return ReadPdf(text, "" if _NO_TITLE.fullmatch(title) else title, places, said)


def _pages(pdf: Any, scan: Scan | None) -> tuple[list[Page], bool]:
    """Return all pages, and whether some are pictures."""
    import pypdfium2

    pages, scanned = [], False
    for index in range(len(pdf)):
        try:
            page = read_page(pdf, index)
        except pypdfium2.PdfiumError:  # a damaged page costs itself
            continue
        if page.pictures > _SCANNED and sum(len(word.text) for word in page.words) < _FEW_CHARS:
            scanned = True
            page.words = (scan(pdf, index) if scan is not None else []) or page.words
        pages.append(page)
    if not pages:
        raise Unreadable("damaged: no page of the PDF can be read; open it in a PDF viewer and save it again")
    return pages, scanned


def _said(pdf: Any) -> dict[str, str]:
    """Return title, author, and dates as 2024-05-31, if the file says them."""
    given = pdf.get_metadata_dict(skip_empty=True)
    said = {name.lower(): " ".join(given[name].split())[:500] for name in ("Title", "Author") if given.get(name)}
    for name, key in (("created", "CreationDate"), ("modified", "ModDate")):
        date = re.match(r"(?:D:)?((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", given.get(key, ""))
        if date:
            said[name] = "-".join(date.groups())
    return {name: value for name, value in said.items() if value}


def _outline(pdf: Any) -> dict[tuple[str, int], int]:
    """Return (plain title, page) -> level of the outline's entries."""
    levels: dict[tuple[str, int], int] = {}
    for entry in pdf.get_toc(max_depth=6):
        target = entry.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            levels.setdefault((_plain(entry.get_title()), index + 1), entry.level + 1)
    return levels


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def markdown_of(pages: Sequence[Page], outline: Mapping[tuple[str, int], int] | None = None) -> tuple[str, Places]:
    """Return the pages' text, and where each page begins. outline: as in `_outline`."""
    running = _Running(pages)
    flow = [(item, page.number) for page in pages for item in _arranged(page, running)]
    blocks = list(_blocks(flow, _Headings(flow, pages, outline or {}), _Tags(pages)))
    _join_words(blocks, len(flow))
    _nest(blocks)
    text, places, last, before = "", list[tuple[int, str]](), 0, _Block("", [])
    for block in blocks:
        # within an item, a list that does not begin with 1 needs a blank line
        apart = block.indent > before.indent and not block.parts[0][0].startswith(("- ", "1. "))
        text += "" if not text else "\n" if before.kind == "item" == block.kind and not apart else "\n\n"
        text += " " * block.indent
        before = block
        for part, page in block.parts:
            if page != last:
                places.append((len(text), f"page {page}"))
                last = page
            text += part.replace("\n", "\n" + " " * block.indent)
    return text + "\n", tuple(places)


def _arranged(page: Page, running: "_Running") -> list[Item]:
    """Return the page's lines and tables in reading order."""
    tables, words = tagged_tables(page.words, page.tags)
    found = list[Item]()
    for given, column in columns_by_tags(tables, words, page.tags) or [([*tables.values()], words)]:
        grids, left = ruled(column, page.rules)
        pieces = pieces_of(left)
        pieces = [one for n, one in enumerate(pieces) if not running.has(one, page, pieces[max(0, n - 1) : n + 2])]
        booked, pieces = between_rules(pieces, page.rules)
        for region in regions([*given, *grids, *booked, *pieces]):
            found += aligned(rows_of(region), page.rules)
    for turned in page.turned:
        found += [item for region in regions(pieces_of(turned)) for item in aligned(rows_of(region), ())]
    return found


class _Running:
    """Lines that return at the edge of pages, and page numbers."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages: dict[tuple[str, int], set[int]] = {}
        for page in pages:
            for piece in pieces_of([word for word in page.words if _at_edge(word, page)]):
                self._pages.setdefault(self._key(piece), set()).add(page.number)
        self._least = min(_RETURNS, max(2, len(pages)))

    @staticmethod
    def _key(piece: Line) -> tuple[str, int]:
        return re.sub(r"\d+", "#", piece.text), round(piece.base / 6)

    def has(self, piece: Line, page: Page, near: Sequence[Line]) -> bool:
        """Whether a piece is a running header or footer. near: it, and the pieces before and after it in the file."""
        if not _at_edge(piece, page):
            return False
        if page.tags:  # they leave out what is not text
            return all(word.tag not in page.tags for word in piece.words)
        if any(_beside(piece, one) for one in near):
            return False
        text, at = self._key(piece)
        on = set[int]().union(*(self._pages.get((text, at + by), ()) for by in (-1, 0, 1)))
        return len(on) >= self._least or _PAGE_NUMBER.fullmatch(piece.text) is not None


def _at_edge(one: Word | Line, page: Page) -> bool:
    return not _EDGE * page.height < one.base < (1 - _EDGE) * page.height


def _beside(piece: Line, other: Line) -> bool:
    """Whether two pieces are of one line, such as a sentence and a number in letters of code."""
    gap = max(piece.x0, other.x0) - min(piece.x1, other.x1)
    return other is not piece and abs(piece.base - other.base) < 0.3 * piece.size and gap < piece.size


class _Headings:
    """Which lines are headings, and of which level."""

    def __init__(
        self,
        flow: Sequence[tuple[Item, int]],
        pages: Sequence[Page],
        outline: Mapping[tuple[str, int], int],
    ) -> None:
        self._outline = outline
        self._levels: dict[tuple[int, int], int] = {}  # page and marked content id -> level by the tags
        for page in pages:
            for id, path in page.tags.items():
                for kind, _ in path:
                    if match := _HEADING_TAG.fullmatch(kind):
                        self._levels[page.number, id] = int(match[1] or 1)
                    elif kind == "Title":
                        self._levels[page.number, id] = 1
        lines = [(item, number) for item, number in flow if isinstance(item, Line)]
        sizes: Counter[float] = Counter()
        for word in (word for line, _ in lines for word in line.words):
            sizes[round(word.size * 2) / 2] += len(word.text) * (1 if word.mono else 20)  # most of a page may be code
        self.body = max(sizes, key=lambda size: (sizes[size], -size), default=10.0)
        larger = sorted({round(line.size) for line, _ in lines if self._is_large(line)}, reverse=True)
        self._of_size = {size: min(level, 6) for level, size in enumerate(larger, 1)}
        self._bold = min(6, len(larger) + 1)
        self._above = 0  # levels above the outline's, for a title that is not in the outline
        known = [
            (round(line.size), outline[key]) for line, page in lines if (key := (_plain(line.text), page)) in outline
        ]
        if known:
            learned = dict(reversed(known))
            self._above = int(any(size > max(learned) for size in self._of_size))
            deepest = min(6, max(learned.values()) + self._above + 1)
            self._of_size = {
                size: 1 if size > max(learned) else learned[size] + self._above if size in learned else deepest
                for size in self._of_size
            }
            self._bold = min(6, max([deepest, *self._of_size.values()]))

    def _is_large(self, line: Line) -> bool:
        return line.size >= _LARGER * self.body and any(map(str.isalpha, line.text)) and not line.apart

    def level(self, lines: Sequence[Line], page: int) -> int:
        """Return the level of the heading that these lines are; 0 if they are none."""
        if self._levels:
            return max(self._levels.get((page, word.tag), 0) for line in lines for word in line.words)
        text = " ".join(line.text for line in lines)
        if level := self._outline.get((_plain(text), page), 0):
            return min(6, level + self._above)
        first = lines[0]
        if len(text) > _MOST_HEADING_CHARS or first.mono or first.apart or is_marker(first.words[0].text, bullet=True):
            return 0
        if len(text) > _BOLD_HEADING_CHARS and text[-1] in ".:":  # a sentence
            return 0
        if self._is_large(first):
            return self._of_size.get(round(first.size), 6)
        if not all(line.bold for line in lines) or len(text) > _BOLD_HEADING_CHARS or len(lines) > 2:
            return 0
        ends = text.rstrip()[-1:] in ".,;!?"
        return 0 if ends or first.size < 0.95 * self.body or not any(map(str.isalpha, text)) else self._bold


class _Tags:
    """Elements of pages, by their numbers."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._paths = {page.number: page.tags for page in pages}

    def items(self, line: Line, page: int) -> tuple[int, ...] | None:
        """Return the items of lists around a line, from the outermost; None without tags."""
        path = self._path(line.words[0], page)
        return tuple(number for kind, number in path if kind == "LI") if path else None

    def are_one(self, one: Line, two: Line, page: int) -> bool:
        """Whether two lines are of one paragraph."""
        first, second = ([step for step in self._path(of.words[-1], page) if step[0] == "P"] for of in (one, two))
        return bool(first) and first == second

    def are_two(self, one: Line, two: Line, page: int) -> bool:
        """Whether two lines are of two blocks of code."""
        paths = [self._path(of.words[0], page) for of in (one, two)]
        first, second = ([outer for outer, inner in itertools.pairwise(path) if inner[0] == "Code"] for path in paths)
        return bool(first and second) and first != second

    def _path(self, word: Word, page: int) -> Sequence[tuple[str, int]]:
        return self._paths[page].get(word.tag, ())


def _blocks(flow: Sequence[tuple[Item, int]], headings: _Headings, tags: _Tags) -> Iterator[_Block]:
    """Yield blocks from lines and tables in reading order."""
    last: _Block | None = None
    for kind, group in _groups(flow, tags):
        block = _table(group) if kind == "table" else _code(group) if kind == "code" else _text(group, headings)
        if not block.parts:
            continue
        lines = [(line, page) for line, page in group if isinstance(line, Line)]
        block.left = min((text_left(line) for line, _ in lines), default=0.0)
        block.items = tags.items(*lines[0]) if lines else None
        if last is not None and _goes_on(last, block):
            last.parts += _rest(last, block)
            last.lines = block.lines
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


_Group = list[tuple[Item, int]]


def _groups(flow: Sequence[tuple[Item, int]], tags: _Tags) -> Iterator[tuple[str, _Group]]:
    """Yield items that belong together: a table, code, or the lines of a paragraph or heading."""
    group: _Group = []
    kind = ""
    for item, page in flow:
        now = "table" if isinstance(item, PageTable) else "code" if item.mono else "text"
        if group and (now != kind or now == "table" or _begins(group, item, page, tags, code=now == "code")):
            yield kind, group
            group = []
        kind = now
        group.append((item, page))
    if group:
        yield kind, group


def _begins(group: _Group, line: Item, page: int, tags: _Tags, *, code: bool) -> bool:
    """Whether a line begins another block than the lines before."""
    before, page_before = group[-1]
    if not isinstance(before, Line) or not isinstance(line, Line):
        return True
    if code:
        apart = line.base - before.base > _BLANK * line.size and tags.are_two(before, line, page)
        return page == page_before and (line.base <= before.base or apart)
    if page != page_before or line.base <= before.base:
        return True
    first = group[0][0]
    step = line.base - before.base
    resized = abs(line.size - before.size) > 0.08 * before.size and not (line.inline or before.inline)
    if tags.are_one(before, line, page) and step <= _BLANK * max(line.size, before.size):
        return resized
    pitches = [two.base - one.base for (one, _), (two, _) in itertools.pairwise(group)]
    width = max(item.x1 for item, _ in group) - min(item.x0 for item, _ in group)
    listed = isinstance(first, Line) and is_marker(first.words[0].text)
    return (
        resized
        or step > (1.25 * min(pitches) if pitches else _BLANK * max(line.size, before.size))
        or is_marker(line.words[0].text)
        or line.apart
        or before.apart
        or (line.bold != before.bold and (before.bold or line.bold) and _complete(before, line))
        or (not listed and line.x0 - before.x0 > 0.9 * line.size)
        or (listed and line.x0 < first.x0 + 0.5 * line.size)
        or (line.x1 - before.x1 > 0.25 * width and _SENTENCE_END.search(before.text) is not None)
    )


def _complete(before: Line, line: Line) -> bool:
    """Whether a change between bold and plain letters lies between two blocks, not within one."""
    return before.bold or _SENTENCE_END.search(before.text) is not None


def _text(group: _Group, headings: _Headings) -> _Block:
    lines = [item for item, _ in group if isinstance(item, Line)]
    page = group[0][1]
    text = marked_text(lines)
    if _RULE_OF_SIGNS.fullmatch(text):
        return _Block("text", [])
    if level := headings.level(lines, page):
        text = joined([line.text for line in lines])
        return _Block("heading", [("#" * level + " " + text, page)])
    first, of = lines[0].words[0].text, tuple(lines)
    if is_marker(first, bullet=True) and len(lines[0].words) > 1:
        return _Block("item", [("- " + text[len(first) :].lstrip(), page)], lines=of)
    if is_marker(first) and first[0].isdigit():
        return _Block("item", [(text, page)], lines=of)
    return _Block("text", [(_ESCAPED.sub(r"\\\1", text), page)], lines=of)


def _code(group: _Group) -> _Block:
    lines = [(item, page) for item, page in group if isinstance(item, Line)]
    words = [word for line, _ in lines for word in line.words]
    width = sum(word.x1 - word.x0 for word in words) / max(1, sum(len(word.text) for word in words)) or 1.0
    left = min(line.x0 for line, _ in lines)
    parts = [("```\n", lines[0][1])]
    before: Line | None = None
    for line, page in lines:
        blank = before is not None and line.base - before.base > 2.1 * line.size
        shown, at = "\n" if blank else "", left
        for word in line.words:
            shown += " " * max(0 if word is line.words[0] else 1, round((word.x0 - at) / width)) + word.text
            at = word.x1
        parts.append((shown.replace(SOFT_HYPHEN, "-") + "\n", page))
        before = line
    return _Block("code", [*parts, ("```", lines[-1][1])])


def _table(group: _Group) -> _Block:
    ((item, page),) = group
    assert isinstance(item, PageTable)
    columns = max(map(len, item.rows))
    rows = [_row([*row, *[""] * (columns - len(row))]) for row in item.rows]
    rows.insert(1, _row(["---"] * columns))
    return _Block("table", [(("\n" if n else "") + row, page) for n, row in enumerate(rows)], columns)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _goes_on(last: _Block, block: _Block) -> bool:
    """Whether a block continues the last one, from the page or column before."""
    if last.kind == "table" == block.kind:
        return last.columns == block.columns and last.parts[-1][1] + 1 == block.parts[0][1]
    if last.kind == "code" == block.kind:
        return last.parts[-1][1] + 1 == block.parts[0][1]
    if block.kind != "text" or last.kind not in ("text", "item") or _is_below(last, block):
        return False
    before, text = last.parts[-1][0], block.parts[0][0]
    return before.endswith(SOFT_HYPHEN) or (
        _SENTENCE_END.search(before) is None and text[:1].islower() and "   " not in before
    )


@dataclass(slots=True)
class _Open:
    """An item that goes on: its number and page by the tags, its left edge, and the column of its text."""

    number: int
    page: int
    left: float
    column: int


def _nest(blocks: Sequence[_Block]) -> None:
    """Indent items of lists within items, and what else belongs to an item: by the tags, else by the left edges."""
    open_items: list[_Open] = []
    for block in blocks:
        own, page, around = block.kind == "item", block.parts[0][1], block.items
        if block.kind not in ("item", "text", "code"):
            open_items = []
        elif around is None:
            bound = block.left - _ALIGNED if own else block.left + _ALIGNED
            open_items = [one for one in open_items if one.left < bound]
            if open_items and not own and open_items[-1].left < block.left - _ALIGNED:
                open_items = []
        else:
            around = around[: len(around) - own]
            open_items = open_items[: len(around)]
            for n, (one, number) in enumerate(zip(open_items, around, strict=False)):
                if (one.number, one.page) != (number, page):
                    if one.page == page:
                        del open_items[n:]
                        break
                    one.number, one.page = number, page  # goes on over the end of a page
        column = open_items[-1].column if open_items else 0
        block.indent = column
        if own:
            text, at = block.parts[0]
            for number in (around or ())[len(open_items) :]:  # an item that begins with a list
                column += 2
                open_items.append(_Open(number, page, block.left, column))
                text = f"- {text}"
            column += len(block.parts[0][0].split(" ", 1)[0]) + 1
            open_items.append(_Open((block.items or (-1,))[-1], page, block.left, column))
            block.parts[0] = text, at


def _is_below(last: _Block, block: _Block) -> bool:
    """Whether a blank line parts two blocks of one column."""
    before, line = last.lines[-1], block.lines[0]
    return last.parts[-1][1] == block.parts[0][1] and line.base - before.base > _BLANK * line.size


def _rest(last: _Block, block: _Block) -> list[tuple[str, int]]:
    """Return a continuation's parts, to stand after the last block's."""
    if block.kind == "table":
        head, _, *body = block.parts
        repeated = head[0] == last.parts[0][0]
        return body if repeated else [("\n" + head[0], head[1]), *body]
    if block.kind == "code":
        del last.parts[-1]
        return block.parts[1:]
    text, page = block.parts[0]
    return [(text if last.parts[-1][0].endswith(SOFT_HYPHEN) else " " + text, page)]


def _join_words(blocks: Sequence[_Block], lines: int) -> None:
    """Join words that line ends cut: "con-" and "nection", but not "two-" and "line" if the text has "two-line".

    A text whose lines seldom end with a hyphen cuts no words: its hyphens are those of compounds.
    """
    text = " ".join(part for block in blocks for part, _ in block.parts)
    found = re.findall(r"\w+(?:-\w+)*", _CUT_WORD.sub(" ", text))
    words = [word.casefold() for word in found if word[1:].islower() or word.isupper()]  # no codeNames
    known = Counter([*words, *(part for word in words if "-" in word for part in word.split("-"))])
    cuts = _CUT_WORD.findall(text.casefold())
    hyphenated = len(cuts) > _FEW_CUTS * lines or any(known["".join(cut)] for cut in cuts)

    def whole(cut: re.Match[str]) -> str:
        one, two = cut[1].casefold(), cut[2].casefold()
        inner = known[one.rpartition("-")[2]] and known[two.partition("-")[0]]
        inner = inner or not hyphenated
        hyphen = known[f"{one}-{two}"] > known[one + two] or (inner and not known[one + two])
        return f"{cut[1]}-{cut[2]}" if hyphen else cut[1] + cut[2]

    for block in blocks:
        block.parts = [(_CUT_WORD.sub(whole, part).replace(SOFT_HYPHEN, "-"), page) for part, page in block.parts]
