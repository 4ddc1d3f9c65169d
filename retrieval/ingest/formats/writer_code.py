"""Code and lists in OpenDocument texts (.odt): paragraphs in letters of one width become fenced blocks, such words code
spans, and items get their sign.

As in Word files (`word_code`), marks stand in their places while xberg reads the rest. It takes bullets for numbers if
a list has numbers on any level, as in what LibreOffice makes of Word files, and a heading in a list for an item.
"""

import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import ZIP_DEFLATED, ZipFile

from retrieval.ingest.formats.word_code import BEGIN, END, MONO_FONT, MOST_BYTES, Kept
from retrieval.ingest.formats.word_lists import Item

_CONTENT, _STYLES = "content.xml", "styles.xml"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FAMILY = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}font-family"
_MONO_STYLES = ("Source_20_Text", "Preformatted_20_Text", "Source_20_Code", "Teletype")  # LibreOffice's and pandoc's
_LIST, _ITEM, _PARAGRAPH, _HEADING = f"{_TEXT}list", f"{_TEXT}list-item", f"{_TEXT}p", f"{_TEXT}h"
_APART = (f"{_TEXT}note-body", f"{_TABLE}table-cell")  # a block or list does not fit there
_MOST_DEPTH = 50  # of lists within lists
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
        _mark(roots[0], mono, _signs(roots), kept)
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


def _signs(roots: list[Element]) -> dict[tuple[str, int], bool]:
    """Return whether lists have numbers, by style and level."""
    found = dict[tuple[str, int], bool]()
    for style in (style for root in roots for style in root.iter(f"{_TEXT}list-style")):
        for level in style:
            numbered = level.tag == f"{_TEXT}list-level-style-number" and level.get(f"{_STYLE}num-format") != ""
            found[style.get(f"{_STYLE}name", ""), _int(level.get(f"{_TEXT}level"), 1)] = numbered
    return found


def _int(text: str | None, default: int) -> int:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,6}", text) else default


def _mark(root: Element, mono: frozenset[str], signs: Mapping[tuple[str, int], bool], kept: Kept) -> None:
    """Put marks in place of code, and around items."""
    elements = [*root.iter()]
    listed = {item for list in elements if list.tag == _LIST and _kinds(list) != {_PARAGRAPH} for item in list}
    for element in elements:
        if element.tag in (_PARAGRAPH, _HEADING):
            _mark_spans(element, mono)
        elif element.tag not in _APART and element not in listed:
            _mark_blocks(element, mono, kept)
    for element in elements:
        if element.tag not in (_LIST, _ITEM, *_APART):
            for at, child in reversed([*enumerate(element)]):
                kinds = _kinds(child) if child.tag == _LIST else set()
                if kinds == {_PARAGRAPH}:
                    element[at : at + 1] = _items(child, 0, str(len(kept.items)), "", signs, kept)
                elif kinds == {_HEADING}:  # with a number
                    element[at : at + 1] = [*child.iter(_HEADING)]


def _kinds(list: Element, depth: int = 0) -> set[str]:
    """Return which elements a list holds, beside lists."""
    parts = [part for item in list for part in item]
    inner = [{part.tag} if part.tag != _LIST or depth > _MOST_DEPTH else _kinds(part, depth + 1) for part in parts]
    return set[str]().union(*inner)


def _items(
    list: Element, level: int, name: str, style: str, signs: Mapping[tuple[str, int], bool], kept: Kept
) -> Iterator[Element]:
    """Yield the paragraphs of a list, with marks."""
    style, number = list.get(f"{_TEXT}style-name", style), 0
    for item in list:
        number = _int(item.get(f"{_TEXT}start-value"), number + (item.tag == _ITEM))
        numbered = signs.get((style, level + 1), signs.get((style, 1), False))  # pandoc names the first level alone
        sign = ("-", f"{number}.")[numbered] if item.tag == _ITEM else ""
        for part in item:
            if part.tag == _LIST:
                yield from _items(part, level + 1, name, style, signs, kept)
            elif "".join(_said(part)).strip():
                begin, end = kept.place(Item(level, sign, name))
                part.text, sign = begin + (part.text or ""), ""
                if len(part):
                    part[-1].tail = (part[-1].tail or "") + end
                else:
                    part.text += end
                yield part


def _mark_blocks(parent: Element, mono: frozenset[str], kept: Kept) -> None:
    group: list[Element] = []
    for child in [*parent, None]:
        if child is not None and child.tag == _PARAGRAPH and _is_code(child, mono):
            group.append(child)
            continue
        code = "\n".join("".join(_said(one)) for one in group)
        if code.strip():
            first, *others = group
            first.clear()
            begins = parent.tag == _ITEM and first is parent[0] and "\n" not in code
            first.text = BEGIN + code + END if begins else kept.mark(code)
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


def _mark_spans(paragraph: Element, mono: frozenset[str]) -> None:
    for span in paragraph.findall(_SPAN):
        if not _is_mono(span, mono):
            _mark_spans(span, mono)
        elif (code := "".join(_said(span))).strip() and _holds_text(span):
            for child in [*span]:  # of spans within spans, xberg loses text
                span.remove(child)
            span.text = BEGIN + code + END


def _holds_text(element: Element) -> bool:
    """Whether an element holds text alone."""
    return all(one is element or one.tag in (_SPAN, _SPACES, *_SIGNS, *_SILENT) for one in element.iter())
