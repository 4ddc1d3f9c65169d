"""Diversity: what adds something comes before what says the same again."""

from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.documents import Passage
from retrieval.records.search import Hit
from retrieval.search.diversity import diversify
from retrieval.search.pack import jaccard

WORDS = "tls session driver kotlin java record page wire".split()
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
rows = st.lists(st.tuples(texts, st.floats(min_value=0, max_value=1)), max_size=12)


def hits(*found: tuple[str, float]) -> list[Hit]:
    return [
        Hit(str(i), score, Passage(str(i), 1, 0, "", "a.md", 0.0, (), 0, len(text), text, 1))
        for i, (text, score) in enumerate(found)
    ]


def ids(found: list[Hit]) -> list[str]:
    return [hit.id for hit in found]


def test_another_thing_comes_before_the_same_again() -> None:
    found = hits(("use tls now", 1.0), ("use tls now", 0.9), ("open a session", 0.8))
    assert ids(diversify(found, k=3, diversity=0.5)) == ["0", "2", "1"]


def test_a_little_diversity_does_not_lift_what_hardly_fits() -> None:
    found = hits(("use tls now", 1.0), ("use tls today", 0.9), ("the office dog", 0.1))
    assert ids(diversify(found, k=3, diversity=0.2)) == ["0", "1", "2"]


def test_full_diversity_looks_at_similarity_alone() -> None:
    found = hits(("a b c", 1.0), ("a b d", 0.9), ("a x y", 0.5), ("p q r", 0.1))
    assert ids(diversify(found, k=4, diversity=1.0)) == ["0", "3", "2", "1"]


@given(rows, st.integers(1, 14))
def test_none_of_it_keeps_the_order_of_scores(found: list[tuple[str, float]], k: int) -> None:
    ordered = sorted(hits(*found), key=lambda hit: -hit.score)
    assert diversify(ordered, k=k, diversity=0.0) == ordered


@given(rows, st.integers(1, 14), st.floats(min_value=0, max_value=1))
def test_keeps_every_hit_once_and_the_rest_in_order(found: list[tuple[str, float]], k: int, diversity: float) -> None:
    given_hits = hits(*found)
    order = ids(diversify(given_hits, k=k, diversity=diversity))
    assert sorted(order) == sorted(ids(given_hits))
    assert order[k:] == sorted(order[k:], key=int)


@given(rows.filter(bool), st.floats(min_value=0, max_value=0.99))
def test_the_best_stays_first(found: list[tuple[str, float]], diversity: float) -> None:
    ordered = sorted(hits(*found), key=lambda hit: -hit.score)
    assert diversify(ordered, k=3, diversity=diversity)[0].score == ordered[0].score


@given(st.frozensets(st.sampled_from(WORDS)), st.frozensets(st.sampled_from(WORDS)))
def test_similarity_is_symmetric_and_1_for_the_same(a: frozenset[str], b: frozenset[str]) -> None:
    assert jaccard(a, b) == jaccard(b, a)
    assert 0 <= jaccard(a, b) <= 1
    assert (jaccard(a, b) == 1) == (a == b)
