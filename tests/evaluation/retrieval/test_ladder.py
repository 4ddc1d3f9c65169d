"""The rungs: what each switches on, and what it asks."""

from dataclasses import replace

import pytest

from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.ladder import Rung, ladder
from retrieval.knowledge import SearchOptions
from retrieval.records.search import Turn

TALK = (Turn("user", "first"), Turn("assistant", "answer"), Turn("user", "last"))


@pytest.fixture
def configured() -> SearchOptions:
    return plan(load(environ={}), environ={}).search


def names(rungs: list[Rung]) -> list[str]:
    return [rung.name for rung in rungs]


def test_begins_with_rank_bm25_and_ends_with_the_settings_as_they_are(configured: SearchOptions) -> None:
    rungs = ladder(configured, okapi=False, human=True)
    assert names(rungs) == ["rank-bm25", "bm25", "dense", "hybrid", "rewriting", "human", "configured"]
    assert rungs[-1].options == configured
    assert [rung.name for rung in rungs if rung.okapi] == ["rank-bm25"]
    assert [rung.name for rung in rungs if rung.reference] == ["human"]


def test_has_a_rung_for_what_is_there_alone(configured: SearchOptions) -> None:
    assert "human" not in names(ladder(configured, okapi=False, human=False))
    assert "rewriting" not in names(ladder(replace(configured, rewrite="off"), okapi=False, human=False))
    reranking = ladder(replace(configured, rerank_model="some/model"), okapi=False, human=True)
    assert names(reranking)[-3:] == ["human", "rerank", "configured"]


def test_only_the_last_rung_leaves_passages_out_or_puts_others_in(configured: SearchOptions) -> None:
    everything = replace(
        configured,
        rerank_model="some/model",
        recency_half_life_days=3.0,
        neighbours=2,
        whole_document_tokens=500,
        mode="auto",
        min_relevance=0.4,
    )
    *below, _ = ladder(everything, okapi=False, human=True)
    for rung in below:
        options = rung.options
        assert (options.mode, options.min_relevance, options.neighbours) == ("hybrid", 0.0, 0)
        assert (options.recency_half_life_days, options.whole_document_tokens, options.merge_neighbours) == (
            0,
            0,
            False,
        )
        assert bool(options.rerank_model) == (rung.name == "rerank")
        assert (options.candidates, options.rrf_k, options.k) == (everything.candidates, everything.rrf_k, everything.k)


def test_each_arm_is_asked_alone_and_then_both(configured: SearchOptions) -> None:
    arms = {rung.name: rung.options.arms for rung in ladder(replace(configured, mode="dense"), okapi=False, human=True)}
    assert (arms["rank-bm25"], arms["bm25"], arms["dense"], arms["hybrid"]) == ("bm25", "bm25", "dense", "both")


def test_rank_bm25_stays_in_the_arm_where_it_is_the_setting(configured: SearchOptions) -> None:
    rungs = ladder(configured, okapi=True, human=True)
    assert [rung.name for rung in rungs if not rung.okapi] == ["bm25", "dense"]


def test_the_conversation_is_asked_from_rewriting_upwards(configured: SearchOptions) -> None:
    asked = {rung.name: list(rung.turns(TALK, "by a person")) for rung in ladder(configured, okapi=False, human=True)}
    assert asked["bm25"] == asked["dense"] == asked["hybrid"] == [TALK[-1]]
    assert asked["rewriting"] == asked["configured"] == list(TALK)
    assert asked["human"] == [Turn("user", "by a person")]


def test_a_question_that_nobody_rewrote_is_asked_as_it_is(configured: SearchOptions) -> None:
    (human,) = [rung for rung in ladder(configured, okapi=False, human=True) if rung.reference]
    assert list(human.turns(TALK, "")) == [TALK[-1]]
