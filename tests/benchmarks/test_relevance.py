"""The page on relevance: shares counted per set, areas under the curve, and constants that are found again."""

import random
from dataclasses import replace

import pytest

from benchmarks.retrieval.relevance import FOREIGN, NONE, OWN, TALK, Answers, Asked, asked_of, fitted, page, small_talk
from retrieval.search.calibration import Evidence
from retrieval.search.ranking import CURVES, _logistic

CURVE = CURVES["both"]


def asked(kind: str, *relevances: float, collection: str = "docs") -> list[Asked]:
    return [asked_of(collection, kind, relevance, CURVE) for relevance in relevances]


def test_a_share_is_that_of_the_sets_and_not_of_the_questions() -> None:
    some = asked(OWN, 0.9, 0.9, 0.9, 0.1, collection="a") + asked(OWN, 0.1, collection="b")
    others = asked(FOREIGN, 0.15, 0.3, collection="a") + asked(TALK, 0.01, collection="a")
    (row,) = [
        line
        for line in page(Answers(CURVE, [*some, *others], {}), "both", 0.2).splitlines()
        if line.startswith("| 0.2 |")
    ]
    assert row == "| 0.2 | 62.5% | 100.0% | 50.0% | 100.0% |  |"


def test_others_are_counted_where_one_own_question_in_a_hundred_is_lost() -> None:
    own = [Asked("docs", OWN, n / 100, 0.0) for n in range(1, 101)]
    others = [Asked("docs", FOREIGN, chance, 0.0) for chance in (0.005, 0.015, 0.03, 0.5)]
    assert "left empty: others' questions, empty 50.0% (50.0% to 50.0%)." in page(
        Answers(CURVE, [*own, *others], {}), "both", 0.2
    )


def test_the_area_is_how_often_an_answerable_question_is_above_another() -> None:
    some = asked(OWN, 0.9, 0.5) + asked(FOREIGN, 0.5, 0.1) + asked(TALK, 0.0) + asked(NONE, 0.95)
    told = page(Answers(CURVE, some, {}), "both", 0.2)
    assert "| docs | 2 | 50.0% | 0.875 | 1.000 | 0.000 |" in told


def test_the_constants_are_found_again_in_what_they_made() -> None:
    """Half of all questions answerable, as the weights have it: the curve that drew them is the curve fitted."""
    draw, curve = random.Random(1), CURVE
    made: dict[str, list[float]] = {OWN: [], FOREIGN: [], TALK: []}
    while min(map(len, made.values())) < 4000:
        middle = -curve.offset / curve.slope  # evidence on both sides of an even chance
        chance = _logistic(curve.slope * (middle + draw.uniform(-3, 3)) + curve.offset)
        kind = OWN if draw.random() < chance else draw.choices([FOREIGN, TALK], [2, 1])[0]
        made[kind].append(chance)
    slope, offset = fitted([one for kind, values in made.items() for one in asked(kind, *values)])
    assert slope == pytest.approx(curve.slope, rel=0.05)
    assert offset == pytest.approx(curve.offset, rel=0.05)


def test_small_talk_is_many_short_lines() -> None:
    lines = small_talk()
    assert len(lines) > 50
    assert all(0 < len(line) < 80 for line in lines)


def test_curves_are_compared_on_the_same_evidence() -> None:
    some = asked(OWN, 0.9, 0.5) + asked(FOREIGN, 0.5, 0.1) + asked(TALK, 0.01)
    low, high = some[-1].evidence, some[0].evidence
    told = page(Answers(CURVE, some, {"docs": Evidence([high], [low])}), "both", 0.2).splitlines()
    rows = {cells[1]: cells[2:-1] for line in told if len(cells := [cell.strip() for cell in line.split("|")]) == 9}
    assert rows["in use"][:4] == ["0.0%", "0.0%", "50.0%", "100.0%"]
    assert rows["`ragway calibrate`, the set alone"] == rows["`ragway calibrate`, all sets"]
    assert any(line.startswith("`ragway calibrate` on all: slope") for line in told)


def test_a_set_that_weighs_half_counts_as_half_as_many() -> None:
    easy = asked(OWN, 0.99, 0.9, collection="a") + asked(FOREIGN, 0.01, 0.2, collection="a")
    hard = asked(OWN, 0.2, 0.9, collection="b") + asked(FOREIGN, 0.1, 0.6, collection="b")
    twin = [replace(one, collection="twin") for one in easy]
    assert fitted([*easy, *hard], {"b"}) == pytest.approx(fitted([*easy, *twin, *hard]), abs=1e-2)
    assert fitted([*easy, *hard], {"b"}) != pytest.approx(fitted([*easy, *hard]), abs=1e-2)
