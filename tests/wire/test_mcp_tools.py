"""Chats whose model calls the tools of MCP servers, by clients of every dialect: over HTTP, and of a child process."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.action_clients import BY_CHAT, STREAMED, CompletionsChat, SdkChat
from tests.support.dialogues import CODE
from tests.support.gateway import PATIENCE_S, Served, ragway, serving
from tests.support.mcp_servers import COMMAND, ROOT, in_thread, tool_server
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, calls, says

SETTINGS = """
embedder: {{model: hash}}
server: {{log_level: debug}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions:
  box: {{mcp: "{server}", networks: ["127.0.0.0/8"], reads: [add, forecast, grow], writes: confirm}}
  local: {{mcp: [{command}], env: [PYTHONPATH], trust_hints: true}}
  lies: {{mcp: "http://127.0.0.1:9/mcp", networks: ["127.0.0.0/8"]}}
"""


@dataclass(slots=True)
class Team:
    served: Served
    recorder: Recorder

    def script(self, *turns: object) -> ScriptedModel:
        return ScriptedModel(self.recorder.fresh(), turns)  # type: ignore[arg-type]

    def logged(self, words: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while words not in self.served.log.read_text():
            assert time.monotonic() < until, self.served.log.read_text()
            time.sleep(0.1)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("mcp")
    command = ", ".join(map(json.dumps, COMMAND))
    with in_thread(tool_server()) as server, recording() as recorder:
        settings = SETTINGS.format(model=recorder.url, server=server, command=command)
        with serving(folder / "data", folder, settings, PYTHONPATH=str(ROOT)) as served:
            team = Team(served, recorder)
            for name in ("box", "local"):
                team.logged(f"actions.{name}.mcp")
            team.logged("actions.lies.mcp: ")
            yield team


@BY_CHAT
@STREAMED
@pytest.mark.parametrize("name", ["box", "local"])
def test_a_chat_calls_a_tool(team: Team, kind: type[SdkChat], stream: bool, name: str) -> None:
    model = team.script(calls(("act_add", {"a": 17, "b": 25})), says("It is 42."))
    reply = kind(team.served.url, f"rage/{name}/gpt-x").ask("what do you get if you add 17 and 25?", stream=stream)
    assert (reply.text, reply.calls) == ("It is 42.", ())
    assert reply.headers["x-rag-actions"] == f"{name}/add"
    assert model.received[1]["messages"][-1]["content"] == "42"
    (tool,) = [one["function"] for one in model.received[0]["tools"] if one["function"]["name"] == "act_add"]
    assert tool["parameters"]["required"] == ["a", "b"]
    assert "<|im_start|>" not in tool["description"]


@BY_CHAT
def test_a_tool_that_changes_something_waits_for_the_person(team: Team, kind: type[SdkChat]) -> None:
    text = f"buy milk for {kind.__name__}"
    team.script(calls(("act_note", {"text": text})), says("Noted."))
    chat = kind(team.served.url, "rage/box/gpt-x")
    asked = chat.ask(f"write a note on the board: {text}").text
    assert "Nothing has been sent yet." in asked
    assert text in asked
    assert "MCP http" in asked
    assert "/mcp/note" in asked
    code = CODE.search(asked)
    assert code is not None
    assert "Noted." in chat.ask(f"confirm {code[0]}").text


def test_a_cut_result_is_read_on(team: Team) -> None:
    model = team.script(calls(("act_forecast", {"city": "Bonn"})), says("Warm."))
    CompletionsChat(team.served.url, "rage/local/gpt-x").ask("what is the weather forecast of the city Bonn?")
    result = model.received[1]["messages"][-1]["content"]
    assert '"city":"Bonn"' in result
    assert "act_read_result" in result or len(result) < 8_000


def test_a_hint_counts_as_a_change_unless_it_is_trusted(team: Team) -> None:
    done = ragway("actions", "show", "box", "--json", folder=team.served.data.parent)
    reads = {row["name"]: row["reads"] for row in json.loads(done.stdout)}
    assert (reads["add"], reads["note"]) == (True, False)
    done = ragway("actions", "show", "local", "--json", folder=team.served.data.parent, environ={"PYTHONPATH": "x"})
    assert all(row["reads"] for row in json.loads(done.stdout))


def test_a_tool_is_run_over_http_and_by_hand(team: Team) -> None:
    url = f"{team.served.url}/v1/actions/sets/box/operations/add/run"
    reply = httpx.post(url, json={"arguments": {"a": 1, "b": 2}}, timeout=60).json()
    assert (reply["text"], reply["outcome"]) == ("3", "ok")
    done = ragway("actions", "run", "box", "add", "a=1", "b=2", folder=team.served.data.parent)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    done = ragway("actions", "run", "box", "add", "a=1", "b=2", "--dry", folder=team.served.data.parent)
    assert '{"name":"add","arguments":{"a":1,"b":2}}' in done.stdout


def test_a_client_puts_no_document_into_the_set_of_a_server(team: Team) -> None:
    reply = httpx.put(f"{team.served.url}/v1/actions/sets/box", json={"openapi": "3.1.0"}, timeout=60)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "action_set_of_settings")


def test_an_added_tool_is_offered_without_a_restart(team: Team) -> None:
    url = f"{team.served.url}/v1/actions/sets/box/operations"
    assert httpx.post(f"{url}/grow/run", json={}, timeout=60).json()["outcome"] == "ok"
    until = time.monotonic() + PATIENCE_S
    while httpx.get(f"{url}/grown", timeout=60).status_code != 200:
        assert time.monotonic() < until, team.served.log.read_text()
        time.sleep(0.2)


def test_a_server_that_is_away_is_a_line_of_the_log(team: Team) -> None:
    lines = [line for line in team.served.log.read_text().splitlines() if "actions.lies.mcp" in line]
    assert re.search(r"the tools are not listed: no connection", lines[0])
    assert len(lines) == 1


def test_a_command_of_the_settings_is_added_by_hand(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {box: {mcp: 'no-such-program --x'}}")
    done = ragway("actions", "add", "box", folder=tmp_path)
    assert done.returncode != 0
    assert "the server cannot be started (No such file or directory); nothing is changed" in done.stderr
    done = ragway("actions", "add", "box", "openapi.yaml", folder=tmp_path)
    assert "actions.box.mcp names the server" in done.stderr
