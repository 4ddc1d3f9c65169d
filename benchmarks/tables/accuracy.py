"""How many questions does a small model answer with the right rows, alone and through the gateway?

    python benchmarks/tables/accuracy.py DIR PYTHON MODEL.gguf [--limit N] [--at-once N] [--out FILE]

DIR has `questions.jsonl` (db, question, instructions, gold_sql) and `db/NAME.sqlite`. PYTHON has the packages of
requirements/smoke.txt. The model is asked for each question, at temperature 0, in three ways:

plain     without the gateway: the tables as CREATE TABLE, the question, and a request for one query
no hints  through the gateway, which offers `query_tables`: the last query before a result named similar values
hints     through the gateway: the last query

A query is right if its rows are those of a gold query, in any order and with any further columns. --limit: questions,
an equal number of each database, by chance (--seed). --out keeps each answer, and a later run goes on from there.
"""

import argparse
import contextlib
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, permutations
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import httpx

from benchmarks.common.output import say, table
from tests.smoke import serving_model
from tests.support.gateway import serving

Question = dict[str, Any]
WAYS = ("plain", "no hints", "hints")
# A slow model takes more than `action_calls.total_s` for two rounds.
SETTINGS = """
models:
  m: {{api_base: "{url}/v1", tools: text}}
embedder: {{model: hash}}
action_calls: {{total_s: 1200}}
tables:
{tables}"""
MOST_PERMUTATIONS = 5_000
TIMEOUT_S = 1_200.0
_QUERY_S = 10.0
_BLOCK = re.compile(r"```(?:sql)?\s*(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_ASK = "Answer with one SQLite query in a code block, and nothing else. The tables are:\n\n"


def sample(questions: Sequence[Question], limit: int, seed: int) -> list[Question]:
    """An equal number of questions of each database, those of one database together: they share a prompt.

    A larger sample has the questions of a smaller one.
    """
    by_db: dict[str, list[Question]] = {}
    for one in questions:
        by_db.setdefault(one["db"], []).append(one)
    each = -(-limit // len(by_db))
    return [one for some in by_db.values() for one in Random(seed).sample(some, len(some))[:each]]


def rows_of(file: Path, sql: str) -> list[tuple[Any, ...]] | None:
    """The rows of a query; None: it fails or takes too long."""
    until = time.monotonic() + _QUERY_S
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        try:
            return connection.execute(sql).fetchall()
        except (sqlite3.Error, sqlite3.Warning):
            return None


def _cell(value: Any) -> Any:
    return round(value, 2) + 0.0 if isinstance(value, int | float) else value


def same(wanted: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> bool:
    """Whether columns of the found rows make the wanted rows, in any order."""
    if len(wanted) != len(found):
        return False
    if not wanted:
        return True
    wanted, found = ([[_cell(one) for one in row] for row in rows] for rows in (wanted, found))
    rows = Counter(map(tuple, wanted))
    orders = islice(permutations(range(len(found[0])), len(wanted[0])), MOST_PERMUTATIONS)
    return any(Counter(tuple(row[at] for at in order) for row in found) == rows for order in orders)


def right(file: Path, question: Question, sql: str) -> bool:
    found = rows_of(file, sql) if sql else None
    gold = [rows_of(file, one) for one in question["gold_sql"]]
    return found is not None and any(one is not None and same(one, found) for one in gold)


def text_of(question: Question) -> str:
    return f"{question['question']} {question.get('instructions') or ''}".strip()


def plain(url: str, file: Path, question: Question) -> str:
    """The query of the model alone."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        tables = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'") if row[0]]
    messages = [
        {"role": "system", "content": _ASK + ";\n".join(tables)},
        {"role": "user", "content": text_of(question)},
    ]
    body = {"model": "plain", "messages": messages, "temperature": 0, "max_tokens": 300}
    reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=TIMEOUT_S).raise_for_status().json()
    text = reply["choices"][0]["message"]["content"] or ""
    block = _BLOCK.search(text)
    return (block[1] if block else text).strip()


def by_gateway(url: str, question: Question) -> tuple[str, str]:
    """The last query before a hint, and the last one; "": none that returned."""
    messages = [{"role": "user", "content": text_of(question)}]
    body = {"model": f"rage/{question['db']}/raw/m", "messages": messages, "temperature": 0, "max_tokens": 300}
    reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=TIMEOUT_S).raise_for_status()
    receipt = httpx.get(f"{url}/v1/knowledge/receipts/{reply.headers['x-rag-id']}", timeout=TIMEOUT_S).json()
    calls = ((receipt.get("actions") or {}).get("calls")) or []
    queries = [one for one in calls if str(one["operation"]).endswith("/query_tables") and one["outcome"] == "ok"]
    return _last(queries, until_hint=True), _last(queries, until_hint=False)


def _last(queries: Iterable[dict[str, Any]], *, until_hint: bool) -> str:
    sql = ""
    for one in queries:
        with contextlib.suppress(ValueError):  # cut in the receipt
            sql = json.loads(one["arguments"])["sql"]
        if until_hint and "Similar values:" in one["result"]:
            break
    return sql


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("python", metavar="PYTHON")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8, help="questions asked together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a JSONL file")
    args = parser.parse_args()
    lines = (args.dir / "questions.jsonl").read_text("utf-8").splitlines()
    asked = sample([json.loads(line) for line in lines], args.limit, args.seed)
    files = {name: args.dir / "db" / f"{name}.sqlite" for name in {one["db"] for one in asked}}
    kept = args.out.read_text("utf-8").splitlines() if args.out and args.out.exists() else []
    done: dict[str, dict[str, Any]] = {one["_id"]: one for one in map(json.loads, kept)}
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        model = [args.model, str(args.at_once)]
        url = stack.enter_context(serving_model(args.python, model, folder / "model.log"))
        tables = "".join(f'  {name}: {{url: "sqlite:///{file.resolve()}"}}\n' for name, file in files.items())
        settings = SETTINGS.format(url=url, tables=tables)
        served = stack.enter_context(serving(folder / "data", folder, settings))
        while any(f"tables.{name}: " not in served.log.read_text() for name in files):
            time.sleep(0.2)

        def answer(question: Question) -> dict[str, Any]:
            file = files[question["db"]]
            queries = dict(zip(WAYS, (plain(url, file, question), *by_gateway(served.url, question)), strict=True))
            correct = {way: right(file, question, sql) for way, sql in queries.items()}
            return {"_id": question["_id"], "db": question["db"], "sql": queries, "right": correct}

        pool = stack.enter_context(ThreadPoolExecutor(args.at_once))
        left = [one for one in asked if one["_id"] not in done]
        for number, got in enumerate(pool.map(answer, left), 1):
            done[got["_id"]] = got
            say(f"{number} of {len(left)} {got['db']}: {got['right']}")
            if args.out:
                with args.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(got) + "\n")
    counted = [done[one["_id"]] for one in asked]
    rows = []
    for name in [*files, "all"]:
        some = [one for one in counted if name in (one["db"], "all")]
        shares = [f"{sum(one['right'][way] for one in some)} ({_share(some, way)})" for way in WAYS]
        rows.append([name, str(len(some)), *shares])
    print(table(["database", "questions", *WAYS], rows))


def _share(some: Sequence[dict[str, Any]], way: str) -> str:
    return f"{sum(one['right'][way] for one in some) / max(1, len(some)):.2f}"


if __name__ == "__main__":
    main()
