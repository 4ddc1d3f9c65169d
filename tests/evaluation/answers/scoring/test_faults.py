"""What counts as a failure, and what scores are with failures counted."""

from dataclasses import replace

import pytest

from evaluation.answers.judges.judge_tasks import Judgement
from evaluation.answers.records import Rag
from evaluation.answers.scoring.faults import fault_of
from evaluation.answers.scoring.scored_replies import (
    judged_values,
    scored,
    values_of,
    wrong_preferences,
    wrong_values,
)
from tests.evaluation.answers import made
from tests.evaluation.answers.made import DOCS, RAW

QUESTIONS = [made.question(number) for number in range(4)]
RIGHT = [made.reply(of, variant, f"It is {of.must[0]}.") for of in QUESTIONS for variant in (RAW, DOCS)]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None), ({"error": "503: busy"}, "failed"), ({"finish_reason": "length"}, "cut"),
        ({"finish_reason": "length", "answer": None}, "cut"), ({"answer": " \n"}, "empty"), ({"answer": None}, "empty"),
        ({"finish_reason": "content_filter"}, "refused"), ({"refused": True}, "refused"),
        ({"rag": Rag("degraded", "index is down")}, "degraded"), ({"rag": Rag("empty")}, None),
        ({"answer": "I do not know."}, None),
    ],
)  # fmt: skip
def test_a_reply_that_is_no_answer_says_what_it_is(changed: dict[str, object], fault: str | None) -> None:
    assert fault_of(replace(RIGHT[1], **changed)) == fault  # type: ignore[arg-type]


def test_failures_are_left_out_of_one_reading_and_wrong_in_the_other() -> None:
    rows = [RIGHT[0], RIGHT[1], replace(RIGHT[3], finish_reason="length"), replace(RIGHT[5], error="no", answer=None)]
    unscored = replace(QUESTIONS[3], reference=None, must=(), must_not=())
    rows.append(replace(RIGHT[7], error="no", answer=None))
    asked = {one.id: one for one in (*QUESTIONS[:3], unscored)}
    found = scored(asked, rows)
    assert values_of(found, DOCS.name, "score") == {"q000": 1.0}
    assert wrong_values(asked, found, rows, DOCS.name, "score") == {"q000": 1.0, "q001": 0.0, "q002": 0.0}


def test_a_pair_that_no_judge_could_tell_is_counted_both_ways_and_a_failed_answer_loses() -> None:
    rows = [*RIGHT[:4], RIGHT[4], replace(RIGHT[5], error="no"), replace(RIGHT[6], error="no"), RIGHT[7]]
    said = [
        Judgement(id, DOCS.name, RAW.name, 0, "preference", order, score, "x", "", None, None, "j")
        for id, score in (("q000", 1.0), ("q002", 1.0))
        for order in (0, 1)
    ]
    faulty = {one.asked for one in rows if fault_of(one)}
    assert judged_values(said, DOCS.name, "preference", faulty=faulty) == {"q000": 1.0}
    (_, low), (before, high) = wrong_preferences(said, rows, DOCS.name, RAW.name)
    assert low == {"q000": 1.0, "q001": 0.0, "q002": 0.0, "q003": 1.0}
    assert high == {**low, "q001": 1.0}
    assert before == {id: 1 - score for id, score in high.items()}
