"""HTML to Markdown: the page's own text, without the parts that repeat on every page of a site.

Pages come from anywhere. Python's HTML parser takes quadratic time for unclosed comments and tags (the parser
searches for the end again and again), so one pass over the text removes these first.
"""

import re
from typing import TYPE_CHECKING

from retrieval.errors import Unreadable
from retrieval.ingest.chunking.blocks import plain_heading

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_UNREAD = re.compile(r"<!--|<[!?]|<(script|style)\b[^>]*>", re.IGNORECASE)
_UNREAD_ENDS = {
    "script": re.compile(r"</script\b[^>]*>?", re.IGNORECASE),
    "style": re.compile(r"</style\b[^>]*>?", re.IGNORECASE),
    "<!--": re.compile("--!?>"),
    "<!": re.compile(">"),
    "<?": re.compile(">"),
}


def to_markdown(html: str) -> tuple[str, str]:
    """Return title ("" without a title) and text of a page. Raises Unreadable if the page is nested too deeply.

    The text is the content of <main> or of the only <article>, if present.
    """
    from retrieval.ingest.formats.tagsoup import Converter, PageParser, number_items  # slow import, only for HTML

    try:
        # The doctype keeps bs4 from warning that a page without tags looks like a file name.
        soup = PageParser("<!DOCTYPE html>\n" + _read_parts(html))
        page = _page(soup)
        number_items(page)
        text = str(Converter(page).convert_soup(page))
    except RecursionError:
        raise Unreadable("the HTML is nested too deeply to convert") from None
    except ValueError as error:  # such as a heading of level 99…9, with more digits than Python reads
        raise Unreadable(f"the HTML cannot be converted ({error})") from error
    return _title(soup), re.sub(r"\n{3,}", "\n\n", text).strip()


def _read_parts(html: str) -> str:
    """Return the page without scripts, styles, comments and declarations; an unclosed part ends the page."""
    last = html.rfind(">") + 1  # no tag after this place can be complete
    parts: list[str] = []
    at = 0
    while match := _UNREAD.search(html, at, last):
        parts.append(html[at : match.start()])
        end = _UNREAD_ENDS[(match[1] or match[0]).lower()].search(html, match.end())
        if end is None:
            return "".join(parts)
        at = end.end()
    tail = max(at, last)
    return "".join([*parts, html[at:tail], html[tail:].replace("<", "&lt;")])


def _page(soup: "BeautifulSoup") -> "Tag":
    """Return the element with the page's own text."""
    articles = soup.find_all("article", limit=2)
    for element in (soup.find("main"), soup.find(role="main"), articles[0] if len(articles) == 1 else None):
        if element and element.get_text(strip=True):
            return element
    return soup.body or soup


def _title(soup: "BeautifulSoup") -> str:
    for name in ("title", "h1"):
        element = soup.find(name)
        title = plain_heading(element.get_text(" ").removesuffix("¶")) if element else ""
        if title:
            return title
    return ""
