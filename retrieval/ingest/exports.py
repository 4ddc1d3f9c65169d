"""Exports of Confluence, Notion and Google, as downloaded: readable names, and pages without what the program adds.

`tidied` runs where containers are unpacked, and knows an export by its members. A member keeps its name in its key, so
that a page with a new title stays the same document.

- Confluence (a space as HTML): the breadcrumbs are the path; breadcrumbs, list of attachments and footer are left out,
  and an attachment, named by a number, gets its own name.
- Notion (Markdown and CSV, or HTML): names and links lose the 32 digits of page ids; of a table that is there whole
  and as shown, the whole one is taken.
- Google (Takeout): the folder `Takeout` and its overview are left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape, unescape
from pathlib import PurePosixPath
from posixpath import join, normpath
from urllib.parse import unquote

_NOTION_ID = re.compile(r"(?<=\S)(?: |%20)([0-9a-f]{32})(?=$|[./)_])")
_NOTION_PART = re.compile(r"(?:^|/)Export(?:Block)?-[0-9a-f-]{36}(?:-Part-\d+)?(?:\.zip!)?(?=/)")
_LINK = re.compile(rb"\]\((?!\w+:)[^()\n]{1,2000}\)")
_PAGE = re.compile(rb"<(?:span|h1)\b[^>]{0,200}\bid=[\"']?title-text\b[^>]*>(.{0,2000}?)</", re.DOTALL)
_CRUMBS = re.compile(rb"<ol\b[^>]{0,200}\bid=[\"']?breadcrumbs\b[^>]*>(.{0,20000}?)</ol>", re.DOTALL)
_ANCHOR = re.compile(rb"<a\b[^>]{0,2000}?\bhref=\"([^\"]{1,2000})\"[^>]{0,2000}>(.{0,2000}?)</a>", re.DOTALL)
_TAG = re.compile(rb"<[^>]*>")
_MAIN = b'<div id="main-content"'
_AFTER_MAIN = (b'<h2 id="attachments"', b'<div id="footer"')
_SHORT = 6  # digits of an id that tell two pages with the same title apart
_OVERVIEW = "overview of an export"


@dataclass(frozen=True, slots=True)
class Tidied:
    """A member's name for people ("": its own), and its content."""

    shown: str
    data: bytes


def tidied(members: Mapping[str, bytes]) -> tuple[dict[str, Tidied], Counter[str]]:
    """Return documents by member name, and members left out (reason -> count)."""
    skipped = Counter[str]()
    found = {name: Tidied("", data) for name, data in members.items()}
    pages = {name: page for name, data in members.items() if (page := _confluence_page(name, data))}
    for name, page in pages.items():
        found[name] = Tidied(f"{page.shown}.html", page.data)
        for target, text in page.attachments:
            if target in found and target not in pages:
                found[target] = Tidied(f"{page.shown}/{text}", members[target])
    for name, data in members.items():
        whole = _NOTION_ID.sub(r" \1_all", name) if name.endswith(".csv") else name
        overview = name.endswith("Takeout/archive_browser.html") or _is_index(name, pages)
        if overview or (whole != name and whole in members):
            skipped[_OVERVIEW if overview else "part of a table that is there whole"] += 1
            del found[name]
        elif name not in pages and not found[name].shown:
            found[name] = Tidied(_plain_name(name), _LINK.sub(_plain_link, data) if _NOTION_ID.search(name) else data)
    return _distinct(found), skipped


def _plain_name(name: str) -> str:
    """A name without ids and without an export's own folders; "" if it has neither."""
    plain = _NOTION_PART.sub("", name)
    plain = re.sub(r"_all(?=\.csv$)", "", _NOTION_ID.sub("", plain)) if _NOTION_ID.search(plain) else plain
    plain = re.sub(r"^(?:Takeout|Private & Shared)/", "", plain.lstrip("/"))
    return "" if plain == name else plain


def _plain_link(link: re.Match[bytes]) -> bytes:
    return _NOTION_ID.sub("", link[0].decode("utf-8", "replace")).encode()


def _distinct(found: dict[str, Tidied]) -> dict[str, Tidied]:
    """Give pages with the same name the beginning of their ids."""
    times = Counter(page.shown or name for name, page in found.items())
    for name, page in found.items():
        ids = _NOTION_ID.findall(name) or re.findall(r"\d{4,}", name)
        if page.shown and times[page.shown] > 1 and ids:
            path = PurePosixPath(page.shown)
            found[name] = Tidied(str(path.with_name(f"{path.stem} {ids[-1][:_SHORT]}{path.suffix}")), page.data)
    return found


@dataclass(frozen=True, slots=True)
class _ConfluencePage:
    shown: str  # its place in the space, without an ending
    data: bytes
    attachments: tuple[tuple[str, str], ...]  # members and their names


def _confluence_page(name: str, data: bytes) -> _ConfluencePage | None:
    start = data.find(_MAIN) if name.endswith(".html") else -1
    title, crumbs = _PAGE.search(data, 0, max(start, 0)), _CRUMBS.search(data, 0, max(start, 0))
    if title is None or crumbs is None:
        return None
    path = [_text(text) for _, text in _ANCHOR.findall(crumbs[1])]
    own = _text(title[1])
    own = own.removeprefix(f"{path[0]} : ") if path else own
    end = min((at for mark in _AFTER_MAIN if (at := data.find(mark, start)) >= 0), default=len(data))
    html = b"<html><head><title>%s</title></head><body><main>%s</main></body></html>"
    folder = str(PurePosixPath(name).parent)
    links = [(normpath(join(folder, unquote(unescape(href.decode("utf-8", "replace"))))), _text(text))
             for href, text in _ANCHOR.findall(data, end)]  # fmt: skip
    attached = tuple((target, text) for target, text in links if "attachments/" in target and text)
    return _ConfluencePage("/".join(_one_name([*path, own])), html % (escape(own).encode(), data[start:end]), attached)


def _is_index(name: str, pages: Mapping[str, _ConfluencePage]) -> bool:
    """Whether it is the list of a space's pages."""
    path = PurePosixPath(name)
    return path.name == "index.html" and name not in pages and any(
        PurePosixPath(page).parent == path.parent for page in pages
    )  # fmt: skip


def _text(html: bytes) -> str:
    return " ".join(unescape(_TAG.sub(b"", html).decode("utf-8", "replace")).split())


def _one_name(parts: Iterable[str]) -> list[str]:
    return [part.replace("/", "∕") for part in parts if part]
