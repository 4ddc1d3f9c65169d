"""What questions in German, Spanish and Chinese find with each embedder, beside the same questions in English.

    python benchmarks/retrieval/languages.py [--embedder MODEL]... [--data DIR]

`languages.jsonl` has 20 questions on docs/use in four languages, the sections of these pages that answer them, and for
each a passage that answers it in the same four languages. "pages": the questions are asked over all sections of
docs/use, in English. "own": over the 20 passages in the question's language, which is easier. Figures are nDCG@10 of
`ragway eval`; with 20 questions a difference of .1 may be chance. The table goes to standard output as Markdown.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_QUESTIONS = Path(__file__).with_suffix(".jsonl")
_PAGES = ROOT / "docs" / "use"
_LANGUAGES = ("en", "de", "es", "zh")
_RUNGS = ("bm25", "dense", "hybrid")

Row = Mapping[str, Any]


def sections() -> dict[str, str]:
    """Return the sections of the pages, by page and heading."""
    found: dict[str, str] = {}
    for page in sorted(_PAGES.glob("*.md")):
        _, *parts = re.split(r"^## (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
        found |= {f"{page.stem}: {heading}": text for heading, text in zip(parts[::2], parts[1::2], strict=True)}
    return found


def write_sets(rows: Sequence[Row], folder: Path) -> Iterator[Path]:
    """Write judged sets in BEIR's form: `pages`, with the questions of all languages, and a set for each language."""
    english = sections()
    if missing := {name for row in rows for name in row["sections"]} - set(english):
        raise SystemExit(f"docs/use has no section {sorted(missing)}: correct {_QUESTIONS.name}")
    asked = {(code, n): row["questions"][code] for code in _LANGUAGES for n, row in enumerate(rows)}
    yield _written(folder / "pages", english, [(key, text, rows[key[1]]["sections"]) for key, text in asked.items()])
    for code in _LANGUAGES:
        own = {str(number): row["passages"][code] for number, row in enumerate(rows)}
        of_code = [(key, text, [str(key[1])]) for key, text in asked.items() if key[0] == code]
        yield _written(folder / code, own, of_code)


def _written(
    folder: Path, texts: Mapping[str, str], asked: Sequence[tuple[tuple[str, int], str, Sequence[str]]]
) -> Path:
    folder.mkdir()
    documents = [{"_id": key, "title": key.partition(": ")[2], "text": text} for key, text in texts.items()]
    questions = [{"_id": f"{code}-{number}", "text": text} for (code, number), text, _ in asked]
    judged = [f"{code}-{number}\t{key}\t1" for (code, number), _, gold in asked for key in gold]
    for name, lines in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (folder / "qrels.tsv").write_text("\n".join(judged) + "\n", "utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", action="append", help="default: all-MiniLM-L6-v2 and multilingual")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder with the prepared embedders")
    given = parser.parse_args()
    rows = [json.loads(line) for line in _QUESTIONS.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cli", "eval", *map(str, write_sets(rows, Path(folder))), "--data", given.data]
        command += [part for rung in _RUNGS for part in ("--rung", rung)]
        command += [
            part for one in given.embedder or ["all-MiniLM-L6-v2", "multilingual"] for part in ("--embedder", one)
        ]
        done = subprocess.run([*command, "--untimed", "--json", "-"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    print(
        f"| documents | embedder | search | {' | '.join(_LANGUAGES)} |\n| --- | --- | --- |{' --- |' * len(_LANGUAGES)}"
    )
    found: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for result in json.loads(done.stdout)["sets"]:
        documents = "pages" if result["name"] == "pages" else "own"
        for rung in result["rungs"]:
            row = found.setdefault((documents, result["embedder"], rung["name"]), {})
            for question, scores in rung["scores"].items():
                row.setdefault(question.partition("-")[0], []).append(scores["ndcg@10"])
    for key, row in found.items():
        print(f"| {' | '.join([*key, *(f'{fmean(row[code]):.3f}' for code in _LANGUAGES)])} |")


if __name__ == "__main__":
    main()
