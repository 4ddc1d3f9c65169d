"""A conversation in the form of chat completions becomes a request of each dialect."""

from typing import Any

import orjson
import pytest

from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.records import BenchError, DialectName
from proxy.dialects.paths import BY_PATH

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who is Bruno?"},
    {"role": "assistant", "content": [{"type": "text", "text": "A dog."}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Is this Bruno?"},
            {"type": "image_url", "image_url": {"url": "https://example.com/dog.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ],
    },
]


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_read_by_the_dialect_as_the_same_conversation(name: DialectName) -> None:
    body = {"model": "m", **BODIES[name].body(CONVERSATION, {"temperature": 0}, usage=True)}
    request = BODIES[name].dialect.parse(orjson.dumps(body))
    read = [(message.role, message.text) for message in request.messages()]
    assert read == [
        ("system", "Be brief."),
        ("user", "Who is Bruno?"),
        ("assistant", "A dog."),
        ("user", "Is this Bruno?"),
    ]
    assert (request.streamed, request.fields["temperature"]) == (True, 0)
    assert len(orjson.dumps(BODIES[name].prompt_of(body))) > 100


def test_images_have_the_form_of_the_dialect() -> None:
    items = BODIES["responses"].body(CONVERSATION, {}, usage=True)["input"]
    assert items[2]["content"] == [{"type": "output_text", "text": "A dog."}]
    assert items[3]["content"][1:] == [
        {"type": "input_image", "image_url": "https://example.com/dog.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]
    rows = BODIES["messages"].body(CONVERSATION, {}, usage=True)["messages"]
    assert rows[2]["content"][1:] == [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/dog.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


@pytest.mark.parametrize("name", [name for name in BODIES if name != "chat"])
@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
    ],
)
def test_a_message_without_a_form_in_the_dialect_is_refused(name: DialectName, message: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match="leave --dialect out"):
        BODIES[name].body([*CONVERSATION, message], {}, usage=True)


def test_the_bench_can_ask_through_every_dialect() -> None:
    assert {bodies.dialect.path for bodies in BODIES.values()} == set(BY_PATH)
