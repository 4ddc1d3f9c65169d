"""Every metric against trec_eval's own code (pytrec_eval), and what it does not have against the definition."""

from collections.abc import Mapping

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evaluation.retrieval import metrics

IDS = [f"d{number}" for number in range(14)]
GOLD = st.dictionaries(st.sampled_from(IDS), st.integers(-1, 3), min_size=1)
# Few values, so that many scores are equal; multiples of 1/4, because trec_eval keeps scores in 32 bits.
SCORED = st.dictionaries(st.sampled_from(IDS), st.integers(-8, 8).map(lambda n: n / 4))
OURS = {
    "ndcg_cut_5": lambda ranking, gold: metrics.ndcg(ranking, gold, 5),
    "ndcg_cut_10": lambda ranking, gold: metrics.ndcg(ranking, gold, 10),
    "recall_5": lambda ranking, gold: metrics.recall(ranking, gold, 5),
    "recall_10": lambda ranking, gold: metrics.recall(ranking, gold, 10),
    "success_5": lambda ranking, gold: metrics.hit(ranking, gold, 5),
    "recip_rank": metrics.reciprocal_rank,
    "map": metrics.average_precision,
}


def ordered(scored: Mapping[str, float]) -> list[str]:
    """As trec_eval orders a run: by score, equal ones by id backwards."""
    return sorted(scored, key=lambda id: (scored[id], id), reverse=True)


def trec_eval(scored: Mapping[str, float], gold: Mapping[str, int]) -> Mapping[str, float]:
    measures = {"ndcg_cut.5,10", "recall.5,10", "success.5", "recip_rank", "map"}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": dict(gold)}, measures)
    return evaluator.evaluate({"q": dict(scored)}).get("q", dict.fromkeys(OURS, 0.0))


@given(SCORED, GOLD)
def test_agrees_with_trec_eval_on_graded_judgements_and_equal_scores(
    scored: dict[str, float], gold: dict[str, int]
) -> None:
    theirs = trec_eval(scored, gold)
    for name, ours in OURS.items():
        assert ours(ordered(scored), gold) == pytest.approx(theirs[name], abs=1e-6), name


def test_the_reference_gives_values_to_agree_with() -> None:
    """Guards the property: an evaluator that found no query would answer 0 to everything."""
    theirs = trec_eval({"d1": 2.0, "d2": 1.0}, {"d2": 2, "d3": 1})
    assert 0 < theirs["ndcg_cut_10"] < 1
    assert theirs["recip_rank"] == theirs["recall_5"] == 0.5


def test_a_question_for_which_nothing_was_found_scores_0_as_trec_eval_has_it_with_c() -> None:
    found = metrics.scores([], [], {"a": 1})
    assert {name: value for name, value in found.items() if value != 0} == {
        "context_precision": None,
        "ranked_context_precision": None,
    }


def test_a_question_without_a_relevant_document_scores_0() -> None:
    assert set(metrics.scores(["a"], ["a"], {"a": 0}).values()) == {0.0}


def test_grades_count_for_ndcg_and_not_for_the_rest() -> None:
    low_first, high_first = (
        metrics.scores(["a", "b"], [], {"a": 1, "b": 3}),
        metrics.scores(["b", "a"], [], {"a": 1, "b": 3}),
    )
    assert high_first["ndcg@5"] == 1.0
    assert low_first["ndcg@5"] == pytest.approx((1 + 3 / 1.5849625007) / (3 + 1 / 1.5849625007))
    assert low_first["map"] == high_first["map"] == low_first["mrr"] == 1.0


def test_only_the_first_k_count_and_map_counts_them_all() -> None:
    ranking = [f"x{number}" for number in range(10)] + ["a"]
    found = metrics.scores(ranking, [], {"a": 1})
    assert found["recall@10"] == found["ndcg@10"] == 0.0
    assert found["map"] == found["mrr"] == pytest.approx(1 / 11)


def test_context_precision_is_a_share_of_passages_and_context_recall_of_documents() -> None:
    injected = ["a", "x", "a", "y"]
    assert metrics.context_precision(injected, {"a": 1, "b": 2, "x": 0}) == 0.5
    assert metrics.context_recall(injected, {"a": 1, "b": 2, "x": 0}) == 0.5


def test_ranked_context_precision_rewards_what_stands_in_front() -> None:
    gold = {"a": 1, "b": 1}
    assert metrics.ranked_context_precision(["a", "b", "x", "y"], gold) == 1.0
    assert metrics.ranked_context_precision(["x", "a", "y", "b"], gold) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert metrics.ranked_context_precision(["x"], gold) == 0.0


@given(st.lists(st.sampled_from(IDS), unique=True), st.lists(st.sampled_from(IDS)), GOLD)
def test_every_metric_is_between_0_and_1(ranking: list[str], injected: list[str], gold: dict[str, int]) -> None:
    for name, value in metrics.scores(ranking, injected, gold).items():
        assert value is None or 0 <= value <= 1 + 1e-12, name
