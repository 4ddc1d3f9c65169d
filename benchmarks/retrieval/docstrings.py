"""A judged set of Python code: a docstring's first line is the question, the file without the docstring the answer.

    python benchmarks/retrieval/docstrings.py OUT FOLDER [FOLDER…] [--limit N]

The packages in FOLDER (of the standard library, say) become OUT/docs/, with OUT/queries.jsonl and OUT/qrels.tsv as
`ragway eval` and stages.py read them. Asked are lines of four words and more that stand in one definition only.
"""

import argparse
import ast
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

_LEAST_WORDS = 4


def documented(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Docstrings of functions and classes, with their first lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = (ast.get_docstring(node) or "").partition("\n")[0]
            if len(line.split()) >= _LEAST_WORDS and isinstance(first := node.body[0], ast.Expr):
                yield first.value, line


def bare(text: str, docstrings: Sequence[ast.expr]) -> str:
    """The code with `...` in place of these docstrings."""
    lines = text.encode().splitlines(keepends=True)  # columns are bytes
    for one in sorted(docstrings, key=lambda one: -one.lineno):
        last = one.end_lineno or one.lineno
        rest = lines[last - 1][one.end_col_offset :]
        lines[one.lineno - 1 : last] = [lines[one.lineno - 1][: one.col_offset] + b"..." + rest]
    return b"".join(lines).decode()


def write(out: Path, folders: Sequence[Path], *, limit: int) -> int:
    """Write the set; the number of questions."""
    asked = list[tuple[str, str]]()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            text, name = file.read_text("utf-8"), str(file.relative_to(folder.parent))
            found = list(documented(ast.parse(text)))
            asked += [(line, name) for _, line in found]
            target = out / "docs" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(bare(text, [one for one, _ in found]), "utf-8")
    times = Counter(line for line, _ in asked)
    alone = [one for one in asked if times[one[0]] == 1]
    drawn = random.Random(0).sample(alone, min(limit, len(alone)))
    questions = [json.dumps({"_id": str(number), "text": line}) for number, (line, _) in enumerate(drawn)]
    (out / "queries.jsonl").write_text("\n".join(questions), "utf-8")
    golds = [f"{number}\t{name}\t1" for number, (_, name) in enumerate(drawn)]
    (out / "qrels.tsv").write_text("\n".join(golds), "utf-8")
    return len(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="the judged set")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a Python package")
    parser.add_argument("--limit", type=int, default=400, help="questions at most")
    given = parser.parse_args()
    print(f"{write(given.out, given.folders, limit=given.limit)} questions")


if __name__ == "__main__":
    main()
