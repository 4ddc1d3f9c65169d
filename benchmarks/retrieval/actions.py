"""How well operations of APIs are found by what people ask, alone and among thousands of other operations.

    python benchmarks/retrieval/actions.py DIR [--others FOLDER] [--among N,N…] [--alone] [--data DIR]

DIR is a judged set in BEIR's form with an `openapi.json`; the documents of the judgements are "METHOD /path". FOLDER
has OpenAPI documents, also in folders of its own; the first N operations of the documents, in the order of a hash of
the documents' names, join the set. Each size is one action set, in a data folder that stays with --data. The table
goes to standard output.
"""

import argparse
import asyncio
import hashlib
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from cli.common import knowledge
from config.settings import load
from evaluation.retrieval.judged import JudgedSet, read
from proxy.actions.library import ActionLibrary, FoundAction, ReadDocument
from proxy.actions.openapi.operation import Operation
from proxy.actions.openapi.operations import operations_of
from proxy.actions.openapi.read import UnreadableSpec, read_spec
from proxy.actions.store import ActionStore
from retrieval.records.search import ALL

_K = 10


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one size: means over the questions, except the time."""

    operations: int
    ndcg: float
    recall: float
    hit: float  # share of questions with a right operation among the first five
    empty: int  # questions for which nothing was found
    median_ms: float


def scores(found: Sequence[str], relevant: Mapping[str, int]) -> tuple[float, float, bool]:
    """nDCG@10, recall@10 and hit@5 of one question."""
    gains = [relevant.get(each, 0) for each in found[:_K]]
    ideal = sorted(relevant.values(), reverse=True)[:_K]
    recall = sum(1 for gain in gains if gain > 0) / sum(1 for gain in relevant.values() if gain > 0)
    return _dcg(gains) / _dcg(ideal), recall, any(gains[:5])


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


def others(folder: Path, own: Sequence[Operation], count: int) -> list[Operation]:
    """The first `count` operations of the folder's documents, with names that no two share, without the set's own."""
    made: list[Operation] = []
    calls = {(one.method, one.path) for one in own}
    for number, operations in enumerate(_read_all(folder)):
        for one in operations:
            if len(made) >= count:
                return made
            if (one.method, one.path) in calls:
                continue
            producers = tuple(f"{number}_{name}" for name in one.producers)
            made.append(msgspec.structs.replace(one, name=f"{number}_{one.name}", producers=producers))
    return made


def documents_of(folder: Path) -> list[Path]:
    """The files with JSON or YAML, in the order of a hash of their names."""
    files = [file for file in folder.rglob("*") if file.suffix in (".json", ".yaml", ".yml")]
    return sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())


def _read_all(folder: Path) -> Iterator[list[Operation]]:
    for file in documents_of(folder):
        try:
            yield operations_of(read_spec(file.read_bytes()))[0]
        except UnreadableSpec:
            continue


async def measure(library: ActionLibrary, name: str, judged: JudgedSet, count: int) -> Row:
    """Ask all questions of the judged set."""
    rows, times_ms, empty = [], [], 0
    for question in judged.questions:
        began = time.perf_counter()
        found = await library.find(question.turns, [name], k=_K, view=ALL)
        times_ms.append((time.perf_counter() - began) * 1000)
        empty += not found
        rows.append(scores([_id(one) for one in found], question.gold))
    ndcg, recall, hit = (float(np.mean([row[at] for row in rows])) for at in range(3))
    return Row(count, ndcg, recall, hit, empty, float(np.median(times_ms)))


def _id(found: FoundAction) -> str:
    """The judged operation; "" for an operation of another document."""
    return "" if found.operation.name[:1].isdigit() else f"{found.operation.method} {found.operation.path}"


async def _run(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.dir)
    judged, own = read(folder), operations_of(read_spec((folder / "openapi.json").read_bytes()))[0]
    async with AsyncExitStack() as stack:
        data = arguments.data or stack.enter_context(tempfile.TemporaryDirectory(prefix="ragway-actions-"))
        settings = load(flags={"data": str(data)})
        library = ActionLibrary(
            ActionStore(Path(data)), await stack.enter_async_context(knowledge(settings, make=True))
        )
        rows: list[Row] = []
        for count in arguments.among:
            joined = [*own, *(others(Path(arguments.others), own, count - len(own)) if count else ())]
            name = f"among-{count}"
            if arguments.alone:
                joined, name = [msgspec.structs.replace(one, producers=()) for one in joined], f"alone-{count}"
            await library.write(name, ReadDocument({}, "", joined, (), ""), "https://api.example.com")
            say(f"{len(joined):,} operations are written")
            rows.append(await measure(library, name, judged, len(joined)))
    print(table(["operations", "nDCG@10", "recall@10", "hit@5", "nothing found", "median ms"], map(_cells, rows)))


def _cells(row: Row) -> list[str]:
    figures = (f"{row.ndcg:.3f}", f"{row.recall:.3f}", f"{row.hit:.3f}", str(row.empty), f"{row.median_ms:.1f}")
    return [f"{row.operations:,}", *figures]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure how well operations of APIs are found.")
    parser.add_argument("dir", metavar="DIR", help="judged set in BEIR's form, with an openapi.json")
    parser.add_argument("--others", metavar="FOLDER", help="OpenAPI documents whose operations join the set")
    parser.add_argument("--among", default="0", help="sizes with commas; 0 = the set alone (default)")
    parser.add_argument("--alone", action="store_true", help="the search alone: no operation brings producers along")
    parser.add_argument("--data", metavar="DIR", help="where the sets are kept for the next run (default: nowhere)")
    arguments = parser.parse_args()
    arguments.among = [int(text) for text in arguments.among.split(",")]
    if any(arguments.among) and not arguments.others:
        parser.error("--among needs --others")
    asyncio.run(_run(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
