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
from proxy.dialects.token_counts import Tokens, estimated_tokens
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


def test_a_stream_without_usage_is_estimated_by_its_frames() -> None:
    frames = [b'data: {"choices": [{"delta": {"content": "tok"}}], "id": "x"}\n\n'] * 40
    tokens, _ = passed([*frames, b"data: [DONE]\n\n"], kind=b"text/event-stream")
    assert tokens == Tokens(estimated_tokens(BODY), 38, estimated=True)
    long = frames[0].replace(b"tok", b"word " * 100)
    tokens, _ = passed([frames[0], *[long] * 10], kind=b"text/event-stream")
    assert 1200 < tokens.completion < 1300, "ten frames of 500 characters"


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
