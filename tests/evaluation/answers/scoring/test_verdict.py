"""Verdicts on simulated scores whose truth is known."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from evaluation.answers.scoring.verdict import ScoreComparison, by_tag, compared, means

Scores = NDArray[np.float64]
QUESTIONS = 80


def verdict(before: Scores, after: Scores) -> ScoreComparison:
    """Of one score of so many questions."""
    named = [{f"q{at}": float(score) for at, score in enumerate(scores)} for scores in (before, after)]
    found = compared("score", *named, seed=0)
    assert found is not None
    return found


def raw(random: np.random.Generator) -> Scores:
    """A model that knows three answers of ten."""
    return (random.random(QUESTIONS) < 0.3).astype(np.float64)


def needs_the_passage(random: np.random.Generator) -> tuple[Scores, Scores]:
    """It answers only with the passage in front of it, which is found for nine questions of ten."""
    return np.zeros(QUESTIONS), (random.random(QUESTIONS) < 0.9).astype(np.float64)


def ignores_the_passage(random: np.random.Generator) -> tuple[Scores, Scores]:
    before = raw(random)
    return before, before.copy()


def is_harmed(random: np.random.Generator) -> tuple[Scores, Scores]:
    """Half of what it knew is talked out of it."""
    before = (random.random(QUESTIONS) < 0.8).astype(np.float64)
    return before, before * (random.random(QUESTIONS) < 0.5)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (needs_the_passage, {"better"}),
        (ignores_the_passage, {"no better"}),
        (is_harmed, {"worse"}),
    ],
)
def test_the_verdict_is_right(model: Callable[[np.random.Generator], tuple[Scores, Scores]], words: set[str]) -> None:
    for seed in range(20):
        assert verdict(*model(np.random.default_rng(seed))).word in words


def test_helped_unchanged_and_harmed_are_counted_apart_and_the_largest_change_is_first() -> None:
    before = {"a": 0.0, "b": 1.0, "c": 0.5, "d": 0.8, "e": 0.5, "only before": 1.0}
    after = {"a": 1.0, "b": 0.0, "c": 0.53, "d": 0.5, "e": 0.7, "only after": 1.0}
    found = compared("score", before, after, seed=0)
    assert found is not None
    assert (found.helped, found.unchanged, found.harmed) == (("a", "e"), ("c",), ("b", "d"))
    assert found.change.questions == 5
    assert found.change.mean == pytest.approx(-0.014)
    assert found.before == pytest.approx(0.56)
    assert found.after == pytest.approx(0.546)


def test_an_interval_across_what_matters_gives_no_verdict_and_says_how_many_questions_do() -> None:
    found = verdict(np.array([0.0, 1.0] * 10), np.array([1.0, 0.0] * 8 + [1.0, 1.0] * 2))
    assert found.word == "undecided"
    assert found.sentence().startswith("No verdict: +0.100")
    assert "reaches across -0.05 and +0.05" in found.sentence()
    assert f"about {found.needed:,} such as these" in found.sentence()
    assert found.needed > 1000


def test_a_gain_that_is_shown_but_not_that_it_matters_gets_no_verdict() -> None:
    found = verdict(np.zeros(200), np.tile([0.0, 0.0, 0.0, 0.0, 0.3], 40))
    assert found.change.certain
    assert found.word == "undecided"
    assert "reaches across +0.05." in found.sentence()


def test_where_the_difference_is_the_margin_itself_it_is_said_that_more_may_not_tell() -> None:
    found = verdict(np.zeros(2000), np.tile([0.0] * 19 + [1.0], 100))
    assert found.word == "undecided"
    assert "more questions may not tell" in found.sentence()


def test_a_difference_too_small_to_matter_is_no_help_and_no_harm() -> None:
    for shift in (0.0, 0.01, -0.01):
        found = verdict(np.full(1000, 0.5), 0.5 + shift + np.tile([0.3, -0.3], 500))
        assert found.word == "no better"
        assert "0.05 or more is ruled out" in found.sentence()


@pytest.mark.parametrize(("questions", "word"), [(1, "undecided"), (60, "undecided"), (80, "no better")])
def test_where_no_question_changed_there_must_be_many_to_say_that_it_does_not_help(questions: int, word: str) -> None:
    found = verdict(np.ones(questions), np.ones(questions))
    assert found.word == word
    assert found.needed == 72


def test_one_question_gives_no_verdict_however_it_changed() -> None:
    assert verdict(np.zeros(1), np.ones(1)).change.low <= 0.05


def test_repeats_are_averaged_and_missing_scores_left_out() -> None:
    assert means([("a", 1.0), ("a", 0.0), ("a", None), ("b", None), ("c", 0.25)]) == {"a": 0.5, "c": 0.25}


def test_without_a_question_in_common_nothing_is_compared() -> None:
    assert compared("score", {"a": 1.0}, {"b": 1.0}, seed=0) is None


def test_each_tag_has_its_verdict_over_its_questions() -> None:
    before = dict.fromkeys(map(str, range(40)), 0.5)
    after = {id: 1.0 if int(id) < 20 else 0.0 for id in before}
    tags = {id: ["all", "easy" if int(id) < 20 else "hard"] for id in before} | {"unasked": ["none"]}
    found = by_tag("score", before, after, tags, seed=0)
    assert {tag: one.word for tag, one in found.items()} == {"all": "undecided", "easy": "better", "hard": "worse"}
    assert found["all"].change.questions == 40
