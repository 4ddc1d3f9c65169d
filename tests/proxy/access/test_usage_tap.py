"""Reading a reply's tokens as it passes: every byte goes on as it is, however the reply is cut into pieces."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.access.usage_tap import UsageTap
from proxy.asgi import Message
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.paths import BY_PATH
from proxy.dialects.replies import Tokens, estimated_tokens
from tests.support.dialect_clients import BY_DIALECT, DialectClient

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}'
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
SAYS = [{"message": {"content": 'a "usage": {"prompt_tokens": 1} ü'}}]
WHOLE = json.dumps({"id": "x", "choices": SAYS, "usage": USAGE, "service_tier": "default"}).encode()
STREAM = b"".join(
    b"data: " + json.dumps({"id": "x", "choices": choices, "usage": usage}).encode() + b"\n\n"
    for choices, usage in [*(([{"delta": {"content": f"t{n}"}}], None) for n in range(20)), ([], USAGE)]
) + b"data: [DONE]\n\n"  # fmt: skip


def passed(
    pieces: Sequence[bytes],
    *,
    status: int = 200,
    kind: bytes = b"application/json",
    encoding: bytes = b"",
    dialect: Dialect = CHAT,
) -> tuple[Tokens, list[Message]]:
    """What a reply in these pieces took, and what was sent on."""
    sent: list[Message] = []

    def send(message: Message) -> None:
        sent.append(message)

    tap = UsageTap(send, dialect)  # type: ignore[arg-type]
    headers = [(b"content-type", kind), *([(b"content-encoding", encoding)] if encoding else [])]
    tap.send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in pieces:
        tap.send({"type": "http.response.body", "body": piece, "more_body": True})
    tap.send({"type": "http.response.body", "body": b""})
    return tap.tokens(BODY), sent


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


@given(cut(WHOLE))
def test_a_whole_replys_usage_is_found_however_it_is_cut(pieces: list[bytes]) -> None:
    tokens, sent = passed(pieces)
    assert tokens == Tokens(11, 7)
    assert all(message["body"] is piece for message, piece in zip(sent[1:], pieces, strict=False)), "the same objects"


@given(cut(STREAM))
def test_a_streams_usage_is_found_however_it_is_cut(pieces: list[bytes]) -> None:
    assert passed(pieces, kind=b"text/event-stream; charset=utf-8")[0] == Tokens(11, 7)


@BY_DIALECT
@pytest.mark.parametrize("words", [1, 20_000])
def test_the_usage_of_every_dialect_is_found_in_short_and_long_replies(client: DialectClient, words: int) -> None:
    used, text = Tokens(100, 20, cached=40, reasoning=0), 'a "usage": {"prompt_tokens": 1} ü '
    whole = client.whole(text * words, used)
    stream = client.events(*[text] * words, tokens=used)
    for body, kind in ((whole, b"application/json"), (stream, b"text/event-stream")):
        pieces = [body[start : start + 5000] for start in range(0, len(body), 5000)]
        assert passed(pieces, kind=kind, dialect=client.dialect)[0] == used


def test_a_long_reply_is_not_kept() -> None:
    pieces = [b"x" * 10_000] * 1000
    tap = UsageTap(lambda message: None, CHAT)  # type: ignore[arg-type, return-value]
    tap.send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in pieces:
        tap.send({"type": "http.response.body", "body": piece, "more_body": True})
    assert tap._kept_bytes <= 32_000
    tap.send({"type": "http.response.body", "body": WHOLE})
    assert tap.tokens(BODY) == Tokens(11, 7)


@pytest.mark.parametrize(("encoding", "packed"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_a_compressed_replys_usage_is_found(encoding: bytes, packed: Callable[[bytes], bytes]) -> None:
    long = WHOLE.replace(b'"a ', b'"' + b"word " * 50_000)
    whole = packed(long)
    assert passed([whole[:100], whole[100:]], encoding=encoding)[0] == Tokens(11, 7)
    assert passed([whole[: len(whole) // 2]], encoding=encoding)[0].estimated
    assert passed([b"no " + whole], encoding=encoding)[0].estimated
    assert passed([packed(b" " * 100_000_000)], encoding=encoding)[0].estimated, "a bomb is not unpacked"


def test_an_unknown_compression_leaves_an_estimate() -> None:
    assert passed([WHOLE], encoding=b"br")[0].estimated


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 5, "output_tokens": 6, "input_tokens_details": {"cached_tokens": 4},
          "output_tokens_details": {"reasoning_tokens": 2}}, Tokens(5, 6, 4, 2)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}},
         Tokens(11, 7, 3, 2)),
        ({**USAGE, "prompt_tokens_details": None}, Tokens(11, 7)),
        ({"prompt_tokens": 8, "total_tokens": 8}, Tokens(8, 0)),  # embeddings
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 99}}, Tokens(11, 7, 11)),
    ],
)  # fmt: skip
def test_the_words_of_every_dialect_are_understood(usage: dict[str, object], expected: Tokens) -> None:
    assert passed([json.dumps({"data": [], "usage": usage}).encode()])[0] == expected


@pytest.mark.parametrize(
    "usage",
    [{}, {"prompt_tokens": -1}, {"prompt_tokens": "many"}, {"prompt_tokens": True}, {"prompt_tokens": 2**53}, None],
)
def test_a_usage_that_says_nothing_leaves_an_estimate(usage: object) -> None:
    assert passed([json.dumps({"choices": [], "usage": usage}).encode()])[0].estimated


WORDS = "word " * 400  # 2,000 bytes


def in_pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@BY_DIALECT
@pytest.mark.parametrize("size", [3, 7, 400, 1000, 2000])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_a_text_counts_a_quarter_of_its_bytes_in_frames_of_any_length(
    client: DialectClient, size: int, *, ends: bool, packed: bool
) -> None:
    """Some providers send 50 tokens in a frame, some the whole text in the first frame."""
    stream = client.events(*in_pieces(WORDS, size), tokens=None, ends=ends)
    sent = gzip.compress(stream) if packed else stream
    encoding = b"gzip" if packed else b""
    tokens, _ = passed(in_three(sent), kind=b"text/event-stream", encoding=encoding, dialect=client.dialect)
    assert (tokens.completion, tokens.estimated) == (500, True)


def in_three(sent: bytes) -> list[bytes]:
    third = len(sent) // 3
    return [sent[:third], sent[third : 2 * third], sent[2 * third :]]


@BY_DIALECT
def test_a_text_in_one_piece_counts_about_the_same(client: DialectClient) -> None:
    tokens, _ = passed([client.whole(WORDS, None)], dialect=client.dialect)
    assert 400 < tokens.completion < 600
    assert tokens.estimated


@BY_DIALECT
def test_a_reply_that_the_client_leaves_is_an_estimate(client: DialectClient) -> None:
    """A message reports the prompt before the text; the first number of the answer is no report of the answer."""
    stream = client.events(*in_pieces(WORDS, 50), tokens=Tokens(25, 900))
    for share in (0.5, 0.7):
        left = stream[: int(len(stream) * share)]
        tokens, _ = passed([left], kind=b"text/event-stream", dialect=client.dialect)
        reader = client.read(left, streamed=True)
        assert tokens.estimated
        assert tokens.completion == -(-len((reader.answer or "").encode()) // 4) > 200


ARGUMENTS = json.dumps({"text": WORDS})


def of_choices(*deltas: object) -> object:
    return {"choices": [{"index": at, "delta": delta} for at, delta in enumerate(deltas)]}


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("chat/completions", of_choices({"tool_calls": [{"function": {"name": "f", "arguments": ARGUMENTS}}]})),
        ("chat/completions", of_choices({"tool_calls": [{"custom": {"name": "f", "input": ARGUMENTS}}]})),
        ("chat/completions", of_choices({"function_call": {"name": "f", "arguments": ARGUMENTS}})),
        ("chat/completions", of_choices({"reasoning_content": ARGUMENTS, "reasoning": ARGUMENTS})),
        ("chat/completions", of_choices({"content": ARGUMENTS[::2]}, {"content": ARGUMENTS[1::2]})),
        ("chat/completions", {"choices": [{"index": 0, "text": ARGUMENTS}]}),
        ("responses", {"type": "response.function_call_arguments.delta", "delta": ARGUMENTS}),
        ("responses", {"type": "response.reasoning_summary_text.delta", "delta": ARGUMENTS}),
        ("messages", {"type": "content_block_delta", "index": 0, "delta": {"partial_json": ARGUMENTS}}),
        ("messages", {"type": "content_block_delta", "index": 0, "delta": {"thinking": ARGUMENTS}}),
    ],
)
def test_calls_thoughts_and_further_answers_count(path: str, row: object) -> None:
    stream = b"data: " + json.dumps(row).encode() + b"\n\n"
    tokens, _ = passed([stream], kind=b"text/event-stream", dialect=BY_PATH[f"/v1/{path}"])
    assert tokens.completion == -(-len(ARGUMENTS) // 4)


def test_a_frame_without_end_is_not_kept_and_counts_by_its_bytes() -> None:
    tap = UsageTap(lambda message: None, CHAT)  # type: ignore[arg-type, return-value]
    head = [(b"content-type", b"text/event-stream")]
    tap.send({"type": "http.response.start", "status": 200, "headers": head})
    for _ in range(300):
        tap.send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
    assert tap._frames.rest_bytes <= 1_100_000
    assert 500_000 < tap.tokens(BODY).completion <= 750_000


@pytest.mark.parametrize("number", [11.0, 11])
def test_a_whole_number_counts_however_it_is_written(number: float) -> None:
    usage = {"prompt_tokens": number, "completion_tokens": number}
    assert passed([json.dumps({"usage": usage}).encode()])[0] == Tokens(11, 11)
    event = b"data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}).encode()
    assert passed([event + b"\n\n"], kind=b"text/event-stream")[0] == Tokens(11, 11)


def test_a_report_without_the_prompt_leaves_an_estimate() -> None:
    assert passed([json.dumps({"usage": {"prompt_tokens": None, "completion_tokens": 7}}).encode()])[0].estimated


@BY_DIALECT
def test_the_service_tier_is_read(client: DialectClient) -> None:
    whole = json.loads(client.whole("Yes.", Tokens(100, 20)))
    holder = whole["usage"] if client.path == "/v1/messages" else whole
    holder["service_tier"] = "priority"
    tokens, _ = passed([json.dumps(whole).encode()], dialect=client.dialect)
    assert (tokens.prompt, tokens.tier) == (100, "priority")


def test_a_refusal_costs_nothing_and_a_request_without_a_reply_its_prompt() -> None:
    assert passed([b'{"error": {}}'], status=429)[0] == Tokens(0, 0)
    assert UsageTap(lambda message: None, CHAT).tokens(BODY) == Tokens(17, 0, estimated=True)  # type: ignore[arg-type, return-value]


def test_an_attachment_does_not_count_by_its_bytes() -> None:
    picture = b'{"url": "data:image/png;base64,' + b"iVBORw0KGgo" * 100_000 + b'"}'
    assert estimated_tokens(picture) < 1100
    assert estimated_tokens(b"word " * 4000) == 5000
    assert estimated_tokens(b"") == 0


def test_nor_does_a_reply_of_sound_or_of_images() -> None:
    assert passed([b"ID3" + b"\0" * 2_000_000], kind=b"audio/mpeg")[0].completion == 1000
    image = b'{"data": [{"b64_json": "' + b"iVBORw0KGgo" * 100_000 + b'"}]}'
    assert passed([image])[0].completion == 1000
    assert passed([image[:-1] + b', "usage": {"input_tokens": 5, "output_tokens": 4160}}'])[0] == Tokens(5, 4160)
    assert passed([b"word " * 4000], kind=b"text/plain")[0].completion == (20_000 - 300) // 4


def test_no_text_is_read_again_and_again_for_attachments() -> None:
    """Words of 1,999 letters took 20 s by an expression that looks for runs of 2,000 from every letter."""
    words = (b"a" * 1999 + b" ") * 5000
    assert estimated_tokens(words) == len(words) // 4


@given(st.lists(st.tuples(st.sampled_from([b"a", b"=", b" ", b'"', b"\xc3"]), st.integers(0, 3000)), max_size=12))
def test_an_attachment_is_a_run_of_2000_signs_of_base64_or_more(parts: list[tuple[bytes, int]]) -> None:
    body = b"." * 4000 + b"".join(sign * times for sign, times in parts)
    text, found = re.subn(rb"[A-Za-z0-9+/=]{2000,}", b"", body)
    assert estimated_tokens(body) == -(-len(text) // 4) + found * 1000
