"""Request bodies that are no JSON, no chat completion, or one with fields of the wrong type."""

import contextlib
from collections.abc import Iterator

import orjson

from tests.wire.raw_calls import chat


def bodies() -> dict[str, bytes]:
    """What is no JSON, or no chat completion."""
    good = chat("relay", stream=False, temperature=0.5)
    made = {f"cut at {n}": good[:n] for n in range(0, len(good), 6)}
    deep = 100_000
    parts = {
        "white space": b" \r\n\t", "a byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "bytes that are no UTF-8": good.replace(b"Kotlin", b"\xff\xfe"),
        "half a letter": good.replace(b"Kotlin", b"\xe2\x82"),
        "an overlong letter": good.replace(b"Kotlin", b"\xc0\xaf"),
        "a surrogate's bytes": good.replace(b"Kotlin", b"\xed\xa0\x80"),
        "half a pair, escaped": good.replace(b"Kotlin", b"\\ud800"),
        "a NUL in a text": good.replace(b"Kotlin", b"\0"), "a NUL escaped": good.replace(b"Kotlin", b"\\u0000"),
        "a line break in a text": good.replace(b"Kotlin", b"\n"), "no such escape": good.replace(b"Kotlin", b"\\x41"),
        "NaN": good.replace(b"0.5", b"NaN"), "Infinity": good.replace(b"0.5", b"Infinity"),
        "-Infinity": good.replace(b"0.5", b"-Infinity"), "1e999": good.replace(b"0.5", b"1e999"),
        "ten thousand digits": good.replace(b"0.5", b"1" * 10_000), "01": good.replace(b"0.5", b"01"),
        "1.": good.replace(b"0.5", b"1."), ".5": good.replace(b"0.5", b".5"), "+1": good.replace(b"0.5", b"+1"),
        "a comma too many": good[:-1] + b",}", "a comment": b"/* */" + good, "single quotes": good.replace(b'"', b"'"),
        "two values": good + good, "text behind": good + b"x", "nothing but a bracket": b"{",
        "model twice": good[:-1] + b',"model":"other"}', "messages twice": good[:-1] + b',"messages":[]}',
        "rag twice": good[:-1] + b',"rag":true,"rag":false}', "temperature twice": good[:-1] + b',"temperature":1}',
        "nested without end": b'{"a":' * deep, "brackets without end": b"[" * deep,
        "nested deep": chat("relay")[:-1] + b',"x":' + b"[" * deep + b"]" * deep + b"}",
        "objects nested deep": b'{"a":' * deep + b"1" + b"}" * deep,
        "message nested deep": b'{"model":"relay","messages":' + b"[" * deep + b"]" * deep + b"}",
        "a list": b"[]", "a text": b'"model"', "a number": b"7", "null": b"null", "true": b"true",
        "nothing in it": b"{}",
        "an empty key": b'{"":1}', "a key of one megabyte": b'{"%b":1}' % (b"k" * 2**20),
        "a hundred thousand keys": b"{%b}" % b",".join(b'"k%d":1' % n for n in range(100_000)),
        "a role that is none": chat("relay", messages=[{"role": 7, "content": "x"}]),
        "no role": chat("relay", messages=[{"content": "x"}]), "a message that is none": chat("relay", messages=["x"]),
        "no messages": chat("relay", messages=[]), "a message of nothing": chat("relay", messages=[{}]),
        "content of numbers": chat("relay", messages=[{"role": "user", "content": [1, 2]}]),
        "parts of nothing": chat("relay", messages=[{"role": "user", "content": [{}]}]),
        "a part's text a number": chat("relay", messages=[{"role": "user", "content": [{"type": "text", "text": 1}]}]),
    }  # fmt: skip
    return made | parts


FIELDS = (
    "model", "messages", "stream", "n", "temperature", "top_p", "max_tokens", "max_completion_tokens", "tools",
    "tool_choice", "parallel_tool_calls", "stop", "logit_bias", "user", "response_format", "stream_options", "seed",
    "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "reasoning_effort", "functions",
    "function_call", "modalities", "audio", "prediction", "service_tier", "store", "metadata", "rag",
)  # fmt: skip
VALUES: tuple[object, ...] = (
    None, True, -1, 2**70, 1e300, "x", "", [], [None], [[]], {}, {"type": 7}, {"x": {"y": [1]}},
)  # fmt: skip


def wrong_types(model: str) -> Iterator[tuple[str, bytes]]:
    """Each field of another type."""
    for name in FIELDS:
        for value in VALUES:
            if (name, value) == ("stream", True):  # of the right type
                continue
            fields = {"model": model, "messages": [{"role": "user", "content": "x"}], name: value}
            with contextlib.suppress(TypeError):  # orjson writes no integer of 70 bits
                yield f"{name}: {value!r}", orjson.dumps(fields)
    yield "n: 2**70", chat(model)[:-1] + b',"n":1180591620717411303424}'
