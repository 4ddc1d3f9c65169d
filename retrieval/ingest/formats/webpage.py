"""HTML to Markdown: a page's own text, without parts that repeat on every page of its site.

This module imports bs4 and markdownify, so `load` imports it only to read HTML. Pages come from anywhere, and these
libraries need help with broken ones:

- Python's HTML parser takes quadratic time for unclosed comments and tags (it searches for their end again and again),
  so one pass over the text removes them first;
- optional end tags (</p>, </li>, </td> …) are supplied: bs4 would nest what follows;
- the nesting limit is below the depth at which the recursive converter fails;
- markdownify counts the items before each numbered item, counts a table head's rows for each row, and searches for a
  line's end after each of many blanks (all quadratic), indents a line again at each of 200 levels, draws a cell as
  wide as it declares to be, and takes a tag with the name of one of its own methods for a call.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from markdownify import MarkdownConverter

from retrieval.errors import Unreadable
from retrieval.ingest.chunking.blocks import plain_heading
from retrieval.ingest.formats.page_tree import DROPPED, tidy

_UNREAD = re.compile(r"<!--|<[!?]|<(script|style)\b[^>]*>", re.IGNORECASE)
_XHTML = re.compile(r"\s*(?:<\?xml\b|.{0,1000}?<html\b[^>]{0,1000}\bxmlns\s*=)", re.DOTALL | re.IGNORECASE)
_UNREAD_ENDS = {
    "script": re.compile(r"</script\b[^>]*>?", re.IGNORECASE),
    "style": re.compile(r"</style\b[^>]*>?", re.IGNORECASE),
    "<!--": re.compile("--!?>"),
    "<!": re.compile(">"),
    "<?": re.compile(">"),
}
_NO_TEXT = frozenset("head script style noscript template iframe svg canvas button select input".split()) | {DROPPED}
_OWN_METHODS = frozenset({"soup", "fn_cache"})  # convert_soup and convert_fn_cache do not handle tags
_LANGUAGE = re.compile(r"(?:language|lang|highlight)-([\w+#.-]+)")
_MAX_DEPTH = 200  # the converter uses three of Python's 1,000 frames per level; real pages stay under 60
_MAX_CLASSES = 16  # examined per element
_BLANKS = re.compile(r"[\t ]{9,}")
_FENCES = re.compile("`{3,}")
_NEWLINE = "\n"
_LIKE_HEADING = re.compile(r"^#{1,6}(?=\s)")
_LOOK_BACK = 20  # elements between a tag and the open one that it ends: limits the work on unclosed elements

_TABLE_PARTS = {"tbody", "thead", "tfoot"}
_ENDS_PARAGRAPH = (
    "address article aside blockquote details div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main nav"
    " ol p pre section table ul"
).split()
# tag -> (open elements that it ends, elements that stop the search)
_ENDS: dict[str, tuple[set[str], set[str]]] = {
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


def to_markdown(html: str) -> tuple[str, str]:
    """Return a page's title ("" if it has none) and text. Raises Unreadable if it is nested too deeply.

    The text is that of <main> or of the only <article>, if present.
    """
    try:
        # The doctype keeps bs4 from warning that a page without tags looks like a file name.
        soup = PageParser("<!DOCTYPE html>\n" + _read_parts(html))
        page = _page(soup)
        tidy(page)
        text = str(Converter(page).convert_soup(page))
    except RecursionError:
        raise Unreadable("the HTML is nested too deeply to convert; save the page as text") from None
    except ValueError as error:  # such as a heading of level 99…9, with more digits than Python reads
        raise Unreadable(f"the HTML cannot be converted ({error}); save the page as text") from error
    return _title(soup), re.sub(r"\n{3,}", "\n\n", text).strip()


def _read_parts(html: str) -> str:
    """Return the page without scripts, styles, comments and declarations; an unclosed one ends it.

    In XHTML, `<script/>` is closed.
    """
    xhtml = _XHTML.match(html) is not None
    last = html.rfind(">") + 1  # no tag after this place can be complete
    parts: list[str] = []
    at = 0
    while match := _UNREAD.search(html, at, last):
        parts.append(html[at : match.start()])
        if xhtml and match[0].endswith("/>"):
            at = match.end()
            continue
        end = _UNREAD_ENDS[(match[1] or match[0]).lower()].search(html, match.end())
        if end is None:
            return "".join(parts)
        at = end.end()
    tail = max(at, last)
    return "".join([*parts, html[at:tail], html[tail:].replace("<", "&lt;")])


def _page(soup: BeautifulSoup) -> Tag:
    """Return the element that holds the page's own text."""
    articles = soup.find_all("article", limit=2)
    for element in (soup.find("main"), soup.find(role="main"), articles[0] if len(articles) == 1 else None):
        if element and element.get_text(strip=True):
            return element
    return soup.body or soup


def _title(soup: BeautifulSoup) -> str:
    for name in ("title", "h1"):
        element = soup.find(name)
        title = plain_heading(element.get_text(" ").removesuffix("¶")) if element else ""
        if title:
            return title
    return ""


class PageParser(BeautifulSoup):
    """A page as a tree. Raises Unreadable if elements are nested too deeply to convert."""

    def __init__(self, html: str) -> None:
        super().__init__(html, "html.parser")

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:
        if len(self.tagStack) > _MAX_DEPTH:
            raise Unreadable(
                f"the HTML is nested too deeply to convert: expected at most {_MAX_DEPTH} levels; save the page as text"
            )
        ends, beyond = _ENDS.get(name, (set[str](), set[str]()))
        for element in reversed(self.tagStack[-_LOOK_BACK:]):
            if not ends or element.name in beyond:
                break
            if element.name in ends:
                self.handle_endtag(element.name)
                break
        return super().handle_starttag(name, *args, **kwargs)


class Converter(MarkdownConverter):
    """Elements to Markdown: page text without navigation. Links to other sites stay links."""

    def __init__(self, page: Tag) -> None:
        self._columns = Counter[int]()  # by the row's id
        self._with_data = set[int]()  # rows
        for cell in page.find_all(["td", "th"]):
            self._columns[id(cell.parent)] += int(str(cell["colspan"]))
            if cell.name == "td":
                self._with_data.add(id(cell.parent))
        self._first_rows = {id(table.find("tr")) for table in page.find_all("table")}
        super().__init__(
            heading_style="atx",
            escape_asterisks=False,
            escape_underscores=False,  # people search for max_pool_size
            table_infer_header=True,
            code_language_callback=_language,
        )

    def get_conv_fn(self, tag_name: str) -> Callable[..., str] | None:
        if tag_name in _NO_TEXT:
            return lambda *_, **__: ""
        if tag_name in _OWN_METHODS:
            return None
        result: Callable[..., str] | None = super().get_conv_fn(tag_name)  # type: ignore[misc]  # not in its stubs
        return result

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "headerlink" in el.get_attribute_list("class"):  # Sphinx's "¶" beside each heading
            return ""
        href = str(el.get("href", ""))
        if href.startswith(("mailto:", "tel:")):
            address = unquote(href.partition(":")[2].partition("?")[0])
            return text if _plain_address(address) in _plain_address(text) else f"{text} ({address})"
        if href.startswith("https://www.google.com/url?"):  # around each link of a Google document
            href = parse_qs(urlsplit(href).query).get("q", [href])[0]
        if not href.startswith(("http://", "https://")) or "_noformat" in parent_tags or not text.strip():
            return text
        return f"[{text.strip()}]({href})"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return str(el.get("alt", ""))

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        bullet = f"{el['value']}. " if el.parent is not None and el.parent.name == "ol" else "- "
        lines = text.strip().split("\n")
        return bullet + "\n".join([lines[0], *(line and " " * len(bullet) + line for line in lines[1:])]) + "\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        cell: str = super().convert_td(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]
        return cell

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return a row; the first gets a rule below to become the head, or an empty head above."""
        row = f"|{text}\n"
        if id(el) not in self._first_rows:
            return row
        columns = self._columns[id(el)]
        rule = "| " + " | ".join(["---"] * columns) + " |\n"
        in_body = el.parent is not None and el.parent.name == "tbody"
        if in_body and id(el) in self._with_data:
            return "| " + " | ".join([""] * columns) + " |\n" + rule + row
        return row + rule

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        block: str = super().convert_pre(el, text, parent_tags)  # type: ignore[misc]
        longest = max(map(len, _FENCES.findall(text)), default=0)
        if longest:  # a fence within the code must not end the block
            fence = "`" * (longest + 1)
            block = f"\n\n{fence}{block.strip(_NEWLINE)[3:-3]}{fence}\n\n"
        return block

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        if _BLANKS.search(el) and "pre" not in (parent_tags or ()):
            shortened = NavigableString(_BLANKS.sub(" ", el))  # equal for markdownify, which joins blanks anyway
            shortened.parent, shortened.previous_sibling, shortened.next_sibling = (
                el.parent,
                el.previous_sibling,
                el.next_sibling,
            )
            el = shortened
        text: str = super().process_text(el, parent_tags)  # type: ignore[misc]  # not in its stubs
        if parent_tags is None or not parent_tags & {"_noformat", "_inline"}:
            text = _LIKE_HEADING.sub(r"\\\g<0>", text)
        return text


def _plain_address(text: str) -> str:
    return re.sub(r"[\s()+/-]", "", text).lower()


def _language(pre: Tag) -> str:
    """Return a code block's language, from highlighter classes on the block, its <code> or its wrappers."""
    code = pre.find("code")
    for element in (code, pre, pre.parent, pre.parent and pre.parent.parent):
        names = " ".join(map(str, element.get_attribute_list("class")[:_MAX_CLASSES])) if element else ""
        result = _LANGUAGE.search(names)
        if result and result[1] not in ("default", "none"):
            return result[1]
    return ""
