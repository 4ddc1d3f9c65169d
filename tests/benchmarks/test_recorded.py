"""The check of recorded replies, on recordings made by the scripted models."""

import json
from pathlib import Path

import pytest

from benchmarks.conformance.recorded import (
    REQUESTS,
    Recording,
    Way,
    compared,
    generated,
    measured,
    reading_cell,
    recordings,
    reply_cell,
    request_cell,
    summary,
)
from benchmarks.conformance.wire import EVENTS, Answer, Exchange, Received, Script, upstream
from tests.support import scripted_messages, scripted_responses

CHUNKS = [
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Ye", "s.")
]
ERROR = {"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}}
RESPONSE = {
    "model": "gpt-5",
    "input": "Where is the pump?",
    "reasoning": {"summary": "auto"},
    "include": ["reasoning.encrypted_content"],
}
MESSAGE = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Where is the pump?"}],
    "system": "Be brief.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of recordings, in every form."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "chat.chunks.txt").write_text("\n".join(map(json.dumps, CHUNKS)), "utf-8")
    (folder / "chat-error.json").write_text(json.dumps(ERROR), "utf-8")
    (folder / "response.sse").write_bytes(b"".join(scripted_responses.frames_to(RESPONSE)))
    (folder / "response.request.json").write_text(json.dumps(RESPONSE, indent=2), "utf-8")
    (folder / "message.sse").write_bytes(b"".join(scripted_messages.frames_to(MESSAGE)))
    (folder / "message.request.json").write_text(json.dumps(MESSAGE), "utf-8")
    (folder / "message-whole.json").write_text(json.dumps(scripted_messages.message_to(MESSAGE), indent=1), "utf-8")
    (folder / "embeddings.json").write_text('{"object":"list","data":[]}', "utf-8")
    (folder / "README.md").write_text("No recording.", "utf-8")
    return folder


def test_the_recordings_of_a_folder_are_read_with_their_dialect(folder: Path) -> None:
    found = {recording.name: recording for recording in recordings(folder)}
    assert {name: recording.path for name, recording in found.items()} == {
        "chat": "/v1/chat/completions", "chat-error": "/v1/chat/completions", "message": "/v1/messages",
        "message-whole": "/v1/messages", "response": "/v1/responses",
    }  # fmt: skip
    assert found["chat"].pieces[-1] == b"data: [DONE]\n\n"
    assert list(found["response"].pieces) == scripted_responses.frames_to(RESPONSE)
    assert json.loads(found["response"].request) == RESPONSE


async def test_every_recording_passes_the_relay_with_passages(folder: Path, models: Path, tmp_path: Path) -> None:
    results = await measured(tmp_path, list(recordings(folder)), models)
    assert summary(results).splitlines()[2:] == [
        "| `/v1/chat/completions` | 2 | 1 | 3 | 2 | 2 |",
        f"| `/v1/responses` | 1 | 1 | {len(scripted_responses.frames_to(RESPONSE))} | 1 | 1 |",
        f"| `/v1/messages` | 2 | 1 | {len(scripted_messages.frames_to(MESSAGE))} | 2 | 2 |",
    ]


@pytest.mark.parametrize(("way", "paths"), [("raw", list(REQUESTS)), ("offer", list(REQUESTS)[:1])])
async def test_generated_streams_pass_byte_for_byte(way: Way, paths: list[str], models: Path, tmp_path: Path) -> None:
    results = await measured(tmp_path, list(generated(20, 7, paths)), models, way)
    assert [one.recording.name for one in results if not one.same] == []
    assert len(results) == 20 * len(paths)


async def test_a_recording_without_a_gateway_between_is_the_same() -> None:
    frames = tuple(scripted_messages.frames_to(MESSAGE))
    async with upstream() as script:
        result = await compared(
            Recording("m", "/v1/messages", json.dumps(MESSAGE).encode(), frames, True), script.port, script
        )
    assert (result.same, result.augmented) == (True, False)


async def test_a_reply_without_an_end_is_reported() -> None:
    frames = tuple(scripted_responses.frames_to(RESPONSE))
    cut = Recording("r", "/v1/responses", json.dumps(RESPONSE).encode(), frames[:-1], True)
    assert await reading_cell(cut, Script(frames[:-1], headers=EVENTS)) == "lost: the end"


def exchange(received: bytes, answer: bytes, *, held_back: int = 0) -> Exchange:
    """An exchange of a request `{"a":1}` and a stream of two events."""
    pieces = (b'data: {"x":1}\n\n', b'data: {"x":2}\n\n')
    script = Script(pieces, headers=EVENTS, framing="chunked", marks=pieces)
    answered = Answer(200, EVENTS, answer, "whole")
    return Exchange(b'{"a":1}', script, [Received(b"/", (), received)], answered, held_back)


def test_a_difference_of_a_request_or_a_reply_is_reported() -> None:
    whole = b'data: {"x":1}\n\ndata: {"x":2}\n\n'
    assert reply_cell(exchange(b"", whole)) == "same"
    assert reply_cell(exchange(b"", whole.replace(b"2", b"3"))) == "changed: `x` 2 → 3"
    assert reply_cell(exchange(b"", whole, held_back=1)) == "changed: 1 events held back"
    assert request_cell(exchange(b'{"a":1,"system":"Zephyr"}', whole)) == "same"
    assert request_cell(exchange(b'{"a":2}', whole)).startswith("changed: b'1' is missing")
    assert request_cell(exchange(b'{"a":1,"b":2}', whole)).startswith("made up: b',\"b\":2'")
