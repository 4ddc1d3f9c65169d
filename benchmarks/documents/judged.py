"""What search loses if the documents of a judged set are PDF, DOCX or scanned pages in place of Markdown.

The set has BEIR's form with Markdown files in docs/. Chromium and LibreOffice print them (`pdf.py`), pandoc makes DOCX;
`scan` is the Chromium print as pictures alone. `ragway eval` asks the same questions in each form.

    python -m benchmarks.documents.judged SET --work FOLDER
    python -m benchmarks.documents.judged SET --work FOLDER --forms scan --documents 60
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.output import say, table
from benchmarks.documents.pdf import printed

_ROOT = Path(__file__).resolve().parents[2]
_SCAN_DOTS_PER_INCH = 200


def _docx(files: list[Path], folder: Path) -> list[Path]:
    printed(files, "office", folder)  # by way of DOCX
    return [file.with_suffix(".docx") for file in printed(files, "office", folder)]


def _scans(files: list[Path], folder: Path) -> list[Path]:
    """Return the Chromium prints as pictures alone."""
    from pypdfium2 import PdfDocument

    made = []
    for file in printed(files, "tagged", folder):
        target = file.with_name(file.name.replace("tagged", "scan"))
        made.append(target)
        if target.exists():
            continue
        pdf = PdfDocument(file)
        scale = _SCAN_DOTS_PER_INCH / 72
        first, *others = [page.render(scale=scale, grayscale=True).to_pil() for page in pdf]
        first.save(target, save_all=True, append_images=others, resolution=_SCAN_DOTS_PER_INCH)
    return made


FORMS: dict[str, Callable[[list[Path], Path], list[Path]]] = {
    "markdown": lambda files, _: files,
    "docx": _docx,
    "pdf-tagged": lambda files, folder: printed(files, "tagged", folder),
    "pdf-untagged": lambda files, folder: printed(files, "open", folder),
    "pdf-office": lambda files, folder: printed(files, "office", folder),
    "scan": _scans,
}


def main() -> None:
    """Make the forms, ask the questions, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path, help="folder with docs/, queries.jsonl and qrels.tsv")
    parser.add_argument("--work", type=Path, required=True, help="folder for files and embeddings, kept between runs")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[form for form in FORMS if form != "scan"])
    parser.add_argument("--documents", type=int, help="only so many: the relevant ones, and others drawn at random")
    parser.add_argument("--rungs", nargs="+", default=["bm25", "dense", "configured"])
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    files = drawn(given.set, given.documents)
    folders = [_as_set(given.set, files, form, given.work) for form in dict.fromkeys(["markdown", *given.forms])]
    report(_evaluated(folders, given.rungs, given.work))


def drawn(folder: Path, most: int | None) -> list[Path]:
    """Return the set's files; at most `most`, the relevant ones first."""
    docs = folder / "docs"
    files = sorted(docs.rglob("*.md"))
    judged = {line.split("\t")[1] for line in (folder / "qrels.tsv").read_text().splitlines()[1:]}
    relevant = [file for file in files if file.relative_to(docs).with_suffix("").as_posix() in judged]
    others = [file for file in files if file not in relevant]
    return files if most is None else relevant + random.Random(7).sample(others, max(0, most - len(relevant)))


def _as_set(folder: Path, files: list[Path], form: str, work: Path) -> Path:
    """Return a judged set whose documents have this form."""
    made = FORMS[form](files, work)
    target = work / form
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in ("queries.jsonl", "qrels.tsv"):
        shutil.copy(folder / name, target)
    for file, twin in zip(files, made, strict=True):
        place = (target / "docs" / file.relative_to(folder / "docs")).with_suffix(twin.suffix)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(twin, place)
    return target


def _evaluated(folders: Sequence[Path], rungs: Sequence[str], work: Path) -> Mapping[str, Any]:
    out = work / "eval.json"
    steps = [word for rung in rungs for word in ("--rung", rung)]
    command = [sys.executable, "-m", "cli", "eval", *map(str, folders), *steps, "--untimed", "--json", str(out)]
    command += ["--cache", str(work / "cache"), "--data", str(work / "data")]
    subprocess.run(command, check=True, cwd=work, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    found: Mapping[str, Any] = json.loads(out.read_text())
    return found


def report(found: Mapping[str, Any]) -> None:
    """Print nDCG@10 of each form and rung, the difference to Markdown, and the questions that differ."""
    plain = {rung["name"]: rung for rung in found["sets"][0]["rungs"]}
    rows = []
    for one in found["sets"]:
        for rung in one["rungs"]:
            name, before = rung["name"], plain[rung["name"]]
            loss = before["metrics"]["ndcg@10"] - rung["metrics"]["ndcg@10"]
            moved = {id: scores["ndcg@10"] - before["scores"][id]["ndcg@10"] for id, scores in rung["scores"].items()}
            text = ", ".join(f"{id} {by:+.2f}" for id, by in moved.items() if abs(by) > 0.005)
            rows.append(
                [one["name"], name, f"{one['documents']}", f"{one['chunks']}", f"{rung['metrics']['ndcg@10']:.3f}",
                 f"{-loss:+.3f}", f"{rung['metrics']['recall@10']:.3f}", text]
            )  # fmt: skip
        for note in one["notes"]:
            say(f"{one['name']}: {note}")
    head = ["form", "rung", "documents", "chunks", "nDCG@10", "to Markdown", "R@10", "questions that differ"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
