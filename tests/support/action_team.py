"""A team with actions, for whole gateways: an action set of a digest API, and a model with scripted answers.

with action_team(folder) as team:
    team.script(calls(USERS), says("Ann and Ben."))
    ... team.ask() ... team.model.received ... team.api.seen
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import openai

from tests.support.atlas_api import GROUP, ORG, PASSWORD, USER, AtlasApi, atlas_api, document
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Answer, Recorder, recording
from tests.support.scripted_model import USAGE, ScriptedModel, Turn

SETTINGS = """
embedder: {{model: hash}}
server: {{log_level: debug}}
models:
  gpt-x: {{api_base: "{model}/v1"}}
  gpt-without-*: {{api_base: "{model}/v1"}}
  gpt-native: {{api_base: "{model}/v1", tools: native}}
  gpt-text: {{api_base: "{model}/v1", tools: text}}
  gpt-none: {{api_base: "{model}/v1", tools: none}}
  claude-x: {{api_base: "{model}/v1"}}
  gpt-chat-alone: {{api_base: "{model}/v1", dialects: [chat]}}
  gemini-x: {{model: gemini/gemini-3-pro-preview, lane: translated, api_base: "{model}"}}
  gpt-translated: {{model: openai/gpt-x, lane: translated, api_base: "{model}/v1"}}
  gpt-no-chat: {{api_base: "{model}/v1", dialects: [responses, messages]}}
actions:
  atlas:
    auth: digest
    user_env: ATLAS_USER
    secret_env: ATLAS_PASSWORD
    fixed: {{groupId: {group}}}
    networks: ["127.0.0.0/8"]
  weather: {{auth: digest, user_env: ATLAS_USER, secret_env: ATLAS_PASSWORD, networks: ["127.0.0.0/8"]}}
  unread: {{}}
action_calls: {{rounds: 3, keepalive_s: 1.0}}
"""
QUESTION = "who are the users in my organization?"
ORGS: tuple[str, dict[str, Any]] = ("act_listOrganizations", {})
USERS: tuple[str, dict[str, Any]] = ("act_listUsers", {"orgId": ORG})
ANSWER = "The users are Ann and Ben."
CANARIES = (USER, PASSWORD, GROUP)
SECRETS = {"ATLAS_USER": USER, "ATLAS_PASSWORD": PASSWORD}
CLIENT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
TRIP = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {
        "/shirts": {
            "get": {
                "operationId": "weatherOfCity",
                "summary": "Return the weather of a city",
                "parameters": [
                    {"name": "size", "in": "query", "required": True, "schema": {"type": "string", "enum": ["Bonn"]}}
                ],
            }
        }
    },
}


class Team:
    """A gateway with an action set, the API, and the model."""

    def __init__(self, served: Served, api: AtlasApi, recorder: Recorder) -> None:
        self.served = served
        self.api = api
        self._recorder = recorder
        self.model: ScriptedModel

    def script(
        self, *turns: Turn, one_byte: bool = False, missing: str = "", usage: Mapping[str, Any] = USAGE
    ) -> ScriptedModel:
        self.api.seen.clear()
        self.api.accepted.clear()
        self.model = ScriptedModel(self._recorder.fresh(), turns, one_byte=one_byte, missing=missing, usage=usage)
        return self.model

    def answered_by(self, answer: Answer) -> None:
        """Answer the model's requests."""
        self.api.seen.clear()
        self._recorder.fresh().answer = answer

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.served.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def ask(self, question: str = QUESTION, *, model: str = "rage/atlas/gpt-x", **more: Any) -> Any:
        """The parsed completion of the SDK, with the headers."""
        with self.client() as client:
            given: Any = [{"role": "user", "content": question}]
            return client.chat.completions.with_raw_response.create(model=model, messages=given, **more)

    def stream(self, question: str = QUESTION, *, model: str = "rage/atlas/gpt-x", **more: Any) -> list[Any]:
        """The chunks of the SDK."""
        with self.client() as client:
            given: Any = [{"role": "user", "content": question}]
            chunks: Any = client.chat.completions.create(
                model=model, messages=given, stream=True, stream_options={"include_usage": True}, **more
            )
            return list(chunks)

    @property
    def paths(self) -> list[str]:
        """The paths of the requests that the model got."""
        return [request.line.split()[1].decode() for request in self._recorder.requests]

    @property
    def asked(self) -> list[bytes]:
        """The bodies of the requests that the model got."""
        return [request.body for request in self._recorder.requests]

    def tools(self, number: int = 0) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.received[number].get("tools", [])]


@contextlib.contextmanager
def action_team(folder: Path, settings: str = SETTINGS) -> Iterator[Team]:
    """A team with a gateway of its own."""
    with atlas_api() as api, recording() as recorder:
        settings = settings.format(model=recorder.url, group=GROUP)
        sets = {"atlas": document(api.url), "weather": {**TRIP, "servers": [{"url": api.url}]}}
        with serving_sets(folder, settings, sets, **SECRETS) as served:
            yield Team(served, api, recorder)


@contextlib.contextmanager
def serving_sets(folder: Path, settings: str, sets: Mapping[str, Any], **environ: str) -> Iterator[Served]:
    """`serving`, with action sets. sets: name -> document."""
    (folder / "ragway.yaml").write_text(settings)
    for name, one in sets.items():
        (folder / f"{name}.json").write_text(json.dumps(one))
        added = ragway("actions", "add", name, f"{name}.json", "--data", "data", folder=folder, environ=environ)
        assert added.returncode == 0, added.stderr
    with serving(folder / "data", folder, settings, **environ) as served:
        yield served
