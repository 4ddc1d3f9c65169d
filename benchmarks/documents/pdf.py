"""Measures what readers of PDF find again: words, headings and cells of Markdown files printed by known programs.

Chromium prints each Markdown file in several ways (`WAYS`), LibreOffice prints what pandoc made of it (`office`). The
Markdown of each reader is compared with the file. Readers that are not installed are left out.
A cell counts if it stands in one row with the other cells of its row. Readers that are not installed are left out.

    python -m benchmarks.documents.pdf docs --work /tmp/twins --most 20
"""

import argparse
import asyncio
import base64
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from markdown_it import MarkdownIt
from markdown_it.token import Token
from websockets.sync.client import connect
from websockets.sync.connection import Connection

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 10pt/1.35 {font}; {body} }} h1 {{ font-size: 20pt }} h2 {{ font-size: 15pt }} h3 {{ font-size: 12pt }}
code, pre {{ font-family: "DejaVu Sans Mono", monospace; font-size: 9pt }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
table {{ border-collapse: collapse; font-size: 9pt }} {css}</style><body>{html}</body></html>"""
_RULED = "td, th { border: .6pt solid #444; padding: 2pt 5pt; text-align: left; vertical-align: top }"
_OPEN = "td, th { padding: 2.5pt 8pt; text-align: left; vertical-align: top } thead th { border-bottom: .6pt solid }"
# Way -> styles of tables and of the body, and whether the PDF has tags.
WAYS: dict[str, tuple[str, str, bool]] = {
    "tagged": (_OPEN, "", True),
    "ruled": (_RULED, "", False),
    "open": (_OPEN, "", False),
    "columns": (
        _RULED + " table { table-layout: fixed; width: 100%; overflow-wrap: anywhere }",
        "columns: 2; column-gap: 9mm; text-align: justify; hyphens: auto",
        False,
    ),
}


@dataclass(slots=True)
class Content:
    """What a Markdown text says: its words, headings, and rows of cells, without signs and blanks."""

    words: Counter[str] = field(default_factory=Counter)
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def content_of(text: str) -> Content:
    found = Content()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in zip([Token("", "", 0), *tokens], tokens, strict=False):
        if token.type == "tr_open":
            found.rows.append([])
        if token.type not in ("inline", "fence", "code_block"):
            continue
        said = _said(token) if token.type == "inline" else token.content
        found.words.update(re.findall(r"\w+", said.casefold()))
        if before.type == "heading_open":
            found.headings.append(_plain(said))
        elif before.type in ("td_open", "th_open"):
            found.rows[-1].append(_plain(said))
    return found


def _said(token: Token) -> str:
    kinds = {"softbreak": " ", "hardbreak": " ", "html_inline": ""}
    return "".join(kinds.get(child.type, child.content) for child in token.children or ())


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def shares(wanted: Content, got: Content) -> tuple[float, float, float]:
    """Return which share of words, headings and cells was found; NaN if there are none."""
    words = sum((wanted.words & got.words).values()) / max(1, wanted.words.total())
    headings = sum((Counter(wanted.headings) & Counter(got.headings)).values())
    cells = sum(max((_common(row, other) for other in got.rows), default=0) for row in wanted.rows)
    count = sum(sum(map(bool, row)) for row in wanted.rows)
    share = headings / len(wanted.headings) if wanted.headings else np.nan
    return words, share, cells / count if count else np.nan


def _common(row: list[str], other: list[str]) -> int:
    """Cells of a row in the other, in order; half of them at least, else these are two rows."""
    at = found = 0
    for cell in filter(None, row):
        if cell in other[at:]:
            at = other.index(cell, at) + 1
            found += 1
    return found if 2 * found >= sum(map(bool, row)) else 0


def printed(files: list[Path], way: str, folder: Path) -> list[Path]:
    """Return the files as PDF."""
    if way == "office":
        return _by_office(files, folder)
    css, body, tagged = WAYS[way]
    made = printed_names(files, way, folder)
    missing = [(file, target) for file, target in zip(files, made, strict=True) if not target.exists()]
    for file, target in missing:
        text = file.read_text("utf-8")
        title = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")), file.stem)
        html = MarkdownIt("commonmark").enable("table").render(text)
        page = _PAGE.format(title=escape(title), font="Liberation Serif, serif", css=css, body=body, html=html)
        target.with_suffix(".html").write_text(page)
    if missing:
        _by_chromium([target for _, target in missing], tagged=tagged)
    return made


def printed_names(files: list[Path], way: str, folder: Path, suffix: str = ".pdf") -> list[Path]:
    """Return a name for each file, with a number for its path: two folders may have files of one name."""
    numbers = (sha256(str(file).encode()).hexdigest()[:6] for file in files)
    return [folder / f"{way}-{number}-{file.stem}{suffix}" for file, number in zip(files, numbers, strict=True)]


def _by_chromium(targets: list[Path], *, tagged: bool) -> None:
    """Print the page beside each target, in one browser: a start takes a second."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        browser = subprocess.Popen(
            [chromium, *flags, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = Path(profile) / "DevToolsActivePort"
            until = time.monotonic() + 60
            while not port.exists() or "\n" not in port.read_text():
                if time.monotonic() > until:
                    sys.exit("chromium does not start")
                time.sleep(0.1)
            with urlopen(f"http://127.0.0.1:{port.read_text().split()[0]}/json") as tabs:
                tab = next(one for one in json.load(tabs) if one["type"] == "page")
            with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
                _answer(socket, 0, "Page.enable")
                for n, target in enumerate(targets):
                    page = target.with_suffix(".html").absolute().as_uri()
                    _ask(socket, 2 * n + 1, "Page.navigate", url=page)
                    while json.loads(socket.recv(60)).get("method") != "Page.loadEventFired":
                        pass
                    how = {"displayHeaderFooter": True, "generateTaggedPDF": tagged}
                    target.write_bytes(base64.b64decode(_answer(socket, 2 * n + 2, "Page.printToPDF", **how)["data"]))
        finally:
            browser.terminate()
            browser.wait(60)


def _ask(socket: Connection, id: int, method: str, **arguments: object) -> None:
    socket.send(json.dumps({"id": id, "method": method, "params": arguments}))


def _answer(socket: Connection, id: int, method: str, **arguments: object) -> Any:
    _ask(socket, id, method, **arguments)
    while (reply := json.loads(socket.recv(120))).get("id") != id:
        pass
    return reply["result"]


def worded(files: list[Path], folder: Path) -> list[Path]:
    """Return the files as DOCX, made by pandoc."""
    made = printed_names(files, "office", folder, ".docx")
    for file, target in zip(files, made, strict=True):
        if not target.exists():
            subprocess.run(["pandoc", "--from=gfm", file, "-o", target], check=True)
    return made


def _by_office(files: list[Path], folder: Path) -> list[Path]:
    made = printed_names(files, "office", folder)
    missing = [file for file, target in zip(files, made, strict=True) if not target.exists()]
    if missing:
        command: list[str | Path] = ["soffice", "--headless", "--convert-to", "pdf", "--outdir", folder]
        subprocess.run([*command, *worded(missing, folder)], check=True, capture_output=True)
    return made


def _ragway(file: Path) -> str:
    from retrieval.ingest.formats.pdf.document import read_pdf

    return read_pdf(file.read_bytes(), None).text


def _xberg(file: Path) -> str:
    from xberg import ExtractInput, ExtractionConfig, extract

    given = ExtractInput(kind="bytes", bytes=file.read_bytes(), mime_type="application/pdf", filename=file.name)
    return str(asyncio.run(extract(given, ExtractionConfig(output_format="markdown"))).results[0].content)


def _pdf_oxide(file: Path) -> str:
    import pdf_oxide

    document = pdf_oxide.PdfDocument(str(file))
    return "\n".join(document.to_markdown(page) for page in range(document.page_count()))


READERS: dict[str, Callable[[Path], str]] = {"ragway": _ragway, "xberg": _xberg, "pdf_oxide": _pdf_oxide}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+", help="Markdown files, or folders of them")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the PDFs; a later run takes them as they are"
    )
    parser.add_argument("--most", type=int, default=20, help="files at most, those with most cells first")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "office"], default=[*WAYS, "office"])
    parser.add_argument("--readers", nargs="+", choices=READERS, default=[*READERS])
    given = parser.parse_args()
    files = [file for one in given.sources for file in ([one] if one.is_file() else sorted(one.rglob("*.md")))]
    contents = {file: content_of(file.read_text("utf-8")) for file in files}
    files = sorted(files, key=lambda file: -sum(map(len, contents[file].rows)))[: given.most]
    given.work.mkdir(parents=True, exist_ok=True)
    print("| PDF | reader | words | headings | cells | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for way in given.ways:
        made = printed(files, way, given.work)
        for name in given.readers:
            if name != "ragway" and importlib.util.find_spec(name) is None:
                continue
            started_s = time.process_time()
            texts = [READERS[name](file) for file in made]
            took_s = time.process_time() - started_s
            for file, text in zip(made, texts, strict=True):
                file.with_suffix(f".{name}.md").write_text(text)
            found = [shares(contents[file], content_of(text)) for file, text in zip(files, texts, strict=True)]
            words, headings, cells = np.nanmean(np.array(found), axis=0)
            print(f"| {way} | {name} | {words:.3f} | {headings:.3f} | {cells:.3f} | {took_s:.1f} |", flush=True)


if __name__ == "__main__":
    main()
