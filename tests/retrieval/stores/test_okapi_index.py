"""The index against rank-bm25 itself: scores equal to the last bit, in rank-bm25's order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from retrieval.records.search import ScoredId
from retrieval.stores.okapi import OkapiIndex
from retrieval.stores.schema import best

WORDS = st.sampled_from(["a", "b", "c", "d", "e", "rare", "99", "é"])
DOCUMENTS = st.lists(st.lists(WORDS, max_size=12), max_size=12)
QUERY = st.lists(st.one_of(WORDS, st.just("unknown")), max_size=8)

Corpus = dict[str, list[str]]


def index_of(corpus: Corpus) -> OkapiIndex:
    return OkapiIndex(list(corpus), list(corpus.values()))


def numbered(documents: list[list[str]]) -> Corpus:
    """Ids in another order than the documents."""
    return {f"{i * 7 % 97:02}": words for i, words in enumerate(documents)}


def found(corpus: Corpus, query: list[str], k: int) -> list[ScoredId]:
    return best([index_of(corpus).search([(word, 1.0) for word in query], k)], k)


def reference(corpus: Corpus, query: list[str]) -> list[ScoredId]:
    """rank-bm25's scores of the documents that hold a word of the query, best first, ties by id."""
    if not any(corpus.values()):
        return []  # rank-bm25 divides by zero
    scores = BM25Okapi(list(corpus.values())).get_scores(query).tolist()
    scored = [ScoredId(id, score) for id, score in zip(corpus, scores, strict=True)]
    return best([[hit for hit in scored if set(query) & set(corpus[hit.id])]], len(corpus))


@settings(max_examples=300, deadline=None)
@given(documents=DOCUMENTS, query=QUERY, k=st.integers(1, 14))
def test_hits_and_scores_equal_rank_bm25_to_the_last_bit(documents: list[list[str]], query: list[str], k: int) -> None:
    corpus = numbered(documents)
    assert found(corpus, query, k) == reference(corpus, query)[:k]


def test_a_word_in_most_documents_has_the_floor_of_the_average() -> None:
    corpus = numbered([["a", "b"], ["a", "c"], ["a", "d"], ["a", "e", "a"], ["99"]])
    hits = found(corpus, ["a"], 9)
    assert hits == reference(corpus, ["a"])
    assert hits[0].score > 0


def test_a_repeated_word_counts_twice_and_weights_multiply() -> None:
    corpus = numbered([["a", "b"], ["c"], ["d"], ["e"]])
    (once,), (twice,) = found(corpus, ["a"], 5), found(corpus, ["a", "a"], 5)
    assert twice.score == 2 * once.score
    assert index_of(corpus).search([("a", 0.5)], 5) == [ScoredId("00", 0.5 * once.score)]


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_documents_without_a_word_are_not_found(documents: list[list[str]]) -> None:
    assert found(numbered(documents), ["a"], 3) == []


def test_equal_scores_are_ordered_by_id_at_every_cut() -> None:
    corpus = {f"{i:03}": ["same", "words"] for i in np.random.default_rng(3).permutation(400).tolist()} | {"x": ["b"]}
    for k in (1, 7, 399, 400, 500):
        assert [hit.id for hit in found(corpus, ["same"], k)] == [f"{i:03}" for i in range(min(k, 400))]
