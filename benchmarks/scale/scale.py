"""The cost of a search at 10,000, 100,000 and 1,000,000 chunks, compared with alternatives in the same run.

    python benchmarks/scale/scale.py [--chunks N] [--rows hybrid,okapi,...] [--quick] [--json FILE] [--cache DIR]
        [--anyway]

The chunks are grown from 6,000 real texts (`grown`). The systems answer the same questions in turn, with an embedding
of another text between two questions, so caches are as cold as in a gateway. Rows: hybrid (the embedded store against
qdrant-client's local mode), exact (against both retrievers computed by numpy, with recall), okapi (the index
against `BM25Okapi.get_scores`), path (with the question's embedding, against SentenceTransformer.encode + rank-bm25 +
local mode), restart, ingest (2,000 chunks of 256 tokens). Builds are cached. Exit code 2: cannot run, or the machine is
busy.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.bootstrap import interval, ratio
from benchmarks.common.output import say, table
from benchmarks.common.processes import Unmeasurable, refusal
from benchmarks.scale import grown, systems
from benchmarks.scale.exact import Exact
from retrieval.lexical.terms import query_vector, query_vectors, words
from retrieval.records.search import ScoredId
from retrieval.stores.schema import best

ROWS = ("hybrid", "exact", "okapi", "path", "restart", "ingest")
_TARGETS = {"hybrid": 500.0, "exact": 10.0, "okapi": 200.0, "path": 60.0, "restart": 10.0, "ingest": 2.5}
_RECALLED = 10
_ARMS = ("dense", "bm25")
_RESTARTS = 3
_SPUN_S = 0.1  # numpy's threads spin for some 30 ms after the work, on a core that the next system may need
_INGESTED_TOKENS = 256

Ask = Callable[[int], Awaitable[Any]]
Arms = Mapping[str, Sequence[ScoredId]]


@dataclass(slots=True)
class Row:
    """One comparison: milliseconds per round, of ragway and the peer, and notes."""

    name: str
    peer: str
    chunks: int
    ours_ms: list[float] = field(default_factory=list)
    peer_ms: list[float] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    def cells(self) -> list[str]:
        ours, peer = np.asarray(self.ours_ms), np.asarray(self.peer_ms)
        low, high = interval(ratio, peer, ours)
        times, target = float(ratio(peer, ours)), _TARGETS[self.name]
        notes = "; ".join(f"{name} {_told(value)}" for name, value in self.notes.items())
        return [
            self.name, f"{self.chunks}", self.peer, f"{np.median(peer):.4g}", f"{np.median(ours):.4g}",
            f"{np.percentile(ours, 95):.4g}", f"{times:.4g}", f"{low:.4g}-{high:.4g}", f"{target:g}",
            "yes" if times >= target else "no", notes,
        ]  # fmt: skip


_HEAD = ("row", "chunks", "peer", "peer p50 ms", "ours p50 ms", "ours p95 ms", "times", "95 %", "target", "reached", "")


class Bench:
    """All systems, built and measured."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._cache: Path = arguments.cache.resolve()
        self._cache.mkdir(parents=True, exist_ok=True)
        self._chunks: int = arguments.chunks
        self._count: int = arguments.questions
        self._slow: int = arguments.slow
        self._models: Path = arguments.models
        texts = 200 if arguments.quick else 6000
        self._base = grown.bases(self._cache, texts, 50 if arguments.quick else 500, self._models)
        self._folders = {kind: self._cache / f"{kind}-{texts}-{self._chunks}" for kind in ("edge", "local")}
        self._random = Random(3)
        self._corpus: list[tuple[str, list[str]]] = []
        self._embedder: Any = None

    async def run(self, rows: Sequence[str]) -> list[Row]:
        self._embedder = _open_embedder(self._models)
        measured: list[Row] = []
        for name in rows:
            measured.append(await getattr(self, f"_{name}")())
            say(" | ".join(measured[-1].cells()))  # a run of an hour may be interrupted
        return measured

    async def _hybrid(self) -> Row:
        row = Row("hybrid", "qdrant-client local mode", self._chunks)
        ours = await self._store("edge", row)
        peer = await self._store("local", row)
        await self._by_turns(row, self._search(ours), self._search(peer))
        await ours.close()
        await peer.close()
        return row

    async def _exact(self) -> Row:
        row = Row("exact", "numpy, all vectors and words", self._chunks)
        exact = Exact.of(self._base, self._chunks, self._cache)
        asked = [query_vector([(question, 1.0)]) for question in self._base.questions]
        before = systems.rss_mb()
        ours = await self._store("edge", row)
        search = self._search(ours)
        vectors_ms: list[float] = []

        async def peer(i: int) -> Arms:
            began = time.perf_counter()
            dense = exact.dense(self._base.asked[i], systems.CANDIDATES)
            vectors_ms.append((time.perf_counter() - began) * 1000)
            return {"dense": dense, "bm25": exact.bm25(asked[i], systems.CANDIDATES)}

        await self._by_turns(row, search, peer, slow=self._count)
        row.notes["numpy's vectors alone p50 ms"] = float(np.median(vectors_ms))
        recalls = [_recalls(await search(i), await peer(i)) for i in range(min(self._count, len(asked)))]
        after = systems.rss_mb()
        for arm, recalled in zip((*_ARMS, "fused"), np.mean(recalls, axis=0), strict=True):
            row.notes[f"recall@{_RECALLED} {arm}"] = round(float(recalled), 4)
        row.notes["memory of the store MB (anonymous, mapped)"] = [
            round(b - a) for a, b in zip(before, after, strict=True)
        ]
        row.notes["of the mapped, numpy's vectors MB"] = round(exact.vectors_mb)
        await ours.close()
        return row

    async def _okapi(self) -> Row:
        row = Row("okapi", "BM25Okapi.get_scores", self._chunks)
        corpus = self._words()
        index, row.notes["built in s"] = systems.okapi(corpus)
        reference, row.notes["rank-bm25 in s"] = systems.rank_bm25(corpus)
        ids = [id for id, _ in corpus]
        asked = [words(question) for question in self._base.questions]
        differing = 0

        async def ours(i: int) -> object:
            return best([index.search([(word, 1.0) for word in asked[i]], 50)], 50)

        async def peer(i: int) -> object:
            nonlocal differing
            scores = dict(zip(ids, reference.get_scores(asked[i]).tolist(), strict=True))
            hits = index.search([(word, 1.0) for word in asked[i]], len(ids))
            differing += any(scores[hit.id] != hit.score for hit in hits)
            return scores

        async def peer_alone(i: int) -> object:
            return reference.get_scores(asked[i])

        await self._by_turns(row, ours, peer_alone)
        for i in range(3):
            await peer(i)
        row.notes["of 3 questions with other scores"] = differing
        return row

    async def _path(self) -> Row:
        from retrieval.embedding.export import DEFAULT_MODEL, load_model, locate

        row = Row("path", "SentenceTransformer.encode + rank-bm25 + local mode", self._chunks)
        ours = await self._store("edge", row)
        local = await self._store("local", row)
        model: Any = load_model(locate(DEFAULT_MODEL)[0])
        reference, _ = systems.rank_bm25(self._words())
        asked = [words(question) for question in self._base.questions]

        async def our_path(i: int) -> object:
            question = self._base.questions[i]
            vector = self._embedder.embed_query([question])[0]
            terms = [(question, 1.0)]
            found = await ours.search(
                [systems.TENANT], vector, query_vectors([systems.TENANT], terms), k=systems.CANDIDATES
            )
            best = systems.fused(found["dense"], found["bm25"])[:12]
            return await ours.read(best)

        async def peer_path(i: int) -> object:
            vector = model.encode([self._base.questions[i]], normalize_embeddings=True, show_progress_bar=False)[0]
            found = await local.search([systems.TENANT], vector, {}, k=systems.CANDIDATES)
            scores = reference.get_scores(asked[i])
            best = np.argsort(-scores)[: systems.CANDIDATES].tolist()
            lexical = [ScoredId(grown.identifier(row), float(scores[row])) for row in best]
            return await local.read(systems.fused(found["dense"], lexical)[:12])

        await self._by_turns(row, our_path, peer_path)
        await ours.close()
        await local.close()
        return row

    async def _restart(self) -> Row:
        row = Row("restart", "qdrant-client local mode", self._chunks)
        for kind in ("edge", "local"):
            store = await self._store(kind, row)
            await store.close()
        for i in range(_RESTARTS):
            question, vector = self._base.questions[i], self._base.asked[i]
            for kind, times in self._random.sample([("edge", row.ours_ms), ("local", row.peer_ms)], 2):
                took_s = await asyncio.to_thread(systems.restart_s, kind, self._folders[kind], question, vector)
                times.append(took_s * 1000)
        return row

    async def _ingest(self) -> Row:
        from benchmarks.scale.ingest import measured

        count = min(2000, self._chunks)
        row = Row("ingest", "SentenceTransformer.encode fp32 + local-mode upsert", count)
        row.ours_ms, row.peer_ms, row.notes = await measured(
            self._base, count, _INGESTED_TOKENS, self._cache, self._models
        )
        return row

    async def _store(self, kind: str, row: Row) -> Any:
        d = self._base.vectors.shape[1]
        built = await systems.build(kind, self._folders[kind], self._base, self._chunks)
        row.notes[f"{kind} built in s"] = [round(built.written_s, 1), round(built.optimised_s, 1)]
        row.notes[f"{kind} on disk MB"] = round(built.disk_mb)
        return await systems.open_store(kind, self._folders[kind], d)

    def _search(self, store: Any) -> Ask:
        async def ask(i: int) -> object:
            terms = [(self._base.questions[i], 1.0)]
            return await store.search(
                [systems.TENANT], self._base.asked[i], query_vectors([systems.TENANT], terms), k=systems.CANDIDATES
            )

        return ask

    def _words(self) -> list[tuple[str, list[str]]]:
        if not self._corpus:
            self._corpus = list(systems.corpus_of_words(self._base, self._chunks))
        return self._corpus

    async def _by_turns(self, row: Row, ours: Ask, peer: Ask, *, slow: int | None = None) -> None:
        """Ask both systems the same questions; a peer that takes seconds gets only the first questions."""
        slow = self._slow if slow is None else slow
        last = len(self._base.questions)
        for warm in (last - 1, last - 2):
            await ours(warm)
        await peer(last - 1)
        more: list[float] = []
        for i in range(min(self._count, last)):
            turns = [(ours, row.ours_ms if i < slow else more)] + ([(peer, row.peer_ms)] if i < slow else [])
            for ask, times in self._random.sample(turns, len(turns)):
                await asyncio.sleep(_SPUN_S)
                # brings the caches into a gateway's state before a search
                self._embedder.embed_query([self._base.texts[i]])
                times.append(await _took_ms(ask, i))
        row.notes["p95 of all"] = round(float(np.percentile(row.ours_ms + more, 95)), 3)


async def _took_ms(ask: Ask, i: int) -> float:
    began = time.perf_counter()
    await ask(i)
    return (time.perf_counter() - began) * 1000


def _recalls(found: Arms, wanted: Arms) -> list[float]:
    """The found share of the exact first ten: dense, lexical, and both fused."""
    lists = [([hit.id for hit in found[arm]], [hit.id for hit in wanted[arm]]) for arm in _ARMS]
    lists.append((systems.fused(*found.values()), systems.fused(*wanted.values())))
    firsts = [({*ours[:_RECALLED]}, {*exact[:_RECALLED]}) for ours, exact in lists]
    return [len(ours & exact) / len(exact) if exact else 1.0 for ours, exact in firsts]


def _open_embedder(models: Path) -> Any:
    from retrieval.embedding.export import DEFAULT_MODEL, open_embedder

    return open_embedder(DEFAULT_MODEL, backend="onnx", threads=1, cache=models)


def _told(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return " + ".join(map(_told, value)) if isinstance(value, list) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated (default: all)")
    parser.add_argument("--questions", type=int, default=300, help="asked of ours (default: 300)")
    parser.add_argument("--slow", type=int, default=20, help="asked of a peer that takes seconds (default: 20)")
    parser.add_argument("--quick", action="store_true", help="200 base texts, 2,000 chunks: whether it runs at all")
    parser.add_argument("--json", type=Path, help="raw measurements")
    add_cache(parser)
    add_models(parser)
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks, arguments.questions, arguments.slow = min(arguments.chunks, 2000), 20, 5
    try:
        return run(arguments)
    except Unmeasurable as error:
        say(str(error))
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Measure and print the table."""
    rows = [name for name in arguments.rows.split(",") if name]
    if unknown := set(rows) - set(ROWS):
        raise Unmeasurable(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    busy = refusal(anyway=arguments.anyway)
    watch = machine.Watch()
    measured = asyncio.run(Bench(arguments).run(rows))
    conditions = machine.conditions()
    print(", ".join(f"{name} {value}" for name, value in conditions.items()))
    print()
    print(table(_HEAD, [row.cells() for row in measured]))
    if arguments.json:
        arguments.json.write_bytes(orjson.dumps({"conditions": conditions, "rows": [asdict(row) for row in measured]}))
    if busy or watch.elsewhere().disturbing:
        print("\nThe machine was busy with something else: these figures are not to be quoted.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
