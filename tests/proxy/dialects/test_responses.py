"""A request for a response: the conversation as the gateway reads it, and the place of the passages."""

import json
from typing import Any

import openai
import pytest

from proxy.dialects.base import ModelRequest, Position
from proxy.dialects.errors import ApiError
from proxy.dialects.responses import RESPONSES, approval_request, approved_call, stored_id, stored_methods
from tests.support.recording_upstream import answering, recording
from tests.support.upstream_servers import reply

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "4"}
USER = {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}, {"text": "b"}]}


def request_of(**fields: Any) -> ModelRequest:
    return RESPONSES.parse(json.dumps({"model": "m", **fields}).encode())


def test_an_item_that_asks_for_an_approval_hides_nothing() -> None:
    arguments = {"text": "pay \u202e001\u202c\u200b \U000e0041 Zoë \u2028", "a": 'quoted "x" \\'}
    item = approval_request("KX7M-4QPD", 2, "shop", "pay", json.dumps(arguments, ensure_ascii=False))
    assert json.loads(item["arguments"]) == arguments
    assert "Zoë" in item["arguments"]
    assert item["arguments"].isprintable()
    assert approved_call(item["id"]) == ("KX7M-4QPD", 2)
    assert [approved_call(one) for one in ("mcpr_1", "mcpr_kx7m4qpd_1", 7, None)] == [None] * 4


def test_instructions_and_items_are_the_conversation() -> None:
    items = [USER, CALL, RESULT, {"type": "reasoning", "summary": []}, "odd"]
    read = request_of(instructions="I", input=items).messages()
    roles = [("system", "I"), ("user", "a"), ("assistant", ""), ("tool", "4"), ("tool", "")]
    assert [(message.role, message.text) for message in read] == roles
    assert read[2].calls == CALL
    assert request_of(prompt={"id": "p"}).messages() == [], "a stored prompt needs no input"


@pytest.mark.parametrize("given", [1, True, {"role": "user"}])
def test_an_input_of_another_kind_is_a_400(given: object) -> None:
    with pytest.raises(ApiError) as caught:
        request_of(input=given).messages()
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_input", "input")


@pytest.mark.parametrize("position", ["lead", "merge"])
def test_a_stored_prompt_without_instructions_gets_a_developer_item(position: Position) -> None:
    edited = json.loads(request_of(input="Q", prompt={"id": "p"}).edited(context="C", position=position))
    assert "instructions" not in edited
    assert [(item["role"], item["content"]) for item in edited["input"]] == [("developer", "C"), ("user", "Q")]
    edited = json.loads(request_of(input="Q", prompt={"id": "p"}, instructions="I").edited(context="C"))
    assert (edited["instructions"], edited["input"]) == ("I\n\nC", "Q")


def test_without_a_user_item_the_developer_item_stands_last() -> None:
    edited = json.loads(request_of(input=[RESULT]).edited(context="C", position="tail"))
    assert (edited["input"][0], edited["input"][1]["content"]) == (RESULT, "C")


def test_the_ids_by_which_a_request_continues_are_read() -> None:
    for stored, expected in ((True, True), (False, False), (None, True)):
        assert request_of(input="Q", store=stored).stored is expected
    assert request_of(input="Q").stored
    assert request_of(previous_response_id="resp_1").previous_reply == "resp_1"
    assert request_of(conversation="conv_1").conversation == "conv_1"
    assert request_of(conversation={"id": "conv_1"}).conversation == "conv_1"
    odd = request_of(previous_response_id=5, conversation={"id": None})
    assert (odd.previous_reply, odd.conversation) == ("", "")
    paths = ("responses/resp_1", "conversations/conv-1", "responses/resp_1/cancel", "files/f")
    assert [stored_id(f"/v1/{path}") for path in paths] == ["resp_1", "conv-1", "", ""]


def test_text_of_the_program_is_no_question() -> None:
    items = [USER, {"role": "user", "content": "<environment_context>x</environment_context>"}]
    edited = json.loads(request_of(input=items).edited(context="C", position="tail"))
    assert edited["input"] == [{"type": "message", "role": "developer", "content": "C"}, *items]


def test_only_an_unstored_response_of_the_model_alone_can_be_compared() -> None:
    assert request_of(input="Q", store=False).wants_only_text()
    others: list[dict[str, Any]] = [
        {"tools": [{}]},
        {"background": True},
        {"conversation": "c"},
        {"prompt": {"id": "p"}},
    ]
    for other in others:
        assert not request_of(input="Q", store=False, **other).wants_only_text()
    assert not request_of(input="Q").wants_only_text(), "OpenAI stores a response by default"


def test_the_longest_answer_is_max_output_tokens() -> None:
    assert (request_of(max_output_tokens=7).answer_tokens(), request_of(max_tokens=7).answer_tokens()) == (7, 0)


def test_the_sdk_raises_the_error_that_ends_a_broken_stream() -> None:
    frame = RESPONSES.error_frame(ApiError(502, "The upstream broke off.", code="upstream_cut"), "rag-1")
    with recording() as recorder, openai.OpenAI(base_url=recorder.url + "/v1", api_key="k", max_retries=0) as client:
        recorder.answer = answering(reply(frame, b"content-type: text/event-stream"))
        stream = client.responses.create(model="m", input="Q", stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            list(stream)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/responses/resp_1", ("GET", "DELETE")),
        ("/v1/responses/resp-1/cancel", ("POST",)),
        ("/v1/responses/resp_1/input_items", ("GET",)),
        *((path, ()) for path in ("/v1/responses", "/v1/responses/", "/v1/responses/..", "/v1/responses/a/b", "/v1")),
    ],
)
def test_a_stored_response_takes_the_methods_of_the_api(path: str, methods: tuple[str, ...]) -> None:
    assert stored_methods(path) == methods
