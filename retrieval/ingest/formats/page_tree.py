"""A page's tree before conversion: what belongs to its text, and elements that Markdown can show.

An element that repeats on every page of a site is dropped by its place and content, not just its name: a section's
header, an aside and a quotation's footer belong to the text. All passes take time linear in page size.
"""

import re

from bs4 import Tag
from bs4.element import NavigableString

DROPPED = "nav"  # the converter drops elements with this name
_NUMBER = re.compile(r"[0-9]{1,6}")
_MAX_COLUMNS = 20  # a wider cell is layout; each column costs characters
_INDENTING = frozenset({"blockquote", "dd", "li"})
_MAX_INDENTS = 12  # deeper elements are not indented further: each level adds two characters to every line
_MAX_REPEATED = 10_000  # per page: cells that repeat one above
_MAX_REPEATED_CHARS = 200  # of such a cell; longer text is not repeated
_HEADING = re.compile(r"h([1-6])")
_CONTENT = frozenset({"main", "article", "section", "blockquote", "figure"})
_BY_PLACE = frozenset({"header", "footer", "aside"})
# Ids and classes of documentation's makers, for what other pages mark as <nav>, <header> and <footer>.
_FRAMES = frozenset(
    "breadcrumb breadcrumbs footer gtoc header menu nav nav-path navbar navigation navpath page-header path quickview "
    "related side-nav sidebar sphinxsidebar toc".split()
)
_DOCBOOK = frozenset({"navheader", "navfooter"})  # with the page's title beside few links
# Elements with their own lines that the converter takes for parts of a line.
_BLOCKS = frozenset(
    "address center details dialog fieldset figure form hgroup label legend main menu optgroup output search".split()
)
_EMPHASIS = frozenset("b strong em i del s".split())
_NUMBERED_LINES = re.compile(r"blob|hljs-ln|line-?n|gutter|code|highlight|rouge", re.IGNORECASE)
_LINE_NUMBERS = re.compile(r"[\s\d]*")
_LINE_NUMBER = re.compile(r"lnt?|linenos?|(?:\w+-)?line-?numbers?", re.IGNORECASE)  # an element's class
_LINE_PARTS = frozenset({"span", "div"})
_LINES = frozenset({"br", "li", "ol", "ul"})  # within code, whose lines a page may number as items of a list
_RAISED = re.compile(r"\s*[-+−–]?\d")
_TEX = re.compile(r"tex", re.IGNORECASE)


def tidy(page: Tag) -> None:
    """Rename, drop and complete a page's elements, in place."""
    _choose(page)
    for table in page.find_all("table"):
        _lay_out(table)
    _number_items(page)
    repeated = 0
    for table in page.find_all("table"):
        repeated += _complete(table, _MAX_REPEATED - repeated)
    _limit_indents(page)


def _choose(page: Tag) -> None:
    """Drop what surrounds the text; name headings and blocks as the converter knows them."""
    letters, linked = _letters(page)
    with_h1 = _ancestors_of(page, "h1")
    content = {id(page): page.name in _CONTENT or page.get("role") == "main"}
    headed = {id(page): False}
    level = 1
    for element in page.find_all(True):
        parent, name = element.parent, element.name
        if parent is None or id(parent) not in content:  # taken out with a formula
            continue
        inside, in_heading = content[id(parent)], headed[id(parent)]
        content[id(element)] = inside or name in _CONTENT
        if heading := _HEADING.fullmatch(name):
            level = int(heading[1])
        headed[id(element)] = in_heading or bool(heading) or name == "summary"
        if name in _BY_PLACE:
            mostly_links = linked[id(element)] * 2 > letters[id(element)]
            kept = (inside and not mostly_links) or (name == "header" and id(element) in with_h1)
            element.name = DROPPED if not kept else "blockquote" if name == "aside" else "div"
        elif not inside and letters[id(element)] * 2 < letters[id(page)] and _is_frame(element, linked, letters):
            element.name = DROPPED
        elif name == "math":
            _show_formula(element)
        elif name == "sup" and _RAISED.match(element.get_text()):
            element.insert(0, "^")  # 10^5 is not 105
        elif name in _LINES and element.find_parent("pre"):
            element.append(_line_end(element))
            element.name = "span"
        elif box := _box(element):
            element.name = "span"
            after = element.find_next(string=True)
            element.append(box if after is not None and after[:1].isspace() else box + " ")
        elif "-" in name:  # the page's own element, perhaps beside another without a blank
            element.insert_after(" ")
        else:
            element.name = _known_name(element, in_heading=in_heading, level=level)


def _is_frame(element: Tag, linked: dict[int, int], letters: dict[int, int]) -> bool:
    """Whether a part outside the text is navigation by its id or class, and holds mostly links."""
    if element.name not in ("div", "ul", "table"):
        return False
    names = {element.get("id"), *element.get_attribute_list("class")}
    mostly_links = linked[id(element)] * 2 > letters[id(element)]
    return not _DOCBOOK.isdisjoint(names) or (mostly_links and not _FRAMES.isdisjoint(names))


def _box(element: Tag) -> str:
    """The sign for a checkbox in a task list; "" for another element."""
    names = element.get_attribute_list("class")
    if element.name == "input" and element.get("type") == "checkbox" and element.find_parent("li"):
        return "[x]" if element.has_attr("checked") else "[ ]"
    return "[x]" if "checkbox-on" in names else "[ ]" if "checkbox-off" in names else ""  # Notion


def _labels_box(element: Tag) -> bool:
    is_label = element.name == "label" and element.find_parent("li") is not None
    return is_label and element.find("input", type="checkbox") is not None


def _is_line_number(element: Tag) -> bool:
    names = [str(name) for name in element.get_attribute_list("class") if name] if element.name in _LINE_PARTS else ()
    if not any(map(_LINE_NUMBER.fullmatch, names)) or not _LINE_NUMBERS.fullmatch(element.get_text()):
        return False
    return "CodeMirror-linenumber" in names or element.find_parent(["pre", "code"]) is not None  # no line of a bus


def _known_name(element: Tag, *, in_heading: bool, level: int) -> str:
    """The converter's name for an element. level: of the last heading."""
    name, below = element.name, f"h{min(level + 1, 6)}"
    if name == "button":
        return "span" if in_heading else below if element.has_attr("aria-expanded") else name
    if name == "summary":
        return below
    if (name in _EMPHASIS and _within_word(element)) or _labels_box(element):
        return "span"  # **lock**smith would be two words
    if element.get("role") == "heading" and not _HEADING.fullmatch(name):
        stated = f"h{element.get('aria-level', '2')}"
        return stated if _HEADING.fullmatch(stated) else "h6"
    if "katex-html" in element.get_attribute_list("class") or _is_line_number(element):  # the formula once more
        return DROPPED
    if name in _BLOCKS or (name == "template" and element.has_attr("shadowrootmode")):
        return "div"
    return name


def _line_end(element: Tag) -> str:
    """What a line of code lacks at its end."""
    after = element.next_sibling
    ended = isinstance(after, NavigableString) and "\n" in after
    return "\n" if element.name == "br" or (element.name == "li" and not ended) else ""


def _within_word(element: Tag) -> bool:
    """Whether a letter stands right before or after an element."""
    before, after = element.previous_sibling, element.next_sibling
    text = element.get_text() if isinstance(before, NavigableString) or isinstance(after, NavigableString) else ""
    return (isinstance(before, NavigableString) and before[-1:].isalnum() and text[:1].isalnum()) or (
        isinstance(after, NavigableString) and after[:1].isalnum() and text[-1:].isalnum()
    )


def _letters(page: Tag) -> tuple[dict[int, int], dict[int, int]]:
    """Each element's letters, and those within links, by element id."""
    elements = [page, *page.find_all(True)]
    letters, linked = dict.fromkeys(map(id, elements), 0), dict.fromkeys(map(id, elements), 0)
    for element in reversed(elements):
        own = sum(len(child.strip()) for child in element.children if isinstance(child, NavigableString))
        letters[id(element)] += own
        if element.name == "a":
            linked[id(element)] = letters[id(element)]
        if element is not page and element.parent is not None:
            letters[id(element.parent)] += letters[id(element)]
            linked[id(element.parent)] += linked[id(element)]
    return letters, linked


def _ancestors_of(page: Tag, name: str) -> set[int]:
    """Ids of all elements that contain an element `name`."""
    result: set[int] = set()
    for element in page.find_all(name):
        for outer in element.parents:
            if id(outer) in result:
                break
            result.add(id(outer))
    return result


def _show_formula(math: Tag) -> None:
    """Keep one form of a formula: TeX if the page has it."""
    tex = math.find("annotation", encoding=_TEX)
    text = tex.get_text() if tex else str(math.get("alttext", ""))
    if text.strip():
        math.clear()
        math.append(text.strip())


def _own(table: Tag, *names: str) -> list[Tag]:
    """A table's elements that do not belong to a table within it."""
    return [element for element in table.find_all(names) if element.find_parent("table") is table]


def _lay_out(table: Tag) -> None:
    """Turn a table that only lays out code or other tables into blocks, and one within a data table into text."""
    if table.parent is None:
        return
    cells = _own(table, "td", "th")
    if _is_numbered_code(table, cells):
        lines = [row.find_all(["td", "th"])[-1].get_text().rstrip("\n") for row in _own(table, "tr")]
        table.clear()
        table.name = "span" if table.find_parent("pre") else "pre"
        table.append("\n".join(lines))
        return
    codes = [pre for pre in table.find_all("pre") if "\n" in pre.get_text().strip()]
    inner = table.find_all("table")
    data = any(cell.name == "th" for cell in cells)
    if codes or (inner and not data):
        for cell in cells:
            if codes and _LINE_NUMBERS.fullmatch(cell.get_text()):
                cell.name = DROPPED
            else:
                cell.name = "div"
        for part in (table, *_own(table, "thead", "tbody", "tfoot", "tr")):
            part.name = "div"
        return
    for one in inner:
        if one.find_parent("table") is None:  # within a table that became text
            continue
        rows = [
            ", ".join(cell.get_text(" ", strip=True) for cell in row.find_all(["td", "th"], recursive=False))
            for row in one.find_all("tr")
        ]
        one.name = "span"
        one.clear()
        one.append("; ".join(rows))
    for pre in table.find_all("pre"):
        pre.name = "code"


def _is_numbered_code(table: Tag, cells: list[Tag]) -> bool:
    """Whether each row is a line of code behind its number."""
    rows = _own(table, "tr")
    if len(rows) < 2 or len(cells) != 2 * len(rows) or table.find(["pre", "table"]):
        return False
    names = " ".join(str(name) for element in (table, *cells[:2]) for name in element.get_attribute_list("class"))
    return bool(_NUMBERED_LINES.search(names)) and all(_LINE_NUMBERS.fullmatch(cell.get_text()) for cell in cells[::2])


def _number_items(page: Tag) -> None:
    """Give each item of a numbered list a number, and each table cell a drawable width."""
    for numbered in page.find_all("ol"):
        items, back = numbered.find_all("li", recursive=False), numbered.has_attr("reversed")
        number = _whole(numbered.get("start"), len(items) if back else 1)
        for item in items:
            number = _whole(item.get("value"), number)
            item["value"] = str(number)
            number += -1 if back else 1
    for cell in page.find_all(["td", "th"]):
        cell["colspan"] = str(max(1, min(_MAX_COLUMNS, _whole(cell.get("colspan"), 1))))


def _whole(value: object, otherwise: int) -> int:
    number = _NUMBER.fullmatch(str(value or ""))
    return int(number[0]) if number else otherwise


def _complete(table: Tag, most: int) -> int:
    """Repeat cells that span several rows, and put the foot last; returns how many cells were repeated."""
    for foot in [part for part in _own(table, "tfoot") if part.find_next_sibling()]:
        table.append(foot.extract())
    rows = _own(table, "tr")
    ends = {id(row.parent): at for at, row in enumerate(rows)}  # a cell stays within its <tbody>
    above: dict[int, tuple[int, Tag]] = {}  # column -> further rows, cell
    repeated = 0
    for at, row in enumerate(rows):
        column, before, above = 0, above, {}
        cells = row.find_all(["td", "th"], recursive=False)
        last: Tag | None = None
        for cell in (*cells, None):
            while column in before and repeated < most:
                left, origin = before.pop(column)
                copy = Tag(name=origin.name)
                copy["colspan"] = origin["colspan"]
                text = origin.get_text(" ", strip=True)
                copy.append(text if len(text) <= _MAX_REPEATED_CHARS else "")
                if cell is not None:
                    cell.insert_before(copy)
                elif last is not None:
                    last.insert_after(copy)
                else:
                    row.append(copy)
                last, repeated = copy, repeated + 1
                if left > 1:
                    above[column] = left - 1, origin
                column += int(str(origin["colspan"]))
            if cell is None:
                break
            rest = ends[id(row.parent)] - at
            further = _whole(cell.get("rowspan"), 1) - 1
            if further := min(rest, rest if further < 0 else further):  # rowspan 0: to the end
                above[column] = further, cell
            column, last = column + int(str(cell["colspan"])), cell
        above |= {place: (left - 1, cell) for place, (left, cell) in before.items() if left > 1}
    return repeated


def _limit_indents(page: Tag) -> None:
    """Turn an element that is indented too often into a block."""
    indents = {id(page): 0}
    for element in page.find_all(True):
        indents[id(element)] = indents[id(element.parent)] + (element.name in _INDENTING)
        if element.name in _INDENTING and indents[id(element)] > _MAX_INDENTS:
            element.name = "div"
