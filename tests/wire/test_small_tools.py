"""The tools of the setting `tools`, without an action set: real gateways, SDKs of every dialect, a scripted model."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.action_clients import BY_CHAT, STREAMED, WEATHER, CompletionsChat, SdkChat
from tests.support.gateway import PATIENCE_S, ROOT, Served, ragway, refused, serving
from tests.support.installed import package
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import USAGE, Json, ScriptedModel, Turn, calls, says

SETTINGS = """
embedder: {{model: hash}}
models:
  gpt-x: {{api_base: "{model}/v1"}}
  gpt-text: {{api_base: "{model}/v1", tools: text}}
tools: {{calculator: auto, dates: auto, units: auto, acme-roman: auto, slow: always}}
action_calls: {{call_s: 5.0}}
"""
QUESTION = "What is 199,999 / 292?"
SUM: tuple[str, Json] = ("calculator", {"expression": "199,999 / 292"})
RESULT = "about 684.9280821917808219178082192 (exactly 199999/292)"
ACME = """
import asyncio

from proxy.agent.toolbox import Calling, Done, Tool, arguments_schema


class Roman(Tool):
    name = "roman"
    description = "Write a number in Roman numerals"
    schema = arguments_schema("number", number={"type": "integer", "minimum": 1, "maximum": 3999})

    def suits(self, question: str) -> bool:
        return "roman" in question.lower()

    async def call(self, arguments, calling: Calling):
        assert calling.chat.exchange.model, "the chat is known"
        rest, text = arguments["number"], ""
        for value, letters in ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
                               (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
            while rest >= value:
                rest, text = rest - value, text + letters
        return Done(text)


class Slow(Tool):
    name = "slow"
    description = "Take a minute"
    schema = arguments_schema(how={"type": "string"})

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def suits(self, question: str) -> bool:
        return False

    async def call(self, arguments, calling: Calling):
        if arguments.get("how") == "broken":
            raise RuntimeError("of the package")
        await asyncio.sleep(self.seconds)
        return Done("done")


def slow() -> Tool:
    return Slow(60)
"""


POINTS = "acme-roman = acme_tools:Roman\nslow = acme_tools:slow\n"


class Chats:
    """A gateway with tools, and the model."""

    def __init__(self, served: Served, recorder: Recorder) -> None:
        self.served, self._recorder = served, recorder
        self.model: ScriptedModel

    def script(self, *turns: Turn) -> None:
        self.model = ScriptedModel(self._recorder.fresh(), turns)

    @property
    def asked(self) -> list[bytes]:
        return [request.body for request in self._recorder.requests]

    def tools(self, number: int = 0) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.received[number].get("tools", [])]

    def results(self, number: int) -> list[str]:
        return [one["content"] for one in self.model.received[number]["messages"] if one["role"] == "tool"]

    def post(self, question: str, model: str = "gpt-x", **headers: str) -> httpx.Response:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": question}]}).encode()
        reply = self.served.post(body, **headers)
        assert reply.status_code == 200, reply.text
        return reply


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    folder = tmp_path_factory.mktemp("tools")
    site = package(folder / "site", POINTS, ACME)
    with recording() as recorder:
        settings = SETTINGS.format(model=recorder.url)
        (folder / "canteen.md").write_text("# Canteen\n\nLunch is at noon, and the canteen serves soup.\n")
        done = ragway("ingest", "canteen.md", "--data", "data", folder=folder)
        assert done.returncode == 0, done.stderr
        with serving(folder / "data", folder, settings, PYTHONPATH=f"{ROOT}:{site}") as gateway:
            yield Chats(gateway, recorder)


@BY_CHAT
@STREAMED
def test_a_sum_comes_from_the_calculator_and_the_next_question_keeps_it(
    chats: Chats, kind: type[SdkChat], stream: bool
) -> None:
    chats.script(calls(SUM), says("684.93"), calls(("calculator", {"expression": "684.93 + 5%"})), says("719.18"))
    chat = kind(chats.served.url, model="gpt-x")
    reply = chat.ask(f"{QUESTION} {kind.__name__} {stream}", stream=stream)
    assert (reply.text, reply.calls) == ("684.93", ())
    assert chats.tools() == ["calculator", "slow"], "in the order of the settings"
    assert chats.results(1) == [RESULT]
    assert reply.headers["x-rag-actions"] == "calculator"
    assert reply.tokens == (2 * USAGE["prompt_tokens"], 2 * USAGE["completion_tokens"]), "the sum of both rounds"
    assert chat.ask("and with the surcharge?", stream=stream).text == "719.18"
    assert chats.tools(2) == chats.tools(1), "the tools of the conversation stay"
    assert chats.results(3) == [RESULT, "719.1765"]


@STREAMED
def test_a_model_without_tool_calls_computes(chats: Chats, stream: bool) -> None:
    def written(asked: Json) -> Json:
        assert "calculator: Compute an expression exactly" in str(asked["messages"])
        return says(json.dumps({"name": SUM[0], "arguments": SUM[1]}))

    chats.script(written, says("684.93"))
    body = {"model": "gpt-text", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    reply = chats.served.post(json.dumps(body).encode())
    assert "684" in reply.text
    assert RESULT in str(chats.model.received[1]["messages"][-1]["content"])
    assert chats.tools(0) == []


def test_several_tools_answer_one_question(chats: Chats) -> None:
    given: list[tuple[str, Json]] = [
        ("units", {"quantity": "5 miles", "to": "km"}),
        ("dates", {"do": "add", "date": "2024-01-31", "amount": "1 month"}),
        ("calculator", {"expression": "2 ** 10"}),
        ("roman", {"number": 1994}),
    ]
    chats.script(calls(*given), says("Done."))
    reply = chats.post("5 miles in km, 2 ^ 10, 1994 in Roman numerals, and what is today plus 1 month?")
    assert chats.results(1) == [
        "5 mile = 8.04672 kilometer",
        "2024-02-29 (Thursday, ISO week 2024-W09, day 60 of 366). The month has no day 31",
        "1024",
        "MCMXCIV",
    ]
    assert reply.headers["x-rag-actions"] == "units,dates,calculator,roman"
    assert "call-4;dur=" in reply.headers["server-timing"]
    until = time.monotonic() + PATIENCE_S
    while (found := chats.served.get(f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}")).status_code != 200:
        assert time.monotonic() < until, found.text
        time.sleep(0.1)
    lines = [one for one in chats.served.log.read_text().splitlines() if reply.headers["x-rag-id"] in one]
    assert any("actions=units,dates,calculator,roman" in one for one in lines), "written before the receipt"
    made = found.json()["actions"]["calls"]
    assert [(one["operation"], one["outcome"], one["result"]) for one in made][2:] == [
        ("calculator", "ok", "1024"),
        ("roman", "ok", "MCMXCIV"),
    ]


def test_a_client_that_wants_progress_gets_a_line_for_each_tool(chats: Chats) -> None:
    chats.script(calls(SUM, ("calculator", {"expression": "x"})), says("684.93"))
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    text = chats.served.post(json.dumps(body).encode(), x_rag_progress="on").text
    assert "calculator ok" in text
    assert "calculator invalid_arguments" not in text, "nothing ran"


def test_a_wrong_call_says_what_to_write_and_is_no_action(chats: Chats) -> None:
    chats.script(calls(("calculator", {"expression": "price * 2"}), ("calculator", {"sum": 1})), says("Hm."))
    reply = chats.post(QUESTION)
    first, second = chats.results(1)
    assert first.startswith("Nothing was computed: 'price' is not known. Write numbers for names")
    assert second.startswith("Nothing was done: expression is missing")
    assert "x-rag-actions" not in reply.headers


def test_a_tool_that_hangs_or_breaks_costs_its_call(chats: Chats) -> None:
    chats.script(calls(("slow", {}), ("slow", {"how": "broken"}), SUM), says("Hm."))
    chats.post(QUESTION)
    hung, broken, result = chats.results(1)
    assert hung == "slow did not answer within 5 s. Go on without it."
    assert broken.startswith("The call failed: the gateway has a fault")
    assert result == RESULT


def test_a_tool_of_the_client_keeps_its_name(chats: Chats) -> None:
    own = {"type": "function", "function": {"name": "calculator", "parameters": {"type": "object", "properties": {}}}}
    body: dict[str, Any] = {"model": "gpt-x", "messages": [{"role": "user", "content": QUESTION}], "tools": [own]}
    chats.script(calls(("calculator_2", SUM[1])), calls(("calculator", {})))
    reply = chats.served.post(json.dumps(body).encode()).json()["choices"][0]["message"]
    assert set(chats.tools(0)) == {"calculator", "calculator_2", "slow"}
    assert chats.results(1) == [RESULT]
    assert [one["function"]["name"] for one in reply["tool_calls"]] == ["calculator"]


def test_calls_of_a_tool_wait_for_the_clients_results(chats: Chats) -> None:
    chats.script(calls(SUM, (WEATHER, {})), says("684.93, and sunny."))
    chat = CompletionsChat(chats.served.url, model="gpt-x", tools=True)
    first = chat.ask(f"{QUESTION} And the weather?")
    assert [one.name for one in first.calls] == [WEATHER]
    assert chat.results((first.calls[0].id, "sunny")).text == "684.93, and sunny."
    assert set(chats.results(1)) == {RESULT, "sunny"}


@pytest.fixture(scope="module")
def quiet(chats: Chats, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    """A gateway whose tools are all offered only where a question needs them."""
    folder = tmp_path_factory.mktemp("quiet")
    with recording() as recorder:
        settings = SETTINGS.format(model=recorder.url).replace(", acme-roman: auto, slow: always", "")
        (folder / "canteen.md").write_text("# Canteen\n\nLunch is at noon, and the canteen serves soup.\n")
        done = ragway("ingest", "canteen.md", "--data", "data", folder=folder)
        assert done.returncode == 0, done.stderr
        with serving(folder / "data", folder, settings) as gateway:
            yield Chats(gateway, recorder)


def test_a_question_of_documents_is_offered_documents_alone(quiet: Chats) -> None:
    quiet.script(says("At noon."), says("Hm."))
    reply = quiet.post("When does the canteen serve lunch?")
    assert reply.headers["x-rag-status"] == "augmented"
    assert "x-rag-actions" not in reply.headers
    assert quiet.tools() == []
    sent = b'{"model": "gpt-x" , "messages": [{"role":"user","content":"zebra?"}]}'
    assert quiet.served.post(sent).status_code == 200
    assert quiet.asked[-1] == sent, "byte for byte"


@pytest.mark.parametrize(
    ("model", "headers"), [("raw/gpt-x", {}), ("gpt-x", {"x_rag": "off"}), ("gpt-x", {"x_rag_actions": "off"})]
)
def test_a_chat_can_do_without_tools(quiet: Chats, model: str, headers: dict[str, str]) -> None:
    quiet.script(says("684.93"))
    quiet.post(QUESTION, model, **headers)
    assert quiet.tools() == []


def test_a_tool_stays_in_its_conversation(quiet: Chats) -> None:
    quiet.script(says("About 685."), says("At noon."))
    said: list[dict[str, object]] = [{"role": "user", "content": QUESTION}]
    assert quiet.served.chat(*said, model="gpt-x").status_code == 200
    said += [{"role": "assistant", "content": "About 685."}, {"role": "user", "content": "And when is lunch?"}]
    assert quiet.served.chat(*said, model="gpt-x").status_code == 200
    assert quiet.tools(1) == quiet.tools(0) == ["calculator"], "providers cache by prefix"


def test_a_broken_package_is_named_at_the_start(tmp_path: Path) -> None:
    site = package(tmp_path / "site", "roman = acme_tools:roman\n", "import nothing_of_this_name\n")
    settings = "embedder: {model: hash}\ntools: [roman]\n"
    with (
        pytest.raises(AssertionError, match="serve ended"),
        serving(tmp_path / "data", tmp_path, settings, PYTHONPATH=f"{ROOT}:{site}"),
    ):
        pass
    said = "tools: 'roman' of the package acme-tools 1.2 cannot be loaded: ModuleNotFoundError: No module named"
    assert said in (tmp_path / "serve.log").read_text()


def test_an_unknown_tool_ends_the_start_with_the_names_of_all(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text("embedder: {model: hash}\ntools: [calculater]\n")
    done = ragway("serve", "--port", "0", "--data", "data", folder=tmp_path)
    assert "there is no tool 'calculater'; there are: calculator, dates, units" in refused(done)
