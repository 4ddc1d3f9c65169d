"""HTML to Markdown: the text of the page itself, without what surrounds it on every page of its site.

Pages come from anywhere, so what Python's HTML parser takes quadratic time for (it looks for the end of an unclosed
comment or tag again and again) is taken out of its way first, by one pass over the text.
"""

import re
from typing import TYPE_CHECKING

from retrieval.errors import Unreadable
from retrieval.ingest.chunking.blocks import plain

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
    """Title ("" where the page has none) and text of a page. Raises Unreadable if it is nested too deeply.

    The page is what stands in <main> or its only <article>, where there is one.
    """
    from retrieval.ingest.formats.tagsoup import Converter, Soup, number  # only where there is HTML to read

    try:
        # The doctype keeps bs4 from warning that a page without tags looks like a file name.
        soup = Soup("<!DOCTYPE html>\n" + _read_parts(html))
        page = _page(soup)
        number(page)
        text = str(Converter(page).convert_soup(page))
    except RecursionError:
        raise Unreadable("its HTML is nested too deeply to convert") from None
    except ValueError as error:  # such as a heading of level 99…9, with more digits than Python reads
        raise Unreadable(f"its HTML cannot be converted ({error})") from error
    return _title(soup), re.sub(r"\n{3,}", "\n\n", text).strip()


def _read_parts(html: str) -> str:
    """The page without scripts, styles, comments and declarations; an unclosed one ends it, as in a browser."""
    last = html.rfind(">") + 1  # behind it no tag can be whole
    parts: list[str] = []
    at = 0
    while found := _UNREAD.search(html, at, last):
        parts.append(html[at : found.start()])
        end = _UNREAD_ENDS[(found[1] or found[0]).lower()].search(html, found.end())
        if end is None:
            return "".join(parts)
        at = end.end()
    tail = max(at, last)
    return "".join([*parts, html[at:tail], html[tail:].replace("<", "&lt;")])


def _page(soup: "BeautifulSoup") -> "Tag":
    """The element that holds the page's own text."""
    articles = soup.find_all("article", limit=2)
    for found in (soup.find("main"), soup.find(role="main"), articles[0] if len(articles) == 1 else None):
        if found and found.get_text(strip=True):
            return found
    return soup.body or soup


def _title(soup: "BeautifulSoup") -> str:
    for name in ("title", "h1"):
        found = soup.find(name)
        title = plain(found.get_text(" ").removesuffix("¶")) if found else ""
        if title:
            return title
    return ""
