"""XML as Markdown, by way of HTML: text in the order of elements, headings by their structure.

Elements of DocBook, DITA and TEI become what they mean. Others become what they look like: an element with elements in
it is a section, one with text among elements a paragraph, and equal neighbours with short texts are rows of a table.
Expat expands no entity from outside, and limits what those within may grow to.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from xml.etree import ElementTree

from retrieval.errors import Unreadable, groups_outside_markdown
from retrieval.records.attributes import folded_name

_Element = ElementTree.Element
_HTML = {
    name: tag
    for tag, names in {
        "p": "p para simpara formalpara shortdesc ab",
        "pre": "pre programlisting screen literallayout codeblock synopsis eg",
        "ul": "ul itemizedlist simplelist",
        "ol": "ol orderedlist procedure steps",
        "li": "li listitem step member",
        "dl": "dl variablelist",
        "dt": "dt term",
        "dd": "dd",
        "blockquote": "blockquote quote note tip warning caution important",
        "table": "table informaltable",
        "tr": "tr row strow",
        "td": "td entry stentry",
        "th": "th",
        "em": "em i emphasis hi cite citetitle firstterm",
        "strong": "strong b guilabel uicontrol",
        "code": "code literal command filename option function varname codeph replaceable envar parameter tt",
        "a": "a link ulink",
    }.items()
    for name in names.split()
}
_INLINE = frozenset({"em", "strong", "code", "a"})
_HELD_BACK = frozenset({"li", "tr", "td", "th", "dt", "dd"})  # mean something else outside of a list or table
_TITLES = ("title", "head", "heading", "name", "label", "subject")
_ABOUT = frozenset({"info", "bookinfo", "articleinfo", "sectioninfo", "chapterinfo", "prolog"})  # hold a title
_NO_TEXT = frozenset({"id", "class", "style", "lang", "version", "schemalocation", "space", "type", "href", "src"})
_LIKE_HTML = re.compile(
    r"</?(?:p|div|br|ul|ol|li|pre|a|h[1-6]|table|b|i|em|strong|code|span)\b[^<>]{0,500}>", re.IGNORECASE
)
_HAS_TEXT = re.compile(rb">[^<>]*\w\w[^<>]*<|CDATA|=\s*[\"'][^\"'<>]*\w+ +\w+ +\w+")
_LONG_CHARS = 100  # of a value that is text, not a field
_MOST_COLUMNS = 12
_MOST_DEPTH = 150


def looks_like_text(beginning: bytes) -> bool:
    """Whether a file's first bytes hold text, not only elements."""
    return _HAS_TEXT.search(beginning) is not None or b"\0" in beginning


def to_markdown(data: bytes, *, rights: bool) -> tuple[str, str]:
    """Return the title ("" for none) and the text. Raises Unreadable; UnreadableRights if the root names groups."""
    from retrieval.ingest.formats import webpage  # bs4 and markdownify

    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"not XML: {error}; mend it there, or name the file by its type") from error
    named = [*root.attrib, *(child.tag for child in root if not len(child) and isinstance(child.tag, str))]
    if rights and any(folded_name(_local(name)) == "groups" for name in named):
        raise groups_outside_markdown("XML")
    html = "".join(_section(root, 1, _title(root)))
    return _title(root), webpage.to_markdown(f"<body>{html}</body>")[1]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _meaning(element: _Element) -> str:
    """The element of HTML that means the same; "" for none."""
    return _HTML.get(_local(element.tag).lower(), "")


def _block_meaning(element: _Element) -> str:
    """The same outside of a list or table."""
    meaning = _meaning(element)
    return "" if meaning in _HELD_BACK else meaning


def _is_mixed(element: _Element) -> bool:
    """Whether it holds text of its own, beside elements or alone."""
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)


def _line(texts: Iterable[str]) -> str:
    return " ".join("".join(texts).split())


def _title_element(element: _Element) -> _Element | None:
    for child in element:
        name = _local(child.tag).lower()
        if name in _TITLES and (name == "title" or not len(child)):
            return child
        if name in _ABOUT and (inner := _title_element(child)) is not None:
            return inner
    return None


def _title(element: _Element) -> str:
    inner = _title_element(element)
    text = _line(inner.itertext()) if inner is not None else ""
    named = {_local(name).lower(): value for name, value in element.attrib.items()}
    return text or next((_line(named[name]) for name in _TITLES if named.get(name, "").strip()), "")


def _section(element: _Element, level: int, title: str) -> Iterator[str]:
    """A heading, the attributes that hold text, and what is within."""
    if level > _MOST_DEPTH:
        raise Unreadable("nested too deeply: split the file")
    if len(element) and _is_mixed(element):
        yield from _content(element, "div", level)
        return
    if title:
        yield f"<h{min(level, 6)}>{escape(title)}</h{min(level, 6)}>"
    yield _fields((name, value) for name, value in _attributes(element) if value != title)
    if (element.text or "").strip() and not len(element):
        yield _text(element.text or "")
    about = _local(element.tag).lower() in _ABOUT
    skipped = _title_element(element) if title or about else None
    for _, run in groupby(element, key=lambda child: child.tag):
        alike = [child for child in run if child is not skipped]
        if len(alike) > 1 and _block_meaning(alike[0]) == "" and any(len(child) or child.attrib for child in alike):
            yield from _alike(alike, level + 1)
            continue
        for child in alike:
            yield from _block(child, level)


def _block(element: _Element, level: int) -> Iterator[str]:
    meaning = _block_meaning(element)
    if meaning:
        yield from _content(element, meaning, level)
    elif len(element) and not _is_mixed(element):
        about = _local(element.tag).lower() in _ABOUT  # its title is that of the element around
        yield from _section(element, level + 1, "" if about else _title(element))
    elif len(element):
        yield from _content(element, "p", level)
    elif text := (element.text or "").strip():
        name = _local(element.tag)
        long = not _is_short(text)
        more = "".join(f"; {own}: {_line([value])}" for own, value in _attributes(element))
        yield _text(text) + _fields(_attributes(element)) if long else _fields([(name, text + more)])
    else:
        yield _fields(_attributes(element))


def _content(element: _Element, tag: str, level: int) -> Iterator[str]:
    """The element as one of HTML, with the text within in its order."""
    if level > _MOST_DEPTH:
        raise Unreadable("nested too deeply: split the file")
    if tag == "table" and (rows := _rows(element)):
        title = _title(element)
        yield f"<p>{escape(title)}</p>" * bool(title)
        yield "<table>" + "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows) + "</table>"
        return
    tag = "div" if tag in ("table", "tr", "td", "th") else tag
    title = _title(element) if tag not in _INLINE and tag not in ("p", "pre") else ""
    skipped = _title_element(element) if title else None
    if title:
        yield f"<p><b>{escape(title)}</b></p>"
    yield f"<{tag}>" + _loose(element.text, tag)
    for child in element:
        if child is not skipped:
            yield from _within(child, tag, level)
        yield _loose(child.tail, tag)
    yield f"</{tag}>"


def _within(element: _Element, around: str, level: int) -> Iterator[str]:
    """An element in one of HTML."""
    meaning, item = _meaning(element), _ITEMS.get(around)
    if around == "dl" and not meaning:  # an entry with its term
        yield _loose(element.text, around)
        for child in element:
            yield from _content(child, "dt" if _meaning(child) == "dt" else "dd", level + 1)
            yield _loose(child.tail, around)
    elif item:
        yield from _content(element, meaning if meaning in ("dt", "dd") and around == "dl" else item, level + 1)
    elif meaning in _HELD_BACK:
        yield from _content(element, "div", level + 1)
    elif not meaning or (meaning == "p" and around in ("li", "dd")):
        yield from _content(element, "span", level + 1)
        yield "<br>" * (meaning == "p")
    else:
        yield from _content(element, meaning, level + 1)


_ITEMS = {"ul": "li", "ol": "li", "dl": "dd"}  # list -> what its text is in


def _loose(text: str | None, tag: str) -> str:
    item = _ITEMS.get(tag)
    return f"<{item}>{escape(text or '')}</{item}>" if item and (text or "").strip() else escape(text or "")


def _rows(table: _Element) -> list[list[str]]:
    """The cells of a table; [] if it holds text outside of them."""
    rows = [row for row in table.iter() if _meaning(row) == "tr"]
    cells = [[escape(_line(cell.itertext())) for cell in row] for row in rows]
    title = _title_element(table)
    inside = sum(_words(cell) for row in rows for cell in row)
    total, titled = _words(table), _words(title) if title is not None else 0
    return cells if inside + titled == total else []


def _words(element: _Element) -> int:
    return sum(len(text.split()) for text in element.itertext())


def _alike(elements: list[_Element], level: int) -> Iterator[str]:
    """Records: a table if all are flat and short, else a section each."""
    rows = [_flat(element) for element in elements]
    columns = list(dict.fromkeys(name for row in rows if row for name in row))
    short = all(row is not None and all(map(_is_short, row.values())) for row in rows)
    if short and 1 < len(columns) <= _MOST_COLUMNS:
        yield "<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in columns) + "</tr>"
        for row in rows:
            yield "<tr>" + "".join(f"<td>{escape((row or {}).get(name, ''))}</td>" for name in columns) + "</tr>"
        yield "</table>"
        return
    for element in elements:
        if len(element) or len(element.attrib) > 1:
            yield from _section(element, level, _title(element) or _local(element.tag))
        else:
            yield from _block(element, level)


def _is_short(text: str) -> bool:
    return len(text) <= _LONG_CHARS and not _LIKE_HTML.search(text)


def _flat(element: _Element) -> dict[str, str] | None:
    """A record's values by name; None if it is more than that."""
    if any(len(child) for child in element) or (len(element) and _is_mixed(element)):
        return None
    row = {_local(name): _line(value) for name, value in element.attrib.items()}
    for child in element:
        name, value = _local(child.tag), _line(child.text or "")
        row[name] = f"{row[name]}, {value}" if name in row else value
    own = _line(element.text or "")
    return row | ({_local(element.tag): own} if own else {})


def _attributes(element: _Element) -> Iterator[tuple[str, str]]:
    """Those that hold text."""
    for name, value in element.attrib.items():
        own = _local(name)
        if own.lower() not in _NO_TEXT and any(letter.isalpha() for letter in value):
            yield own, value


def _fields(fields: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f"<li>{escape(name)}: {value if _LIKE_HTML.search(value) else escape(_line(value))}</li>"
        for name, value in fields
    )
    return f"<ul>{items}</ul>" if items else ""


def _text(text: str) -> str:
    """A paragraph; what looks like HTML, as in feeds, is read as such."""
    if _LIKE_HTML.search(text):
        return f"<div>{text}</div>"
    return "".join(f"<p>{escape(part)}</p>" for part in re.split(r"\n\s*\n", text) if part.strip())
