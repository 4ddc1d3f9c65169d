"""Keys with grants of calls, in chats and runs: what a key may call that changes something, and what it may not."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from proxy.asgi import Receive, Scope, Send
from tests.support.action_team import serving_sets
from tests.support.gateway import Served, ragway
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import Json, ScriptedModel, Turn, calls, says
from tests.support.served_app import served

SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions:
  shop:
    writes: auto
    calls_per_hour: {{refundOrder: 1}}
    networks: ["127.0.0.0/8"]
action_calls: {{log_content: true}}
"""
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
DOCUMENT: Json = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/orders/{id}": {
            "parameters": [ID],
            "get": {"operationId": "readOrder", "summary": "Show an order"},
            "delete": {"operationId": "cancelOrder", "summary": "Cancel an order"},
        },
        "/orders/{id}/refund": {
            "parameters": [ID],
            "post": {"operationId": "refundOrder", "summary": "Refund an order"},
        },
    },
}
KEYS = {
    "desk": ["shop:*", "!shop:refund*"],
    "refunds": ["shop:refundOrder"],
    "robot": ["shop:write=auto"],
    "revoked": ["shop:*"],
    "few": ["shop:*=auto"],
}


class Shop:
    """A gateway with keys, a scripted model, and an API that keeps its requests."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.served: Served
        self.keys: dict[str, str] = {}
        self.sent: list[str] = []
        self.model: ScriptedModel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The API."""
        self.sent.append(f"{scope['method']} {scope['path']}")
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"state": "fine"}'})

    @property
    def writes(self) -> list[str]:
        return [one for one in self.sent if not one.startswith("GET ")]

    def script(self, *turns: Turn) -> None:
        self.sent.clear()
        self.model = ScriptedModel(self._recorder.fresh(), turns)

    def post(self, path: str, body: Json, key: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        return httpx.post(f"{self.served.url}/v1/{path}", json=body, headers=headers, timeout=60)

    def chat(self, *said: str, key: str) -> str:
        """The reply to a conversation, whose texts are by turns of the person and of the assistant."""
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
        reply = self.post("chat/completions", {"model": "rage/shop/gpt-x", "messages": messages}, key)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["choices"][0]["message"]["content"])

    def run(self, operation: str, order: int, key: str) -> httpx.Response:
        self.sent.clear()
        return self.post(f"actions/sets/shop/operations/{operation}/run", {"arguments": {"id": order}}, key)

    def tools(self) -> set[str]:
        """The operations that the model was offered first."""
        names = {one["function"]["name"] for one in self.model.received[0].get("tools", [])}
        return {name for name in names if name.endswith("Order")}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("acts")
    (folder / "data").mkdir()
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording())
        one = Shop(recorder)
        api = f"http://127.0.0.1:{stack.enter_context(served(one))}"
        for name, grants in KEYS.items():
            acts = [part for grant in grants for part in ("--act", grant)]
            acts += ["--changes-per-day", "2"] if name == "few" else []
            made = ragway("keys", "create", name, "--model", "*", *acts, "--data", "data", folder=folder)
            assert made.returncode == 0, made.stderr
            one.keys[name] = made.stdout.strip()
        sets: dict[str, Any] = {"shop": {**DOCUMENT, "servers": [{"url": api}]}}
        one.served = stack.enter_context(serving_sets(folder, SETTINGS.format(model=recorder.url), sets))
        yield one


def test_a_key_makes_so_many_changes_a_day(shop: Shop) -> None:
    runs = [shop.run("cancelOrder", order, "few").json() for order in (61, 62, 63)]
    assert [one["outcome"] for one in runs] == ["ok", "ok", "limit"]
    assert "this key may make 2 calls a day that change something" in runs[-1]["text"]
    assert shop.run("readOrder", 61, "few").json()["outcome"] == "ok"


def question(verb: str, order: int) -> str:
    return f"{verb.capitalize()} the order {order}, please."


def code_line(reply: str) -> str:
    assert "Nothing has been sent yet." in reply, reply
    return f"confirm {reply.partition('answer: confirm ')[2][:9]}"


def test_an_allowed_call_is_confirmed_and_made(shop: Shop) -> None:
    """The grant confirms, although the settings call at once."""
    shop.script(calls(("act_cancelOrder", {"id": 17})), says("It is cancelled."))
    asked = question("cancel", 17)
    shown = shop.chat(asked, key="desk")
    assert shop.writes == []
    assert shop.chat(asked, shown, code_line(shown), key="desk") == "It is cancelled."
    assert shop.writes == ["DELETE /orders/17"]


def test_a_denied_call_is_neither_offered_nor_made(shop: Shop) -> None:
    """The denial counts before the grant of all."""
    shop.script(calls(("act_refundOrder", {"id": 17})), says("I cannot."))
    assert shop.chat(question("refund", 17), key="desk") == "I cannot."
    assert shop.tools() == {"act_readOrder", "act_cancelOrder"}
    assert "no tool has the name 'act_refundOrder'" in shop.model.received[1]["messages"][-1]["content"]
    assert shop.sent == []


def test_a_key_confirms_no_call_of_another_key(shop: Shop) -> None:
    shop.script(calls(("act_refundOrder", {"id": 18})))
    asked = question("refund", 18)
    shown = shop.chat(asked, key="refunds")
    for key in ("desk", "robot"):
        assert "was sent" in shop.chat(asked, shown, code_line(shown), key=key)
    assert shop.writes == []


def test_a_grant_of_auto_calls_at_once(shop: Shop) -> None:
    shop.script(calls(("act_cancelOrder", {"id": 19})), says("It is cancelled."))
    assert shop.chat(question("cancel", 19), key="robot") == "It is cancelled."
    assert shop.writes == ["DELETE /orders/19"]


def test_a_confirmed_call_counts_against_the_calls_of_an_hour(shop: Shop) -> None:
    for order, sent in ((20, ["POST /orders/20/refund"]), (21, [])):
        shop.script(calls(("act_refundOrder", {"id": order})), says("So it is."))
        asked = question("refund", order)
        shown = shop.chat(asked, key="refunds")
        shop.chat(asked, shown, code_line(shown), key="refunds")
        assert shop.writes == sent
    assert "hour" in str(shop.model.received[-1]["messages"][-1]["content"])


def test_a_right_that_was_revoked_after_the_confirmation_sends_nothing(shop: Shop) -> None:
    shop.script(calls(("act_cancelOrder", {"id": 22})))
    asked = question("cancel", 22)
    shown = shop.chat(asked, key="revoked")
    folder = shop.served.data.parent
    listed = ragway("keys", "list", "--json", "--data", "data", folder=folder)
    (id,) = (one["id"] for one in json.loads(listed.stdout) if one["name"] == "revoked")
    done = ragway("keys", "act", id, "shop:read", "!shop:cancelOrder", "--data", "data", folder=folder)
    assert done.returncode == 0, done.stderr
    time.sleep(5)  # a change is valid within five seconds
    assert "othing was sent" in shop.chat(asked, shown, code_line(shown), key="revoked")
    assert shop.writes == []


def test_a_run_changes_something_only_without_a_confirmation(shop: Shop) -> None:
    reply = shop.run("cancelOrder", 30, "robot")
    assert (reply.status_code, reply.json()["outcome"], shop.sent) == (200, "ok", ["DELETE /orders/30"])
    for key, order, why in (("desk", 31, "needs a person's"), ("robot", 30, "was made a short time ago")):
        refused = shop.run("cancelOrder", order, key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "confirmation_required")
        assert why in refused.json()["error"]["message"]
        assert shop.sent == []
    unknown = shop.run("refundOrder", 30, "desk")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "operation_not_found")
    assert shop.run("cancelOrder", 32, "robot").json()["outcome"] == "ok"


@pytest.mark.parametrize(("key", "callable"), [("robot", {"cancelOrder", "refundOrder"}), ("desk", {"readOrder"})])
def test_callable_is_what_a_run_calls(shop: Shop, key: str, callable: set[str]) -> None:
    headers = {"authorization": f"Bearer {shop.keys[key]}"}
    listed = httpx.get(f"{shop.served.url}/v1/actions/sets/shop/operations", headers=headers, timeout=60).json()
    assert {one["id"] for one in listed["data"] if one["callable"]} == callable


def test_the_operator_sends_a_call_by_hand_after_it_was_shown(shop: Shop) -> None:
    folder = shop.served.data.parent
    words = ("actions", "run", "shop", "cancelOrder", "id=40", "--data", "data")
    shop.sent.clear()
    shown = ragway(*words, folder=folder)
    assert (shown.returncode, shop.sent) == (1, [])
    assert "DELETE http://127.0.0.1" in shown.stdout
    assert "nothing was sent: the same command with --yes sends this" in shown.stderr
    done = ragway(*words, "--yes", folder=folder)
    assert (done.returncode, shop.sent) == (0, ["DELETE /orders/40"]), done.stderr
    log = ragway("actions", "log", "--data", "data", folder=folder).stdout.splitlines()
    assert [line.split("  ")[4:] for line in log if "confirmed" in line][-1] == [
        "confirmed",
        "claimed",
        "no key by operator",
    ]


def test_the_log_keeps_contents_if_the_settings_say_so(shop: Shop) -> None:
    shop.run("cancelOrder", 50, "robot")
    logged = ragway("actions", "log", "--json", "--data", "data", folder=shop.served.data.parent)
    rows = [json.loads(line) for line in logged.stdout.splitlines()]
    assert "/orders/50" in str([row.get("content") for row in rows])
