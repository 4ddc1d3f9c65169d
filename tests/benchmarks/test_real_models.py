"""The trial of real models, with a scripted model in place of a real model."""

import json
from collections.abc import Iterator

import pytest

from benchmarks.conformance.real_models import APIS, ORG, QUESTIONS, Outcome, Trial, summary, trial
from proxy.agent.ask.tool_protocols import LEARNED
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import Json, ScriptedModel, calls, says

BY_QUESTION = {one.turns[0]: one for one in QUESTIONS}
AIR, CAPITAL = "How good is the air in Madrid?", "What is the capital of France?"
SHIRTS, USERS = "Do you have shirts that fit me?", "Who are the users in my organization?"


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with recording() as running:
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, recorder: Recorder) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("models"), f"{recorder.url}/v1", "scripted") as made:
        yield made


def played(running: Trial, recorder: Recorder, question: str, way: str, *messages: Json) -> Outcome:
    model = ScriptedModel(recorder.fresh(), messages)
    outcome = running.play(BY_QUESTION[question], way, 1, 0.0)
    assert {asked["model"] for asked in model.received} == {"scripted"}
    assert all("seed" in asked for asked in model.received)
    return outcome


def written(name: str, way: str, **arguments: str) -> Json:
    """A call in the form of a way."""
    if way == "native":
        return calls((name, arguments))
    return says(json.dumps({"name": name, "arguments": arguments}))


@pytest.mark.parametrize("way", LEARNED)
def test_a_right_call_and_a_right_answer_count_in_each_way(running: Trial, recorder: Recorder, way: str) -> None:
    call = written("act_airQuality", way, city="Madrid")
    outcome = played(running, recorder, AIR, way, call, says("Good: the index is 37."))
    assert outcome.right, outcome
    assert outcome.answers == ["Good: the index is 37."]


def test_a_wrong_value_and_an_invented_identifier_count_as_wrong(running: Trial, recorder: Recorder) -> None:
    elsewhere = played(
        running, recorder, AIR, "text", written("act_airQuality", "text", city="Rome"), says("The index is 37.")
    )
    assert (elsewhere.operation, elsewhere.arguments, elsewhere.facts, elsewhere.failed) == (True, False, True, 1)
    invented = played(
        running, recorder, USERS, "text", written("act_listOrganizationUsers", "text", orgId="org-1"), says("Ann.")
    )
    assert (invented.operation, invented.invented, invented.failed) == (False, 1, 0)


def test_a_needless_call_counts_as_wrong(running: Trial, recorder: Recorder) -> None:
    outcome = played(running, recorder, CAPITAL, "text", written("act_listCalendars", "text"), says("Paris."))
    assert (outcome.operation, outcome.facts, outcome.right) == (False, True, False)


def test_the_model_must_ask_for_a_missing_value(running: Trial, recorder: Recorder) -> None:
    call, answer = written("act_findClothes", "text", size="L"), says("The Linen shirt.")
    asked = played(running, recorder, SHIRTS, "text", says("Which size do you wear?"), call, answer)
    guessed = played(running, recorder, SHIRTS, "text", call, answer, says("The Linen shirt."))
    assert (asked.asked, asked.right) == (True, True)
    assert (guessed.asked, guessed.right) == (False, False)
    page = summary([asked, guessed])
    assert "| held out, text, seed 1 | 2/2 | 2/2 | 2/2 | 0/0 | 1/2 | 1/2 | 0 | 0 | 0 | 0 |" in page


def test_a_protocol_in_an_answer_is_counted(running: Trial, recorder: Recorder) -> None:
    outcome = played(running, recorder, CAPITAL, "text", says("Paris. Next I call act_listCalendars."))
    assert (outcome.leaked, outcome.right) == (True, False)


def test_each_question_names_operations_of_its_api() -> None:
    assert ORG in json.dumps([one.result for one in APIS["team"]])
    halves = [one.group for one in QUESTIONS]
    assert halves.count("tuning") == halves.count("held out") == len(QUESTIONS) / 2
    for one in QUESTIONS:
        assert {name for name, _ in one.calls} <= {row.name for row in APIS[one.api]}
