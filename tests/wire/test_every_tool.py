"""One chat with documents, an API, an MCP server, tables, small tools and the client's own tool at once."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.action_clients import BY_CHAT, STREAMED, WEATHER, CompletionsChat, SdkChat
from tests.support.gateway import PATIENCE_S, Served, ragway, serving
from tests.support.mcp_servers import COMMAND, ROOT
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, Turn, calls, says
from tests.support.shop_api import document, shop_api
from tests.wire.test_tables import SQL, shop

SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
retrieval: {{collections: [docs]}}
actions:
  orders: {{networks: ["127.0.0.0/8"], always: [getOrder]}}
  box: {{mcp: [{command}], env: [PYTHONPATH], trust_hints: true, always: [add]}}
tables:
  shop: {{url: "sqlite:///{folder}/shop.sqlite", tables: [sales, products], hide: [products.margin]}}
tools: [calculator]
"""
QUESTION = (
    "how many units of Fruity Fedora were sold in the last 7 days, what is 12 % of them if you add 17 and 25, "
    "and where is the order 17?"
)
ANSWER = "12 units; 42; the order is on its way."


@dataclass(slots=True)
class Everything:
    served: Served
    recorder: Recorder

    def script(self, *turns: Turn) -> ScriptedModel:
        return ScriptedModel(self.recorder.fresh(), turns)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("everything")
    shop(folder / "shop.sqlite")
    (folder / "fedora.md").write_text("# Fruity Fedora\n\nThe Fruity Fedora is a hat that units of hats are sold of.\n")
    with shop_api(folder / "orders.db") as api, recording() as recorder:
        settings = SETTINGS.format(model=recorder.url, folder=folder, command=", ".join(map(json.dumps, COMMAND)))
        (folder / "ragway.yaml").write_text(settings)
        (folder / "orders.json").write_text(json.dumps(document(api.url)))
        for words in (["ingest", "fedora.md", "--collection", "docs"], ["actions", "add", "orders", "orders.json"]):
            done = ragway(*words, "--data", "data", folder=folder)
            assert done.returncode == 0, done.stderr
        with serving(folder / "data", folder, settings, PYTHONPATH=str(ROOT)) as served:
            until = time.monotonic() + PATIENCE_S
            while any(word not in served.log.read_text() for word in ("actions.box.mcp", "tables.shop: 2 added")):
                assert time.monotonic() < until, served.log.read_text()
                time.sleep(0.1)
            yield Everything(served, recorder)


@BY_CHAT
@STREAMED
def test_one_chat_has_tools_of_every_kind(team: Everything, kind: type[SdkChat], stream: bool) -> None:
    model = team.script(
        calls(
            ("query_tables", {"sql": SQL}),
            ("calculator", {"expression": "12% of 42"}),
            ("act_add", {"a": 17, "b": 25}),
            ("act_getOrder", {"orderId": "17"}),
        ),
        says(ANSWER),
    )
    chat = kind(team.served.url, "rage/orders,box,shop/gpt-x")
    chat.tools = True
    reply = chat.ask(QUESTION, stream=stream)
    assert (reply.text, reply.calls) == (ANSWER, ())
    assert reply.headers["x-rag-status"] == "augmented"
    offered = [one["function"]["name"] for one in model.received[0]["tools"]]
    assert offered[0] == WEATHER, "the client's own tool is first, as the client sent it"
    assert {"query_tables", "calculator", "act_add", "act_getOrder"} <= set(offered)
    results = [one["content"] for one in model.received[1]["messages"] if one["role"] == "tool"]
    assert [text.splitlines()[-1] for text in results[:3]] == ["1012", "5.04", "42"]
    assert "MUG-BLUE" in results[3]
    assert set(reply.headers["x-rag-actions"].split(",")) == {
        "shop/query_tables", "calculator", "box/add", "orders/getOrder",
    }  # fmt: skip


def test_a_question_of_documents_alone_is_offered_documents_alone(team: Everything) -> None:
    model = team.script(says("A hat."))
    reply = CompletionsChat(team.served.url, "gpt-x").ask("Is a Fruity Fedora a hat?")
    assert (reply.text, reply.headers["x-rag-status"]) == ("A hat.", "augmented")
    assert "tools" not in model.received[0]
