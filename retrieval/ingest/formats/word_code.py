"""Code and lists in Word files: paragraphs in letters of one width become fenced blocks, such words in a sentence code
spans, and items get their level (`word_lists`).

xberg reads code as running text: it loses line breaks and indentation. So a mark stands in the place of a paragraph
while xberg reads the rest, and marks stand around words.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZipFile

from retrieval.ingest.formats.word_lists import Item, Lists, W, marks, nested

_DOCUMENT, _STYLES, _NUMBERING = "word/document.xml", "word/styles.xml", "word/numbering.xml"
_LETTERS = r"mono|courier|consol|menlo|typewriter|inconsolata|lucida console|(?:source|fira|cascadia) code"
MONO_FONT = re.compile(_LETTERS, re.IGNORECASE)
_MONO_STYLE = re.compile(r"(?:source ?code|(?:html )?preformatted(?: text)?|code(?: block)?)", re.IGNORECASE)
_PROPERTIES = ("w:pStyle", "w:numId", "w:ilvl", "w:ind", "w:outlineLvl")  # of a paragraph
_WHOLE = "SourceCode"  # pandoc's style: each of its paragraphs is a block
MOST_BYTES = 50_000_000  # of all XML; more is a bomb, which xberg refuses
_OPEN, _CLOSE, BEGIN, END = "\ue000", "\ue001", "\ue002", "\ue003"  # private characters: of blocks, and of words
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_SPAN = re.compile(f"{BEGIN}(\\s*)([^{BEGIN}{END}]*?)(\\s*){END}")
_ESCAPED = re.compile(r"\\([^\w\s|])")
_TICKS = re.compile(r"`{3,}")


@dataclass(slots=True)
class _Paragraph:
    start: int
    end: int = 0
    plain: bool = False  # in a table, or with other letters
    text: str = ""
    runs: int = 0  # of text
    said: dict[str, str] = field(default_factory=dict)  # its properties: style, list, level, indentation
    within: bool = False  # in a table or box, or around a box
    properties: tuple[int, int] = (0, 0)  # bytes
    close: int = 0
    mono: list[tuple[int, int]] = field(default_factory=list)  # bytes of text in letters of one width

    @property
    def style(self) -> str:
        return self.said.get("w:pStyle", "")


@dataclass(slots=True)
class _Reader:
    """Finds the paragraphs of a text."""

    xml: bytes
    styles: frozenset[str]
    found: list[_Paragraph | None] = field(default_factory=list)  # None: a table
    _open: list[_Paragraph] = field(default_factory=list)
    _tables: int = 0
    _past: bool = False  # in the properties before a tracked change
    _mono: bool = False  # the run's letters
    _in_text: bool = False
    _text_at: int = 0

    def read(self) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = lambda name, given: self._begin(name, given, parser.CurrentByteIndex)
        parser.EndElementHandler = lambda name: self._end(name, parser.CurrentByteIndex)
        parser.CharacterDataHandler = self._said
        parser.Parse(self.xml, True)

    def _begin(self, name: str, given: dict[str, str], at: int) -> None:
        value = given.get("w:val", "")
        if self._open and self._is_property(name, given, at):
            return
        match name:
            case "w:tbl":
                self._tables += 1
            case "w:p":
                within = self._tables > 0 or bool(self._open)
                for outer in self._open:  # a box with text
                    outer.plain = outer.within = True
                self._open.append(_Paragraph(at, plain=self._tables > 0, within=within))
            case "w:drawing" | "w:pict" | "w:object" if self._open:
                self._open[-1].plain = True
            case "w:r":
                self._mono = False
            case "w:rStyle":
                self._mono |= value in self.styles
            case "w:rFonts" if "w:ascii" in given:
                self._mono = MONO_FONT.search(given["w:ascii"]) is not None
            case "w:t":
                self._in_text = True
                self._text_at = self.xml.index(b">", at) + 1
            case "w:br" | "w:cr":
                self._add("\n")
            case "w:tab":
                self._add("\t")

    def _is_property(self, name: str, given: dict[str, str], at: int) -> bool:
        """Whether an element is or has a property of the paragraph, which is kept."""
        if name == "w:pPrChange":
            self._past = True
        elif name == "w:pPr" and not self._past:
            self._open[-1].properties = at, at
        elif name in _PROPERTIES and not self._past:
            self._open[-1].said[name] = given.get("w:val", given.get("w:left", given.get("w:start", "")))
        return self._past or name in _PROPERTIES

    def _said(self, text: str) -> None:
        if self._in_text:
            self._add(text)

    def _add(self, text: str) -> None:
        if self._open:
            paragraph = self._open[-1]
            paragraph.text += text
            if text.strip():
                paragraph.runs += 1
                paragraph.plain |= not self._is_mono(paragraph)

    def _is_mono(self, paragraph: _Paragraph) -> bool:
        return self._mono or paragraph.style in self.styles

    def _end(self, name: str, at: int) -> None:
        match name:
            case "w:tbl":
                self._tables -= 1
                self.found.append(None)
            case "w:pPrChange":
                self._past = False
            case "w:pPr" if self._open and not self._past:
                self._open[-1].properties = self._open[-1].properties[0], self.xml.index(b">", at) + 1
            case "w:t":
                self._in_text = False
                if self._open and self._is_mono(self._open[-1]) and self.xml[self._text_at : at].strip():
                    self._open[-1].mono.append((self._text_at, at))
            case "w:p":
                paragraph = self._open.pop()
                paragraph.close, paragraph.end = at, self.xml.index(b">", at) + 1
                self.found.append(paragraph)


@dataclass(slots=True)
class Kept:
    """What a file has in place of its marks."""

    blocks: list[str] = field(default_factory=list)  # of code
    items: list[Item] = field(default_factory=list)

    def place(self, item: Item | None) -> tuple[str, str]:
        """Keep an item of a list, and return what stands before and after its text."""
        if item is None:
            return "", ""
        self.items.append(item)
        return marks(len(self.items) - 1)

    def mark(self, code: str) -> str:
        """Keep a block of code, and return what stands in its place."""
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(code))])
        self.blocks.append(f"{fence}\n{code.strip(chr(10)).rstrip()}\n{fence}")
        return f"{_OPEN}{len(self.blocks) - 1}{_CLOSE}"


def without_code(data: bytes) -> tuple[bytes, Kept]:
    """Return a .docx with marks in place of its blocks of code and around its lists' items, and what they stand for.

    Raises ValueError, ElementTree.ParseError or zipfile's errors for a damaged file.
    """
    with ZipFile(BytesIO(data)) as box:
        kept_names = [name for name in box.namelist() if name.endswith((".xml", ".rels"))]  # the rest says nothing
        names = set(kept_names)
        if _DOCUMENT not in names or sum(box.getinfo(name).file_size for name in names) > MOST_BYTES:
            return data, Kept()
        xml = box.read(_DOCUMENT)
        found = (box.read(name) if name in names else b"" for name in (_STYLES, _NUMBERING))
        styling, numbering = (ElementTree.fromstring(part) if part else None for part in found)
        styles = frozenset[str]() if styling is None else _mono_styles(styling)
        if not xml[:200].lower().count(b"utf-8") or not (numbering is not None or _may_hold_code(xml, styles)):
            return data, Kept()  # places are bytes of UTF-8
        reader = _Reader(xml, styles)
        try:
            reader.read()
        except expat.ExpatError as error:
            raise ValueError(error) from error
        changes, kept = _changes(reader, Lists(styling, numbering))
        if not changes:
            return data, kept
        parts, at = list[bytes](), 0
        for start, end, text in sorted(changes):
            parts += [xml[at:start], text.encode()]
            at = end
        file = BytesIO()
        with ZipFile(file, "w", ZIP_DEFLATED) as rest:
            for name in kept_names:
                rest.writestr(name, b"".join([*parts, xml[at:]]) if name == _DOCUMENT else box.read(name))
        return file.getvalue(), kept


def _changes(reader: _Reader, lists: Lists) -> tuple[list[tuple[int, int, str]], Kept]:
    """Return what stands in place of bytes: start, end and text."""
    kept, changes = Kept(), list[tuple[int, int, str]]()
    code = list[tuple[_Paragraph, Item | None]]()
    for one, item in zip(reader.found, lists.items(reader.found), strict=True):
        if one is None:
            continue
        begin, end = kept.place(item)
        listed = item is not None and item.sign and "\n" not in one.text
        if not one.plain and not listed and (one.runs or one.style in reader.styles):
            code.append((one, item))
            continue
        for start, stop in one.mono:
            changes += [(start, start, BEGIN), (stop, stop, END)]
        if item is not None and one.text:
            changes += [(*one.properties, _run(begin)), (one.close, one.close, _run(end))]
    for start, stop, text, item in _blocks(code, reader.xml):
        begin, end = kept.place(item)
        changes.append((start, stop, f"<w:p>{_run(begin + kept.mark(text) + end)}</w:p>"))
    return changes, kept


def _run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def with_code(text: str, kept: Kept) -> str:
    """Return Markdown with the blocks in place of their marks, the marked words as code, and the items as lists."""
    text, blocks = _SPAN.sub(_as_code, text.replace(END + BEGIN, "")), kept.blocks
    text = _MARK.sub(lambda mark: blocks[int(mark[1])] if int(mark[1]) < len(blocks) else "", text)
    return nested(text, kept.items)


def _as_code(span: re.Match[str]) -> str:
    code = _ESCAPED.sub(r"\1", span[2])
    return f"{span[1]}{span[2] if '`' in code or not code else f'`{code}`'}{span[3]}"


def _may_hold_code(xml: bytes, styles: Iterable[str]) -> bool:
    named = any(f'"{style}"'.encode() in xml for style in styles)
    return named or re.search(_LETTERS.encode(), xml, re.IGNORECASE) is not None


def _mono_styles(root: ElementTree.Element) -> frozenset[str]:
    """Return ids of styles whose letters have one width: by their own font, or the one of the style below."""
    below, mono = dict[str, str](), set[str]()
    for style in root.iter(f"{W}style"):
        id = style.get(f"{W}styleId", "")
        name, base, fonts = style.find(f"{W}name"), style.find(f"{W}basedOn"), style.find(f"{W}rPr/{W}rFonts")
        below[id] = "" if base is None or fonts is not None else base.get(f"{W}val", "")
        by_font = fonts is not None and MONO_FONT.search(fonts.get(f"{W}ascii", ""))
        if by_font or (name is not None and _MONO_STYLE.fullmatch(name.get(f"{W}val", ""))):
            mono.add(id)
    for id in below:
        chain = [id]
        while (above := below.get(chain[-1], "")) and above not in chain and above not in mono:
            chain.append(above)
        if above in mono:
            mono.update(chain)
    return frozenset(mono - {""})


def _blocks(
    paragraphs: list[tuple[_Paragraph, Item | None]], xml: bytes
) -> Iterator[tuple[int, int, str, Item | None]]:
    """Yield start, end, text and place in a list of paragraphs that follow each other."""
    group: list[_Paragraph] = []
    place: Item | None = None
    for paragraph, item in [*sorted(paragraphs, key=lambda one: one[0].start), (None, None)]:
        apart = item != place and (item is None or place is None or item.level != place.level or item.sign)
        apart = apart or (paragraph is not None and paragraph.style == _WHOLE)
        if group and (paragraph is None or apart or xml[group[-1].end : paragraph.start].strip()):
            text = "\n".join(one.text for one in group)
            if text.strip():
                yield group[0].start, group[-1].end, text, place
            group = []
        if paragraph is not None:
            place = item if not group else place
            group.append(paragraph)
