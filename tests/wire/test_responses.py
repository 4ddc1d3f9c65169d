"""The Responses API through a real gateway: the official openai SDK, and an upstream that records bytes."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel

from proxy.dialects.replies import Tokens, ToolCall
from proxy.dialects.responses import RESPONSES
from tests.support.gateway import Served
from tests.support.recording_upstream import Recorder, answering
from tests.support.upstream_servers import chunked, head, reply, single_bytes

QUESTION = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
AS_JSON = b"content-type: application/json"
TOOL: FunctionToolParam = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
ODD = (
    b'{ "model" : "gpt-x","include":["reasoning.encrypted_content"], "store":false,"truncation" :"auto", "input":['
    b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA\\u003d"},\r\n'
    b'{"type":"function_call","call_id":"c","name":"f","arguments":"{\\"a\\": 1.0}"},'
    b'{"type":"function_call_output","call_id":"c","output":"4"},{"type":"item_of_tomorrow","x":1e-7},'
    b'{"role":"user","content":[{"type":"input_text","text":"How do I use Zephyr from Kotlin?"},'
    b'{"type":"input_file","file_id":"file_1"}]}],"instructions":"Be \\"brief\\"." ,"odd":1.50 }'
)


def response_of(*items: dict[str, Any], status: str = "completed", **members: Any) -> dict[str, Any]:
    """A response as OpenAI's API writes one."""
    usage = {
        "input_tokens": 30, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 35,
    }  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": None, "model": "gpt-x-2024",
        "incomplete_details": None, "instructions": "I", "output": list(items), "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0, "metadata": {}, "background": False,
        "usage": usage if status == "completed" else None, **members,
    }  # fmt: skip


def message_of(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def whole(*items: dict[str, Any], **members: Any) -> bytes:
    return reply(json.dumps(response_of(*items, **members), indent=1).encode(), AS_JSON)


def events() -> bytes:
    """A stream with reasoning, a call of a server's tool, an event of tomorrow, and a text."""
    message, place = message_of("Yes."), {"item_id": "msg_1", "output_index": 2, "content_index": 0}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA="}
    part = {"type": "output_text", "text": "", "annotations": []}
    rows: list[dict[str, Any]] = [
        {"type": "response.created", "response": response_of(status="in_progress")},
        {"type": "response.in_progress", "response": response_of(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "web_search_call", "id": "ws_1", "status": "in_progress", "action": None},
        },
        {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 1},
        {"type": "response.of_tomorrow", "x": 1.50},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {**message, "content": [], "status": "in_progress"},
        },
        {"type": "response.content_part.added", **place, "part": part},
        {"type": "response.output_text.delta", **place, "delta": "Ye", "logprobs": []},
        {"type": "response.output_text.delta", **place, "delta": "s.", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Yes.", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": message["content"][0]},
        {"type": "response.output_item.done", "output_index": 2, "item": message},
        {
            "type": "response.completed",
            "response": response_of(
                reasoning, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, message
            ),
        },
    ]
    frames = [{**row, "sequence_number": number} for number, row in enumerate(rows)]
    return b"".join(f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode() for row in frames)


@pytest.fixture
def client(gateway: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=gateway.url + "/v1", api_key="placeholder", max_retries=0, timeout=60) as opened:
        yield opened


def test_the_passages_stand_at_the_end_of_the_instructions_and_all_else_is_byte_for_byte(
    gateway: Served, recorder: Recorder
) -> None:
    recorder.answer = answering(whole(message_of("Yes.")))
    got = gateway.post(ODD, "/v1/responses")
    assert (got.status_code, got.headers["x-rag-status"]) == (200, "augmented")
    assert "kotlin.md" in got.headers["x-rag-sources"]
    before, after = ODD.split(b'" ,"odd"')
    assert recorder.body.startswith(before + b"\\n\\n")
    assert recorder.body.endswith(b'" ,"odd"' + after)
    added = json.loads(recorder.body)["instructions"].removeprefix('Be "brief".\n\n')
    assert DRIVER in added
    assert len(recorder.body) == len(ODD) + len(json.dumps("\n\n" + added, ensure_ascii=False).encode()) - 2


@pytest.mark.parametrize("off", ["header", "raw", "body"])
def test_without_passages_the_request_goes_out_byte_for_byte(gateway: Served, recorder: Recorder, off: str) -> None:
    recorder.answer = answering(whole(message_of("Yes.")))
    sent = {"raw": ODD.replace(b"gpt-x", b"raw/gpt-x"), "body": ODD.replace(b"{ ", b'{ "rag":false,', 1)}.get(off, ODD)
    got = gateway.post(sent, "/v1/responses", **({"x_rag": "off"} if off == "header" else {}))
    assert (got.headers["x-rag-status"], recorder.body) == ("off", ODD)


def test_the_collection_of_a_model_prefix_is_searched(gateway: Served, recorder: Recorder) -> None:
    recorder.answer = answering(whole(message_of("Yes.")))
    got = gateway.post(ODD.replace(b"gpt-x", b"rag/docs/gpt-x"), "/v1/responses")
    assert got.headers["x-rag-status"] == "augmented"
    missing = gateway.post(ODD.replace(b"gpt-x", b"rag/nowhere/gpt-x"), "/v1/responses")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "collection_not_found")


def test_every_event_of_a_stream_arrives_byte_for_byte(gateway: Served, recorder: Recorder) -> None:
    pieces = chunked(single_bytes(events()))
    recorder.answer = answering(head(b"content-type: text/event-stream", b"transfer-encoding: chunked"), *pieces)
    got = gateway.post(ODD.replace(b'"odd"', b'"stream":true,"odd"'), "/v1/responses")
    assert got.content == events()


def test_the_events_of_a_stream_are_read_with_the_usage() -> None:
    reader = RESPONSES.reader(streamed=True)
    for byte in single_bytes(events()):
        reader.feed(byte)
    reader.close()
    assert (reader.answer, reader.whole, reader.finish_reason, reader.tool_calls) == ("Yes.", True, "stop", [])
    assert reader.usage == RESPONSES.usage_in(b"", events()[-16384:]) == Tokens(30, 5, cached=8, reasoning=2)


def test_a_call_and_a_refusal_of_a_whole_response_are_read() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    cut: Any = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reader = RESPONSES.reader(streamed=False)
    reader.feed(json.dumps(response_of(call, refusal, **cut)).encode())
    reader.close()
    assert reader.tool_calls == [ToolCall("c", "f", "{}")]
    assert (reader.answer, reader.refused, reader.finish_reason) == ("No.", True, "length")


def test_an_error_of_the_upstream_and_of_the_gateway_have_openais_form(
    client: openai.OpenAI, recorder: Recorder
) -> None:
    with pytest.raises(openai.BadRequestError, match="'input' must be a text or a list of items, got a number"):
        client.responses.create(model="gpt-x", input=5)  # type: ignore[call-overload]
    body = b'{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"odd"}}'
    recorder.answer = answering(reply(body, AS_JSON, status=b"400 Bad Request"))
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="gpt-x", input=QUESTION)
    assert caught.value.code == "odd"


def test_the_sdk_creates_a_response_with_a_tool_and_sends_the_result(client: openai.OpenAI, recorder: Recorder) -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    recorder.answer = answering(whole(call))
    first = client.responses.create(model="gpt-x", input=QUESTION, tools=[TOOL], instructions="Be brief.")
    assert DRIVER in json.loads(recorder.body)["instructions"]
    assert first.output[0].type == "function_call"
    recorder.fresh().answer = answering(whole(message_of("Yes.")))
    result: Any = {"type": "function_call_output", "call_id": "c", "output": "4"}
    items: Any = [{"role": "user", "content": QUESTION}, first.output[0].model_dump(), result]
    second = client.responses.create(model="gpt-x", input=items, tools=[TOOL])
    sent = json.loads(recorder.body)
    assert sent["input"] == items
    assert DRIVER in sent["instructions"], "every round of a tool conversation gets the same passages"
    assert second.output_text == "Yes."
    assert second.usage is not None
    assert second.usage.total_tokens == 35


def test_the_sdk_streams_a_response(client: openai.OpenAI, recorder: Recorder) -> None:
    recorder.answer = answering(
        head(b"content-type: text/event-stream", b"transfer-encoding: chunked"), *chunked([events()])
    )
    with client.responses.stream(model="gpt-x", input=QUESTION) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Yes."
    assert "response.web_search_call.searching" in kinds
    assert json.loads(recorder.body)["input"] == QUESTION


def test_the_sdk_sends_pictures_and_sealed_reasoning_back(client: openai.OpenAI, recorder: Recorder) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="}
    recorder.answer = answering(whole(thought, message_of("Yes.")))
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}
    items: Any = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}, picture]}]
    sealed: Any = {"store": False, "include": ["reasoning.encrypted_content"]}
    first = client.responses.create(model="gpt-x", input=items, **sealed)
    assert json.loads(recorder.body)["input"] == items
    items += [*(item.to_dict() for item in first.output), {"role": "user", "content": "And from Java?"}]
    recorder.fresh().answer = answering(whole(message_of("No.")))
    client.responses.create(model="gpt-x", input=items, **sealed)
    assert json.loads(recorder.body)["input"] == items
    assert items[1]["encrypted_content"] == thought["encrypted_content"]


class City(BaseModel):
    """What the model fills in."""

    name: str


def test_the_sdk_parses_a_structured_answer(client: openai.OpenAI, recorder: Recorder) -> None:
    recorder.answer = answering(whole(message_of('{"name": "Oslo"}')))
    parsed = client.responses.parse(model="gpt-x", input=QUESTION, text_format=City).output_parsed
    assert parsed == City(name="Oslo")
    assert json.loads(recorder.body)["text"]["format"]["name"] == "City"


def test_the_sdk_polls_cancels_lists_and_deletes_a_background_response(
    client: openai.OpenAI, recorder: Recorder
) -> None:
    recorder.answer = answering(whole(status="queued", background=True))
    started = client.responses.create(model="gpt-x", input=QUESTION, background=True, store=True)
    query = {"model": "gpt-x"}
    assert client.responses.retrieve(started.id, extra_query=query).status == "queued"
    recorder.answer = answering(whole(status="cancelled", background=True))
    assert client.responses.cancel(started.id, extra_query=query).status == "cancelled"
    recorder.answer = answering(reply(b'{"object":"list","data":[],"has_more":false}', AS_JSON))
    assert client.responses.input_items.list(started.id, extra_query=query).data == []
    recorder.answer = answering(reply(b'{"id":"resp_1","object":"response","deleted":true}', AS_JSON))
    client.responses.delete(started.id, extra_query=query)
    assert [request.line for request in recorder.requests[1:]] == [
        b"GET /v1/responses/resp_1?model=gpt-x HTTP/1.1",
        b"POST /v1/responses/resp_1/cancel?model=gpt-x HTTP/1.1",
        b"GET /v1/responses/resp_1/input_items?model=gpt-x HTTP/1.1",
        b"DELETE /v1/responses/resp_1?model=gpt-x HTTP/1.1",
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_follow_up_by_id_gets_the_passages_of_the_earlier_question_and_reaches_the_upstream_as_sent(
    gateway: Served, client: openai.OpenAI, recorder: Recorder, streamed: bool
) -> None:
    id = f"resp_followed_{streamed}"
    body = events().replace(b"resp_1", id.encode()) if streamed else whole(message_of("Yes."), id=id)
    as_stream = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
    recorder.answer = answering(as_stream, *chunked(single_bytes(body))) if streamed else answering(body)
    if streamed:
        list(client.responses.create(model="gpt-x", input=QUESTION, stream=True))
    else:
        client.responses.create(model="gpt-x", input=QUESTION)
    recorder.fresh().answer = answering(whole(message_of("5.1.0.")))
    follow_up = b'{"model":"gpt-x", "previous_response_id" : "%s","input":"Which driver?"}' % id.encode()
    got = gateway.post(follow_up, "/v1/responses")
    assert (got.status_code, got.headers["x-rag-reason"]) == (200, "leans on the conversation")
    assert DRIVER in json.loads(recorder.body)["instructions"]
    assert recorder.body.endswith(follow_up[1:])


def test_echo_answers_the_sdk_whole_and_streamed(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="echo", input=QUESTION, instructions="Be brief.")
    assert answer.output_text.endswith(f"[user]\n{QUESTION}")
    assert DRIVER in answer.output_text
    with client.responses.stream(model="echo", input=QUESTION, instructions="Be brief.") as stream:
        assert "response.completed" in [event.type for event in stream]
        assert stream.get_final_response().output_text == answer.output_text
