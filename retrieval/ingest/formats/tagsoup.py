"""bs4's parser and markdownify's converter, made fit for pages as they are found.

Imports both at once, so import it only where there is HTML to read. What is changed, and why:

- end tags that HTML lets writers leave out (</p>, </li>, </td> …) are supplied: bs4 would nest what follows;
- nesting has a limit below the one where the recursive converter fails;
- markdownify counts the items before each numbered one, the rows of a table's head for each of them and looks for a
  line's end behind each of many blanks (all quadratic), indents a line once more at each of 200 levels, draws a cell
  as wide as it says it is, and takes a tag named like one of its own methods for a call of it.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from markdownify import MarkdownConverter

from retrieval.errors import Unreadable

_SURROUNDINGS = frozenset(
    "head script style noscript template nav footer aside iframe svg canvas button select input".split()
)
_OWN_METHODS = frozenset({"soup", "fn_cache"})  # convert_soup and convert_fn_cache are not for tags
_LANGUAGE = re.compile(r"(?:language|lang|highlight)-([\w+#.-]+)")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MAX_COLUMNS = 20  # a cell that spans more is layout; each column costs characters
_MAX_DEPTH = 200  # the converter uses three of Python's 1,000 frames a level; written pages stay under 60
_MAX_CLASSES = 16  # of an element that are looked at
_INDENTING = frozenset({"blockquote", "dd", "li"})
_MAX_INDENTS = 12  # what is nested deeper is not indented further: each level costs every line of it two characters
_BLANKS = re.compile(r"[\t ]{9,}")
_LOOK_BACK = 20  # elements between a tag and the open one that it ends: bounds the work on what is never closed

_TABLE_PARTS = {"tbody", "thead", "tfoot"}
_ENDS_PARAGRAPH = (
    "address article aside blockquote details div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main nav"
    " ol p pre section table ul"
).split()
_ENDS: dict[str, tuple[set[str], set[str]]] = {  # tag -> the open elements it ends, those it never reaches across
    **{name: ({"p"}, {"td", "th", "li", "dd", "div", "section", "article", "blockquote"}) for name in _ENDS_PARAGRAPH},
    "a": ({"a"}, {"td", "th", "li"}),
    "li": ({"li"}, {"ul", "ol", "menu"}),
    "dt": ({"dt", "dd"}, {"dl"}),
    "dd": ({"dt", "dd"}, {"dl"}),
    "td": ({"td", "th"}, {"tr", "table"}),
    "th": ({"td", "th"}, {"tr", "table"}),
    "tr": ({"tr"}, {"table"}),
    **{name: (_TABLE_PARTS, {"table"}) for name in _TABLE_PARTS},
}


class Soup(BeautifulSoup):
    """A page as a tree. Raises Unreadable where elements are nested too deeply to convert."""

    def __init__(self, html: str) -> None:
        super().__init__(html, "html.parser")

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:
        if len(self.tagStack) > _MAX_DEPTH:
            raise Unreadable(f"its HTML is nested too deeply to convert: expected at most {_MAX_DEPTH} levels")
        ends, beyond = _ENDS.get(name, (set[str](), set[str]()))
        for element in reversed(self.tagStack[-_LOOK_BACK:]):
            if not ends or element.name in beyond:
                break
            if element.name in ends:
                self.handle_endtag(element.name)
                break
        return super().handle_starttag(name, *args, **kwargs)


class Converter(MarkdownConverter):
    """Elements to Markdown: the page's text without its surroundings. Links to other sites stay links."""

    def __init__(self, page: Tag) -> None:
        self._titled = _around(page, "h1")
        self._headed = _around(page, "thead")
        self._with_data = _around(page, "td")
        self._columns = Counter[int]()
        for cell in page.find_all(["td", "th"]):
            self._columns.update({id(row): int(str(cell["colspan"])) for row in cell.parents if row.name == "tr"})
        super().__init__(
            heading_style="atx",
            escape_asterisks=False,
            escape_underscores=False,  # max_pool_size is what people search for
            table_infer_header=True,
            code_language_callback=_language,
        )

    def get_conv_fn(self, tag_name: str) -> Callable[..., str] | None:
        if tag_name in _SURROUNDINGS:
            return lambda *_, **__: ""
        if tag_name in _OWN_METHODS:
            return None
        found: Callable[..., str] | None = super().get_conv_fn(tag_name)  # type: ignore[misc]  # not in its stubs
        return found

    def convert_header(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text if id(el) in self._titled else ""  # an article's header holds its title

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "headerlink" in el.get_attribute_list("class"):  # Sphinx's "¶" beside each heading
            return ""
        href = str(el.get("href", ""))
        if not href.startswith(("http://", "https://")) or "_noformat" in parent_tags or not text.strip():
            return text
        return f"[{text.strip()}]({href})"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return str(el.get("alt", ""))

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        bullet = f"{el['value']}. " if el.parent is not None and el.parent.name == "ol" else "- "
        lines = text.strip().split("\n")
        return bullet + "\n".join([lines[0], *(line and " " * len(bullet) + line for line in lines[1:])]) + "\n"

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """A row; below a table's first one the line that makes a head of it, or above it an empty head."""
        row, parent = f"|{text}\n", el.parent
        if el.find_previous_sibling() is not None or parent is None:
            return row
        columns = self._columns[id(el)]
        rule = "| " + " | ".join(["---"] * columns) + " |\n"
        in_body = parent.name == "tbody"
        alone = parent.name == "thead" and len(parent.find_all("tr", limit=2)) == 1
        is_head = alone or id(el) not in self._with_data
        if is_head or not in_body or id(parent.parent) not in self._headed:
            return row + rule
        is_first = parent.find_previous_sibling() is None
        return "| " + " | ".join([""] * columns) + " |\n" + rule + row if is_first else row

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        if _BLANKS.search(el) and "pre" not in (parent_tags or ()):
            short = NavigableString(_BLANKS.sub(" ", el))  # the same to it, which makes one of several anyway
            short.parent, short.previous_sibling, short.next_sibling = el.parent, el.previous_sibling, el.next_sibling
            el = short
        text: str = super().process_text(el, parent_tags)  # type: ignore[misc]  # not in its stubs
        return text


def _around(page: Tag, name: str) -> set[int]:
    """The ids of all elements that hold one of that name."""
    found: set[int] = set()
    for element in page.find_all(name):
        for outer in element.parents:
            if id(outer) in found:
                break
            found.add(id(outer))
    return found


def number(page: Tag) -> None:
    """Gives each item of a numbered list its number, and each table cell a width that can be drawn, in place.

    What would be indented too often becomes a <div>.
    """
    for numbered in page.find_all("ol"):
        start = _NUMBER.fullmatch(str(numbered.get("start", "")))
        for n, item in enumerate(numbered.find_all("li", recursive=False), int(start[0]) if start else 1):
            item["value"] = str(n)
    for cell in page.find_all(["td", "th"]):
        span = _NUMBER.fullmatch(str(cell.get("colspan", "")))
        cell["colspan"] = str(max(1, min(_MAX_COLUMNS, int(span[0]) if span else 1)))
    indents = {id(page): 0}
    for element in page.find_all(True):
        indents[id(element)] = indents[id(element.parent)] + (element.name in _INDENTING)
        if element.name in _INDENTING and indents[id(element)] > _MAX_INDENTS:
            element.name = "div"


def _language(pre: Tag) -> str:
    """The language of a code block, from the classes that highlighters leave on it, its <code> or its wrappers."""
    code = pre.find("code")
    for element in (code, pre, pre.parent, pre.parent and pre.parent.parent):
        names = " ".join(map(str, element.get_attribute_list("class")[:_MAX_CLASSES])) if element else ""
        found = _LANGUAGE.search(names)
        if found and found[1] not in ("default", "none"):
            return found[1]
    return ""
