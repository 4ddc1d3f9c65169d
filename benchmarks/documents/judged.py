"""What search loses if the documents of judged sets are PDF, DOCX or scanned pages in place of Markdown.

A set has BEIR's form, with Markdown files in docs/, or each passage of corpus.jsonl becomes such a file. Chromium and
LibreOffice print them (`pdf.py`), pandoc makes DOCX; `scan` is the Chromium print as pictures alone: of the relevant
documents of at most four pages, among Markdown, because `ragway[ocr]` needs seconds a page. `ragway eval` asks the same
questions in each form: the sets' own, and headings that stand on one page only, which that page answers. `plain` is
Markdown without the languages of its code blocks ("```java"), which no other form can say.

    python -m benchmarks.documents.judged SET … --work FOLDER
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
from benchmarks.documents.pdf import printed, printed_names, worded

_ROOT = Path(__file__).resolve().parents[2]
_SCAN_DOTS_PER_INCH = 200
_MOST_SCANNED_PAGES = 4
_MOST_NAMED = 10  # questions in a row
_HEADING = "heading-"  # begins the ids of such questions


def _plain(files: list[Path], folder: Path) -> list[Path]:
    made = printed_names(files, "plain", folder, ".md")
    for file, target in zip(files, made, strict=True):
        target.write_text(re.sub(r"^```\w+$", "```", file.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    return made


def _docx(files: list[Path], folder: Path) -> list[Path]:
    return worded(files, folder)


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
    parser.add_argument("sets", nargs="+", type=Path, help="folders with docs/ or corpus.jsonl, and queries and qrels")
    parser.add_argument("--work", type=Path, required=True, help="folder for files and embeddings, kept between runs")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[form for form in FORMS if form != "scan"])
    parser.add_argument("--headings", type=int, default=300, help="headings asked for, drawn at random (default: 300)")
    parser.add_argument("--rungs", nargs="+", default=["dense", "configured"])
    given = parser.parse_args()
    forms = tuple(dict.fromkeys(["markdown", *given.forms]))
    runs = {one.name: _evaluated(one, given.work / one.name, forms, given.headings, given.rungs) for one in given.sets}
    for name, run in runs.items():
        print(f"{name}\n\n{report(run)}\n")
    if len(runs) > 1:
        print(f"all\n\n{report(pooled(runs))}")


def pooled(runs: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the runs of several sets, by name, as one: all questions of a form, each with its set's name."""
    forms = []
    for same in zip(*(run["sets"] for run in runs.values()), strict=True):
        rungs = [
            {
                "name": rung[0]["name"],
                "scores": {
                    f"{id}, {name}": scores
                    for name, one in zip(runs, rung, strict=True)
                    for id, scores in one["scores"].items()
                },
            }
            for rung in zip(*(one["rungs"] for one in same), strict=True)
        ]
        sums = {size: sum(one[size] for one in same) for size in ("documents", "chunks")}
        forms.append({"name": same[0]["name"], "notes": [], "rungs": rungs, **sums})
    return {"sets": forms}


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


def _evaluated(
    folder: Path, work: Path, forms: Sequence[str], most_headings: int, rungs: Sequence[str]
) -> Mapping[str, Any]:
    """Return what `ragway eval` says of a set in these forms."""
    work.mkdir(parents=True, exist_ok=True)
    if not (folder / "docs").is_dir():
        folder = _in_files(folder, work / "files")
    files = sorted((folder / "docs").rglob("*.md"))
    asked = asked_headings(folder / "docs", files, most_headings)
    folders = [_as_set(folder, files, form, work, asked) for form in forms]
    out = work / "eval.json"
    steps = [word for rung in rungs for word in ("--rung", rung)]
    command = [sys.executable, "-m", "cli", "eval", *map(str, folders), *steps, "--untimed", "--json", str(out)]
    command += ["--cache", str(work / "cache"), "--data", str(work / "data")]
    subprocess.run(command, check=True, cwd=work, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    found: Mapping[str, Any] = json.loads(out.read_text())
    return found


def _in_files(folder: Path, target: Path) -> Path:
    """Return the set with a Markdown file for each passage, a paragraph for each of its lines."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "docs").mkdir(parents=True)
    names: dict[str, str] = {}
    for n, passage in enumerate(map(json.loads, (folder / "corpus.jsonl").read_text("utf-8").splitlines())):
        names[passage["_id"]] = f"{n:05}"
        title = passage["title"].strip()
        said = passage["text"].strip().removeprefix(title).splitlines()
        parts = [f"# {title}" if title else "", *(line.strip().replace("<", r"\<") for line in said)]
        (target / "docs" / f"{n:05}.md").write_text("\n\n".join(filter(None, parts)) + "\n", "utf-8")
    shutil.copy(folder / "queries.jsonl", target)
    head, *grades = (folder / "qrels.tsv").read_text().splitlines()
    rows = ["\t".join((query, names[id], grade)) for query, id, grade in (line.split("\t") for line in grades)]
    (target / "qrels.tsv").write_text("\n".join([head, *rows]) + "\n")
    return target


def report(found: Mapping[str, Any]) -> str:
    """Return a table of nDCG@10 of each form and rung, and the difference to Markdown with its 95 % interval."""
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
            gains = sorted(((now - then, id) for id, (then, now) in own.items()), key=lambda one: -abs(one[0]))
            moved = ", ".join(f"{id} {gain:+.2f}" for gain, id in gains[:_MOST_NAMED] if abs(gain) > 0.005)
            head = [one["name"], rung["name"], str(one["documents"]), str(one["chunks"])]
            rows.append([*head, *_scores(own), *_scores(headings), moved])
    columns = ["form", "rung", "documents", "chunks", "nDCG@10", "to Markdown", "headings: nDCG@10", "to Markdown"]
    return table([*columns, "the set's questions that differ most"], rows)


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
