"""The gateway's own tools in chats, through a real gateway: reading on in a cut result."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import Json, ScriptedModel, Turn, calls, says
from tests.support.served_app import served

SETTINGS = """
embedder: {{model: hash}}
models:
  gpt-x: {{api_base: "{model}/v1"}}
actions:
  log: {{networks: ["127.0.0.0/8"], fixed: {{groupId: canary-group-1}}}}
action_calls: {{rounds: 4, result_chars: 2000, result_tokens: 1500}}
"""
SECRET = "canary-group-1"
EVENTS = [{"id": f"e{n}", "what": f"deployed release {n}", "by": f"person{n}@example.com"} for n in range(500)]
DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Log", "version": "1"},
    "paths": {
        "/events": {
            "get": {
                "operationId": "listEvents",
                "summary": "List all events of the project",
                "responses": {"200": {"description": "OK"}},
            }
        },
        "/events/{eventId}": {
            "get": {
                "operationId": "getEvent",
                "summary": "One event of the project",
                "parameters": [{"name": "eventId", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "OK"}},
            }
        },
    },
}
QUESTION = "which events does the project have?"
LIST: tuple[str, Json] = ("act_listEvents", {})


async def events(_: Request) -> JSONResponse:
    return JSONResponse({"group": SECRET, "results": EVENTS})


async def event(request: Request) -> JSONResponse:
    return JSONResponse(EVENTS[int(request.path_params["id"][1:])])


class Chats:
    """A gateway with an API and a scripted model."""

    def __init__(self, served: Served, recorder: Recorder) -> None:
        self._served = served
        self._recorder = recorder
        self.model: ScriptedModel

    def script(self, *turns: Turn) -> None:
        self.model = ScriptedModel(self._recorder.fresh(), turns)

    def ask(self, *messages: str, stream: bool = False, model: str = "rage/log/gpt-x", **headers: str) -> str:
        """The answer to a conversation of the user and the model, in turns."""
        given = [{"role": "user" if at % 2 == 0 else "assistant", "content": one} for at, one in enumerate(messages)]
        reply = httpx.post(
            f"{self._served.url}/v1/chat/completions",
            json={"model": model, "messages": given, "stream": stream},
            headers=headers,
            timeout=60,
        )
        assert reply.status_code == 200, reply.text
        self.reply = reply
        if not stream:
            return str(reply.json()["choices"][0]["message"]["content"])
        chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        return "".join(str(chunk["choices"][0]["delta"].get("content") or "") for chunk in chunks)

    def tools(self, number: int) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.received[number].get("tools", [])]

    def results(self, number: int) -> list[str]:
        """The results of tools in a request of the gateway."""
        return [one["content"] for one in self.model.received[number]["messages"] if one["role"] == "tool"]


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    folder = tmp_path_factory.mktemp("own_tools")
    app = Starlette(routes=[Route("/events", events), Route("/events/{id}", event)])
    with served(app) as port, recording() as recorder:
        settings = SETTINGS.format(model=recorder.url)
        (folder / "ragway.yaml").write_text(settings)
        (folder / "log.json").write_text(json.dumps({**DOCUMENT, "servers": [{"url": f"http://127.0.0.1:{port}"}]}))
        added = ragway("actions", "add", "log", "log.json", "--data", "data", folder=folder)
        assert added.returncode == 0, added.stderr
        with serving(folder / "data", folder, settings) as gateway:
            yield Chats(gateway, recorder)


def id_in(results: list[str]) -> str:
    """The id of the newest cut result."""
    return str(re.findall(r"read_result with the id (\w+)", " ".join(results))[-1])


def reads(**place: Any) -> Turn:
    """The model reads on in the newest cut result."""

    def turn(asked: Json) -> Json:
        results = [one["content"] for one in asked["messages"] if one["role"] == "tool"]
        return calls(("read_result", {"id": id_in(results), **place}))

    return turn


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_reads_on_in_a_cut_result_by_words_and_by_place(chats: Chats, stream: bool) -> None:
    chats.script(
        calls(LIST),
        reads(query="person321@example.com"),
        reads(path="/results/321-322"),
        calls(("act_getEvent", {"eventId": "e322"})),
        says("Release 322."),
    )
    assert chats.ask(QUESTION, stream=stream) == "Release 322."
    assert "read_result" not in chats.tools(0), "the tool is offered after the first cut result"
    assert chats.tools(1) == [*chats.tools(0), "read_result"], "tools are only appended"
    cut, found, rows, one = chats.results(4)
    assert len(cut) < 2300
    assert "… " in cut
    assert found.splitlines()[1].startswith('/results/321: {"id":"e321"')
    assert json.loads(rows) == EVENTS[321:323]
    assert json.loads(one) == EVENTS[322], "a value of the shelf may be sent"
    assert SECRET not in json.dumps(chats.model.received)


@pytest.mark.parametrize("stream", [False, True])
def test_a_later_question_reads_the_result_of_an_earlier_question(chats: Chats, stream: bool) -> None:
    first = f"{QUESTION} Streamed: {stream}"
    chats.script(calls(LIST), says("Many."), reads(path="/results/499"), says("Release 499."), says("Hm."))
    assert chats.ask(first, stream=stream) == "Many."
    assert chats.ask(first, "Many.", "and the last one?", stream=stream) == "Release 499."
    assert "read_result" in chats.tools(2), "the tool stays in the conversation"
    assert chats.tools(2)[: len(chats.tools(1))] == chats.tools(1)
    assert json.loads(chats.results(3)[-1]) == EVENTS[499]
    chats.ask(QUESTION, stream=stream)
    assert "read_result" not in chats.tools(4), "another chat has no shelf"


def test_the_results_of_one_chat_have_a_limit_of_tokens(chats: Chats) -> None:
    chats.script(calls(LIST, LIST, LIST), calls(LIST, LIST, LIST), calls(LIST), says("Enough."))
    assert chats.ask(QUESTION) == "Enough."
    results = chats.results(3)
    assert sum(len(text.encode()) for text in results) / 4 < 1500 + 7 * (100 + 60)
    assert "shorter now" in results[-1]
    assert len(results[-1]) < 700
