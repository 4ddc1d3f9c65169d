"""Streams of the translated lane: what a provider of OpenAI's dialect sent arrives as sent, and no end is made up."""

import json

import pytest

from proxy.dialects import sse
from tests.proxy.upstream.translated.provider_lane import (
    A_TEXT,
    AN_ANSWER,
    API_KEY,
    QUIET_PYDANTIC,
    chunk,
    completion,
    data_in,
    events,
    frames,
    keyless,
    raw_answer,
    serving,
    silent,
)
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, Reply, json_reply, scripted
from tests.support.rows import all_rows

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
pytestmark = QUIET_PYDANTIC

END = b"0\r\n\r\n"  # of a chunked reply that is whole
# Of the second and third litellm has readers of its own.
OPENAI_DIALECT = ["openai/gpt-4o", "deepseek/deepseek-chat", "groq/llama", "openrouter/some/model"]


async def streamed(model: str, reply: Reply, **fields: object) -> bytes:
    """The lane's whole answer to a streamed request, head and framing included."""
    async with (
        scripted(reply) as upstream,
        serving(upstream.url + ("" if model.startswith("anthropic/") else "/v1"), model) as gateway,
    ):
        return await raw_answer(gateway, {"stream": True, **fields})


WHOLE = [*AN_ANSWER, sse.DONE]
CUTS = [("openai/gpt-4o", WHOLE, n) for n in range(len(WHOLE))]
CUTS += [("deepseek/deepseek-chat", WHOLE, n) for n in range(len(WHOLE))]
CUTS += [("anthropic/claude-sonnet-4-5", A_TEXT, n) for n in range(len(A_TEXT))]


@all_rows("ending", ["eof", "broken"])
@all_rows(("model", "pieces", "received"), CUTS)
async def test_a_stream_cut_after_any_frame_is_no_whole_one(
    model: str, pieces: list[bytes], received: int, ending: anthropic.Ending
) -> None:
    answer = await streamed(model, events(pieces[:received], ending=ending))
    *chunks, last = data_in(answer) or [{}]
    reasons = [choice.get("finish_reason") for each in chunks for choice in each["choices"]]
    said = received == len(pieces) - 1  # the provider's own reason had come, its end had not
    assert [reason for reason in reasons if reason] == ["stop"] * said
    assert b"[DONE]" not in answer
    if b" 502 " in answer.partition(b"\r\n")[0]:
        assert not chunks
        assert b'"code":"upstream_' in answer
    else:
        assert last["error"]["type"] == "upstream_error"
        assert not answer.endswith(END)


@pytest.mark.parametrize("model", OPENAI_DIALECT)
async def test_every_choice_keeps_its_finish_and_every_field_its_spelling(model: str) -> None:
    sent = [
        b'{"id": "c-1", "object": "chat.completion.chunk", "created": 17, "model": "m-2", "x": 1.50e2, "choices": '
        b'[{"index": 0, "delta": {"role": "assistant", "content": "A [DONE] \xe2\x80\xa8 \\ud83d"}}]}',
        b'{"choices": [{"index": 1, "delta": {"content": "B", "reasoning": "so"}, "logprobs": null}], "id": "c-1"}',
        b'{"id": "c-1", "choices": [{"index": 1, "delta": {"refusal": "no"}, "finish_reason": null}]}',
        b'{"id": "c-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}',
        b'{"id": "c-1", "choices": [{"index": 1, "delta": {}, "finish_reason": "x_reason"}]}',
        b'{"id": "c-1", "choices": [], "usage": {"total_tokens": 3, "x": null}}',
    ]
    pieces = [sse.frame(data) for data in sent]
    answer = await streamed(model, events([b": hello\n\n", *pieces, sse.DONE]), n=2)
    body = b"".join(line.rstrip(b"\r") + b"\n" for line in answer.split(b"\n") if line.startswith(b"data: "))
    assert body == b"".join(b"data: " + data + b"\n" for data in [*sent, b"[DONE]"])
    assert answer.endswith(END)


@pytest.mark.parametrize("model", OPENAI_DIALECT[:2])
async def test_a_done_that_was_not_sent_is_not_added(model: str) -> None:
    answer = await streamed(model, events(AN_ANSWER))
    assert [each["choices"][0]["finish_reason"] for each in data_in(answer)] == [None, None, "stop"]
    assert b"[DONE]" not in answer
    assert answer.endswith(END)


WHOLE_ERROR = {"message": "Overloaded.", "type": "server_error", "param": "model", "code": "busy"}
OURS = {"type": "upstream_error", "param": None, "code": "upstream_error"}


@all_rows("model", OPENAI_DIALECT)
@all_rows("begun", [0, 1])
@all_rows(
    ("error", "told"),
    [
        (WHOLE_ERROR, WHOLE_ERROR),
        ({**WHOLE_ERROR, "type": None, "code": None, "x": 1}, {**WHOLE_ERROR, "type": None, "code": None}),
        ({"message": "overloaded", "code": 503}, {**OURS, "message": "overloaded", "code": "503"}),
        (
            {"message": f"not with {API_KEY}", "type": "t"},
            {**OURS, "message": "not with ***", "type": "t", "code": "t"},
        ),
        ("plain words", {**OURS, "message": "plain words"}),
        ({"odd": 1}, {**OURS, "message": "The upstream reported an error."}),
    ],
)
async def test_an_error_inside_a_stream_ends_it_in_its_words(
    model: str, begun: int, error: Json | str, told: Json
) -> None:
    failing = [*AN_ANSWER[:begun], sse.frame(json.dumps({"error": error}).encode()), sse.DONE]
    answer = await streamed(model, events(failing))
    if begun:
        assert data_in(answer)[-1] == {"error": told}
        assert not answer.endswith(END)
    else:
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": told}
    assert b"[DONE]" not in answer


@pytest.mark.parametrize("data", [b"{nonsense", b"7", b'"text"', b"\xff\xfe"])
@pytest.mark.parametrize("model", OPENAI_DIALECT[:2])
async def test_an_event_that_is_no_object_ends_the_stream(model: str, data: bytes) -> None:
    answer = await streamed(model, events([AN_ANSWER[0], sse.frame(data), sse.DONE]))
    assert data_in(answer)[-1]["error"]["code"] == "upstream_garbled"
    assert not answer.endswith(END)


async def test_events_in_pieces_of_one_byte_are_read_whole() -> None:
    whole = b"".join(frames(chunk({"content": "h\u00e9"}), chunk({}, finish_reason="stop"))).replace(b"\n", b"\r\n")
    answer = await streamed("openai/gpt-4o", events([whole[i : i + 1] for i in range(len(whole))]))
    assert [each["choices"][0]["delta"].get("content") for each in data_in(answer)] == ["h\u00e9", None]
    assert answer.endswith(b"data: [DONE]\n\n\r\n" + END)


LAST = b'data: {"id": "c-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'


@all_rows("model", OPENAI_DIALECT[:2])
@all_rows(
    ("end", "ends"),
    [
        (LAST + b"\n\ndata: [DONE]", True),
        (LAST + b"\n\ndata: [DONE]\n", True),
        (LAST + b"\n\ndata: [DONE]\r\n", True),
        (LAST + b"\r\rdata: [DONE]\r\r", True),
        (LAST + b"\n\n: the end\n\n", False),
        (LAST + b"\n\n: the end", False),
        (LAST + b"\r\r", False),
        (LAST + b"\n", False),
        (LAST, False),
    ],
)
async def test_a_last_event_counts_without_its_blank_line(model: str, end: bytes, ends: bool) -> None:
    answer = await streamed(model, events([*AN_ANSWER[:2], end]))
    *_, last = data_in(answer)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert answer.count(b"data: [DONE]\n\n") == ends
    assert answer.endswith(END)


@pytest.mark.parametrize("half", [b"data: [DO", b'data: {"usage": {"total_tok', b"data: {}\ndata: {"])
async def test_a_last_event_that_broke_off_is_a_cut(half: bytes) -> None:
    answer = await streamed("openai/gpt-4o", events([*AN_ANSWER, half]))
    assert data_in(answer)[-1]["error"]["code"] == "upstream_cut"
    assert not answer.endswith(END)


async def test_nothing_but_the_end_is_an_empty_stream() -> None:
    answer = await streamed("openai/gpt-4o", events([sse.DONE]))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"data: [DONE]\n\n\r\n" + END)
    assert answer.count(b"data:") == 1


async def test_a_whole_answer_to_a_streamed_request_is_a_502_that_says_so() -> None:
    answer = await streamed("openai/gpt-4o", json_reply(completion("Hello.")))
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"a whole reply, but a stream was asked for" in answer


def gemini_event(**candidate: object) -> bytes:
    """One event of Gemini's dialect."""
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return sse.frame(json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "g-2"}).encode())


GEMINI = [
    gemini_event(content={"role": "model", "parts": [{"text": "Hel"}]}, index=0),
    gemini_event(content={"role": "model", "parts": [{"text": "lo."}]}, index=0, finishReason="STOP"),
]
BUSY = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


class TestGemini:
    """A provider whose stream litellm opens only when its first chunk is read."""

    async def stream(self, reply: Reply) -> bytes:
        async with (
            scripted(reply) as upstream,
            serving(upstream.url, "gemini/gemini-2.0-flash") as gateway,
        ):
            return await raw_answer(gateway, {"stream": True})

    async def test_arrives(self) -> None:
        answer = await self.stream(events(GEMINI))
        choices = [each["choices"][0] for each in data_in(answer)]
        assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello."
        assert choices[-1]["finish_reason"] == "stop"
        assert answer.endswith(b"data: [DONE]\n\n\r\n" + END)

    @pytest.mark.parametrize("received", [0, 1, 2])
    async def test_cut(self, received: int) -> None:
        answer = await self.stream(events(GEMINI[:received], ending="broken"))
        assert b'"code":"upstream_' in answer
        assert b"[DONE]" not in answer
        if received:
            assert not answer.endswith(END)
            assert data_in(answer)[-1]["error"]["type"] == "upstream_error"

    @pytest.mark.parametrize("begun", [0, 1])
    async def test_an_error_keeps_its_words(self, begun: int) -> None:
        answer = await self.stream(events([*GEMINI[:begun], sse.frame(json.dumps(BUSY).encode())]))
        told = {"message": "The model is overloaded.", "type": "UNAVAILABLE", "param": None, "code": "503"}
        error = data_in(answer)[-1]["error"] if begun else json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error == told
        assert not answer.endswith(END)
