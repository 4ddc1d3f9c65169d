"""What libraries find again in Office files, web pages and PDF, against the Markdown that the files were made from.

    python benchmarks/documents/compare.py [--texts N] [--work FOLDER] [--only NAME …]

`twins.py` makes the files. Each library reads all files of a column in one process of an environment of its own, which
this program builds; nothing is downloaded but the packages. Shares found again: words / headings with their paths /
table cells; then seconds per file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.documents import twins
from benchmarks.documents.twins import NOTHING, facts

# What runs in the other environment: `read(path)` returns Markdown.
_LOOP = """
import json, sys, time
for path in sys.stdin.read().splitlines():
    began, text, fault = time.perf_counter(), "", ""
    try:
        text = read(path)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps([path, text, fault, time.perf_counter() - began]))
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    requirement: str
    read: str


CANDIDATES = {
    "ragway": Candidate(
        "",
        """
import re
from pathlib import Path
from retrieval.ingest.load import parse
def read(path):
    text = parse(Path(path).read_bytes(), Path(path), Path(path).name, 0.0).text
    return re.sub(r"(?m)^(## )(?:Slide \\d+(?:: )?|Sheet )", r"\\1", text)
""",
    ),
    "xberg": Candidate(
        "xberg==1.3.9",
        """
import asyncio
from pathlib import Path
from xberg import ExtractInput, ExtractionConfig, extract
CONFIG = ExtractionConfig(output_format="markdown", use_cache=False, disable_ocr=True, escape_markdown=False)
def read(path):
    given = ExtractInput(kind="bytes", bytes=Path(path).read_bytes(), filename=Path(path).name)
    return asyncio.run(extract(given, CONFIG)).results[0].content
""",
    ),
    "kreuzberg": Candidate(
        "kreuzberg==4.10.4",
        """
from kreuzberg import ExtractionConfig, extract_file_sync
CONFIG = ExtractionConfig(output_format="markdown", use_cache=False)
def read(path):
    return extract_file_sync(path, config=CONFIG).content
""",
    ),
    "markitdown": Candidate(
        "markitdown[docx,pptx,xlsx,xls,pdf]==0.1.9",
        """
from markitdown import MarkItDown
ALL = MarkItDown(enable_plugins=False)
def read(path):
    return ALL.convert_local(path).markdown
""",
    ),
    "docling-rs": Candidate(
        "docling-rs==2.52.7",
        """
from docling_rs import DocumentConverter
CONVERTER = DocumentConverter()
def read(path):
    return CONVERTER.convert(path).document.export_to_markdown()
""",
    ),
    "pdf-oxide": Candidate(
        "pdf-oxide==0.3.78",
        """
from pdf_oxide import PdfDocument
def read(path):
    document = PdfDocument(path)
    return "\\n".join(document.to_markdown(page) for page in range(document.page_count()))
""",
    ),
}


def main() -> int:
    """Make the twins, let every library read them, and print the tables."""
    parser = argparse.ArgumentParser(description="Compare libraries that read documents.")
    parser.add_argument("--texts", type=int, default=40, metavar="N", help="at most (default: 40)")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keeps files and environments for the next run")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), metavar="NAME")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (given.work or Path(temporary)).resolve()
        sources = twins.texts(given.texts)
        files = twins.make(work / "twins", sources)
        say(f"{len(sources)} texts, {sum(map(len, files.values()))} files")
        rows, sizes = [], []
        for name in given.only:
            python = Path(sys.executable)
            if requirement := CANDIDATES[name].requirement:
                python = environment(work / "environments" / name, requirement)
                sizes.append([name, *_size(python)])
            for column, made in files.items():
                rows.append([name, column, *_measured(python, CANDIDATES[name].read, column, made, sources)])
                say(" ".join(rows[-1]))
    print(table(["library", "version", "licence", "packages", "MB"], sizes), end="\n\n")
    by_column = [[column, *(_cell(rows, name, column) for name in given.only)] for column in files]
    print(table(["words / headings / cells", *given.only], by_column))
    return 0


def _cell(rows: Sequence[Sequence[str]], name: str, column: str) -> str:
    return next((", ".join(row[2:]) for row in rows if tuple(row[:2]) == (name, column)), "")


def _measured(python: Path, read: str, column: str, files: Sequence[Path], sources: dict[str, str]) -> tuple[str, str]:
    program, asked = read + _LOOP, "\n".join(map(str, files))
    done = subprocess.run(
        [python, "-c", program], input=asked, capture_output=True, text=True, timeout=900, check=False
    )
    expected = found = NOTHING
    seconds, faults = 0.0, Counter[str]()
    answers = {path: rest for path, *rest in map(json.loads, filter(_is_row, done.stdout.splitlines()))}
    for file in files:
        text, fault, taken_s = answers.get(str(file), ("", "no answer", 0.0))
        truth, read_back = twins.truth(column, sources[file.stem]), facts(text)
        expected += truth
        found += truth & read_back
        seconds += taken_s
        faults[fault] += 1
    if faults.keys() - {""}:
        say(f"{column}: {dict(faults)} {done.stderr[-300:]}")
    if faults[""] == 0:
        return "none", "–"
    shares = [f"{one / other:.3f}" if other else "–" for one, other in zip(found.counts, expected.counts, strict=True)]
    return " / ".join(shares), f"{seconds / len(files):.3f} s"


def _is_row(line: str) -> bool:
    return line.startswith("[")


def environment(folder: Path, *requirements: str) -> Path:
    """The Python of an environment with these requirements."""
    python = folder / "bin" / "python"
    if not (folder / ".done").exists():
        say(f"installing {', '.join(requirements)}")
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        (folder / ".done").touch()
    return python


def _size(python: Path) -> list[str]:
    """Version, licence, packages and megabytes of what is installed beside pip."""
    program = """
import importlib.metadata as m, sys
all = [one for one in m.distributions() if one.name not in ("pip", "setuptools", "wheel")]
files = [one.locate_file(file) for one in all for file in one.files or ()]
size = sum(file.stat().st_size for file in files if file.exists())
meta = {one.name.lower().replace("_", "-"): one.metadata for one in all}[sys.argv[1]]
print(meta["Version"], meta["License-Expression"] or meta["License"] or "?", len(all), round(size / 1e6), sep="|")
"""
    name = python.parents[1].name
    done = subprocess.run([python, "-c", program, name], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[0].split("|")


if __name__ == "__main__":
    sys.exit(main())
