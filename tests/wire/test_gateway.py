"""The served gateway, real parts throughout: what reaches the model, and what the reply's headers say of it."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Served, ragway
from tests.support.recording_upstream import COMPLETION, Recorder, answering
from tests.support.upstream_servers import reply

KOTLIN = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
UNRELATED = "Tell me about quantum chromodynamics."

# As a client that writes its JSON by hand would send it: what is not ours to change must keep every byte.
ODD = """ {
  "temperature": 0.70, "top_p": 1.0e0, "seed": 12345678901234567890,
  "model" : "gpt-x",
  "x_unknown": {"b": [1, 2.50, -0.0], "a": "\\u00e9\\/\\ud83d\\ude00 é"},
  "messages":  [
    {"role": "system", "content": "Talk like a pirate."},
    {"role": "user", "name": "anna", "content": "Hello\\u002c parrot"},
    {"role": "assistant", "content": "Arr!", "refusal": null},
    {"content": [
       {"type": "text", "text": "How do I use Zephyr from Kotlin?", "cache_control": {"type": "ephemeral"}},
       {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
     ], "role": "user"} ],
  "tools": [{"type": "function", "function": {"name": "weather", "strict": true, "parameters": {}}}],
  "metadata": {"a": "1"}, "stream": false,
  "logit_bias": {"50256": -100} }
""".encode()


def sent(*messages: dict[str, Any], model: str = "gpt-x", **fields: Any) -> bytes:
    """A request body."""
    return json.dumps({"model": model, "messages": messages, **fields}).encode()


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def injected(forwarded: bytes, original: bytes) -> str:
    """The text of the system message that stands first in `forwarded`; all the rest must be `original`."""
    at = re.search(rb'"messages"\s*:\s*\[', original).end()  # type: ignore[union-attr]
    head, tail = original[:at], original[at:]
    assert forwarded.startswith(head)
    assert forwarded.endswith(b"," + tail)
    message = json.loads(forwarded[at : len(forwarded) - len(tail) - 1])
    assert message == {"role": "system", "content": message["content"]}
    text: str = message["content"]
    return text


# What reaches the model


def test_the_newcomer_sees_the_context_before_everything_else(gateway: Served) -> None:
    answer = gateway.chat({"role": "system", "content": "Talk like a pirate."}, user(KOTLIN)).json()
    text = answer["choices"][0]["message"]["content"]
    assert text.index("[system]\nThe passages below") < text.index(DRIVER) < text.index("[system]\nTalk like a pirate.")
    assert text.index("Talk like a pirate.") < text.index(f"[user]\n{KOTLIN}")
    assert "Zephyr from Kotlin > Install (source: handbook/kotlin.md)" in text


def test_the_forwarded_body_is_the_sent_one_and_one_leading_system_message(gateway: Served, recorder: Recorder) -> None:
    reply = gateway.post(ODD)
    assert reply.headers["x-rag-status"] == "augmented"
    text = injected(recorder.body, ODD)
    assert DRIVER in text
    assert "(docs)" in text


def test_a_streamed_request_is_augmented_alike(gateway: Served, recorder: Recorder) -> None:
    body = sent(user(KOTLIN), stream=True, stream_options={"include_usage": True})
    gateway.post(body)
    assert DRIVER in injected(recorder.body, body)


@pytest.mark.parametrize(
    ("question", "reason", "driver"),
    [
        ("Can I do the same from Java with Maven?", "found as asked", "zephyr-driver-sync"),
        ("Which version?", "leans on the conversation", DRIVER),
    ],
)
def test_a_follow_up_brings_the_page_it_asks_for(
    gateway: Served, recorder: Recorder, question: str, reason: str, driver: str
) -> None:
    answer = {"role": "assistant", "content": "Add the coroutine driver."}
    body = sent(user(KOTLIN), answer, user(question))
    reply = gateway.post(body)
    assert reply.headers["x-rag-reason"] == reason
    assert driver in injected(recorder.body, body).partition("[end of 1]")[0]


def test_with_nothing_found_the_request_goes_out_byte_for_byte(gateway: Served, recorder: Recorder) -> None:
    body = ODD.replace(KOTLIN.encode(), UNRELATED.encode()).replace(b"Hello\\u002c parrot", UNRELATED.encode())
    reply = gateway.post(body)
    assert reply.headers["x-rag-status"] == "empty"
    assert reply.headers["x-rag-reason"] == "nothing relevant found"
    assert "x-rag-sources" not in reply.headers
    assert recorder.body == body


def test_the_upstream_gets_its_own_key_and_no_credential_of_the_client(gateway: Served, recorder: Recorder) -> None:
    gateway.post(
        sent(user(KOTLIN)),
        authorization="Bearer of-the-client",
        cookie="session=1",
        x_rag="on",
        x_request_id="r-1",
        openai_beta="assistants=v2",
        x_forwarded_for="10.0.0.1",
        user_agent="app/1.0",
    )
    (request,) = recorder.requests
    assert request.line == b"POST /v1/chat/completions HTTP/1.1"
    assert request.header(b"authorization") == b"Bearer sk-upstream"
    assert request.header(b"user-agent") == b"app/1.0"
    assert request.header(b"x-request-id") == b"r-1"
    assert request.header(b"openai-beta") == b"assistants=v2"
    assert request.header(b"content-length") == b"%d" % len(request.body)
    names = {name.lower() for name, _ in request.headers}
    assert not names & {b"cookie", b"x-rag", b"x-forwarded-for"}


# Turned off, and turned elsewhere


def test_the_header_turns_it_off_byte_for_byte(gateway: Served, recorder: Recorder) -> None:
    reply = gateway.post(ODD, x_rag="off")
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("off", "x-rag header")
    assert recorder.body == ODD


def test_the_raw_prefix_turns_it_off_and_is_all_that_changes(gateway: Served, recorder: Recorder) -> None:
    reply = gateway.post(ODD.replace(b'"gpt-x"', b'"raw/gpt-x"'))
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("off", "raw model")
    assert recorder.body == ODD


@pytest.mark.parametrize("rag", [b"false", b'{"enabled" : false}'])
def test_the_rag_field_turns_it_off_and_is_taken_out(gateway: Served, recorder: Recorder, rag: bytes) -> None:
    reply = gateway.post(ODD.replace(b'"metadata"', b'"rag":  ' + rag + b',\n  "metadata"'))
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("off", "rag in the body")
    assert json.loads(recorder.body) == json.loads(ODD)
    assert recorder.body == ODD


def test_the_rag_field_says_how_many_passages_and_is_taken_out(gateway: Served, recorder: Recorder) -> None:
    body = sent(user(KOTLIN))
    gateway.post(body[:-1] + b', "rag": {"k": 1}}')
    text = injected(recorder.body, body)
    assert "[end of 1]" in text
    assert "[2]" not in text


def test_an_alias_is_called_by_its_upstream_name_and_nothing_else_changes(gateway: Served, recorder: Recorder) -> None:
    gateway.post(ODD.replace(b'"gpt-x"', b'"alias"'), x_rag="off")
    assert recorder.body == ODD.replace(b'"gpt-x"', b'"gpt-x-2024-08-06"')
    assert recorder.requests[0].header(b"authorization") is None  # of this model no key is known


def test_the_rag_prefix_picks_the_collection(gateway: Served, recorder: Recorder) -> None:
    reply = gateway.post(sent(user(KOTLIN), model="rag/docs/gpt-x"))
    assert reply.headers["x-rag-status"] == "augmented"
    assert DRIVER in injected(recorder.body, sent(user(KOTLIN)))


@pytest.mark.parametrize("how", ["prefix", "header", "body"])
def test_a_collection_asked_for_that_does_not_exist_is_a_404(gateway: Served, recorder: Recorder, how: str) -> None:
    body = {
        "prefix": sent(user(KOTLIN), model="rag/nowhere/gpt-x"),
        "header": sent(user(KOTLIN)),
        "body": sent(user(KOTLIN), rag={"collections": ["docs", "nowhere"]}),
    }[how]
    reply = gateway.post(body, x_rag_collection="docs, nowhere" if how == "header" else "")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "collection_not_found"
    assert "nowhere" in reply.json()["error"]["message"]
    assert not recorder.requests


# Conversations with tools and pictures

CALL = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Bruno the office dog sleeps."}


def test_every_round_of_a_tool_conversation_gets_the_same_context(gateway: Served, recorder: Recorder) -> None:
    rounds = [
        sent(user(KOTLIN)),
        sent(user(KOTLIN), CALL, RESULT),
        sent(user(KOTLIN), CALL, RESULT, CALL, {**RESULT, "content": "EADDRNOTAVAIL (99)"}),
    ]
    for body in rounds:
        assert gateway.post(body).headers["x-rag-status"] == "augmented"
    contexts = {injected(got.body, body) for got, body in zip(recorder.requests, rounds, strict=True)}
    assert len(contexts) == 1


def test_a_picture_alone_is_not_searched_for(gateway: Served, recorder: Recorder) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"x").decode()}}
    body = sent(user("Look at this."), {"role": "assistant", "content": "At what?"}, user([picture]))
    reply = gateway.post(body)
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("skipped", "no user text")
    assert recorder.body == body


# What the reply says


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("question", "headers", "status", "reason"),
    [
        (KOTLIN, {}, "augmented", "first question"),
        (UNRELATED, {}, "empty", "nothing relevant found"),
        ("  ", {}, "skipped", "no user text"),
        (KOTLIN, {"x-rag": "off"}, "off", "x-rag header"),
    ],
)
def test_the_headers_tell_what_was_done(
    gateway: Served, question: str, headers: dict[str, str], status: str, reason: str, stream: bool
) -> None:
    reply = gateway.ask(question, headers=headers, stream=stream)
    assert reply.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == (status, reason)
    assert re.fullmatch(r"rag-[0-9a-f]{24}", reply.headers["x-rag-id"])
    stages = re.findall(r"(\w+);dur=[0-9.]+", reply.headers["server-timing"])
    searched = ["rewrite", "embed", "search", "fuse", "pack", "retrieval"] if status in ("augmented", "empty") else []
    assert [stage for stage in stages if stage != "upstream"] == ["parse", *searched]
    assert ("x-rag-sources" in reply.headers) is (status == "augmented")


def test_the_sources_are_named_best_first_and_agree_with_the_context(gateway: Served) -> None:
    reply = gateway.ask(KOTLIN)
    text = reply.json()["choices"][0]["message"]["content"]
    assert reply.headers["x-rag-sources"].split(",")[0] == "handbook/kotlin.md"
    shown = re.findall(r"^\[\d+\] .*\(source: (.*)\) #\w{8}$", text, re.MULTILINE)
    assert reply.headers["x-rag-sources"].split(",") == shown


def test_the_upstreams_timing_is_told_too(gateway: Served, recorder: Recorder) -> None:
    reply = gateway.post(sent(user(KOTLIN)))
    assert re.search(r"upstream;dur=[0-9.]+", reply.headers["server-timing"])
    assert reply.content == COMPLETION


def test_no_two_requests_share_an_id(gateway: Served) -> None:
    assert len({gateway.ask(UNRELATED).headers["x-rag-id"] for _ in range(3)}) == 3


# Other paths


def test_embeddings_are_relayed_and_not_augmented(gateway: Served, recorder: Recorder) -> None:
    body = b'{"input":  ["Kotlin"], "model": "gpt-x", "dimensions": 2.0}'
    reply = gateway.post(body, "/v1/embeddings")
    assert reply.headers["x-rag-status"] == "off"
    assert recorder.requests[0].line == b"POST /v1/embeddings HTTP/1.1"
    assert recorder.body == body


def test_a_listed_path_goes_where_its_model_goes(gateway: Served, recorder: Recorder) -> None:
    upload = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nnot JSON\r\n--b--'
    reply = gateway.post(upload, "/v1/files?after=1%2F2", content_type="multipart/form-data; boundary=b")
    assert reply.content == COMPLETION
    assert recorder.requests[0].line == b"POST /v1/files?after=1%2F2 HTTP/1.1"
    assert recorder.requests[0].header(b"content-type") == b"multipart/form-data; boundary=b"
    assert recorder.body == upload
    assert httpx.delete(gateway.url + "/v1/files/file-1").content == COMPLETION
    assert recorder.requests[1].line == b"DELETE /v1/files/file-1 HTTP/1.1"


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/filesystem", "/v1", "/", "/knowledge/search"])
def test_an_unlisted_path_is_a_404(gateway: Served, recorder: Recorder, path: str) -> None:
    reply = gateway.post(b'{"model": "gpt-x"}', path)
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "unknown_path"
    assert not recorder.requests


@pytest.mark.parametrize("name", ["echo", "raw/echo", "rag/docs/echo", "rag%2Fdocs%2Fecho", "gpt-x", "alias"])
def test_a_model_can_be_asked_for_by_its_name(gateway: Served, recorder: Recorder, name: str) -> None:
    told = gateway.get(f"/v1/models/{name}")
    assert told.json()["id"] == name.replace("%2F", "/")
    head = httpx.head(f"{gateway.url}/v1/models/{name}", timeout=30)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == told.headers["content-length"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"])
def test_a_query_names_no_other_model_than_the_body(gateway: Served, recorder: Recorder, path: str) -> None:
    """Some upstreams call the model of the query, to which the key may have no right."""
    body = b'{"model": "gpt-x", "max_tokens": 9, "input": "Hi", "messages": [{"role": "user", "content": "Hi"}]}'
    refused = gateway.post(body, f"{path}?Model=gpt-y")
    assert refused.status_code == 400
    assert "names another model" in refused.text
    assert not recorder.requests
    assert gateway.post(body, f"{path}?model=gpt-x&beta=true").status_code == 200


def test_a_models_own_object_comes_from_its_upstream(gateway: Served, recorder: Recorder) -> None:
    own = b'{ "id":"gpt-x" , "object": "model", "created": 1.50, "owned_by": "them"}'
    recorder.answer = answering(reply(own))
    assert gateway.get("/v1/models/gpt-x").content == own
    (asked,) = recorder.requests
    assert asked.line == b"GET /v1/models/gpt-x HTTP/1.1"
    assert asked.header(b"authorization") == b"Bearer sk-upstream"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nope", "model_not_found"), ("rag/no-such-collection/echo", "collection_not_found"),
        ("rag/docs/nope", "model_not_found"), ("raw/nope", "model_not_found"), ("..%2Fecho", "model_not_found"),
    ],
)  # fmt: skip
def test_a_name_without_a_model_is_a_404(gateway: Served, recorder: Recorder, name: str, code: str) -> None:
    told = gateway.get(f"/v1/models/{name}")
    assert (told.status_code, told.json()["error"]["code"]) == (404, code)
    assert not recorder.requests


def test_the_models_are_listed_by_the_names_clients_may_send(gateway: Served) -> None:
    listed = gateway.get("/v1/models").json()
    assert listed["object"] == "list"
    assert {(row["id"], row["object"]) for row in listed["data"]} == {
        ("alias", "model"),
        ("echo", "model"),
        ("gpt-x", "model"),
    }


def test_it_says_that_it_is_well_and_ready(gateway: Served) -> None:
    assert gateway.get("/healthz").json() == {"status": "ok"}
    ready = gateway.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


def test_of_several_default_collections_those_that_exist_are_searched(
    served: Callable[..., Served], data: Path, corpus: Path, tmp_path: Path
) -> None:
    ragway("ingest", str(corpus), "--collection", "docs", "--data", str(data), folder=tmp_path)
    gateway = served("retrieval: {collections: [docs, faq]}")
    reply = gateway.ask("what is the office dog called?")
    assert reply.headers["x-rag-status"] == "augmented"
    assert "Bruno" in reply.text
