"""The lexical arm against a slow reference: the formula written out.

The reference splits at spaces and counts; the vocabulary has neither stop words nor words of one stem, so that it needs
no tokenizer of its own.
"""

from collections.abc import Awaitable, Callable
from math import log
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.lexical.terms import AVERAGE_WORDS, K1, B, query_vectors
from retrieval.records.search import ScoredId
from retrieval.stores.base import Store
from retrieval.stores.edge import EdgeStore
from retrieval.stores.qdrant import QdrantStore
from tests.contracts.points import VECTORS, id_of, points_of, vector_of

WORDS = "pool socket timeout driver kotlin java tls 99 insertmany café".split()
SOURCE_WORDS = ("docs", "page", "md")  # of `points_of`
TEXTS = st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join)
CORPORA = st.lists(TEXTS, max_size=15)
PIECES = st.lists(st.tuples(TEXTS, st.sampled_from([0.3, 0.5, 1.0])), max_size=3)
SLOW_SET_UP = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def weights_of(pieces: list[tuple[str, float]]) -> dict[str, float]:
    """Each word once, with the weight of its heaviest piece."""
    weights: dict[str, float] = {}
    for text, weight in pieces:
        for word in text.split():
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights


def by_formula(corpus: list[str], pieces: list[tuple[str, float]]) -> dict[str, float]:
    """BM25 by Robertson & Zaragoza (2009), with Lucene's idf (1 added inside the logarithm, so that it stays positive):

    sum over words of weight * ln(1 + (N - n + 0.5) / (n + 0.5))
                      * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))

    N texts, n of them with the word; the average length is a constant of ours, as a stored point cannot follow it.
    """
    found: dict[str, float] = {}
    for row, text in enumerate(corpus):
        said = [*text.split(), *SOURCE_WORDS]
        for word, weight in weights_of(pieces).items():
            if word in said:
                n = sum(word in other.split() for other in corpus)
                idf = log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
                tf = said.count(word)
                saturated = tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(said) / AVERAGE_WORDS))
                found[id_of(row + 1)] = found.get(id_of(row + 1), 0.0) + weight * idf * saturated
    return found


async def lexical(store: Store, corpus: list[str], pieces: list[tuple[str, float]]) -> list[ScoredId]:
    """What the store finds among the corpus, beside a tenant whose statistics are quite different."""
    await store.upsert("other@1", points_of(["kotlin kotlin pool", "kotlin"], first=900))
    await store.upsert("a@1", points_of(corpus))
    found = (await store.search(["a@1"], vector_of(0), query_vectors(["a@1"], pieces), k=100))["bm25"]
    await store.drop("a@1")
    return found


def scores(hits: list[ScoredId]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}


async def open_edge(folder: Path) -> Store:
    return EdgeStore.open(folder / "shard", vectors=VECTORS)


async def open_local(folder: Path) -> Store:
    return await QdrantStore.local(":memory:", collection="test", vectors=VECTORS)


@pytest.mark.parametrize("open_store", [open_edge, open_local])
@SLOW_SET_UP
@given(corpus=CORPORA, pieces=PIECES)
async def test_the_default_arm_scores_by_the_formula(
    open_store: Callable[[Path], Awaitable[Store]],
    tmp_path_factory: pytest.TempPathFactory,
    corpus: list[str],
    pieces: list[tuple[str, float]],
) -> None:
    store = await open_store(tmp_path_factory.mktemp("formula"))
    try:
        found = await lexical(store, corpus, pieces)
    finally:
        await store.close()
    assert scores(found) == pytest.approx(by_formula(corpus, pieces), rel=1e-5)
    assert found == sorted(found, key=lambda hit: (-hit.score, hit.id))


@pytest.mark.parametrize(
    ("corpus", "question", "expected"),
    [
        ([], "pool", []),
        (["pool"], "pool", [1]),
        (["pool", "pool"], "pool", [1, 2]),
        (["", "…"], "pool", []),
        (["pool", "socket", ""], "kotlin", []),
    ],
)
async def test_small_corpora_find_what_holds_the_word(corpus: list[str], question: str, expected: list[int]) -> None:
    store = await open_local(Path())
    found = await lexical(store, corpus, [(question, 1.0)])
    await store.close()
    assert [hit.id for hit in found] == [id_of(number) for number in expected]


@SLOW_SET_UP
@given(a=CORPORA, b=CORPORA, pieces=PIECES)
async def test_edge_and_local_mode_give_the_same_hits_and_scores_in_both_arms(
    tmp_path_factory: pytest.TempPathFactory, a: list[str], b: list[str], pieces: list[tuple[str, float]]
) -> None:
    found = []
    for store in (await open_edge(tmp_path_factory.mktemp("equal")), await open_local(Path())):
        await store.upsert("a@1", points_of(a))
        await store.upsert("b@1", points_of(b, first=100))
        found.append(await store.search(["a@1", "b@1"], vector_of(500), query_vectors(["a@1", "b@1"], pieces), k=30))
        await store.close()
    edge, local = found
    for arm in ("dense", "bm25"):
        assert scores(edge[arm]) == pytest.approx(scores(local[arm]), abs=1e-5)
