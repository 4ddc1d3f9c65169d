"""What is on a PDF page: words with their place and font, ruled lines, and the tags of a tagged PDF.

PDFium reads the page (pypdfium2's raw functions: one call per character, some 5 us). Places are in points from the
page's upper left corner, with the text upright: text that runs upwards or downwards is turned first, whatever the
page's own rotation.
"""

import ctypes
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from typing import Any, NamedTuple

_LINE_END_HYPHENS = (0x02, 0xAD, 0xFFFE)  # PDFium's signs for a hyphen that only a line end made, and Unicode's
SOFT_HYPHEN = "\u00ad"
_GAP = 0.28  # of the font size: a wider gap parts words, also without a blank
_MAX_SEGMENTS = 20_000  # of paths on a page; a map or a plot has more, and no table
_DOT_SEGMENTS = 4
_MOST_DOTS = 300  # on a page; a plot has more, and no list
_MOST_LINKS = 2_000  # of a page
_LONGEST_LINK = 2_000
_BULLETS = {
    "\uf0b7": "•",
    "\uf0a7": "▪",
    "\uf0d8": "➢",
    "\uf0fc": "✓",
    "\uf0a8": "◦",
}  # of the fonts Symbol and Wingdings
_MAX_DEPTH = 40  # of tags
_BLOCKS = ("Document", "Part", "Art", "Sect", "Div", "NonStruct")  # around blocks of code
_FIXED_PITCH = 1  # flag of a font
_BOLD_WEIGHT = 600
_FORCE_BOLD = 1 << 18


@dataclass(slots=True)
class Word:
    """A word, or a run of ideographs."""

    text: str
    x0: float
    y0: float  # upper edge of the line's box
    x1: float
    y1: float
    base: float  # the baseline
    size: float  # of the font, in points
    bold: bool = False
    mono: bool = False
    tag: int = -1  # marked content id
    link: str = ""  # http or https
    inline: bool = False  # code within a text, by the tags


Tags = dict[int, list[tuple[str, int]]]  # marked content id -> its elements from the outermost: type and number


class Rule(NamedTuple):
    """A horizontal or vertical line."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(slots=True)
class Page:
    """A page in the direction of most of its text."""

    number: int
    width: float
    height: float
    words: list[Word] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    turned: list[list[Word]] = field(default_factory=list)  # text in other directions
    pictures: float = 0.0  # share of the page that the largest picture covers
    tags: Tags = field(default_factory=dict)


class _Style(NamedTuple):
    size: float
    bold: bool
    mono: bool
    turns: int  # quarter turns, counter-clockwise
    tag: int


def read_page(pdf: Any, index: int) -> Page:
    """Return page `index`, from 0. pdf: pypdfium2's document."""
    import pypdfium2.raw as c

    page = pdf[index]
    try:
        text = page.get_textpage()
        try:
            by_turns = _words(c, text.raw, page.get_bbox())
        finally:
            text.close()
        turns = sorted(by_turns, key=lambda turn: -sum(len(word.text) for word in by_turns[turn]))
        main = turns[0] if turns else 0
        left, bottom, right, top = page.get_bbox()
        wide, high = right - left, top - bottom
        size = (high, wide) if main % 2 else (wide, high)
        read = Page(index + 1, *size, by_turns.get(main, []), turned=[by_turns[turn] for turn in turns[1:]])
        read.rules, dots = _drawn(c, page.raw, (left, bottom, right, top), main)
        _put_bullets(read.words, dots)
        _put_links(c, pdf.raw, page.raw, read.words, (left, bottom, right, top), main)
        read.pictures = _pictures(c, page.raw, wide * high)
        read.tags = _tags(c, page.raw) if c.FPDFCatalog_IsTagged(pdf.raw) else {}
        for word in chain(read.words, *read.turned):
            kinds = [kind for kind, _ in read.tags.get(word.tag, ())]
            word.inline = word.mono and any(two == "Code" and one not in _BLOCKS for one, two in pairwise(kinds))
        return read
    finally:
        page.close()


def _words(c: Any, text: Any, box: tuple[float, float, float, float]) -> dict[int, list[Word]]:
    """Return the page's words in the order of the file, by quarter turns."""
    words: dict[int, list[Word]] = {}
    styles: dict[int, _Style] = {}
    rect, x, y = c.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    word: Word | None = None
    known, style = 0, _Style(0, False, False, 0, -1)
    for at in range(c.FPDFText_CountChars(text)):
        code = c.FPDFText_GetUnicode(text, at)
        if code in _LINE_END_HYPHENS:
            if word is not None:
                word.text += SOFT_HYPHEN
            continue
        char = chr(code) if code and not 0xD800 <= code <= 0xDFFF else "\ufffd"
        if char.isspace() or not c.FPDFText_GetLooseCharBox(text, at, rect):
            word = None
            continue
        handle = c.FPDFText_GetTextObject(text, at)
        key = ctypes.cast(handle, ctypes.c_void_p).value or 0
        if key != known or word is None:
            if key not in styles:
                styles[key] = _style(c, text, at, handle)
            if styles[key] != style:
                style = styles[key]
            known = key
        x0, y0, x1, y1 = _turned(rect.left, rect.bottom, rect.right, rect.top, box, style.turns)
        if not math.isfinite(x0 + y0 + x1 + y1) or (x1 <= x0 and y1 <= y0):
            continue
        if word is not None and not _continues(word, x0, y0, y1, style):
            word = None
        char = _BULLETS.get(char) or (unicodedata.normalize("NFKC", char) if 0xFB00 <= code <= 0xFB06 else char)
        if word is None:
            c.FPDFText_GetCharOrigin(text, at, x, y)
            base = _turned(x.value, y.value, x.value, y.value, box, style.turns)[1]
            base = base if math.isfinite(base) else y1
            word = Word(char, x0, y0, x1, y1, base, style.size or y1 - y0, style.bold, style.mono, style.tag)
            words.setdefault(style.turns, []).append(word)
        else:
            word.text += char
            word.x1, word.y0, word.y1 = max(word.x1, x1), min(word.y0, y0), max(word.y1, y1)
            word.bold, word.mono = word.bold and style.bold, word.mono and style.mono
    return words


def _continues(word: Word, x0: float, y0: float, y1: float, style: _Style) -> bool:
    """Whether a character at this place belongs to the word."""
    size = max(word.size, 1)
    return (
        -0.9 * size < x0 - word.x1 < _GAP * size  # the letters of a ligature share its box
        and min(word.y1, y1) - max(word.y0, y0) > 0.4 * min(word.y1 - word.y0, y1 - y0)
        and word.tag == style.tag
    )


def _style(c: Any, text: Any, at: int, handle: Any) -> _Style:
    matrix, number = c.FS_MATRIX(), ctypes.c_int()
    size = c.FPDFText_GetFontSize(text, at)
    turns = 0
    if c.FPDFText_GetMatrix(text, at, matrix) and math.isfinite(matrix.a + matrix.b + matrix.c + matrix.d):
        size *= math.hypot(matrix.c, matrix.d)
        turns = round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4
    bold = mono = False
    tag = -1
    if handle:
        tag = c.FPDFPageObj_GetMarkedContentID(handle)
        font = c.FPDFTextObj_GetFont(handle)
        if font:
            name = _font_name(c, font).lower()
            flags = number.value if c.FPDFFont_GetFlags(font, number) else 0
            weight = number.value if c.FPDFFont_GetWeight(font, number) else 0
            bold = "bold" in name or "black" in name or bool(flags & _FORCE_BOLD) or weight >= _BOLD_WEIGHT
            mono = bool(flags & _FIXED_PITCH) or any(part in name for part in ("mono", "courier", "consol", "menlo"))
    return _Style(size, bold, mono, turns, tag)


def _font_name(c: Any, font: Any) -> str:
    length = c.FPDFFont_GetBaseFontName(font, None, 0)
    buffer = ctypes.create_string_buffer(length or 1)
    c.FPDFFont_GetBaseFontName(font, buffer, length)
    return buffer.value.decode("utf-8", "replace")


def _turned(
    x0: float, y0: float, x1: float, y1: float, box: tuple[float, float, float, float], turns: int
) -> tuple[float, float, float, float]:
    """Return a rectangle (x0, lower y0, x1, upper y1) of the file as seen with the text upright, y downwards."""
    left, bottom, right, top = box
    match turns:
        case 0:
            return x0 - left, top - y1, x1 - left, top - y0
        case 1:
            return y0 - bottom, x0 - left, y1 - bottom, x1 - left
        case 2:
            return right - x1, y0 - bottom, right - x0, y1 - bottom
        case _:
            return top - y1, right - x1, top - y0, right - x0


def _drawn(c: Any, page: Any, box: tuple[float, float, float, float], turns: int) -> tuple[list[Rule], list[Rule]]:
    """Return the horizontal and vertical lines among the page's paths, and the boxes of its dots."""
    rules: list[Rule] = []
    dots: list[Rule] = []
    left = _MAX_SEGMENTS
    x, y, matrix = ctypes.c_float(), ctypes.c_float(), c.FS_MATRIX()
    for path, outer in _objects(c, page, c.FPDF_PAGEOBJ_PATH):
        segments = c.FPDFPath_CountSegments(path)
        left -= max(segments, 1)
        if left < 0:
            return [], []
        here = (
            (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)
            if c.FPDFPageObj_GetMatrix(path, matrix)
            else _SAME
        )
        whole = _times(here, outer)
        points: list[tuple[float, float]] = []
        every: list[tuple[float, float]] = []
        for n in range(segments):
            segment = c.FPDFPath_GetPathSegment(path, n)
            c.FPDFPathSegment_GetPoint(segment, x, y)
            a, b, e, d, tx, ty = whole
            point = (a * x.value + e * y.value + tx, b * x.value + d * y.value + ty)
            kind = c.FPDFPathSegment_GetType(segment)
            every.append(point)
            if kind == c.FPDF_SEGMENT_MOVETO:
                points = [point]
                continue
            pairs = [(points[-1], point)] if points and kind == c.FPDF_SEGMENT_LINETO else []
            points.append(point)
            if c.FPDFPathSegment_GetClose(segment):
                pairs.append((point, points[0]))
            for (ax, ay), (bx, by) in pairs:
                if not math.isfinite(ax + ay + bx + by):
                    continue
                if min(abs(ax - bx), abs(ay - by)) < 1 and max(abs(ax - bx), abs(ay - by)) > 4:
                    seen = _turned(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by), box, turns)
                    rules.append(Rule(*seen))
        if segments >= _DOT_SEGMENTS and all(map(math.isfinite, chain.from_iterable(every))):
            xs, ys = zip(*every, strict=True)
            wide, high = max(xs) - min(xs), max(ys) - min(ys)
            if 1 < wide < 8 and abs(wide - high) < 0.25 * wide:
                dots.append(Rule(*_turned(min(xs), min(ys), max(xs), max(ys), box, turns)))
    return rules, dots


def _put_bullets(words: list[Word], dots: list[Rule]) -> None:
    """Put a bullet before each word that begins a line behind a dot: browsers draw the marks of lists."""
    if len(dots) > _MOST_DOTS:
        return
    for dot in dots:
        middle = (dot.y0 + dot.y1) / 2
        row = [word for word in words if word.base - 0.8 * word.size < middle < word.base]
        after = min((word for word in row if word.x0 > dot.x0), key=lambda word: word.x0, default=None)
        if after is None or not 0 < after.x0 - dot.x1 < 2 * after.size or dot.x1 - dot.x0 > 0.6 * after.size:
            continue
        if any(dot.x0 - 3 * after.size < word.x1 and word.x0 < dot.x0 for word in row):
            continue
        mark = Word("•", dot.x0, after.y0, dot.x1, after.y1, after.base, after.size, tag=after.tag)
        words.insert(next(n for n, word in enumerate(words) if word is after), mark)


def _put_links(
    c: Any, document: Any, page: Any, words: list[Word], box: tuple[float, float, float, float], turns: int
) -> None:
    """Give the words within each link its address."""
    at, link, rect = ctypes.c_int(0), c.FPDF_LINK(), c.FS_RECTF()
    for _ in range(_MOST_LINKS):
        if not c.FPDFLink_Enumerate(page, at, link):
            return
        action = c.FPDFLink_GetAction(link)
        length = c.FPDFAction_GetURIPath(document, action, None, 0) if action else 0
        if not 0 < length <= _LONGEST_LINK or not c.FPDFLink_GetAnnotRect(link, rect):
            continue
        buffer = ctypes.create_string_buffer(length)
        c.FPDFAction_GetURIPath(document, action, buffer, length)
        address = buffer.value.decode("utf-8", "replace").replace(" ", "%20")
        if not address.startswith(("http://", "https://")):
            continue
        x0, y0, x1, y1 = _turned(rect.left, rect.bottom, rect.right, rect.top, box, turns)
        for word in words:
            if x0 <= (word.x0 + word.x1) / 2 <= x1 and y0 <= (word.y0 + word.y1) / 2 <= y1:
                word.link = address


_SAME = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_Matrix = tuple[float, float, float, float, float, float]


def _times(one: _Matrix, two: _Matrix) -> _Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = two
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


def _objects(c: Any, page: Any, kind: int, depth: int = 3) -> Iterator[tuple[Any, _Matrix]]:
    """Yield the page's objects of one kind, also within forms, each with its form's matrix."""
    matrix = c.FS_MATRIX()

    def within(many: int, get: Any, parent: Any, outer: _Matrix, depth: int) -> Iterator[tuple[Any, _Matrix]]:
        for n in range(many):
            one = get(parent, n)
            of = c.FPDFPageObj_GetType(one)
            if of == kind:
                yield one, outer
            elif of == c.FPDF_PAGEOBJ_FORM and depth:
                c.FPDFPageObj_GetMatrix(one, matrix)
                inner = _times((matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f), outer)
                yield from within(c.FPDFFormObj_CountObjects(one), c.FPDFFormObj_GetObject, one, inner, depth - 1)

    yield from within(c.FPDFPage_CountObjects(page), c.FPDFPage_GetObject, page, _SAME, depth)


def _pictures(c: Any, page: Any, area: float) -> float:
    numbers = [ctypes.c_float() for _ in range(4)]
    largest = 0.0
    for one, outer in _objects(c, page, c.FPDF_PAGEOBJ_IMAGE):
        if c.FPDFPageObj_GetBounds(one, *numbers):
            x0, y0, x1, y1 = (number.value for number in numbers)
            scale = abs(outer[0] * outer[3] - outer[1] * outer[2])
            largest = max(largest, (x1 - x0) * (y1 - y0) * scale)
    return largest / max(area, 1)


def _tags(c: Any, page: Any) -> Tags:
    found: Tags = {}
    tree = c.FPDF_StructTree_GetForPage(page)
    if not tree:
        return found
    try:
        numbers = count()
        pending = [
            (c.FPDF_StructTree_GetChildAtIndex(tree, n), list[tuple[str, int]]())
            for n in reversed(range(c.FPDF_StructTree_CountChildren(tree)))
        ]
        while pending:
            element, path = pending.pop()
            if not element or len(path) > _MAX_DEPTH:
                continue
            inner = [*path, (_type(c, element), next(numbers))]
            children = range(max(0, c.FPDF_StructElement_CountChildren(element)))
            ids = [c.FPDF_StructElement_GetChildMarkedContentID(element, n) for n in children]
            for id in [c.FPDF_StructElement_GetMarkedContentID(element), *ids]:
                found.setdefault(id, inner)
            pending += [(c.FPDF_StructElement_GetChildAtIndex(element, n), inner) for n in reversed(children)]
    finally:
        c.FPDF_StructTree_Close(tree)
    found.pop(-1, None)
    return found


def _type(c: Any, element: Any) -> str:
    length = c.FPDF_StructElement_GetType(element, None, 0)
    buffer = ctypes.create_string_buffer(length or 2)
    c.FPDF_StructElement_GetType(element, buffer, length)
    return buffer.raw[: max(0, length - 2)].decode("utf-16-le", "replace")
