"""Literals: what is meant by its letters goes before what is like it, and nothing else moves."""

import pytest

from retrieval.lexical.terms import exact_terms
from retrieval.records.search import Candidate
from retrieval.search.ranking import exact_match_first


def order(question: str, texts: dict[str, str]) -> list[str]:
    """The candidates' ids, which came in the order of `texts` at falling scores."""
    fused = [Candidate(id, 1 - 0.01 * rank) for rank, id in enumerate(texts)]
    return [candidate.id for candidate in exact_match_first(fused, texts, exact_terms(question))]


@pytest.mark.parametrize(
    ("question", "text", "near"),
    [
        ("what does foo.bar() do?", "`foo.bar()` opens it", "bar.foo() opens it"),
        ("EADDRNOTAVAIL (99)?", "got EADDRNOTAVAIL (99).", "99 times EADDRNOTAVAIL"),
        ('where is a "hot dog" sold?', "A Hot-Dog is sold here", "a dog when it is hot"),
        ("hot dog", "one hot\ndog please", "a dog when it is hot"),
        ("is 1.2.3 out?", "version 1.2.3 is", "version 11.2.3 is"),
        ("is KR-400 sold?", "the KR-\u200b400\u00ad is", "the KR-100 is"),
        ("is KR-\u200b400 sold?", "the KR-400 is", "the KR-100 is"),
        ('the "tur\u00adpentine store"?', "the turpentine store", "a store of turpentine"),
        ('the "tur&shy;pentine store"?', "the turpentine store", "a store of turpentine"),
        ("שָׁלוֹם עוֹלָם", "שלום עולם", "עולם שלום"),
        ("turpentine store", "the **tur**pentine store", "a store of turpentine"),
        ("turpentine store", "the tur<b>pentine</b> store", "a store of turpentine"),
        ("turpentine store", "the tur**pentine** `store`", "a store of turpentine"),
        ("the **tur**pentine store", "the turpentine store", "a store of turpentine"),
        ("obj.width?", "it is obj.width*obj.height", "the width of an obj"),
        ("ev istanbul", "EV İSTANBUL", "istanbul, ev"),
        ("the --max-old-space-size?", "use --max-old-space-size", "use --max-old-space-sizes"),
    ],
)
def test_who_holds_it_goes_first(question: str, text: str, near: str) -> None:
    assert order(question, {"near": near, "other": "nothing", "it": text}) == ["it", "near", "other"]


@pytest.mark.parametrize(
    "question", ["", "how do I connect?", "what is new in iOS?", "e.g. 1.2", "IDs and URLs and JavaScript?"]
)
def test_most_questions_have_none(question: str) -> None:
    assert exact_terms(question) == []


def test_what_every_candidate_holds_changes_nothing() -> None:
    assert order("foo.bar()?", {"a": "foo.bar", "b": "foo.bar", "c": "foo.bar"}) == ["a", "b", "c"]


def test_a_candidate_that_was_not_read_keeps_its_score() -> None:
    fused = [Candidate("a", 0.5), Candidate("b", 0.4), Candidate("c", 0.35)]
    found = exact_match_first(fused, {"b": "foo.bar", "c": "no"}, exact_terms("foo.bar()?"))
    assert [(one.id, round(one.score, 9)) for one in found] == [("a", 0.5), ("b", 0.45), ("c", 0.35)]


def test_a_pattern_of_signs_is_taken_as_written() -> None:
    assert order("what is a.b.c+d?", {"b": "a-b-cccd", "a": "a.b.c+d"}) == ["a", "b"]
