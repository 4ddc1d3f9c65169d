"""A corpus: paragraphs of the documentation in installed Python packages, as a folder of Markdown files.

The corpus needs no download, is varied, and people wrote the text. Only short paragraphs are used, because embedding
takes the time. Folder and index stay in the cache between runs.
"""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.common.processes import ROOT, Unmeasurable, environment

PACKAGES = ("scipy", "sqlalchemy", "sklearn", "networkx", "sympy", "torch", "transformers", "numpy")  # of the runtime
_CHARS = range(200, 460)  # of a paragraph: some 50 to 110 tokens
_CHUNK_TOKENS = 128  # makes each section one chunk
_SECTIONS = 100  # of a document


def passages(cache: Path, count: int) -> list[str]:
    """Distinct paragraphs, from the cache or collected and cached. Raises Unmeasurable if there are too few."""
    folder = documents(cache, count)
    if not folder.is_dir():
        found = paragraphs()
        if len(found) < count:
            raise Unmeasurable(f"the installed packages hold {len(found)} paragraphs of that kind, expected {count}")
        write(folder, Random(1).sample(found, count))
    files = sorted(folder.glob("*.md"))
    return [text for file in files for text in sections(file.read_text("utf-8"))]


def index(
    cache: Path, count: int, models: Path, *, data: Path | None = None, checkout: Path = ROOT
) -> tuple[Path, int]:
    """The data folder with the paragraphs as collection `docs`, and the number of chunks.

    `ragway ingest` keeps unchanged documents. models: the folder of prepared embedders. data: another folder than the
    cache's. checkout: the folder with the code that writes.
    """
    data = data or cache / f"index-{count}"
    models.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    link = data / "models"
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(models.resolve())
    settings = data / "ingest.yaml"
    settings.write_text(f"ingest: {{chunk_tokens: {_CHUNK_TOKENS}}}\n", "utf-8")
    _ragway(["ingest", str(documents(cache, count)), "--collection", "docs"], settings, data, checkout)
    rows = json.loads(_ragway(["collections", "--json"], settings, data, checkout))
    return data, next(row["chunks"] for row in rows if row["name"] == "docs")


def sections(markdown: str) -> list[str]:
    """The paragraphs of a document in the form that `passages` writes."""
    return [part.partition("\n\n")[2].strip() for part in markdown.split("\n## ")[1:]]


def documents(cache: Path, count: int) -> Path:
    """Where so many paragraphs lie."""
    return cache / f"documents-{count}"


def write(folder: Path, texts: Sequence[str]) -> None:
    """Write paragraphs as documents into a new folder; the folder appears only when complete."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for begin in range(0, len(texts), _SECTIONS):
        part = texts[begin : begin + _SECTIONS]
        body = "\n\n".join(f"## Note {begin + number}\n\n{text}" for number, text in enumerate(part))
        name = f"notes-{begin // _SECTIONS:04}"
        (unfinished / f"{name}.md").write_text(f"# {name}\n\n{body}\n", "utf-8")
    unfinished.rename(folder)


def paragraphs() -> list[str]:
    """All distinct paragraphs of the installed packages, in a fixed order."""
    return sorted(set(_paragraphs()))


def _paragraphs() -> Iterator[str]:
    standard, installed = (Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib"))
    files = [file for file in standard.rglob("*.py") if "site-packages" not in file.parts]
    files += [file for package in PACKAGES for file in (installed / package).rglob("*.py")]
    for file in files:
        for text in re.findall(r'"""(.*?)"""', file.read_text("utf-8", "replace"), re.DOTALL):
            yield from prose(text)


def prose(text: str) -> Iterator[str]:
    """The paragraphs of a docstring that are sentences, not code or tables, each as one line."""
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        letters = sum(character.isalpha() or character == " " for character in line)
        if len(line) in _CHARS and letters > 0.85 * len(line) and not re.search(r"[#<>|\\]|--|==", line):
            yield line


def _ragway(command: list[str], settings: Path, data: Path, checkout: Path) -> str:
    """Run a command of ragway and return the output; progress goes to this process's standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *command, "--config", str(settings), "--data", str(data)],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env=environment({"PYTHONPATH": str(checkout)}),
        stdin=subprocess.DEVNULL,
        cwd=data,
    )
    if done.returncode != 0:
        raise Unmeasurable(f"ragway {command[0]} failed (see above); {data} may be deleted, it is made anew")
    return done.stdout
