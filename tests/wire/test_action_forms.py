"""Calls in every form that providers write, through a real gateway: the API gets the right requests, or no request."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.action_team import serving_sets
from tests.support.delta_forms import FORMS, DeltaForm, FormedCall, frames, whole
from tests.support.gateway import Served
from tests.support.recording_upstream import Recorder, recording
from tests.support.served_app import served as served_app
from tests.support.upstream_servers import Received, Wire, chunked, head, reply, single_bytes

SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions: {{blog: {{networks: ["127.0.0.0/8"]}}}}
"""
USER = "u-77"
QUESTION = f"Which posts about ice cream has the user {USER}, and which users are active?"
GOLD = (
    FormedCall("call_a", "act_listPosts", json.dumps({"userId": USER, "tags": ["ice cream", "é"]})),
    FormedCall("call_b", "act_findUsers", json.dumps({"state": "active", "limit": 3})),
)
REQUESTS = ["GET /users/u-77/posts?tags=ice%20cream&tags=%C3%A9", "GET /users?state=active&limit=3"]
PLAIN = next(form for form in FORMS if form.name == "OpenAI")


def document(url: str) -> dict[str, Any]:
    def parameter(name: str, place: str, schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
        return {"name": name, "in": place, "required": required, "schema": schema}

    tags = {"type": "array", "items": {"type": "string"}}
    posts = [parameter("userId", "path", {"type": "string"}), parameter("tags", "query", tags, required=False)]
    states = {"type": "string", "enum": ["active", "away"]}
    users = [parameter("state", "query", states), parameter("limit", "query", {"type": "integer"}, required=False)]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Blog", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/users/{userId}/posts": {
                "get": {"operationId": "listPosts", "summary": "List the posts of a user", "parameters": posts}
            },
            "/users": {"get": {"operationId": "findUsers", "summary": "Find users by state", "parameters": users}},
        },
    }


class Blog:
    """A gateway with an action set, the API's requests, and the model's."""

    def __init__(self, served: Served, seen: list[str], recorder: Recorder, client: httpx.Client) -> None:
        self.served = served
        self.seen = seen
        self.asked: list[dict[str, Any]] = []  # bodies at the model
        self._recorder = recorder
        self._client = client

    def ask(self, form: DeltaForm, calls: Sequence[FormedCall], *, one_byte: bool = False) -> httpx.Response:
        """A chat whose model answers with the calls, and after the results with a text."""
        self.seen.clear()
        self.asked.clear()

        async def answer(wire: Wire, received: Received) -> None:
            asked = json.loads(received.body)
            self.asked.append(asked)
            done = asked["messages"][-1]["role"] == "tool"
            given: tuple[Sequence[FormedCall], str] = ((), "Done.") if done else (calls, "")
            if not form.streamed:
                await wire.send(reply(whole(form, *given), b"content-type: application/json"))
                return
            pieces = frames(form, *given)
            start = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
            await wire.send(start, *chunked(single_bytes(b"".join(pieces)) if one_byte else pieces))

        self._recorder.fresh().answer = answer
        body = {"model": "rage/blog/gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
        url = f"{self.served.url}/v1/chat/completions"
        return self._client.post(url, json={**body, "stream": form.streamed})

    @property
    def results(self) -> list[str]:
        """The texts of the results that the model got."""
        return [one["content"] for one in self.asked[-1]["messages"] if one["role"] == "tool"]


@pytest.fixture(scope="module")
def blog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blog]:
    folder, seen = tmp_path_factory.mktemp("forms"), list[str]()

    async def answer(request: Request) -> JSONResponse:
        query = request.url.query
        seen.append(f"{request.method} {request.scope['raw_path'].decode()}{'?' + query if query else ''}")
        return JSONResponse({"seen": len(seen)})

    with served_app(Starlette(routes=[Route("/{path:path}", answer)])) as port, recording() as recorder:
        settings, sets = SETTINGS.format(model=recorder.url), {"blog": document(f"http://127.0.0.1:{port}")}
        with serving_sets(folder, settings, sets) as served, httpx.Client(timeout=60) as client:
            yield Blog(served, seen, recorder, client)


def text_of(form: DeltaForm, response: httpx.Response) -> str:
    """The text that the client reads."""
    if not form.streamed:
        return str(response.json()["choices"][0]["message"]["content"])
    lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
    choices = [choice for line in lines if line != "[DONE]" for choice in json.loads(line)["choices"]]
    assert not any(choice["delta"].get("tool_calls") for choice in choices)
    return "".join(choice["delta"].get("content") or "" for choice in choices)


WAYS = [(form, one_byte) for form in FORMS for one_byte in (False, True) if form.streamed or not one_byte]


@pytest.mark.parametrize(
    ("form", "one_byte"), WAYS, ids=[f"{form.name}{', bytes' if one else ''}" for form, one in WAYS]
)
def test_calls_in_every_form_are_made_once_and_in_full(blog: Blog, form: DeltaForm, one_byte: bool) -> None:
    response = blog.ask(form, GOLD, one_byte=one_byte)
    assert sorted(blog.seen) == sorted(REQUESTS)
    assert text_of(form, response).endswith("Done.")
    _question, calls, *results = blog.asked[-1]["messages"]
    assert [json.loads(call["function"]["arguments"]) for call in calls["tool_calls"]] == [
        json.loads(call.arguments) for call in GOLD
    ]
    assert [call["id"] for call in calls["tool_calls"]] == [result["tool_call_id"] for result in results]


def posts(**given: Any) -> tuple[str, dict[str, Any]]:
    return "act_listPosts", {"userId": USER, **given}


MUTANTS: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "missing": (("act_listPosts", {}), "userId is missing"),
    "wrong type": (posts(tags={"ice": "cream"}), "tags must be a list"),
    "placeholder": (posts(userId="<user_id>"), "userId: '<user_id>'"),
    "a placeholder in words": (posts(userId="your_user_id"), "userId: 'your_user_id'"),
    "invented": (posts(userId="u-78"), "userId: 'u-78'"),
    "traversal": (posts(userId="../admin"), "userId: '../admin'"),
    "encoded traversal": (posts(userId="%2e%2e"), "userId: '%2e%2e'"),
    "traversal around a known value": (posts(userId=f"../{USER}"), "userId must not be"),
    "extra": (posts(admin=True), "admin is unknown"),
    "unknown operation": (("act_deleteUser", {"userId": USER}), "act_deleteUser"),
    "unknown tool": (("weather", {"city": "Bonn"}), "weather"),
    "Cyrillic tool": (("аct_listPosts", {"userId": USER}), "аct_listPosts"),
    "tool with a zero-width space": (("act_listPosts\u200b", {"userId": USER}), "act_listPosts"),
    "full-width tool": (("ａct_listPosts", {"userId": USER}), "ａct_listPosts"),
    "Cyrillic enum": (("act_findUsers", {"state": "аctive"}), 'state must be one of "active", "away"'),
    "enum with a zero-width space": (("act_findUsers", {"state": "active\u200b"}), "state must be one of"),
    "full-width enum": (("act_findUsers", {"state": "ａctive"}), "state must be one of"),
    "full-width identifier": (posts(userId="ｕ-77"), "userId"),
    "identifier with a zero-width space": (posts(userId="u-77\u200b"), "userId"),
    "identifier with a zero-width joiner": (posts(userId="u\u200d-77"), "userId"),
    "identifier with a soft hyphen": (posts(userId="\u00adu-77"), "userId"),
    "full-width digits": (posts(userId="u-７７"), "userId"),
    "Arabic digits": (posts(userId="u-٧٧"), "userId"),
}


@pytest.mark.parametrize("form", [PLAIN, next(form for form in FORMS if not form.streamed)], ids=["stream", "whole"])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_call_sends_nothing_and_the_model_reads_the_reason(blog: Blog, form: DeltaForm, mutant: str) -> None:
    (name, arguments), words = MUTANTS[mutant]
    response = blog.ask(form, [FormedCall("call_a", name, json.dumps(arguments))])
    assert blog.seen == []
    (told,) = blog.results
    assert told.startswith("Nothing was sent")
    assert words in told
    assert text_of(form, response) == "Done."
