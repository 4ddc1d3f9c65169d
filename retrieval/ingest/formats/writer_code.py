"""Code in OpenDocument texts (.odt): paragraphs in letters of one width become fenced blocks, such words code spans.

As in Word files (`word_code`), marks stand in their places while xberg reads the rest.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import ZIP_DEFLATED, ZipFile

from retrieval.ingest.formats.word_code import BEGIN, END, MONO_FONT, MOST_BYTES, Kept

_CONTENT, _STYLES = "content.xml", "styles.xml"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FAMILY = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}font-family"
_MONO_STYLES = ("Source_20_Text", "Preformatted_20_Text", "Source_20_Code", "Teletype")  # LibreOffice's and pandoc's
_APART = (f"{_TEXT}list-item", f"{_TEXT}note-body", f"{_TABLE}table-cell")  # a block does not fit there
_SIGNS = {f"{_TEXT}line-break": "\n", f"{_TEXT}tab": "\t"}
_SPACES, _SPAN = f"{_TEXT}s", f"{_TEXT}span"
_SILENT = (f"{_TEXT}bookmark", f"{_TEXT}bookmark-start", f"{_TEXT}bookmark-end", f"{_TEXT}soft-page-break")
_BLANKS = re.compile(r"[ \t\r\n]+")  # which count as one


def without_code(data: bytes) -> tuple[bytes, Kept]:
    """Return an .odt with marks in place of its code, and the code.

    Raises ElementTree.ParseError or zipfile's errors for a damaged file.
    """
    kept = Kept()
    with ZipFile(BytesIO(data)) as box:
        names = dict.fromkeys(box.namelist())
        parts = [name for name in (_CONTENT, _STYLES) if name in names]
        if _CONTENT not in names or sum(box.getinfo(name).file_size for name in parts) > MOST_BYTES:
            return data, kept
        roots = [_parsed(box.read(name)) for name in parts]
        mono = _mono_styles(roots)
        if not _mark(roots[0], mono, kept):
            return data, kept
        file = BytesIO()
        with ZipFile(file, "w", ZIP_DEFLATED) as rest:
            for name in names:
                if name == _CONTENT:
                    rest.writestr(name, ElementTree.tostring(roots[0], "utf-8", xml_declaration=True))
                elif name == "mimetype" or name.endswith(".xml"):  # the others say nothing
                    rest.writestr(name, box.read(name))
        return file.getvalue(), kept


def _parsed(xml: bytes) -> Element:
    """Return the root; its elements will be written with the prefixes that they have."""
    spaces = ElementTree.iterparse(BytesIO(xml), ("start-ns",))
    for _, (prefix, address) in spaces:
        if not re.fullmatch(r"ns\d+", prefix):
            ElementTree.register_namespace(prefix, address)
    root: Element = spaces.root  # type: ignore[attr-defined]
    return root


def _mono_styles(roots: list[Element]) -> frozenset[str]:
    """Return names of styles whose letters have one width: by their own font, or the one of the style below."""
    below, mono = dict[str, str](), set(_MONO_STYLES)
    for style in (style for root in roots for style in root.iter(f"{_STYLE}style")):
        name, letters = style.get(f"{_STYLE}name", ""), style.find(f"{_STYLE}text-properties")
        font = "" if letters is None else letters.get(f"{_STYLE}font-name", letters.get(_FAMILY, ""))
        if MONO_FONT.search(font):
            mono.add(name)
        elif not font:
            below[name] = style.get(f"{_STYLE}parent-style-name", "")
    for name in below:
        chain = [name]
        while (above := below.get(chain[-1], "")) and above not in chain and above not in mono:
            chain.append(above)
        if above in mono:
            mono.update(chain)
    return frozenset(mono - {""})


def _mark(root: Element, mono: frozenset[str], kept: Kept) -> bool:
    """Put marks in place of code. Return whether there is any."""
    spans = 0
    for parent in [*root.iter()]:
        if parent.tag in (f"{_TEXT}p", f"{_TEXT}h"):
            spans += _mark_spans(parent, mono)
        elif parent.tag not in _APART:
            _mark_blocks(parent, mono, kept)
    return bool(spans or kept.blocks)


def _mark_blocks(parent: Element, mono: frozenset[str], kept: Kept) -> None:
    group: list[Element] = []
    for child in [*parent, None]:
        if child is not None and child.tag == f"{_TEXT}p" and _is_code(child, mono):
            group.append(child)
            continue
        code = "\n".join("".join(_said(one)) for one in group)
        if code.strip():
            first, *others = group
            first.clear()
            first.text = kept.mark(code)
            for one in others:
                parent.remove(one)
        group = []


def _is_code(paragraph: Element, mono: frozenset[str]) -> bool:
    """Whether all letters of a paragraph have one width."""
    if not _holds_text(paragraph):
        return False
    if paragraph.get(f"{_TEXT}style-name") in mono:
        return True
    between = [paragraph.text, *(child.tail for child in paragraph)]
    spans = paragraph.findall(_SPAN)
    return bool(spans) and not "".join(filter(None, between)).strip() and all(_is_mono(span, mono) for span in spans)


def _is_mono(span: Element, mono: frozenset[str]) -> bool:
    return span.get(f"{_TEXT}style-name") in mono


def _said(element: Element) -> Iterator[str]:
    yield _BLANKS.sub(" ", element.text or "")
    for child in element:
        if child.tag == _SPACES:
            count = child.get(f"{_TEXT}c", "1")
            yield " " * (min(int(count), 1_000) if count.isdecimal() else 1)
        yield _SIGNS.get(child.tag, "")
        yield from _said(child)
        yield _BLANKS.sub(" ", child.tail or "")


def _mark_spans(paragraph: Element, mono: frozenset[str]) -> int:
    marked = 0
    for span in paragraph.findall(_SPAN):
        if not _is_mono(span, mono):
            marked += _mark_spans(span, mono)
        elif (code := "".join(_said(span))).strip() and _holds_text(span):
            for child in [*span]:  # of spans within spans, xberg loses text
                span.remove(child)
            span.text = BEGIN + code + END
            marked += 1
    return marked


def _holds_text(element: Element) -> bool:
    """Whether an element holds text alone."""
    return all(one is element or one.tag in (_SPAN, _SPACES, *_SIGNS, *_SILENT) for one in element.iter())
