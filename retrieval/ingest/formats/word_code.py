"""Code in Word files: paragraphs in letters of one width become fenced blocks, such words in a sentence code spans.

xberg reads both as running text: it loses line breaks and indentation. So a mark stands in the place of a paragraph
while xberg reads the rest, and marks stand around words.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZipFile

_DOCUMENT, _STYLES = "word/document.xml", "word/styles.xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LETTERS = r"mono|courier|consol|menlo|typewriter|inconsolata|lucida console|(?:source|fira|cascadia) code"
_MONO_FONT = re.compile(_LETTERS, re.IGNORECASE)
_MONO_STYLE = re.compile(r"(?:source ?code|(?:html )?preformatted(?: text)?|code(?: block)?)", re.IGNORECASE)
_MOST_BYTES = 50_000_000  # of all XML; more is a bomb, which xberg refuses
_OPEN, _CLOSE, _BEGIN, _END = "\ue000", "\ue001", "\ue002", "\ue003"  # private characters: of blocks, and of words
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_SPAN = re.compile(f"{_BEGIN}(\\s*)([^{_BEGIN}{_END}]*?)(\\s*){_END}")
_ESCAPED = re.compile(r"\\([^\w\s|])")
_TICKS = re.compile(r"`{3,}")


@dataclass(slots=True)
class _Paragraph:
    start: int
    end: int = 0
    style: str = ""
    plain: bool = False  # in a table or list, or with other letters
    text: str = ""
    runs: int = 0
    mono: list[tuple[int, int]] = field(default_factory=list)  # bytes of text in letters of one width


@dataclass(slots=True)
class _Reader:
    """Finds paragraphs of code outside tables and lists, and bytes of code in the others."""

    xml: bytes
    styles: frozenset[str]
    found: list[_Paragraph] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)
    _open: list[_Paragraph] = field(default_factory=list)
    _tables: int = 0
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
        match name:
            case "w:tbl":
                self._tables += 1
            case "w:p":
                for outer in self._open:  # a box with text
                    outer.plain = True
                self._open.append(_Paragraph(at, plain=self._tables > 0))
            case "w:pStyle" if self._open:
                self._open[-1].style = value
            case "w:numPr" | "w:drawing" | "w:pict" | "w:object" if self._open:
                self._open[-1].plain = True
            case "w:r":
                self._mono = False
            case "w:rStyle":
                self._mono |= value in self.styles
            case "w:rFonts" if "w:ascii" in given:
                self._mono = _MONO_FONT.search(given["w:ascii"]) is not None
            case "w:t":
                self._in_text = True
                self._text_at = self.xml.index(b">", at) + 1
            case "w:br" | "w:cr":
                self._add("\n")
            case "w:tab":
                self._add("\t")

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
            case "w:t":
                self._in_text = False
                if self._open and self._is_mono(self._open[-1]) and self.xml[self._text_at : at].strip():
                    self._open[-1].mono.append((self._text_at, at))
            case "w:p":
                paragraph = self._open.pop()
                paragraph.end = self.xml.index(b">", at) + 1
                if not paragraph.plain and (paragraph.runs or paragraph.style in self.styles):
                    self.found.append(paragraph)
                else:
                    self.words += paragraph.mono


def without_code(data: bytes) -> tuple[bytes, list[str]]:
    """Return a .docx with a mark in place of each block of code, and the blocks as Markdown.

    Raises ValueError, ElementTree.ParseError or zipfile's errors for a damaged file.
    """
    with ZipFile(BytesIO(data)) as box:
        kept_names = [name for name in box.namelist() if name.endswith((".xml", ".rels"))]  # the rest says nothing
        names = set(kept_names)
        if _DOCUMENT not in names or sum(box.getinfo(name).file_size for name in names) > _MOST_BYTES:
            return data, []
        xml = box.read(_DOCUMENT)
        styles = _mono_styles(box.read(_STYLES)) if _STYLES in names else frozenset()
        if not _may_hold_code(xml, styles):
            return data, []
        reader = _Reader(xml, styles)
        try:
            reader.read()
        except expat.ExpatError as error:
            raise ValueError(error) from error
        blocks = list(_blocks(reader.found, xml))
        changes = [(start, start, _BEGIN) for start, _ in reader.words] + [(end, end, _END) for _, end in reader.words]
        for number, (start, end, _) in enumerate(blocks):
            changes.append((start, end, f"<w:p><w:r><w:t>{_OPEN}{number}{_CLOSE}</w:t></w:r></w:p>"))
        if not changes:
            return data, []
        parts, at = list[bytes](), 0
        for start, end, text in sorted(changes):
            parts += [xml[at:start], text.encode()]
            at = end
        kept = BytesIO()
        with ZipFile(kept, "w", ZIP_DEFLATED) as rest:
            for name in kept_names:
                rest.writestr(name, b"".join([*parts, xml[at:]]) if name == _DOCUMENT else box.read(name))
        return kept.getvalue(), [text for _, _, text in blocks]


def with_code(text: str, blocks: list[str]) -> str:
    """Return Markdown with the blocks in place of their marks, and the marked words as code."""
    text = _SPAN.sub(_as_code, text.replace(_END + _BEGIN, ""))
    return _MARK.sub(lambda mark: blocks[int(mark[1])] if int(mark[1]) < len(blocks) else "", text)


def _as_code(span: re.Match[str]) -> str:
    code = _ESCAPED.sub(r"\1", span[2])
    return f"{span[1]}{span[2] if '`' in code or not code else f'`{code}`'}{span[3]}"


def _may_hold_code(xml: bytes, styles: Iterable[str]) -> bool:
    if not xml[:200].lower().count(b"utf-8"):  # places are bytes of UTF-8
        return False
    named = any(f'"{style}"'.encode() in xml for style in styles)
    return named or re.search(_LETTERS.encode(), xml, re.IGNORECASE) is not None


def _mono_styles(xml: bytes) -> frozenset[str]:
    """Return ids of styles whose letters have one width: by their own font, or the one of the style below."""
    below, mono = dict[str, str](), set[str]()
    for style in ElementTree.fromstring(xml).iter(f"{_W}style"):
        id = style.get(f"{_W}styleId", "")
        name, base, fonts = style.find(f"{_W}name"), style.find(f"{_W}basedOn"), style.find(f"{_W}rPr/{_W}rFonts")
        below[id] = "" if base is None or fonts is not None else base.get(f"{_W}val", "")
        by_font = fonts is not None and _MONO_FONT.search(fonts.get(f"{_W}ascii", ""))
        if by_font or (name is not None and _MONO_STYLE.fullmatch(name.get(f"{_W}val", ""))):
            mono.add(id)
    for id in below:
        chain = [id]
        while (above := below.get(chain[-1], "")) and above not in chain and above not in mono:
            chain.append(above)
        if above in mono:
            mono.update(chain)
    return frozenset(mono - {""})


def _blocks(paragraphs: list[_Paragraph], xml: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and Markdown of paragraphs that follow each other."""
    group: list[_Paragraph] = []
    for paragraph in [*sorted(paragraphs, key=lambda one: one.start), None]:
        if group and (paragraph is None or xml[group[-1].end : paragraph.start].strip()):
            text = "\n".join(one.text for one in group)
            if text.strip():
                fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])
                yield group[0].start, group[-1].end, f"{fence}\n{text.strip(chr(10)).rstrip()}\n{fence}"
            group = []
        if paragraph is not None:
            group.append(paragraph)
