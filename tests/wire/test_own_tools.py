"""The gateway's own tools and baked-in operations in chats, through a real gateway."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.action_clients import BY_CHAT, STREAMED, SdkChat
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import Json, ScriptedModel, Turn, calls, says
from tests.support.served_app import served

SETTINGS = """
embedder: {{model: hash}}
models:
  gpt-x: {{api_base: "{model}/v1"}}
  gpt-text: {{api_base: "{model}/v1", tools: text}}
actions:
  log: {{networks: ["127.0.0.0/8"], fixed: {{groupId: canary-group-1}}}}
  baked: {{networks: ["127.0.0.0/8"], always: [getEvents, getEvent]}}
action_calls: {{rounds: 4, result_chars: 2000, result_tokens: 1500, search_documents: true}}
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
        self.url, self.folder = served.url, served.data.parent
        self._recorder = recorder
        self.model: ScriptedModel

    def script(self, *turns: Turn) -> None:
        self.model = ScriptedModel(self._recorder.fresh(), turns)

    def ask(
        self,
        *messages: str,
        stream: bool = False,
        model: str = "rage/log/gpt-x",
        headers: Mapping[str, str] | None = None,
    ) -> str:
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

    def log(self) -> str:
        return self._served.log.read_text()

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
        (folder / "canteen.md").write_text("# Canteen\n\nLunch is at noon, and the canteen serves soup.\n")
        (folder / "garden.md").write_text("# Garden\n\nThe roses are red.\n")
        for command in (
            ("actions", "add", "log", "log.json"),
            ("actions", "add", "baked", "log.json"),
            ("ingest", "canteen.md"),
            ("ingest", "garden.md", "--collection", "other"),
        ):
            done = ragway(*command, "--data", "data", folder=folder)
            assert done.returncode == 0, done.stderr
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


@STREAMED
def test_a_model_without_tool_calls_reads_on(chats: Chats, stream: bool) -> None:
    def written(asked: Json) -> Json:
        texts = [str(one["content"]) for one in asked["messages"]]
        assert any("read_result: Read on in a result" in text for text in texts), "the tool is listed"
        return says(json.dumps({"name": "read_result", "arguments": {"id": id_in(texts), "path": "/results/7"}}))

    chats.script(says('{"name": "act_listEvents", "arguments": {}}'), written, says("Release 7."))
    question = "List all events of the project"  # a model without tool calls is offered what surely fits
    assert chats.ask(question, stream=stream, model="rage/log/gpt-text") == "Release 7."
    assert EVENTS[7]["by"] in str(chats.model.received[2]["messages"][-1]["content"])


@STREAMED
@BY_CHAT
def test_a_client_of_every_dialect_reads_on_and_searches_documents(
    chats: Chats, kind: type[SdkChat], stream: bool
) -> None:
    chats.script(
        calls(LIST),
        says("Many."),
        reads(path="/results/499"),
        calls(("search_documents", {"query": "canteen lunch"})),
        says("Release 499."),
    )
    chat = kind(chats.url, model="rage/log/gpt-x")
    assert chat.ask(f"{QUESTION} {kind.__name__} {stream}", stream=stream).text == "Many."
    reply = chat.ask("and the last one? And when is lunch?", stream=stream)
    assert reply.text == "Release 499."
    _, last, found = chats.results(4)
    assert json.loads(last) == EVENTS[499]
    assert "Lunch is at noon" in found
    assert "canteen.md" in reply.headers["x-rag-sources"]


def test_the_results_of_one_chat_have_a_limit_of_tokens(chats: Chats) -> None:
    chats.script(calls(LIST, LIST, LIST), calls(LIST, LIST, LIST), calls(LIST), says("Enough."))
    assert chats.ask(QUESTION) == "Enough."
    results = chats.results(3)
    assert sum(len(text.encode()) for text in results) / 4 < 1500 + 7 * (100 + 60)
    assert "shorter now" in results[-1]
    assert len(results[-1]) < 700


NOTHING_FITS = "zebra"


@pytest.mark.parametrize("stream", [False, True])
def test_baked_in_operations_stand_first_without_a_search(chats: Chats, stream: bool) -> None:
    chats.script(calls(("act_getEvent", {"eventId": "e5"})), says("Release 5."))
    assert chats.ask(f"{NOTHING_FITS} e5", stream=stream, model="rage/baked/raw/gpt-x") == "Release 5."
    assert chats.tools(0)[0] == "act_getEvent"
    assert chats.tools(0)[-1] == "find_actions"
    assert json.loads(chats.results(1)[0]) == EVENTS[5]


def test_a_set_without_baked_in_operations_keeps_the_gate(chats: Chats) -> None:
    chats.script(says("Hm."))
    chats.ask(NOTHING_FITS, model="rage/log/raw/gpt-x")
    assert chats.tools(0) == []


def test_a_chat_that_does_not_suit_gets_no_baked_in_operation(chats: Chats) -> None:
    chats.script(says("{}"))
    body = {
        "model": "rage/baked/raw/gpt-x",
        "messages": [{"role": "user", "content": QUESTION}],
        "n": 2,
    }
    assert httpx.post(f"{chats.url}/v1/chat/completions", json=body, timeout=60).status_code == 200
    assert chats.model.received == [{**body, "model": "gpt-x"}]


def test_a_baked_in_name_without_an_operation_is_logged_and_found_by_doctor(chats: Chats) -> None:
    problem = "getEvents is not an operation of the set"
    assert f"actions.baked.always: {problem}" in chats.log()
    found = ragway("doctor", "--data", "data", folder=chats.folder)
    assert f"actions.baked.always: {problem}: `ragway actions show baked` lists the operations" in found.stdout
    assert found.returncode == 1


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_searches_the_documents_of_the_chat(chats: Chats, stream: bool) -> None:
    chats.script(calls(("search_documents", {"query": "canteen lunch", "k": 1.0})), says("At noon."))
    assert chats.ask(NOTHING_FITS, stream=stream) == "At noon."
    assert chats.tools(0) == ["find_actions", "search_documents"], "also where no operation fits"
    (found,) = chats.results(1)
    assert found.startswith("[1] Canteen (source: ")
    assert "Lunch is at noon" in found
    assert "canteen.md" in chats.reply.headers["x-rag-sources"]
    assert chats.reply.headers["x-rag-actions"] == "search_documents"


def test_a_chat_without_passages_has_no_search_of_documents(chats: Chats) -> None:
    for model, headers in (("rage/log/raw/gpt-x", {}), ("rage/log/gpt-x", {"x-rag": "off"}), ("gpt-x", {})):
        chats.script(says("Hm."))
        chats.ask(QUESTION, model=model, headers=headers)
        assert "search_documents" not in chats.tools(0)


def test_the_search_of_documents_has_the_rights_of_the_chat(chats: Chats) -> None:
    chats.script(calls(("search_documents", {"query": "canteen lunch"})), says("Hm."))
    chats.ask(NOTHING_FITS, headers={"x-rag-collection": "other"})
    assert chats.results(1) == ["No passage was found."]


def test_a_search_without_words_finds_nothing(chats: Chats) -> None:
    chats.script(calls(("search_documents", {"query": "  "}), ("find_actions", {"query": "  "})), says("Hm."))
    chats.ask(NOTHING_FITS)
    assert chats.results(1) == ["No passage was found.", "No operation was found."]


def test_a_wrong_search_of_documents_gets_a_sentence(chats: Chats) -> None:
    chats.script(calls(("search_documents", {"k": 0})), says("Hm."))
    chats.ask(NOTHING_FITS)
    assert chats.results(1)[0].startswith("Nothing was done: query is missing")
