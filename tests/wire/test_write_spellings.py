"""Models without tool calls that call what changes something, in every spelling: shown, confirmed, sent once."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from proxy.asgi import Receive, Scope, Send
from tests.support.action_team import serving_sets
from tests.support.call_spellings import SPELLINGS
from tests.support.gateway import Served
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import Json, ScriptedModel, Turn, says
from tests.support.served_app import served

SETTINGS = """
embedder: {{model: hash}}
models:
  gpt-text: {{api_base: "{model}/v1", tools: text}}
  gpt-learns: {{api_base: "{model}/v1"}}
actions: {{things: {{networks: ["127.0.0.0/8"], writes: confirm, always: [a, ab]}}}}
"""
NO_TOOLS = {"error": {"message": "this model does not support tools"}}
JSON = '{"name": "act_a", "arguments": {"x": 1}}'
WAYS: list[tuple[str, list[Turn]]] = [("gpt-text", [says(JSON)]), ("gpt-learns", [NO_TOOLS, says(JSON)])]
WAYS += [("gpt-text", [says(spelled)]) for spelled in SPELLINGS.values()]


def _deletes(id: str, name: str, kind: str) -> Json:
    parameter = {"name": name, "in": "query", "required": True, "schema": {"type": kind}}
    return {"delete": {"operationId": id, "summary": f"Delete the {id}", "parameters": [parameter]}}


class Things:
    """A gateway, the model behind it, and an API that keeps its requests."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.served: Served
        self.sent: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The API."""
        self.sent.append(f"{scope['method']} {scope['path']}?{scope['query_string'].decode()}")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def chat(self, model: str, turns: list[Turn], *said: str) -> str:
        """The reply to a conversation, whose texts are by turns of the person and of the assistant."""
        scripted = ScriptedModel(self._recorder.fresh(), turns)
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
        body = {"model": f"rage/things/{model}", "messages": messages}
        reply = httpx.post(f"{self.served.url}/v1/chat/completions", json=body, timeout=60)
        assert reply.status_code == 200, reply.text
        assert len(scripted.received) == len(turns)
        return str(reply.json()["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Things]:
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording())
        one = Things(recorder)
        api = f"http://127.0.0.1:{stack.enter_context(served(one))}"
        paths = {"/a": _deletes("a", "x", "number"), "/ab": _deletes("ab", "y", "string")}
        document: Any = {"openapi": "3.1.0", "info": {"title": "Things", "version": "1"}, "servers": [{"url": api}]}
        sets = {"things": {**document, "paths": paths}}
        folder = tmp_path_factory.mktemp("spellings")
        one.served = stack.enter_context(serving_sets(folder, SETTINGS.format(model=recorder.url), sets))
        yield one


@pytest.mark.parametrize(("model", "turns"), WAYS, ids=["the form asked for", "learned", *SPELLINGS])
def test_a_call_as_text_is_shown_and_sent_once_it_is_confirmed(things: Things, model: str, turns: list[Turn]) -> None:
    question = "Delete thing a with x 1, and thing ab with y z."
    things.sent.clear()
    shown = things.chat(model, turns, question)
    (line,) = re.findall(r"answer: (confirm [A-Z2-7]{4}-[A-Z2-7]{4})$", shown, re.MULTILINE)
    assert "DELETE " in shown
    assert things.sent == []
    assert things.chat(model, [says("Done.")], question, shown, line) == "Done."
    assert things.sent.count("DELETE /a?x=1") == 1
    assert "used before" in things.chat(model, [], question, shown, line)
    assert things.sent.count("DELETE /a?x=1") == 1
