"""The systems of the scale benchmark: the embedded store, qdrant-client's local mode, rank-bm25, numpy.

Each system is built once into the cache from the same grown chunks and gets the same questions. The time and size of a
build are cached, too, for later reports.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.common.output import say
from benchmarks.common.processes import ROOT, environment
from benchmarks.scale import grown
from benchmarks.scale.grown import Bases
from retrieval.lexical.terms import query_vectors, words
from retrieval.records.points import Vector
from retrieval.records.search import ScoredId
from retrieval.search.okapi import OkapiIndex
from retrieval.stores.base import Store
from retrieval.stores.edge import EdgeStore
from retrieval.stores.qdrant import QdrantStore

TENANT = "docs@1"
CANDIDATES = 50  # of each arm, as `retrieval.candidates`
RRF_K = 60


@dataclass(frozen=True, slots=True)
class Built:
    """Time and size of a build."""

    written_s: float
    optimised_s: float
    disk_mb: float

    @staticmethod
    def read(folder: Path) -> "Built | None":
        note = folder / "built.json"
        return Built(**orjson.loads(note.read_bytes())) if note.exists() else None


async def open_store(kind: str, folder: Path, dimension: int) -> Store:
    """The store `kind` (edge, local) in a folder of the cache."""
    if kind == "edge":
        return EdgeStore.open(folder / "store", vectors={"dense": dimension})
    return await QdrantStore.local(str(folder / "store"), collection="scale", vectors={"dense": dimension})


async def build(kind: str, folder: Path, base: Bases, chunks: int) -> Built:
    """The store with so many chunks, in the cache."""
    if (built := Built.read(folder)) is not None:
        return built
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    say(f"building {kind} with {chunks} chunks, once")
    store = await open_store(kind, folder, base.vectors.shape[1])
    written_s = 0.0
    for made in grown.points(base, chunks):
        began = time.monotonic()
        await store.upsert(TENANT, made)
        written_s += time.monotonic() - began
    say(f"{kind}: written in {written_s:.0f} s")
    began = time.monotonic()
    if isinstance(store, EdgeStore):
        await store.optimise()
    optimised_s = time.monotonic() - began
    await store.close()
    built = Built(written_s, optimised_s, disk_mb(folder))
    (folder / "built.json").write_bytes(
        orjson.dumps({"written_s": written_s, "optimised_s": optimised_s, "disk_mb": built.disk_mb})
    )
    return built


def disk_mb(folder: Path) -> float:
    """The disk usage of a folder, without holes in files."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 2**20


def corpus_of_words(base: Bases, chunks: int) -> Iterator[tuple[str, list[str]]]:
    for number, text in enumerate(grown.texts(base, chunks)):
        yield grown.identifier(number), words(text)


def okapi(corpus: list[tuple[str, list[str]]]) -> tuple[OkapiIndex, float]:
    """The index of `retrieval.lexical: okapi`, and the seconds for the build."""
    began = time.monotonic()
    index = OkapiIndex([id for id, _ in corpus], [said for _, said in corpus])
    return index, time.monotonic() - began


def rank_bm25(corpus: list[tuple[str, list[str]]]) -> tuple[Any, float]:
    """rank-bm25's index, and the seconds for the build."""
    from rank_bm25 import BM25Okapi

    began = time.monotonic()
    return BM25Okapi([said for _, said in corpus]), time.monotonic() - began


def fused(*arms: Sequence[ScoredId]) -> list[str]:
    """Reciprocal rank fusion, by id."""
    scores: dict[str, float] = {}
    for arm in arms:
        for rank, point in enumerate(arm, 1):
            scores[point.id] = scores.get(point.id, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores, key=lambda id: (-scores[id], id))


def restart_s(kind: str, folder: Path, question: str, vector: Vector) -> float:
    """Seconds from a new process to the first answer of the store in the folder."""
    asked = orjson.dumps([kind, str(folder), question, vector.tolist()])
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale.systems"],
        input=asked,
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        env=environment({"PYTHONPATH": str(ROOT)}),
    )
    took = time.monotonic() - began
    if not orjson.loads(done.stdout):
        raise AssertionError(f"{kind} found nothing after a restart")
    return took


def rss_mb() -> tuple[float, float]:
    """Of this process: anonymous memory, and pages of mapped files, which the kernel may reclaim."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    values = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return int(values["RssAnon"]) / 1024, int(values["RssFile"]) / 1024


async def _answer_once() -> None:
    kind, folder, question, vector = orjson.loads(sys.stdin.buffer.read())
    store = await open_store(kind, Path(folder), len(vector))
    found = await store.search(
        [TENANT], np.asarray(vector, np.float32), query_vectors([TENANT], [(question, 1.0)]), k=CANDIDATES
    )
    sys.stdout.buffer.write(orjson.dumps([hit.id for hit in found["dense"]]))
    sys.stdout.flush()
    os._exit(0)  # an answer was asked for, not an orderly end


if __name__ == "__main__":
    asyncio.run(_answer_once())
