"""Calls that wait for a person, answered by a button: GET and POST /v1/actions/pending."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.action_clients import CompletionsChat
from tests.support.described import described
from tests.support.dialogues import CODE, KEYS, ShopTeam, shop_team
from tests.support.gateway import PATIENCE_S, ragway
from tests.support.scripted_model import ScriptedModel, calls, says

SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions:
  shop:
    networks: ["127.0.0.0/8"]
    writes: confirm
    always: [getOrder, cancelOrder, refundOrder, setLabel]
    four_eyes: [refundOrder]
action_calls: {{calls: 40}}
"""
CANCEL = ("act_cancelOrder", {"orderId": "17"})
OTHER = ("act_cancelOrder", {"orderId": "19"})
REFUND = ("act_refundOrder", {"orderId": "18", "body": {"cents": 500, "reason": "broken"}})
ASKED = "Please cancel order 17 and order 19, and refund 500 cents of order 18: broken."
ABSENT = "pg-" + "0" * 24


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopTeam]:
    with shop_team(tmp_path_factory.mktemp("pending"), SETTINGS) as team:
        yield team


@pytest.fixture(autouse=True)
def fresh(team: ShopTeam) -> None:
    team.shop.fresh()


def ask(
    team: ShopTeam, *wanted: Any, key: str = "agent", said: str = ASKED, **headers: str
) -> tuple[str, CompletionsChat, str]:
    """A chat that shows a confirmation: the id of the group, the chat, the code."""
    ScriptedModel(team.recorder.fresh(), [calls(*wanted)])
    chat = CompletionsChat(team.served.url, "rage/shop/gpt-x")
    chat.fields["extra_headers"] = {**team.headers(CompletionsChat, key), **headers}
    reply = chat.ask(said)
    (code,) = {*CODE.findall(reply.text)}
    return reply.headers["x-rag-pending"], chat, code


def call(team: ShopTeam, method: str, path: str = "", body: Any = None, key: str = "agent", **more: str) -> Any:
    headers = {"authorization": f"Bearer {team.secrets[key]}", **more}
    url = f"{team.served.url}/v1/actions/pending{path}"
    return described(httpx.request(method, url, json=body, headers=headers, timeout=60))


def answer(team: ShopTeam, id: str, *, approve: bool = True, key: str = "agent", **more: Any) -> Any:
    headers = more.pop("headers", {})
    return call(team, "POST", f"/{id}", {"approve": approve, **more}, key, **headers)


def states(reply: Any) -> list[str]:
    return [one["state"] for one in reply.json()["calls"]]


def sent(team: ShopTeam) -> list[str]:
    return [str(one) for one in team.shop.writes]


def test_a_button_sends_what_the_chat_showed_once(team: ShopTeam) -> None:
    id, chat, code = ask(team, CANCEL)
    shown = call(team, "GET", f"/{id}").json()
    (row,) = shown["calls"]
    assert (row["set"], row["operation"], row["state"], row["status"]) == ("shop", "cancelOrder", "pending", None)
    assert f"DELETE {team.shop.url}/orders/17" in row["text"]
    assert (shown["id"], shown["four_eyes"], shown["expires_at"] - shown["created_at"]) == (id, False, 600)
    assert sent(team) == []

    done = answer(team, id)
    assert (done.status_code, states(done), done.json()["calls"][0]["status"]) == (200, ["done"], 200)
    assert f"Done: DELETE {team.shop.url}/orders/17 (status 200)." in done.json()["report"]
    again = answer(team, id)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "pending_used")
    assert answer(team, id, approve=False).json()["error"]["code"] == "pending_used"
    ScriptedModel(team.recorder.fresh(), [])
    assert "used before" in chat.ask(f"confirm {code}").text
    assert sent(team) == ["DELETE /orders/17"]
    assert states(call(team, "GET", f"/{id}")) == ["done"]


@pytest.mark.parametrize(("approve", "told"), [(True, "Done (status 200)"), (False, "Given up")])
def test_the_model_of_the_chat_reads_what_a_button_has_answered(team: ShopTeam, approve: bool, told: str) -> None:
    id, chat, _ = ask(team, CANCEL, OTHER)
    answer(team, id, approve=approve)
    model = ScriptedModel(team.recorder.fresh(), [says("I see."), says("As I said.")])
    assert chat.ask("And now?").text == "I see."
    assert chat.ask("Really?").text == "As I said."
    messages = model.received[0]["messages"]
    assert [one["role"] for one in messages[-4:]] == ["user", "assistant", "tool", "tool"]
    assert [one["function"]["name"] for one in messages[-3]["tool_calls"]] == ["act_cancelOrder"] * 2
    assert all(one["content"].startswith(told) for one in messages[-2:])
    assert model.received[1]["messages"][: len(messages)] == messages
    assert len(sent(team)) == 2 * approve


def test_usage_counts_the_call_that_a_button_sends(team: ShopTeam) -> None:
    def used() -> tuple[int, int]:
        headers = {"authorization": f"Bearer {team.secrets['narrow']}"}
        rows = httpx.get(f"{team.served.url}/v1/usage?by=key", headers=headers, timeout=60).json()["data"]
        return (rows[0]["calls"], rows[0]["changes"]) if rows else (0, 0)

    label = ("act_setLabel", {"orderId": "17", "body": "fragile"})
    id, _, _ = ask(team, label, key="narrow", said="Show order 17, and label it as fragile.")
    assert states(answer(team, id, key="narrow")) == ["done"]
    for _ in range(2000):
        if used()[1]:
            break
    assert used() == (1, 1)


def test_the_report_of_a_button_is_in_the_language_of_the_chat(team: ShopTeam) -> None:
    asked = "Bitte storniere meine Bestellung 17, ich brauche die Tassen leider nicht mehr."
    id, _, _ = ask(team, CANCEL, said=asked)
    assert answer(team, id).json()["report"].startswith("Ausgeführt: DELETE ")


def test_the_list_has_what_waits_for_the_key(team: ShopTeam) -> None:
    mine, _, _ = ask(team, CANCEL)
    others, _, _ = ask(team, OTHER, key="other")
    listed = {one["id"] for one in call(team, "GET").json()["data"]}
    assert mine in listed
    assert others not in listed
    assert answer(team, mine, approve=False).status_code == 200
    assert mine not in {one["id"] for one in call(team, "GET").json()["data"]}


def test_a_foreign_and_an_absent_id_look_alike(team: ShopTeam) -> None:
    id, _, _ = ask(team, CANCEL)
    for foreign in (id, ABSENT, "nonsense"):
        for method, body in (("GET", None), ("POST", {"approve": True})):
            reply = call(team, method, f"/{foreign}", body, "other")
            assert reply.status_code == 404
            assert reply.json() == call(team, method, f"/{ABSENT}", body).json()
    assert sent(team) == []
    assert states(call(team, "GET", f"/{id}")) == ["pending"]


def test_some_of_several_calls_are_sent_and_the_others_given_up(team: ShopTeam) -> None:
    id, _, _ = ask(team, CANCEL, OTHER)
    assert answer(team, id, numbers=[3]).status_code == 400
    assert answer(team, id, numbers=[]).status_code == 400
    done = answer(team, id, numbers=[2])
    assert states(done) == ["void", "done"]
    assert sent(team) == ["DELETE /orders/19"]


def test_a_declined_call_is_given_up_for_the_chat_too(team: ShopTeam) -> None:
    id, chat, code = ask(team, CANCEL)
    declined = answer(team, id, approve=False)
    assert (declined.status_code, states(declined), declined.json()["report"]) == (200, ["void"], "")
    assert answer(team, id).json()["error"]["code"] == "pending_void"
    assert answer(team, id, approve=False).json()["error"]["code"] == "pending_void"
    ScriptedModel(team.recorder.fresh(), [])
    chat.ask(f"confirm {code}")
    assert sent(team) == []


def test_another_message_in_the_chat_ends_the_button(team: ShopTeam) -> None:
    id, chat, _ = ask(team, CANCEL)
    ScriptedModel(team.recorder.fresh(), [says("It stays.")])
    chat.ask("no")
    assert answer(team, id).json()["error"]["code"] == "pending_void"
    assert sent(team) == []


def test_a_late_answer_sends_nothing(team: ShopTeam) -> None:
    id, _, _ = ask(team, CANCEL)
    team.expire()
    assert id not in {one["id"] for one in call(team, "GET").json()["data"]}
    assert answer(team, id).json()["error"]["code"] == "pending_expired"
    assert sent(team) == []


def test_another_person_of_the_same_key_cannot_answer(team: ShopTeam) -> None:
    id, _, _ = ask(team, CANCEL, **{"x-rag-user": "ann"})
    for headers in ({}, {"x-rag-user": "ben"}):
        assert answer(team, id, headers=headers).status_code == 404
        assert answer(team, id, approve=False, headers=headers).status_code == 404
    assert sent(team) == []
    assert states(answer(team, id, headers={"x-rag-user": "ann"})) == ["done"]


def test_a_lost_answer_is_unknown(team: ShopTeam) -> None:
    id, _, _ = ask(team, CANCEL)
    team.shop.drops = 1
    lost = answer(team, id)
    assert (lost.status_code, states(lost)) == (200, ["unknown"])
    assert "not known" in lost.json()["report"]
    assert answer(team, id).status_code == 409
    assert sent(team) == ["DELETE /orders/17"]


@pytest.mark.parametrize("_round", range(3))
def test_of_buttons_and_code_lines_at_once_one_sends(team: ShopTeam, _round: int) -> None:
    id, chat, code = ask(team, CANCEL)
    ScriptedModel(team.recorder.fresh(), [says("Done.")] * 4)

    def by_chat() -> str:
        copy = CompletionsChat(chat.url, chat.model, list(chat.said), chat.fields)
        return copy.ask(f"confirm {code}").text

    with ThreadPoolExecutor(6) as pool:
        buttons = [pool.submit(answer, team, id) for _ in range(4)]
        chats = [pool.submit(by_chat) for _ in range(2)]
        codes = [one.result().status_code for one in buttons]
        texts = [one.result() for one in chats]
    assert set(codes) <= {200, 409}
    assert codes.count(200) + sum("used before" not in one for one in texts) == 1
    assert sent(team) == ["DELETE /orders/17"]


def test_with_four_eyes_another_key_with_the_right_approves(team: ShopTeam) -> None:
    id, chat, code = ask(team, REFUND)
    mine = call(team, "GET", f"/{id}").json()
    assert mine["four_eyes"]
    assert answer(team, id).status_code == 403
    ScriptedModel(team.recorder.fresh(), [])
    assert "Another person" in chat.ask(f"confirm {code}").text
    _, german, _ = ask(team, REFUND, said="Bitte erstatte 500 Cent von der Bestellung 18: broken.")
    assert "Eine andere Person muss dies" in str(german.said[-1]["content"])
    for key in ("reader", "auto"):  # without the right to make the call
        assert answer(team, id, key=key).status_code == 404
        assert call(team, "GET", f"/{id}", key=key).status_code == 404
        assert id not in {one["id"] for one in call(team, "GET", key=key).json()["data"]}
    assert sent(team) == []
    assert id in {one["id"] for one in call(team, "GET", key="other").json()["data"]}
    assert states(answer(team, id, key="other")) == ["done"]
    (only,) = sent(team)
    assert only.startswith("POST /orders/18/refunds")


def test_a_revoked_key_gets_nothing_approved(team: ShopTeam, tmp_path: Path) -> None:
    data = str(team.served.data)
    made = ragway("keys", "create", "leaver", "--model", "*", *KEYS["agent"], "--data", data, folder=tmp_path)
    secrets = dict(team.secrets) | {"leaver": made.stdout.strip()}
    leavers = ShopTeam(team.served, team.shop, team.recorder, secrets)
    _answers(leavers, 200)
    id, _, _ = ask(leavers, REFUND, key="leaver")
    (key_id,) = re.findall(r"(key-\S+)\s+leaver\b", ragway("keys", "list", "--data", data, folder=tmp_path).stdout)
    assert ragway("keys", "revoke", key_id, "--data", data, folder=tmp_path).returncode == 0
    _answers(leavers, 401)
    assert answer(leavers, id, key="other").status_code == 404
    assert sent(team) == []


def _answers(team: ShopTeam, status: int) -> None:
    """Wait until the gateway has learned of the newest key, or that it is revoked."""
    until_s = time.monotonic() + PATIENCE_S
    while call(team, "GET", key="leaver").status_code != status:
        assert time.monotonic() < until_s
        time.sleep(0.05)
