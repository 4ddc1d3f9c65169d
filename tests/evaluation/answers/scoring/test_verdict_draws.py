"""Verdicts on hundreds of draws: on noise, on small gains, and on few questions."""

import numpy as np
import pytest

from tests.evaluation.answers.scoring.test_verdict import Scores, raw, verdict


def is_noise(random: np.random.Generator) -> tuple[Scores, Scores]:
    """It answers by chance, with and without."""
    return raw(random), raw(random)


def test_noise_gets_no_verdict() -> None:
    said = [verdict(*is_noise(np.random.default_rng(seed))).word for seed in range(200)]
    assert said.count("better") + said.count("worse") <= 0.03 * 200
    assert said.count("no better") == 0, "80 questions that come and go are too few to rule anything out"


@pytest.mark.parametrize("n", [15, 60, 150])
def test_a_gain_below_what_matters_is_not_called_help(n: int) -> None:
    """Neither by few questions nor by an interval that lies above 0."""
    random = np.random.default_rng(n)
    said = {verdict(np.full(n, 0.5), 0.53 + random.normal(0, 0.01, n)).word for _ in range(50)}
    assert said <= {"undecided", "no better"}


@pytest.mark.parametrize("n", [2, 15, 60])
@pytest.mark.parametrize("gain", [0.06, 0.0])
def test_so_few_questions_never_say_that_it_does_not_help(n: int, gain: float) -> None:
    random = np.random.default_rng(n)
    said = [verdict(np.zeros(n), (random.random(n) < gain).astype(np.float64)).word for _ in range(50)]
    assert "no better" not in said
