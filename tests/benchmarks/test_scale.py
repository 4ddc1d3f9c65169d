"""The scale benchmark's pure parts: what is grown from a small corpus, exact search, fusion, and the table's rows."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import grown, systems
from benchmarks.scale.exact import Exact
from benchmarks.scale.grown import Bases
from benchmarks.scale.scale import Row
from retrieval.lexical.terms import query_vector, query_vectors
from retrieval.records.points import Sparse
from retrieval.records.search import ScoredId
from retrieval.stores.edge import EdgeStore


def base_of(n: int = 40, d: int = 64) -> Bases:
    rows = np.random.default_rng(1).standard_normal((n, d), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Bases([f"Sentence {i} says one thing. Another of {i}; and more." for i in range(n)], rows, [], rows[:0])


def test_growing_twice_makes_the_same_chunks() -> None:
    base = base_of()
    for one, other in zip(grown.points(base, 90), grown.points(base, 90), strict=True):
        assert [point.id for point in one] == [grown.identifier(row) for row in range(90)]
        assert [(p.passage, p.sparse) for p in one] == [(p.passage, p.sparse) for p in other]
        assert all((a.vectors["dense"] == b.vectors["dense"]).all() for a, b in zip(one, other, strict=True))


def test_fewer_chunks_are_the_first_of_more() -> None:
    base = base_of()
    assert list(grown.texts(base, 20)) == list(grown.texts(base, 70))[:20]
    more = np.concatenate(list(grown.vectors(base, 70)))
    assert (np.concatenate(list(grown.vectors(base, 20))) == more[:20]).all()


def test_a_grown_vector_is_near_its_base_by_the_stated_noise() -> None:
    base = base_of(d=384)
    made = np.concatenate(list(grown.vectors(base, 400)))
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    cosines = np.sum(made * base.vectors[np.arange(400) % 40], axis=1)
    assert cosines.mean() == pytest.approx(1 / (1 + grown.NOISE**2) ** 0.5, abs=0.01)


def test_a_grown_text_begins_with_a_sentence_of_its_base() -> None:
    base = base_of()
    for row, text in enumerate(grown.texts(base, 100)):
        own = base.texts[row % 40]
        assert any(text.startswith(part) for part in own.replace("; ", ";|").replace(". ", ".|").split("|"))


def test_exact_search_is_best_first_and_ties_are_in_order() -> None:
    rows = np.asarray([[1, 0], [0, 1], [0.6, 0.8], [0, 1]], np.float32)
    exact = Exact(rows, {})
    asked = np.asarray([0, 1], np.float32)
    assert [grown.row(hit.id) for hit in exact.dense(asked, 3)] == [1, 3, 2]
    assert [grown.row(hit.id) for hit in exact.dense(asked, 9)] == [1, 3, 2, 0]
    assert exact.bm25(Sparse((1,), (1.0,)), 2) == []


async def test_exact_search_finds_what_the_embedded_store_finds(tmp_path: Path) -> None:
    base = base_of()
    base = Bases(base.texts, base.vectors, ["What does sentence 7 say of another?", "Why 39?"], base.vectors[[7, 39]])
    store = EdgeStore.open(tmp_path / "store", vectors={"dense": 64})
    for points in grown.points(base, 300):
        await store.upsert(systems.TENANT, points)
    for exact in (Exact.of(base, 300, tmp_path), Exact.of(base, 300, tmp_path)):  # made, then from the cache
        for question, vector in zip(base.questions, base.asked, strict=True):
            terms = [(question, 1.0)]
            found = await store.search([systems.TENANT], vector, query_vectors([systems.TENANT], terms), k=20)
            wanted = {"dense": exact.dense(vector, 20), "bm25": exact.bm25(query_vector(terms), 20)}
            for arm, hits in wanted.items():
                assert [hit.id for hit in found[arm]] == [hit.id for hit in hits]
                np.testing.assert_allclose([h.score for h in found[arm]], [h.score for h in hits], rtol=1e-5)
    await store.close()


def test_fusion_prefers_what_both_arms_found() -> None:
    dense = [ScoredId("a", 0.9), ScoredId("b", 0.8)]
    assert systems.fused(dense, [ScoredId("b", 3.0), ScoredId("c", 1.0)])[0] == "b"


def test_a_row_says_how_many_times_and_whether_that_is_enough() -> None:
    row = Row("okapi", "rank-bm25", 10, ours_ms=[1.0, 1.0, 1.0], peer_ms=[250.0, 250.0, 250.0])
    assert row.cells()[6:10] == ["250", "250-250", "200", "yes"]
    row.peer_ms = [100.0] * 3
    assert row.cells()[9] == "no"
