"""What our reader of HTML and `trafilatura` find of real pages: their own text, and the frame around it.

    python benchmarks/documents/pages.py FOLDER [--pages N] [--work FOLDER]

FOLDER: the unpacked Debian packages python3-doc, python-requests-doc, postgresql-doc-15, git-doc, sqlite3-doc,
apache2-doc, libcommons-lang3-java-doc, libeigen3-doc and nodejs-doc (`apt-get download`, `dpkg-deb -x`). A maker's
rows in `MAKERS` say which element holds a page's own text, and which elements are its frame.

Shares: words of the own text found; words of the frame alone that are found, too (0 is best); headings found as
headings; code blocks found line by line; cells found in tables; then seconds per page.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bs4 import BeautifulSoup, Tag

from benchmarks.common.output import say, table
from benchmarks.documents.compare import environment
from retrieval.ingest.formats.decode import decode
from retrieval.ingest.formats.webpage import to_markdown

_REQUIREMENTS = ("trafilatura==2.3.1", "lxml_html_clean")  # it imports this part, which lxml no longer has
_READ = """
import json, sys, time
from pathlib import Path
from trafilatura import extract
for path in sys.stdin.read().splitlines():
    page, began = Path(path).read_bytes(), time.perf_counter()
    text = extract(page, output_format="markdown", include_comments=False, **json.loads(sys.argv[1]))
    print(json.dumps([text or "", time.perf_counter() - began]))
"""
_TRAFILATURA: dict[str, dict[str, bool]] = {
    "trafilatura": {"include_formatting": True},
    "trafilatura, for recall": {"include_formatting": True, "favor_recall": True},
}


@dataclass(frozen=True, slots=True)
class Maker:
    pages: str  # a glob
    main: str  # CSS, as are the frame's
    frame: str


MAKERS = {
    "Sphinx": Maker("usr/share/doc/python3.11/html/library/*.html", "div.body", "div.related, .sphinxsidebar, .footer"),
    "Sphinx, alabaster": Maker(
        "usr/share/doc/python-requests-doc/html/**/*.html", "div.body", ".sphinxsidebar, .footer, .related"
    ),
    "DocBook": Maker("usr/share/doc/postgresql-doc-15/html/*.html", "body", ".navheader, .navfooter"),
    "AsciiDoc": Maker("usr/share/doc/git/html/*.html", "body", "#footer"),
    "SQLite": Maker("usr/share/doc/sqlite3/*.html", "body", ".nosearch, .menu"),
    "Apache": Maker(
        "usr/share/doc/apache2-doc/manual/en/**/*.html", "#page-content", "#page-header, #path, #footer, .up"
    ),
    "Javadoc": Maker(
        "usr/share/doc/libcommons-lang3-java/api/org/**/*.html",
        "main, body",
        ".topNav, .bottomNav, .subNav, nav, .skipNav",
    ),
    "Doxygen": Maker(
        "usr/share/doc/libeigen3-dev/html/*.html",
        "div.contents",
        "#top, #side-nav, #nav-path, .footer, #doc-content > .header .summary",
    ),
    "Node.js": Maker("usr/share/doc/nodejs/api/*.html", "#apicontent", "#column2, .header, #gtoc, #toc"),
}


@dataclass(frozen=True, slots=True)
class Gold:
    """What a page holds."""

    own: Counter[str]  # words
    frame: Counter[str]  # words that the own text has not
    headings: Counter[str]
    code: Counter[str]  # lines
    cells: Counter[str]


def gold(html: str, maker: Maker) -> Gold | None:
    soup = BeautifulSoup(html, "html.parser")
    for element in soup(["script", "style", "noscript", "template"]):
        element.decompose()
    frame = Counter[str]()
    for element in soup.select(maker.frame):
        if not any(parent in soup.select(maker.frame) for parent in element.parents):
            frame += words(element.get_text(" "))
    for element in soup.select(f"{maker.frame}, a.headerlink, .mark"):
        element.extract()
    main = soup.select_one(maker.main)
    if main is None:
        return None
    own = words(main.get_text(" "))
    return Gold(
        own,
        Counter({word: count for word, count in frame.items() if word not in own}),
        Counter(_plain(one) for one in main.find_all(re.compile("^h[1-6]$")) if _plain(one)),
        Counter(line for one in main.find_all("pre") for line in _lines(one.get_text())),
        Counter(
            _plain(one) for one in main.find_all("td") if _plain(one) and not one.find(["table", "pre", "ul", "ol"])
        ),
    )


def found(markdown: str) -> Gold:
    """The same of what a reader says; `frame` has all words."""
    rows = [line for line in markdown.splitlines() if line.lstrip().startswith("|") or " | " in line]
    marked = [line for line in markdown.splitlines() if re.match(r"#{1,6} ", line)]
    own = words(markdown)
    cells = (" ".join(words(cell).elements()) for row in rows for cell in re.split(r"(?<!\\)\|", row))
    headings = (" ".join(re.findall(r"\w+", line)) for line in marked)
    return Gold(own, own, Counter(headings), Counter(_lines(markdown)), Counter(cells))


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


def _plain(element: Tag) -> str:
    return " ".join(re.findall(r"\w+", element.get_text(" ")))


def _lines(text: str) -> Iterable[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def ours(files: Sequence[Path]) -> list[tuple[str, float]]:
    read = []
    for file in files:
        data, began = file.read_bytes(), time.perf_counter()
        title, text = to_markdown(decode(data, html=True).text)
        read.append((f"# {title}\n\n{text}", time.perf_counter() - began))
    return read


def theirs(python: Path, options: dict[str, bool]) -> Callable[[Sequence[Path]], list[tuple[str, float]]]:
    def read(files: Sequence[Path]) -> list[tuple[str, float]]:
        command = [str(python), "-c", _READ, json.dumps(options)]
        done = subprocess.run(command, input="\n".join(map(str, files)), capture_output=True, text=True, check=True)
        return [(text, seconds) for text, seconds in map(json.loads, done.stdout.splitlines())]

    return read


def _shares(golds: Sequence[Gold], texts: Sequence[str]) -> list[str]:
    shares = []
    for name in ("own", "frame", "headings", "code", "cells"):
        expected = [getattr(one, name) for one in golds]
        got = [getattr(found(text), name) for text in texts]
        there = sum((one & other).total() for one, other in zip(expected, got, strict=True))
        total = sum(one.total() for one in expected)
        shares.append(f"{there / total:.3f}" if total else "–")
    return shares


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=4, help="of each maker")
    parser.add_argument("--work", type=Path, help="keeps the environment of trafilatura")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        python = environment((args.work or Path(scratch)) / "trafilatura", *_REQUIREMENTS)
        readers = {"ragway": ours} | {name: theirs(python, options) for name, options in _TRAFILATURA.items()}
        rows = []
        for name, maker in MAKERS.items():
            files = sorted(args.folder.glob(maker.pages), key=lambda file: file.stat().st_size)
            files = [file for file in files if 4_000 < file.stat().st_size < 400_000]
            files = files[:: max(1, len(files) // args.pages)][: args.pages]
            golds = [gold(decode(file.read_bytes(), html=True).text, maker) for file in files]
            kept = [(file, one) for file, one in zip(files, golds, strict=True) if one is not None and one.own]
            if not kept:
                say(f"{name}: no pages")
                continue
            for reader, read in readers.items():
                answers = read([file for file, _ in kept])
                seconds = sum(taken for _, taken in answers) / len(kept)
                shares = _shares([one for _, one in kept], [text for text, _ in answers])
                rows.append([f"{name} ({len(kept)})", reader, *shares, f"{seconds:.3f}"])
        say(table(["maker (pages)", "reader", "own words", "frame", "headings", "code", "cells", "seconds"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
