"""The index against rank-bm25 itself: scores equal to the last bit, in its order; and the arm over a catalog."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from retrieval.lexical.terms import query_vectors, words
from retrieval.records.documents import lexical_text
from retrieval.records.search import ALL, ScoredId
from retrieval.search.okapi import OkapiArm, OkapiIndex
from retrieval.stores.schema import best
from tests.retrieval.search.library import Library

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


async def found_texts(arm: OkapiArm, library: Library, *pieces: tuple[str, float]) -> dict[str, float]:
    """Text -> score of what the arm finds."""
    hits = await arm.search(query_vectors([library.collection.tenant], pieces), k=500, view=ALL)
    read = await library.store.read([hit.id for hit in hits])
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))
    return {read[hit.id].text: hit.score for hit in hits}


async def test_the_arm_scores_as_rank_bm25_over_the_words_of_passages(library: Library) -> None:
    texts = ["pool socket timeout", "driver kotlin", "java java tls", "pool pool pool 99", "socket tls driver"]
    await library.put(texts)
    documents = [words(lexical_text("page", (), text, source="page.md")) for text in texts]
    reference, expected = BM25Okapi(documents), dict.fromkeys(texts, 0.0)
    for text, weight in (("pool tls", 1.0), ("kotlin", 0.5)):
        for word in words(text):
            for row, score in enumerate(reference.get_scores([word])):
                expected[texts[row]] += weight * score * (word in documents[row])
    arm = OkapiArm(library.catalog, library.store)
    assert await found_texts(arm, library, ("pool tls", 1.0), ("kotlin", 0.5)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("texts", "question", "expected"),
    [
        ([], "pool", []),
        (["pool"], "pool", ["pool"]),  # rank-bm25 scores it below zero
        (["pool", "socket"], "pool", ["pool"]),  # rank-bm25 scores it zero
        (["pool", "socket"], "", []),
        (["pool", "socket", "x"], "kotlin", []),
    ],
)
async def test_corpora_too_small_for_rank_bm25_find_what_holds_the_word(
    library: Library, texts: Sequence[str], question: str, expected: list[str]
) -> None:
    if texts:
        await library.put(texts)
    arm = OkapiArm(library.catalog, library.store)
    assert list(await found_texts(arm, library, (question, 1.0))) == expected


async def test_the_index_follows_every_change_of_the_catalog(library: Library) -> None:
    arm = OkapiArm(library.catalog, library.store)

    async def found() -> set[str]:
        return set(await found_texts(arm, library, ("pool", 1.0)))

    assert await found() == set()
    await library.put(["pool", "socket", "driver"], key="a")
    assert await found() == {"pool"}
    await library.put(["pool two"], key="b")
    await library.put(["pool three"], key="c", published=False)
    assert await found() == {"pool", "pool two"}
    await library.put(["no more"], key="b")
    assert await found() == {"pool"}
    (revision,) = library.catalog.retire(library.catalog.current_revisions("docs", ["a"])["a"].document)
    assert await found() == set(), "although the store still has the points"
    await library.store.delete(revision.tenant, revision.point_ids())


async def test_many_searches_at_once_agree(library: Library) -> None:
    await library.put(["pool", "socket", "driver pool"])
    arm = OkapiArm(library.catalog, library.store)
    answers = await asyncio.gather(*(found_texts(arm, library, ("pool", 1.0)) for _ in range(8)))
    assert answers == [answers[0]] * 8
    assert set(answers[0]) == {"pool", "driver pool"}
