"""A reply that passes, read once it is over: its answer, its times, its tokens, and what became of it."""

import gzip
from collections.abc import Sequence

import orjson
import pytest

from proxy.asgi import Message
from proxy.dialects.chat import CHAT
from proxy.dialects.replies import Tokens
from proxy.observe.shadow.comparison import Comparison, Side, comparison_from, serialize_comparison
from proxy.observe.shadow.reply import ReplyRecorder, UnreadableReply
from retrieval.records.search import Turn

MODEL = "gpt-4o"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20}
_EVENTS = (b"content-type", b"text/event-stream")


def completion(text: str | None, **more: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return orjson.dumps({"object": "chat.completion", "choices": [choice], **more})


def chunk(text: str) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}) + b"\n\n"


async def passed(
    pieces: Sequence[bytes], *headers: tuple[bytes, bytes], status: int = 200, whole: bool = True
) -> tuple[ReplyRecorder, list[Message]]:
    """A reply that went by, and what was sent on."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    recorder = ReplyRecorder(send, 0.0, CHAT)
    await recorder.send({"type": "http.response.start", "status": status, "headers": list(headers)})
    for at, piece in enumerate(pieces):
        last = whole and at == len(pieces) - 1
        await recorder.send({"type": "http.response.body", "body": piece, "more_body": not last})
    return recorder, sent


async def test_the_same_objects_go_on() -> None:
    pieces = [chunk("Yes"), chunk(", it does."), b"data: [DONE]\n\n"]
    _, sent = await passed(pieces, _EVENTS)
    assert [message["body"] for message in sent[1:]] == pieces
    assert all(message["body"] is piece for message, piece in zip(sent[1:], pieces, strict=True))


async def test_a_whole_reply_is_read() -> None:
    recorder, _ = await passed([completion("Yes.", usage=USAGE)])
    side = recorder.side(b"{}", MODEL)
    assert (side.status, side.answer, side.finish_reason, side.error) == (200, "Yes.", "stop", None)
    assert side.tokens == Tokens(100, 20)
    assert side.cost_usd == pytest.approx(100 * 2.5e-6 + 20 * 1e-5)
    assert side.first_ms == side.total_ms


async def test_of_a_stream_the_first_text_has_its_time() -> None:
    role = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
    recorder, _ = await passed([role, chunk("Yes"), chunk(", it does."), b"data: [DONE]\n\n"], _EVENTS)
    side = recorder.side(b"x" * 400, "no-such-model")
    assert side.answer == "Yes, it does."
    assert side.tokens == Tokens(100, 4, estimated=True)
    assert side.cost_usd is None
    assert side.first_ms is not None
    assert side.total_ms is not None
    assert side.first_ms < side.total_ms


async def test_a_compressed_reply_is_read_and_an_unknown_encoding_is_not() -> None:
    packed = gzip.compress(completion("Yes."))
    recorder, _ = await passed([packed[:30], packed[30:]], (b"content-encoding", b"gzip"))
    assert recorder.side(b"{}", MODEL).answer == "Yes."
    for encoding, body in ((b"br", packed), (b"gzip", b"no gzip at all")):
        recorder, _ = await passed([body], (b"content-encoding", encoding))
        with pytest.raises(UnreadableReply):
            recorder.side(b"{}", MODEL)


async def test_a_reply_beyond_all_measure_is_not_kept() -> None:
    recorder, sent = await passed([b"x" * (1 << 19)] * 3)
    assert len(sent) == 4
    with pytest.raises(UnreadableReply, match="longer than 1 MB"):
        recorder.side(b"{}", MODEL)


@pytest.mark.parametrize(("body", "status", "whole", "error"), [
    (b'{"error": {"message": "too many tokens", "code": "context_length_exceeded"}}', 400, True, "too many tokens"),
    (b"", 413, True, "status 413"),
    (completion("Ye"), 200, False, "the reply broke off before its end"),
    (b"<html>", 200, True, "the reply broke off before its end"),
])  # fmt: skip
async def test_what_is_no_answer_says_why(body: bytes, status: int, whole: bool, error: str) -> None:
    recorder, _ = await passed([body], status=status, whole=whole)
    side = recorder.side(b"{}", MODEL)
    assert (side.status, side.answer, side.error) == (status, None, error)
    assert (side.first_ms, side.total_ms) == (None, None)
    assert (side.tokens == Tokens(0, 0)) == (status != 200)


async def test_without_a_reply_the_reason_is_the_one_given() -> None:
    side = ReplyRecorder(lambda _: None, 0.0, CHAT).side(b"{}", MODEL, "upstream_unreachable")  # type: ignore[arg-type,return-value]
    assert (side.status, side.error, side.tokens, side.cost_usd) == (0, "upstream_unreachable", Tokens(0, 0), 0.0)


def test_what_is_kept_is_read_again_also_by_an_older_version() -> None:
    side = Side(200, "Yes.", "stop", None, Tokens(100, 20, estimated=True), None, 1.5, 2.5)
    one = Comparison(
        "rag-1", 1.5, False, "key-1", MODEL, ["docs"], [Turn("user", "Does it?")], ["a.md"], 12, side, side, []
    )
    assert comparison_from(serialize_comparison(one)) == one
    later = orjson.loads(serialize_comparison(one)) | {"new": 1}
    later["rag"]["new"] = 2
    assert comparison_from(orjson.dumps(later)) == one
