"""The same texts in many formats, made by the programs that people use: pandoc, LibreOffice, Chromium and LaTeX.

The texts are those of `kinds`, and sections of this repository's documentation: real prose, tables, lists and code.
Debian's packages `pandoc`, `libreoffice-writer`, `-calc`, `-impress`, `chromium`, `texlive-latex-recommended` and
`lmodern` convert them; what is not installed is left out. Chinese in a PDF needs a font, such as `fonts-wqy-zenhei`.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from benchmarks.documents.kinds import TEXTS

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_LEAST_WORDS = 150  # of a text
_WORD = re.compile(r"\w+")
_PARSER = MarkdownIt("commonmark").enable("table")

_COLUMNS = "html, two columns"
_STYLE = """<style>html { max-width: none } body { columns: 2; max-width: none; text-align: justify; hyphens: auto }
td, th { border: .6pt solid } table { table-layout: fixed; width: 100%; overflow-wrap: anywhere }</style>"""
# Column -> (suffix, program, column of the file that it converts; "" for the Markdown).
MAKERS: dict[str, tuple[str, str, str]] = {
    "docx": ("docx", "pandoc", ""),
    "doc": ("doc", "soffice", "docx"),
    "odt": ("odt", "pandoc", ""),
    "docx, LibreOffice": ("docx", "soffice", "odt"),
    "odt, LibreOffice": ("odt", "soffice", "docx"),
    "rtf": ("rtf", "pandoc", ""),
    "rtf, LibreOffice": ("rtf", "soffice", "docx"),
    "epub": ("epub", "pandoc", ""),
    "html": ("html", "pandoc", ""),
    _COLUMNS: ("html", "pandoc", ""),
    "pptx": ("pptx", "pandoc", ""),
    "pptx, LibreOffice": ("pptx", "soffice", "odp"),
    "ppt": ("ppt", "soffice", "pptx"),
    "odp": ("odp", "soffice", "pptx"),
    "xlsx": ("xlsx", "soffice", "fods"),
    "xls": ("xls", "soffice", "fods"),
    "ods": ("ods", "soffice", "fods"),
    "tex": ("tex", "pandoc", ""),
    "org": ("org", "pandoc", ""),
    "adoc": ("adoc", "pandoc", ""),
    "pdf, LibreOffice": ("pdf", "soffice", "odt"),
    "pdf, Chromium": ("pdf", "chromium", "html"),
    "pdf, two columns": ("pdf", "chromium", _COLUMNS),
    "pdf, LaTeX": ("pdf", "pdflatex", ""),
}
_SHEETS = ("fods", "xlsx", "xls", "ods")
_PANDOC = {"adoc": "asciidoc", "tex": "latex"}  # suffix -> writer


@dataclass(frozen=True, slots=True)
class Facts:
    """What a text holds, each with how often."""

    words: Counter[str]
    paths: Counter[tuple[str, ...]]  # of headings, outermost first
    cells: Counter[str]

    def __add__(self, other: "Facts") -> "Facts":
        return Facts(self.words + other.words, self.paths + other.paths, self.cells + other.cells)

    def __and__(self, other: "Facts") -> "Facts":
        return Facts(self.words & other.words, self.paths & other.paths, self.cells & other.cells)

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.words.total(), self.paths.total(), self.cells.total()


NOTHING = Facts(Counter(), Counter(), Counter())


def facts(markdown: str) -> Facts:
    """The words, heading paths and table cells of a Markdown text."""
    words, paths, cells = Counter[str](), Counter[tuple[str, ...]](), Counter[str]()
    open_headings: list[tuple[int, str]] = []
    before = tag = ""
    for token in _PARSER.parse(markdown):
        text = _shown(token)
        words.update(_WORD.findall(text.casefold()))
        if before == "heading_open" and text:
            level = int(tag[1:])
            open_headings = [*(one for one in open_headings if one[0] < level), (level, _plain(text))]
            paths[tuple(title for _, title in open_headings)] += 1
        elif before in ("td_open", "th_open") and _plain(text):
            cells[_plain(text)] += 1
        before, tag = token.type, token.tag
    return Facts(words, paths, cells)


def _shown(token: Token) -> str:
    if token.type in ("fence", "code_block"):
        return token.content
    inside = token.children or ()
    return "".join(" " if "break" in one.type else re.sub(r"<[^>]*>", " ", one.content) for one in inside)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def texts(most: int) -> dict[str, str]:
    """Name -> Markdown of at most `most` texts; a section of the documentation has its heading at level 1."""
    kinds = dict(list(TEXTS.items())[: most // 3])
    most -= len(kinds)
    found = dict[str, str]()
    for page in sorted(_DOCS.glob("*/*.md")):
        for number, section in enumerate(re.split(r"^(?=## )", page.read_text("utf-8"), flags=re.MULTILINE)):
            raised = re.sub(r"^#(#+ )", r"\1", section, flags=re.MULTILINE) if number else section
            if len(_WORD.findall(raised)) >= _LEAST_WORDS and "<" not in raised:
                found[f"{page.stem}-{number}"] = _unlinked(raised)
    names = sorted(found, key=lambda name: (-found[name].count("|"), name))[: most // 2]  # half with the most cells
    names += [name for name in sorted(found) if name not in names][: most - len(names)]
    return kinds | {name: found[name] for name in names}


def _unlinked(markdown: str) -> str:
    return re.sub(r"\[([^\]\n]*)\]\([^)\n]*\)", r"\1", markdown)


def make(folder: Path, sources: dict[str, str]) -> dict[str, list[Path]]:
    """Column -> its files in `folder`, in order of `sources`. Programs that are not installed are left out."""
    folder /= sha256("".join(sources.values()).encode()).hexdigest()[:8]  # files of other texts are no twins
    made = {"": [_written(folder / "md" / f"{name}.md", text) for name, text in sources.items()]}
    with_tables = {name: text for name, text in sources.items() if facts(text).cells}
    made["fods"] = [_written(folder / "fods" / f"{name}.fods", sheets(text)) for name, text in with_tables.items()]
    for column, (suffix, program, source) in MAKERS.items():
        if shutil.which(program) is None or source not in made:
            continue
        place = folder / column.replace(", ", "-")
        place.mkdir(parents=True, exist_ok=True)
        files = [place / f"{file.stem}.{suffix}" for file in made[source]]
        if not all(file.exists() for file in files):
            _convert(program, made[source], files)
        missing = [file for file in files if not file.exists()]
        if missing and program != "pdflatex":  # which knows Latin letters alone
            raise SystemExit(f"{program} made no {missing[0]}")
        made[column] = [file for file in files if file not in missing]
    del made[""], made["fods"], made[_COLUMNS]
    return made


def truth(column: str, markdown: str) -> Facts:
    """What a file of this column holds of a text: a spreadsheet has its tables only."""
    whole = facts(markdown)
    if MAKERS[column][0] not in _SHEETS:
        return whole
    titles = Counter[tuple[str, ...]]((f"table {number}",) for number in range(1, len(_tables(markdown)) + 1))
    return Facts(Counter(word for cell in whole.cells.elements() for word in cell.split()), titles, whole.cells)


def _convert(program: str, sources: Sequence[Path], files: Sequence[Path]) -> None:
    suffix, folder = files[0].suffix[1:], files[0].parent
    if program == "soffice":  # all at once: a start takes seconds
        profile = f"-env:UserInstallation=file://{folder.parent.resolve()}/profile"
        _run(["soffice", profile, "--headless", "--convert-to", suffix, "--outdir", str(folder), *map(str, sources)])
        return
    for source, file in zip(sources, files, strict=True):
        if program == "chromium":
            flags = ["--headless", "--no-sandbox", "--no-pdf-header-footer", f"--print-to-pdf={file}"]
            _run(["chromium", *flags, source.resolve().as_uri()])
        elif program == "pdflatex":
            command = ["pandoc", str(source), "--from", "gfm", "--pdf-engine", "pdflatex", "--output", str(file)]
            subprocess.run(command, capture_output=True, timeout=600, check=False)
        else:
            writer = ["--to", _PANDOC.get(suffix, suffix), "--standalone"]
            writer += ["--metadata", f"pagetitle={source.stem}"] if suffix in ("html", "epub") else []
            if folder.name.startswith("html-"):
                writer += ["--include-in-header", str(_written(folder / "style.css", _STYLE))]
            _run(["pandoc", str(source), "--from", "gfm", *writer, "--output", str(file)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} …: {done.stderr[-500:]}")


def sheets(markdown: str) -> str:
    """The tables of a text as a spreadsheet in flat XML, a sheet for each: "Table 1", "Table 2" …"""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<office:document '
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
        'office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.spreadsheet">'
        "<office:body><office:spreadsheet>"
        + "".join(_sheet(f"Table {number}", rows) for number, rows in enumerate(_tables(markdown), 1))
        + "</office:spreadsheet></office:body></office:document>"
    )


def _sheet(name: str, rows: Sequence[Sequence[str]]) -> str:
    cells = (
        "".join(
            f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
            for cell in row
        )
        for row in rows
    )
    lines = "".join(f"<table:table-row>{row}</table:table-row>" for row in cells)
    return f'<table:table table:name="{name}">{lines}</table:table>'


def _tables(markdown: str) -> list[list[list[str]]]:
    """Each table's rows of cells."""
    tables: list[list[list[str]]] = []
    before = ""
    for token in _PARSER.parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif before in ("td_open", "th_open"):
            tables[-1][-1].append(_shown(token))
        before = token.type
    return tables


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file
