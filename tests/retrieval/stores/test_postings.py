"""The compiled BM25Okapi against rank-bm25 itself: equal to the last bit, whatever was added, removed and asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from retrieval.stores.postings import Postings

WORDS = st.sampled_from(["a", "b", "c", "d", "e", "rare", "99", "é"])
DOCUMENTS = st.lists(st.lists(WORDS, max_size=12), max_size=12)
QUERY = st.lists(st.one_of(WORDS, st.just("unknown")), max_size=8)
STEPS = st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=8), DOCUMENTS), max_size=3)

Corpus = dict[str, list[str]]


def index_of(corpus: Corpus) -> Postings:
    return Postings.build(corpus.items())


def numbered(documents: list[list[str]], first: int = 0) -> Corpus:
    """Ids whose order is not that of the documents."""
    return {f"{(first + i) * 7 % 97:02}": words for i, words in enumerate(documents)}


def reference(corpus: Corpus, query: list[str]) -> list[float]:
    """rank-bm25's scores; of a corpus without a word, where it divides by zero, those it would have."""
    if not any(corpus.values()):
        return [0.0] * len(corpus)
    return [float(score) for score in BM25Okapi(list(corpus.values())).get_scores(query)]


def ranked(corpus: Corpus, query: list[str]) -> list[tuple[str, float]]:
    """The documents that hold a word of the query, best first, ties by id."""
    scored = zip(corpus, reference(corpus, query), strict=True)
    return sorted(
        ((id, score) for id, score in scored if set(query) & set(corpus[id])), key=lambda pair: (-pair[1], pair[0])
    )


@settings(max_examples=300, deadline=None)
@given(documents=DOCUMENTS, query=QUERY)
def test_scores_equal_rank_bm25_to_the_last_bit(documents: list[list[str]], query: list[str]) -> None:
    corpus = numbered(documents)
    assert index_of(corpus).get_scores(query).tolist() == reference(corpus, query)


@settings(max_examples=200, deadline=None)
@given(documents=DOCUMENTS, query=QUERY, k=st.integers(1, 14))
def test_the_best_are_rank_bm25s_in_its_order_with_ties_by_id(
    documents: list[list[str]], query: list[str], k: int
) -> None:
    corpus = numbered(documents)
    assert index_of(corpus).best([(word, 1.0) for word in query], k) == ranked(corpus, query)[:k]


@settings(max_examples=200, deadline=None)
@given(documents=DOCUMENTS, steps=STEPS, query=QUERY)
def test_a_changed_index_equals_a_new_one_of_the_same_documents(
    documents: list[list[str]], steps: list[tuple[set[int], list[list[str]]]], query: list[str]
) -> None:
    corpus, first = numbered(documents), len(documents)
    index = index_of(corpus)
    for removed, added in steps:
        index.get_scores(query)  # what it keeps of a query must not pass to the next index
        gone = [id for row, id in enumerate(corpus) if row in removed]
        more = numbered(added, first)
        first += len(added)
        corpus = {id: words for id, words in corpus.items() if id not in gone} | more
        index = index.updated([*gone, "unknown"], more.items())
        assert index.ids == list(corpus)
        assert index.get_scores(query).tolist() == reference(corpus, query)
    assert index.best([(word, 1.0) for word in query], 50) == ranked(corpus, query)


def test_a_word_in_most_documents_has_the_floor_of_the_average() -> None:
    corpus = numbered([["a", "b"], ["a", "c"], ["a", "d"], ["a", "e", "a"], ["99"]])
    scores = index_of(corpus).get_scores(["a"])
    assert scores.tolist() == reference(corpus, ["a"])
    assert scores[0] > 0


def test_a_word_said_twice_counts_twice_and_weights_multiply() -> None:
    index = index_of(numbered([["a", "b"], ["c"], ["d"], ["e"]]))
    once, twice = index.get_scores(["a"]), index.get_scores(["a", "a"])
    assert twice.tolist() == (2 * once).tolist()
    assert index.best([("a", 0.5)], 5) == [("00", 0.5 * once[0])]


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_without_a_word_nothing_is_found(documents: list[list[str]]) -> None:
    index = index_of(numbered(documents))
    assert index.get_scores(["a"]).tolist() == [0.0] * len(documents)
    assert index.best([("a", 1.0)], 3) == []


def test_equal_scores_are_ordered_by_id_at_every_cut() -> None:
    corpus = {f"{i:03}": ["same", "words"] for i in np.random.default_rng(3).permutation(400).tolist()} | {"x": ["b"]}
    index = index_of(corpus)
    for k in (1, 7, 399, 400, 500):
        assert [id for id, _ in index.best([("same", 1.0)], k)] == [f"{i:03}" for i in range(min(k, 400))]
