"""Data of a private action set reaches no public set: in a chat, in later questions, and where rounds are not known."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.action_clients import CompletionsChat, MessagesChat, ResponsesChat, SdkChat
from tests.support.action_team import ANSWER, ORGS, SETTINGS, Team, action_team
from tests.support.scripted_model import calls, says

PARTED = SETTINGS.replace("    auth: digest\n", "    auth: digest\n    private: true\n").replace(
    "  weather: {{", "  weather: {{public: true, "
)
QUESTION = "who are the organizations, and what is the weather of a city, Bonn?"
WEATHER: tuple[str, dict[str, Any]] = ("act_weatherOfCity", {"size": "Bonn"})
REFUSED = "Nothing was sent: weather is a public API"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("private"), PARTED) as team:
        yield team


def chat(team: Team, kind: type[SdkChat] = CompletionsChat, sets: str = "atlas,weather") -> SdkChat:
    return kind(team.served.url, "gpt-x", fields={"extra_headers": {"x-rag-actions": sets}})


def told(team: Team) -> Sequence[str]:
    """The results in the newest request of the model."""
    return [str(one["content"]) for one in team.model.received[-1]["messages"] if one["role"] == "tool"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", [CompletionsChat, ResponsesChat, MessagesChat])
def test_no_public_call_follows_a_private_result(team: Team, kind: type[SdkChat], stream: bool) -> None:
    team.script(calls(WEATHER), calls(ORGS), calls(WEATHER), says(ANSWER), calls(WEATHER), says("Hm."))
    asking = chat(team, kind)
    reply = asking.ask(QUESTION, stream=stream)
    assert reply.text == ANSWER
    assert [one.startswith(REFUSED) for one in told(team)] == [False, False, True]
    asking.ask(f"{QUESTION} Again, please.", stream=stream)
    assert [one.startswith(REFUSED) for one in told(team)] == [False, False, True, True], "in a later question, too"
    assert [path.split("?")[0] for path in team.api.seen] == ["GET /shirts", "GET /orgs"]
    if kind is CompletionsChat and not stream:
        receipt = httpx.get(f"{team.served.url}/v1/knowledge/receipts/{reply.headers['x-rag-id']}", timeout=60).json()
        assert receipt["actions"]["private"] == ["atlas"]
        assert [one["outcome"] for one in receipt["actions"]["calls"]] == ["ok", "ok", "private_data"]


def test_calls_of_one_round_run_together(team: Team) -> None:
    """The model has written the public call before the model reads the private result."""
    team.script(calls(ORGS, WEATHER), calls(WEATHER), says(ANSWER))
    chat(team).ask(QUESTION)
    assert [one.startswith(REFUSED) for one in told(team)] == [False, False, True]


def test_a_refused_private_call_closes_nothing(team: Team) -> None:
    team.script(
        calls(("act_listUsers", {"orgId": "made-up"})), calls(WEATHER), says(ANSWER), calls(WEATHER), says("Hm.")
    )
    asking = chat(team)
    asking.ask(f"{QUESTION} And the users?")
    asking.ask(f"{QUESTION} Again, please.")
    assert [path.split("?")[0] for path in team.api.seen] == ["GET /shirts", "GET /shirts"]


def test_a_later_question_to_the_public_set_alone_is_closed_too(team: Team) -> None:
    team.script(calls(ORGS), says("One."), calls(WEATHER), says(ANSWER))
    asking = chat(team)
    asking.ask(QUESTION)
    asking.fields = {"extra_headers": {"x-rag-actions": "weather"}}
    asking.ask(QUESTION)
    assert told(team)[-1].startswith(REFUSED)


def test_a_conversation_whose_rounds_are_not_known_counts_as_private(team: Team) -> None:
    team.script(calls(ORGS), says("One."), calls(WEATHER), says(ANSWER), calls(WEATHER), says(ANSWER))
    asking = chat(team)
    asking.ask(f"{QUESTION} (edited)")
    asking.said[0] = {"role": "user", "content": "Which organizations are there?"}
    asking.said[1] = {"role": "assistant", "content": "One."}
    asking.said[1:1] = [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": f"{QUESTION} (edited)"}]
    assert asking.ask(QUESTION).headers["x-rag-actions"].split(",")[0] == "forgotten"
    assert told(team)[-1].startswith(REFUSED)
    chat(team).ask(QUESTION)
    assert not told(team)[-1].startswith(REFUSED), "a new conversation is open"


def test_without_a_memory_each_conversation_with_a_reply_counts_as_private(tmp_path: Path) -> None:
    with action_team(tmp_path, PARTED + "history: {{keep_hours: 0}}\n") as team:
        team.script(calls(WEATHER), says(ANSWER), calls(WEATHER), says(ANSWER))
        asking = chat(team)
        asking.ask(QUESTION)
        asking.ask(QUESTION)
        assert told(team)[-1].startswith(REFUSED)
        assert len(team.api.seen) == 1
