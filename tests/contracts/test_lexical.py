"""Both lexical arms against slow references: the default one against the formula written out, okapi against rank-bm25.

The references split at spaces and count; the vocabulary has neither stop words nor words of one stem, so that they need
no tokenizer of their own.
"""

from collections.abc import Awaitable, Callable
from math import log
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from retrieval.lexical.terms import AVERAGE_WORDS, K1, B
from retrieval.records.search import ScoredId
from retrieval.stores.base import Store
from retrieval.stores.edge import EdgeStore
from retrieval.stores.okapi import OkapiStore
from retrieval.stores.qdrant import QdrantStore
from tests.contracts.points import DIMENSION, id_of, points_of, vector_of

WORDS = "pool socket timeout driver kotlin java tls 99 insertmany café".split()
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
        said = text.split()
        for word, weight in weights_of(pieces).items():
            if word in said:
                n = sum(word in other.split() for other in corpus)
                idf = log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
                tf = said.count(word)
                saturated = tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(said) / AVERAGE_WORDS))
                found[id_of(row + 1)] = found.get(id_of(row + 1), 0.0) + weight * idf * saturated
    return found


def by_rank_bm25(corpus: list[str], pieces: list[tuple[str, float]]) -> dict[str, float]:
    """rank-bm25's own get_scores, one word at a time for the weights, over the texts that hold a searched word."""
    weights, split = weights_of(pieces), [text.split() for text in corpus]
    found: dict[str, float] = {}
    if not any(split):
        return found  # rank-bm25 divides by zero
    reference = BM25Okapi(split)
    for word, weight in weights.items():
        for row, score in enumerate(reference.get_scores([word])):
            if word in split[row]:
                found[id_of(row + 1)] = found.get(id_of(row + 1), 0.0) + weight * float(score)
    return found


async def lexical(store: Store, corpus: list[str], pieces: list[tuple[str, float]]) -> list[ScoredId]:
    """What the store finds among the corpus, beside a tenant whose statistics are quite different."""
    await store.upsert("other@1", points_of(["kotlin kotlin pool", "kotlin"], first=900))
    await store.upsert("a@1", points_of(corpus))
    found = (await store.search(["a@1"], vector_of(0), pieces, k=100))["bm25"]
    await store.drop("a@1")
    return found


def scores(hits: list[ScoredId]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}


async def open_edge(folder: Path) -> Store:
    return EdgeStore.open(folder / "shard", dimension=DIMENSION)


async def open_local(folder: Path) -> Store:
    return await QdrantStore.local(":memory:", collection="test", dimension=DIMENSION)


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


@SLOW_SET_UP
@given(corpus=CORPORA, pieces=PIECES)
async def test_the_okapi_arm_scores_as_rank_bm25(corpus: list[str], pieces: list[tuple[str, float]]) -> None:
    store = OkapiStore(await open_local(Path()))
    found = await lexical(store, corpus, pieces)
    await store.close()
    assert scores(found) == pytest.approx(by_rank_bm25(corpus, pieces), rel=1e-12, abs=1e-12)
    assert found == sorted(found, key=lambda hit: (-hit.score, hit.id))


async def test_the_okapi_arm_equals_get_scores_of_the_whole_question() -> None:
    corpus = ["pool socket timeout", "driver kotlin", "java java tls", "pool pool pool 99", "socket tls driver"]
    store = OkapiStore(await open_local(Path()))
    found = scores(await lexical(store, corpus, [("pool tls kotlin", 1.0)]))
    await store.close()
    reference = BM25Okapi([text.split() for text in corpus]).get_scores(["pool", "tls", "kotlin"])
    assert found == pytest.approx({id_of(row + 1): score for row, score in enumerate(reference)}, rel=1e-12)


@pytest.mark.parametrize(
    ("corpus", "question", "expected"),
    [
        ([], "pool", []),
        (["pool"], "pool", [1]),  # rank-bm25 scores it below zero
        (["pool", "socket"], "pool", [1]),  # rank-bm25 scores it zero
        (["pool", "pool"], "pool", [1, 2]),
        (["", "…"], "pool", []),  # rank-bm25 divides by zero
        (["pool", "socket", ""], "kotlin", []),
    ],
)
@pytest.mark.parametrize("okapi", [False, True])
async def test_corpora_too_small_for_rank_bm25_find_what_holds_the_word(
    okapi: bool, corpus: list[str], question: str, expected: list[int]
) -> None:
    inner = await open_local(Path())
    store: Store = OkapiStore(inner) if okapi else inner
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
        found.append(await store.search(["a@1", "b@1"], vector_of(500), pieces, k=30))
        await store.close()
    edge, local = found
    for arm in ("dense", "bm25"):
        assert scores(edge[arm]) == pytest.approx(scores(local[arm]), abs=1e-5)
