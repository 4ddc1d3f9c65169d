"""The cost of a search: the index process over a socket, compared with a naive stack on the same passages.

    python benchmarks/retrieval/search.py [--chunks N] [--questions N] [--cache DIR] [--anyway]

The naive stack is a typical first version: `SentenceTransformer.encode`, rank-bm25's `get_scores` and a numpy product
over all vectors, fused by reciprocal rank, in one process. Both systems answer the same questions in the same run, in
blocks and in random order, one at a time and 16 at once. No system gets a question twice, so no cache can help. The
table goes to standard output as Markdown; exit code 2: cannot run, or the machine is busy.
"""

import argparse
import asyncio
import dataclasses
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.output import say
from benchmarks.common.processes import ROOT, Unmeasurable, refusal
from benchmarks.common.workload import questions
from cli.assembly.index import plan
from config.settings import load
from retrieval.knowledge import Plan, SearchRequest
from retrieval.records.search import Turn
from retrieval.rpc.client import IndexClient

_AT_ONCE = 16
_BLOCK = 20  # consecutive questions, one at a time
_CANDIDATES, _K, _RRF_K = 50, 12, 60
_STAGES = ("rewrite", "embed", "search", "fuse", "pack")

Ask = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class Times:
    """Milliseconds of one system: of each question alone, of the stages, and of each question among many."""

    alone: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)
    at_once: list[float] = field(default_factory=list)
    at_once_s: float = 0.0


class Ours:
    """The index process over a socket."""

    def __init__(self, data: Path) -> None:
        self.times = Times()
        self._client = IndexClient(data)

    async def ask(self, question: str) -> None:
        found = await self._client.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=None))
        if not found.context.passages:
            raise Unmeasurable(f"nothing was found for {question!r}, whose passage is in the index")
        for stage, ms in found.timings_ms.items():
            self.times.stages.setdefault(stage, []).append(ms)

    async def close(self) -> None:
        await self._client.close()


class Naive:
    """The naive stack in this process; in threads, as in a web framework."""

    def __init__(self, passages: Sequence[str], vectors: Path) -> None:
        """vectors: where the passages' vectors are kept between runs."""
        from rank_bm25 import BM25Okapi

        from retrieval.embedding.export import DEFAULT_MODEL, load_model, locate

        self.times = Times()
        self._model = load_model(locate(DEFAULT_MODEL)[0])
        self._lexical = BM25Okapi([passage.lower().split() for passage in passages])
        self._passages = passages
        if not vectors.exists():
            say(f"embedding {len(passages)} passages once more, by sentence-transformers")
            np.save(vectors, self._encoded(passages))
        self._vectors = np.load(vectors)

    async def ask(self, question: str) -> None:
        await asyncio.to_thread(self._answer, question)

    def _answer(self, question: str) -> list[str]:
        began = time.perf_counter()
        dense = self._vectors @ self._encoded([question])[0]
        embedded = time.perf_counter()
        lexical = self._lexical.get_scores(question.lower().split())
        scores: dict[int, float] = {}
        for arm in (dense, lexical):
            for rank, row in enumerate(np.argsort(-arm)[:_CANDIDATES], 1):
                scores[int(row)] = scores.get(int(row), 0.0) + 1 / (_RRF_K + rank)
        best = sorted(scores, key=lambda row: -scores[row])[:_K]
        self.times.stages.setdefault("embed", []).append((embedded - began) * 1000)
        self.times.stages.setdefault("search", []).append((time.perf_counter() - embedded) * 1000)
        return [self._passages[row] for row in best]

    def _encoded(self, texts: Sequence[str]) -> Any:
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)


async def measured(systems: Sequence[Ours | Naive], asked: Iterator[str], count: int, random: Random) -> None:
    """Ask every system `count` questions one at a time, in alternating blocks, then `count` with 16 at once."""
    for system in systems:
        for question in islice(asked, _BLOCK):
            await system.ask(question)
        system.times.stages.clear()
    for _ in range(max(1, count // _BLOCK)):
        block = list(islice(asked, _BLOCK))
        for system in random.sample(systems, len(systems)):
            system.times.alone += [await _took_ms(system.ask, question) for question in block]
    for system in systems:
        alone, system.times.stages = system.times.stages, {}
        left = islice(asked, count)
        began = time.perf_counter()
        await asyncio.gather(*(_worker(system, left) for _ in range(_AT_ONCE)))
        system.times.at_once_s = time.perf_counter() - began
        system.times.stages = alone


async def _worker(system: Ours | Naive, left: Iterator[str]) -> None:
    for question in left:
        system.times.at_once.append(await _took_ms(system.ask, question))


async def _took_ms(ask: Ask, question: str) -> float:
    began = time.perf_counter()
    await ask(question)
    return (time.perf_counter() - began) * 1000


def table(ours: Times, naive: Times, chunks: int) -> str:
    """The measurements as Markdown."""
    rows = [("one at a time, in all", ours.alone, naive.alone)]
    rows += [(f"- {stage}", ours.stages.get(stage, []), naive.stages.get(stage, [])) for stage in _STAGES]
    rows += [(f"{_AT_ONCE} at once", ours.at_once, naive.at_once)]
    lines = [
        f"{chunks} chunks. Milliseconds a question, p50 / p95 / p99.",
        "",
        "| | index process | naive stack |",
        "| --- | --- | --- |",
        *(f"| {name} | {_percentiles(mine)} | {_percentiles(other)} |" for name, mine, other in rows),
        f"| questions a second, {_AT_ONCE} at once | {_rate(ours)} | {_rate(naive)} |",
    ]
    return "\n".join(lines)


def _percentiles(times_ms: Sequence[float]) -> str:
    if not times_ms:
        return ""
    return " / ".join(f"{value:.2f}" for value in np.percentile(times_ms, [50, 95, 99]))


def _rate(times: Times) -> str:
    return f"{len(times.at_once) / times.at_once_s:.0f}"


def start(settled: Plan) -> "subprocess.Popen[bytes]":
    """Start the index process on the plan's data folder and wait until ready. Raises Unmeasurable."""
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieval.rpc.server"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(orjson.dumps(dataclasses.asdict(settled)) + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        if line == b"ready\n":
            return process
        if line.startswith(b"error"):
            raise Unmeasurable(line.decode().strip())
    raise Unmeasurable("the index process ended before it was ready")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="passages in the index (default: 10000)")
    parser.add_argument("--questions", type=int, default=400, help="asked of each system, each way (default: 400)")
    add_cache(parser)
    add_models(parser)
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except Unmeasurable as error:
        say(str(error))
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Build the index, measure, and print the table."""
    cache = arguments.cache.resolve()
    passages = corpus.passages(cache, arguments.chunks)
    say(f"index: {len(passages)} passages in {cache} (the first time, they are embedded: minutes)")
    data, chunks = corpus.index(cache, len(passages), arguments.models)
    naive = Naive(passages, cache / f"naive-{len(passages)}.npy")
    busy = refusal(anyway=arguments.anyway)
    random = Random(2)
    asked = questions(random.sample(passages, len(passages)))
    process = start(replace(plan(load(environ={}, flags={"data": str(data)}), environ={}), data=str(data)))
    watch = machine.Watch()

    async def both() -> Ours:
        ours = Ours(data)
        await measured([ours, naive], asked, arguments.questions, random)
        await ours.close()
        return ours

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            ours = runner.run(both())
    finally:
        assert process.stdin is not None
        process.stdin.close()  # ends the process
        process.wait()
    print(table(ours.times, naive.times, chunks))
    if busy or watch.elsewhere().disturbing:
        print("\nThe machine was busy with something else: these figures are not to be quoted.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
