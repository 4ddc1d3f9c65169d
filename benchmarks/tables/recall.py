"""Whether the tables that answer a question are among those that a chat is given.

    python benchmarks/tables/recall.py DIR [--budget TOKENS,TOKENS…] [--samples] [--documents SET]

DIR has `questions.jsonl` (db, question, gold_sql), `unanswerable.jsonl` (db, question) and `db/NAME.sqlite`. The gold
tables of a question are those that `sqlglot` finds in a gold query; of several queries the one counts whose tables are
found best. Each database alone, and all in one pool, in which a table of another database with the same name and
columns counts as well. An unanswerable question is offered tables if it is relevant to its database; so is an
answerable question. SET has documents in the form of BEIR: of its first 100 questions, and of the answerable ones, the
last table counts those that are offered tables of the pool beside the passages of the judged documents. The tables go
to standard output.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from benchmarks.common.output import say, table
from cli.assembly.tables import table_library
from config.settings import load
from proxy.tables.library import FoundTables, TableLibrary
from proxy.tables.reading import Reading, read_database
from proxy.tables.schema import DatabaseSource
from retrieval.knowledge import SearchRequest, write_texts
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import ALL, Turn

Question = dict[str, Any]
_DOCUMENT_QUESTIONS = 100


@cache
def gold_tables(sql: str) -> frozenset[str]:
    """The tables that a query reads; none if sqlglot cannot read it."""
    tree: exp.Expr | None = None
    for dialect in ("sqlite", "postgres"):
        with contextlib.suppress(SqlglotError):
            tree = tree or sqlglot.parse_one(sql, dialect=dialect)
    if tree is None:
        return frozenset()
    named = {one.alias for one in tree.find_all(exp.CTE)}
    return frozenset(one.name.lower() for one in tree.find_all(exp.Table)) - named


def recall_of(question: Question, found: FoundTables, twins: dict[tuple[str, str], set[str]]) -> float:
    """The share of the gold tables that are found; twins: table -> databases that have the same."""
    db = str(question["db"])
    offered = {(one.database, one.table.name.lower()) for one in found.tables}
    best = 0.0
    for sql in question["gold_sql"]:
        names = gold_tables(sql)
        there = [any((one, name) in offered for one in twins.get((db, name), {db})) for name in names]
        best = max(best, mean(there) if there else 0.0)
    return best


def read_lines(file: Path) -> list[Question]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


async def measure(folder: Path, budgets: Sequence[int], *, samples: bool, documents: Path | None) -> None:
    questions, unanswerable = read_lines(folder / "questions.jsonl"), read_lines(folder / "unanswerable.jsonl")
    files = {file.stem: file for file in sorted((folder / "db").glob("*.sqlite"))}
    asked = [one for one in questions if one["db"] in files and any(map(gold_tables, one["gold_sql"]))]
    left = [one for one in unanswerable if one["db"] in files]
    say(
        f"{len(files)} databases; {len(asked)} of {len(questions)} questions, {len(left)} of {len(unanswerable)} others"
    )
    with tempfile.TemporaryDirectory() as data:
        settings = load(environ={}, flags={"data": data})
        async with table_library(settings, make=True) as library:
            for name, file in files.items():
                source = DatabaseSource("sqlite", f"sqlite:///{file}")
                await library.add(source, read_database(name, source, Reading(samples=samples)))
            await report(library, asked, left, [*files], budgets)
            if documents is not None:
                await report_beside(library, asked, documents, [*files])


async def report_beside(library: TableLibrary, asked: list[Question], documents: Path, names: list[str]) -> None:
    """How many questions are offered tables beside passages."""
    queries = [json.loads(line) for line in (documents / "queries.jsonl").read_text("utf-8").split("\n") if line]
    texts = {str(one["_id"]): str(one["text"]) for one in queries[:_DOCUMENT_QUESTIONS]}
    pairs = [line.split("\t") for line in (documents / "qrels.tsv").read_text("utf-8").split("\n")]
    judged = {pair[1] for pair in pairs if pair[0] in texts}
    corpus = [json.loads(line) for line in (documents / "corpus.jsonl").read_text("utf-8").split("\n") if line]
    inputs = [
        DocumentInput(
            f"d{number}", f"d{number}", one["text"].encode("utf-8", "replace"), one.get("title") or "", "text"
        )
        for number, one in enumerate(corpus)
        if one["_id"] in judged and one["text"].strip()
    ]
    await write_texts(library.knowledge, documents.name, inputs, None)
    rows: list[list[str]] = []
    for kind, some in (("answerable", [str(one["question"]) for one in asked]), ("of documents", [*texts.values()])):
        alone, beside = 0, 0
        for question in some:
            turns = [Turn("user", question)]
            found = await library.find(turns, names, budget_tokens=1_000)
            request = SearchRequest(turns, [documents.name], k=5, budget_tokens=1_000, view=ALL)
            retrieved = await library.knowledge.search.retrieve(request)
            answered = (retrieved.relevance or 0.0) if retrieved.context.passages else 0.0
            alone += found.relevant
            beside += found.relevant_beside(answered)
        rows.append([kind, str(len(some)), str(alone), str(beside)])
    print(table(["questions", "number", "offered tables", f"beside {len(inputs)} documents"], rows))


async def report(
    library: TableLibrary, asked: list[Question], left: list[Question], names: list[str], budgets: Sequence[int]
) -> None:
    like: dict[object, set[str]] = {}
    stored = library.store.databases()
    for name in names:
        for one in stored[name].database.tables:
            like.setdefault((one.name, tuple(column.name for column in one.columns)), set()).add(name)
    twins = {
        (name, one.name.lower()): like[one.name, tuple(column.name for column in one.columns)]
        for name in names
        for one in stored[name].database.tables
    }
    rows: list[list[str]] = []
    for budget in budgets:
        for among in ("alone", "pool"):
            recalls, sizes, counts, whole, times_ms = [], [], [], 0, []
            by_db: dict[str, list[float]] = {}
            for question in asked:
                pool = [str(question["db"])] if among == "alone" else names
                began = time.perf_counter()
                found = await library.find([Turn("user", str(question["question"]))], pool, budget_tokens=budget)
                times_ms.append((time.perf_counter() - began) * 1000)
                recalls.append(recall_of(question, found, {} if among == "alone" else twins))
                by_db.setdefault(str(question["db"]), []).append(recalls[-1])
                sizes.append(found.tokens)
                counts.append(len(found.tables))
                whole += found.whole
            rows.append(
                [
                    str(budget),
                    among,
                    f"{mean(recalls):.3f}",
                    f"{mean(one == 1 for one in recalls):.3f}",
                    f"{mean(mean(some) for some in by_db.values()):.3f}",
                    f"{mean(counts):.1f}",
                    f"{mean(sizes):.0f}",
                    f"{whole / len(asked):.0%}",
                    f"{median(times_ms):.1f}",
                ]
            )
            say(" ".join(rows[-1]))
    head = ["budget", "among", "recall", "all tables", "mean of databases", "tables", "tokens", "whole", "ms"]
    print(table(head, rows))
    offered: list[list[str]] = []
    for kind, some in (("answerable", asked), ("unanswerable", left)):
        for among in ("alone", "pool"):
            relevant, values = 0, []
            for question in some:
                where = [str(question["db"])] if among == "alone" else names
                found = await library.find([Turn("user", str(question["question"]))], where, budget_tokens=budgets[0])
                relevant += found.relevant
                values.append(found.relevance or 0.0)
            offered.append([kind, among, str(len(some)), str(relevant), f"{median(values):.3f}"])
        kinds = sorted({str(one.get("category")) for one in some}) if kind == "unanswerable" else []
        for category in kinds:
            part = [one for one in some if one.get("category") == category]
            texts = [([Turn("user", str(one["question"]))], [str(one["db"])]) for one in part]
            hits = [(await library.find(turns, db, budget_tokens=budgets[0])) for turns, db in texts]
            relevant = sum(one.relevant for one in hits)
            middle = median(one.relevance or 0.0 for one in hits)
            offered.append([f"unanswerable, {category}", "alone", str(len(part)), str(relevant), f"{middle:.3f}"])
    print(table(["questions", "among", "number", "offered tables", "median relevance"], offered))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    default = load(environ={}).table_queries.card_tokens
    parser.add_argument("--budget", default=f"{default},600,300", help="tokens of the cards (default: %(default)s)")
    parser.add_argument("--samples", action="store_true", help="with values of the columns")
    parser.add_argument("--documents", type=Path, metavar="SET", help="documents and questions about them")
    args = parser.parse_args()
    budgets = [int(one) for one in args.budget.split(",")]
    asyncio.run(measure(args.folder, budgets, samples=args.samples, documents=args.documents))


if __name__ == "__main__":
    main()
