"""Confirmations as `mcp_approval_request` items of a response, for clients that show approvals."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.support.action_clients import HTTP
from tests.support.dialogues import CODE, ShopTeam, shop_team
from tests.support.scripted_model import ScriptedModel, calls, says
from tests.wire.test_pending_calls import CANCEL, OTHER, SETTINGS

QUESTION = "Please cancel order 17 and order 19."


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopTeam]:
    with shop_team(tmp_path_factory.mktemp("approvals"), SETTINGS) as team:
        yield team


@pytest.fixture(autouse=True)
def fresh(team: ShopTeam) -> None:
    team.shop.fresh()


def respond(
    team: ShopTeam,
    given: Any,
    *,
    stream: bool = False,
    items: bool = True,
    key: str = "agent",
    user: str = "",
    **more: Any,
) -> Any:
    """The response, as the SDK reads it."""
    headers = {"Authorization": f"Bearer {team.secrets[key]}"} | ({"x-rag-approvals": "items"} if items else {})
    headers |= {"x-rag-user": user} if user else {}
    asked = {"model": "rage/shop/gpt-x", "input": given, "extra_headers": headers, **more}
    with openai.OpenAI(base_url=team.served.url + "/v1", **HTTP) as client:
        if not stream:
            return client.responses.create(**asked)
        with client.responses.stream(**asked) as events:
            kinds = [event.item.type for event in events if event.type == "response.output_item.done"]
            whole = events.get_final_response()
        assert kinds == [one.type for one in whole.output]
        return whole


def requests_of(reply: Any) -> list[Any]:
    return [one for one in reply.output if one.type == "mcp_approval_request"]


def answers(requests: list[Any], *approve: bool) -> list[dict[str, Any]]:
    return [
        {"type": "mcp_approval_response", "approval_request_id": one.id, "approve": yes}
        for one, yes in zip(requests, approve, strict=True)
    ]


def sent(team: ShopTeam) -> list[str]:
    return [str(one) for one in team.shop.writes]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_an_approved_item_sends_its_call_once(team: ShopTeam, stream: bool, stored: bool) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL, OTHER)])
    asked = respond(team, QUESTION, stream=stream, store=stored)
    first, second = requests_of(asked)
    assert (first.server_label, first.name, first.arguments) == ("shop", "cancelOrder", '{"orderId":"17"}')
    assert sent(team) == []

    model = ScriptedModel(team.recorder.fresh(), [says("Order 19 is cancelled."), says("Again?")])
    history = [{"role": "user", "content": QUESTION}, *(one.to_dict() for one in asked.output)]
    given = answers([first, second], False, True)
    more = {"previous_response_id": asked.id} if stored else {"store": False}
    done = respond(team, given if stored else [*history, *given], stream=stream, **more)
    assert done.output_text == "Order 19 is cancelled."
    assert requests_of(done) == []
    assert "Done" in str(model.received[0]["messages"])
    assert sent(team) == ["DELETE /orders/19"]
    assert "used before" in respond(team, given if stored else [*history, *given], **more).output_text
    assert sent(team) == ["DELETE /orders/19"]


def test_refused_items_send_nothing(team: ShopTeam) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL)])
    asked = respond(team, QUESTION)
    ScriptedModel(team.recorder.fresh(), [says("It stays.")])
    (request,) = requests_of(asked)
    assert respond(team, answers([request], False), previous_response_id=asked.id).output_text == "It stays."
    ScriptedModel(team.recorder.fresh(), [])
    assert "Nothing was sent" in respond(team, answers([request], True), previous_response_id=asked.id).output_text
    assert sent(team) == []


def test_a_client_that_does_not_say_so_gets_the_text_alone(team: ShopTeam) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL)])
    asked = respond(team, QUESTION, items=False)
    assert requests_of(asked) == []
    assert CODE.search(asked.output_text)


def answer(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": id, **more}


def test_an_answer_to_another_item_or_by_somebody_else_sends_nothing(team: ShopTeam) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL)])
    asked = respond(team, QUESTION, store=False)
    (request,) = requests_of(asked)
    code = request.id.split("_")[1]
    history = [{"role": "user", "content": QUESTION}, *(one.to_dict() for one in asked.output)]

    def said(*given: Any, **more: Any) -> str:
        ScriptedModel(team.recorder.fresh(), [says("The model was asked.")])
        text: str = respond(team, [*history, *given], store=False, **more).output_text
        assert sent(team) == []
        return text

    for id in (f"mcpr_{code}_2", f"mcpr_{code}_0", "mcpr_AAAA2222_1"):
        assert "Nothing was sent" in said(answer(id, approve=True))
    assert "No action waits" in said(answer(request.id, approve=True), key="other")
    assert "somebody else" in said(answer(request.id, approve=True), user="ben")
    changed = [{**one, "content": "Please cancel order 19."} if "content" in one else one for one in history[:1]]
    history, kept = [*changed, *history[1:]], history
    assert "No action waits" in said(answer(request.id, approve=True))
    history = kept
    assert said(answer(request.id, approve=True), {"role": "user", "content": "No, wait."}) == "The model was asked."
    assert "Nothing was sent" in said(answer(request.id, approve=True))  # given up by the request before


@pytest.mark.parametrize(
    "answers",
    [[{"approve": "true"}], [{"approve": 1}], [{"approve": None}], [{}], [{"approve": True}, {"approve": False}]],
    ids=str,
)
def test_without_a_clear_yes_the_call_is_given_up(team: ShopTeam, answers: list[dict[str, Any]]) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL)])
    asked = respond(team, QUESTION)
    (request,) = requests_of(asked)
    ScriptedModel(team.recorder.fresh(), [says("It stays.")])
    given = [answer(request.id, **one) for one in answers]
    assert respond(team, given, previous_response_id=asked.id).output_text == "It stays."
    ScriptedModel(team.recorder.fresh(), [])
    late = respond(team, [answer(request.id, approve=True)], previous_response_id=asked.id)
    assert "Nothing was sent" in late.output_text
    assert sent(team) == []


def test_a_late_answer_sends_nothing(team: ShopTeam) -> None:
    ScriptedModel(team.recorder.fresh(), [calls(CANCEL)])
    asked = respond(team, QUESTION)
    (request,) = requests_of(asked)
    team.expire()
    ScriptedModel(team.recorder.fresh(), [])
    late = respond(team, [answer(request.id, approve=True)], previous_response_id=asked.id)
    assert "no longer valid" in late.output_text
    assert sent(team) == []
