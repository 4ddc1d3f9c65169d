"""What search loses if the documents of a judged set are PDF, DOCX or scanned pages in place of Markdown.

The set has BEIR's form with Markdown files in docs/. Chromium and LibreOffice print them (`pdf.py`), pandoc makes DOCX;
`scan` is the Chromium print as pictures alone: of the relevant documents of at most four pages, among Markdown, because
`ragway[ocr]` needs seconds a page. `ragway eval` asks the same questions in each form: the set's own, and
headings that stand on one page only, which that page answers. `plain` is Markdown without the languages of its code
blocks ("```java"), which no other form can say.

    python -m benchmarks.documents.judged SET --work FOLDER
    python -m benchmarks.documents.judged SET --work FOLDER --forms scan --headings 0
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.output import say, table
from benchmarks.documents.pdf import printed, printed_names

_ROOT = Path(__file__).resolve().parents[2]
_SCAN_DOTS_PER_INCH = 200
_MOST_SCANNED_PAGES = 4
_HEADING = "heading-"  # begins the ids of such questions


def _plain(files: list[Path], folder: Path) -> list[Path]:
    made = printed_names(files, "plain", folder, ".md")
    for file, target in zip(files, made, strict=True):
        target.write_text(re.sub(r"^```\w+$", "```", file.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    return made


def _docx(files: list[Path], folder: Path) -> list[Path]:
    printed(files, "office", folder)  # by way of DOCX
    return [file.with_suffix(".docx") for file in printed(files, "office", folder)]


def _scans(files: list[Path], folder: Path) -> dict[Path, Path]:
    """Return files -> the text that ragway[ocr] reads in their Chromium prints as pictures alone; short ones only."""
    from pypdfium2 import PdfDocument

    prints = dict(zip(files, printed(files, "tagged", folder), strict=True))
    short = [file for file in files if len(PdfDocument(prints[file])) <= _MOST_SCANNED_PAGES]
    scans = printed_names(short, "scan", folder)
    for file, scan in zip(short, scans, strict=True):
        if not scan.exists():
            _scan(prints[file], scan)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(short, pool.map(_recognised, scans), strict=True))


def _scan(file: Path, target: Path) -> None:
    from pypdfium2 import PdfDocument

    scale = _SCAN_DOTS_PER_INCH / 72
    first, *others = [page.render(scale=scale, grayscale=True).to_pil() for page in PdfDocument(file)]
    first.save(target, save_all=True, append_images=others, resolution=_SCAN_DOTS_PER_INCH)


def _recognised(scan: Path) -> Path:
    """Return the text of a scan: it takes seconds a page, so a later run finds it."""
    from retrieval.ingest.load import load

    text = scan.with_suffix(".md")
    if not text.exists():
        text.write_text(load(scan, scan.name, max_bytes=10**9).text, "utf-8")
    return text


FORMS: dict[str, Callable[[list[Path], Path], list[Path]]] = {
    "markdown": lambda files, _: files,
    "plain": _plain,
    "docx": _docx,
    "pdf-tagged": lambda files, folder: printed(files, "tagged", folder),
    "pdf-untagged": lambda files, folder: printed(files, "open", folder),
    "pdf-office": lambda files, folder: printed(files, "office", folder),
    "scan": lambda files, _: files,  # but for those of `_scans`
}


def main() -> None:
    """Make the forms, ask the questions, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path, help="folder with docs/, queries.jsonl and qrels.tsv")
    parser.add_argument("--work", type=Path, required=True, help="folder for files and embeddings, kept between runs")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[form for form in FORMS if form != "scan"])
    parser.add_argument("--headings", type=int, default=300, help="headings asked for, drawn at random (default: 300)")
    parser.add_argument("--rungs", nargs="+", default=["dense", "configured"])
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    files = sorted((given.set / "docs").rglob("*.md"))
    asked = asked_headings(given.set / "docs", files, given.headings)
    forms = dict.fromkeys(["markdown", *given.forms])
    folders = [_as_set(given.set, files, form, given.work, asked) for form in forms]
    report(_evaluated(folders, given.rungs, given.work))


def relevant(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Return the files that the set's questions ask for."""
    asked = {line.split("\t")[1] for line in (folder / "qrels.tsv").read_text().splitlines()[1:]}
    return [file for file in files if file.relative_to(folder / "docs").with_suffix("").as_posix() in asked]


def asked_headings(docs: Path, files: Sequence[Path], most: int) -> dict[str, str]:
    """Return headings as questions -> the page, by its path without suffix."""
    pages: dict[str, set[str]] = {}
    for file in files:
        page = file.relative_to(docs).with_suffix("")
        text = re.sub(r"^```.*?^```", "", file.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for heading in re.findall(r"^##+ +(\w.*)", text, re.MULTILINE):
            pages.setdefault(heading.strip(), set()).add(page.as_posix())
    found = {question: of.pop() for question, of in pages.items() if len(of) == 1}
    return dict(random.Random(7).sample(sorted(found.items()), min(most, len(found))))


def _as_set(folder: Path, files: list[Path], form: str, work: Path, headings: Mapping[str, str]) -> Path:
    """Return a judged set whose documents have this form."""
    made = FORMS[form](files, work)
    if form == "scan":  # recognising takes seconds a page
        scanned = _scans(relevant(folder, files), work)
        made = [scanned.get(file, file) for file in files]
    target = work / form
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in ("queries.jsonl", "qrels.tsv"):
        shutil.copy(folder / name, target)
    with (target / "queries.jsonl").open("a") as queries, (target / "qrels.tsv").open("a") as grades:
        for n, (question, page) in enumerate(headings.items()):
            queries.write(json.dumps({"_id": f"{_HEADING}{n}", "text": question}) + "\n")
            grades.write(f"{_HEADING}{n}\t{page}\t1\n")
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
    """Print nDCG@10 of each form and rung, and the difference to Markdown with its 95 % interval."""
    plain = {rung["name"]: rung["scores"] for rung in found["sets"][0]["rungs"]}
    rows = []
    for one in found["sets"]:
        for note in one["notes"]:
            say(f"{one['name']}: {note}")
        for rung in one["rungs"]:
            before = plain[rung["name"]]
            pairs = {id: (before[id]["ndcg@10"], scores["ndcg@10"]) for id, scores in rung["scores"].items()}
            headings = {id: pair for id, pair in pairs.items() if id.startswith(_HEADING)}
            own = {id: pair for id, pair in pairs.items() if id not in headings}
            moved = ", ".join(f"{id} {now - then:+.2f}" for id, (then, now) in own.items() if abs(now - then) > 0.005)
            head = [one["name"], rung["name"], str(one["documents"]), str(one["chunks"])]
            rows.append([*head, *_scores(own), *_scores(headings), moved])
    columns = ["form", "rung", "documents", "chunks", "nDCG@10", "to Markdown", "headings: nDCG@10", "to Markdown"]
    print(table([*columns, "the set's questions that differ"], rows))


def _scores(pairs: Mapping[str, tuple[float, float]]) -> tuple[str, str]:
    """Return the mean, and the mean difference with its interval."""
    if not pairs:
        return "–", "–"
    values = np.array(list(pairs.values()))
    gains = values[:, 1] - values[:, 0]
    drawn = np.random.default_rng(7).choice(gains, (10_000, len(gains))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{values[:, 1].mean():.3f}", f"{gains.mean():+.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
