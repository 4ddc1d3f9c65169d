"""Do the embedded engine and qdrant-client's local mode find the same for the same questions?

    python benchmarks/retrieval/engines.py DIR [DIR…] [--data DIR] [--cache DIR]

Each DIR is a judged set in BEIR's form, as for `ragway eval`. The chunks go into Qdrant Edge and, with the same vectors
and words, into qdrant-client's local mode, which searches exactly. Both engines get whole conversations. Differences
come from the embedded engine's graphs and 8-bit vectors, and from ties. Local mode is slow: the maximum is some tens of
thousands of chunks.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import parser_of
from benchmarks.common.output import say, table
from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.judged import JudgedQuestion, JudgedSet, corpus, judged_id, read
from evaluation.retrieval.metrics import ndcg, recall
from evaluation.retrieval.subjects import scratch_plan
from evaluation.stats.significance import difference
from retrieval.index.index import Index
from retrieval.knowledge import Plan, SearchRequest
from retrieval.lexical.terms import document_vector, language_of
from retrieval.records.documents import lexical_text
from retrieval.records.points import Point
from retrieval.search.retriever import Retriever
from retrieval.stores.base import Store
from retrieval.stores.qdrant import QdrantStore

_FIRST = 10
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for both engines: the first results of each engine and the scores."""

    rankings: tuple[list[str], list[str]]
    ndcg: tuple[float, float]
    recall: tuple[float, float]


async def compared(judged: JudgedSet, base: Plan, cache: Path) -> tuple[int, list[Asked]]:
    """The number of chunks, and every question asked of both engines."""
    with tempfile.TemporaryDirectory(prefix="ragway-engines-") as folder:
        index = await Index.open(scratch_plan(base, Path(folder)), serving=False, scratch=cache)
        try:
            found = corpus(judged, max_bytes=base.max_file_bytes)
            say(f"{judged.name}: {len(found.documents)} documents into the embedded engine")
            await index.writing.learn(found.documents, judged.name, lambda *_: None)
            store, tenant = index._spaces.configured.store, index._catalog.collection(judged.name).tenant
            local, chunks = await _copied(store, tenant, str(Path(folder) / "local"))
            say(f"{judged.name}: {len(judged.questions)} questions")
            options = replace(base.search, min_relevance=0.0)
            edge = index.retriever_with(options, questions=cache)
            both = (edge, edge.with_options(options, local, questions=cache))
            asked = [await _ask(both, judged, question) for question in judged.questions]
            await local.close()
            return chunks, asked
        finally:
            await index.close()


async def _copied(store: Store, tenant: str, folder: str) -> tuple[Store, int]:
    """qdrant-client's local mode with a copy of a tenant's points, and the number of points."""
    passages = await store.passages(tenant)
    say(f"{len(passages)} chunks into local mode")
    local = None
    for start in range(0, len(passages), _BATCH):
        batch = passages[start : start + _BATCH]
        vectors = await store.vectors([id for id, _ in batch])
        if local is None:
            dimension = len(next(iter(vectors.values())))
            local = await QdrantStore.local(folder, collection="engines", vectors={"dense": dimension})
        points = []
        for id, one in batch:
            said = lexical_text(one.title, one.headings, one.text, one.context, one.names, one.source)
            words = document_vector(said, language_of(tenant))
            points.append(Point(id, one, {"dense": vectors[id]}, words))
        await local.upsert(tenant, points)
    assert local is not None  # a judged set has documents
    return local, len(passages)


async def _ask(both: Sequence[Retriever], judged: JudgedSet, question: JudgedQuestion) -> Asked:
    rankings = []
    for retriever in both:
        found = await retriever.retrieve(SearchRequest(question.turns, [judged.name], k=100))
        sources = dict.fromkeys(judged_id(hit.passage.source, judged.ids) for hit in found.hits)
        rankings.append(list(sources))
    (one, other), gold = rankings, question.gold
    return Asked(
        (one[:_FIRST], other[:_FIRST]),
        (ndcg(one, gold, _FIRST), ndcg(other, gold, _FIRST)),
        (recall(one, gold, _FIRST), recall(other, gold, _FIRST)),
    )


def row(name: str, chunks: int, asked: Sequence[Asked]) -> list[str]:
    """A set's line of the table."""
    edge, local = ([one.ndcg[i] for one in asked] for i in (0, 1))
    change = difference(edge, local, seed=0)
    recalled = [f"{sum(one.recall[i] for one in asked) / len(asked):.3f}" for i in (0, 1)]
    same = sum(one.rankings[0] == one.rankings[1] for one in asked)
    return [
        name, f"{chunks}", f"{len(asked)}", f"{sum(edge) / len(edge):.3f}", f"{sum(local) / len(local):.3f}",
        f"{change.mean:+.4f} [{change.low:+.4f}, {change.high:+.4f}]", *recalled, f"{same / len(asked):.0%}",
    ]  # fmt: skip


def main() -> int:
    given = parser_of(__doc__).parse_args()
    base = plan(load(flags={"data": str(given.data)}))
    rows = []
    for folder in given.folders:
        judged = read(folder)
        rows.append(row(judged.name, *asyncio.run(compared(judged, base, given.cache.absolute()))))
    first, second = ([f"{metric}, {engine}" for engine in ("Edge", "local")] for metric in ("nDCG@10", "recall@10"))
    print(table(("set", "chunks", "questions", *first, "difference [95 %]", *second, "same first ten"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
