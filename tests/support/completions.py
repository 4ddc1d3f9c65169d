"""Streamed chat completions as a scripted upstream sends them, and what one was asked."""

import json
from typing import Any

from tests.support.upstream_servers import Received, chunked, head, reply

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_JSON = b"content-type: application/json"


def events(*texts: str, usage: dict[str, Any] | None = USAGE, finish: str = "stop", done: bool = True) -> bytes:
    """The event stream of an answer that comes in these texts."""
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, *({"content": text} for text in texts)]
    rows: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        rows.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        rows.append({"choices": [], "usage": usage})
    frames = [b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows]
    return b"".join([*frames, b"data: [DONE]\n\n"] if done else frames)


def streamed(*texts: str, **how: Any) -> bytes:
    """The same as a whole HTTP reply; how: as in `events`."""
    return head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + b"".join(
        chunked([events(*texts, **how)])
    )


def cut_short(*texts: str) -> bytes:
    """A stream that stops in the middle, as a whole HTTP reply."""
    return streamed(*texts, usage=None, finish="", done=False)


def refusal(status: int, message: str = "no", *headers: bytes, code: str = "") -> bytes:
    """A refusal in OpenAI's shape."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return reply(json.dumps({"error": error}).encode(), _JSON, *headers, status=b"%d No" % status)


def asked_of(received: Received) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = json.loads(received.body)
    return body


def question_of(received: Received) -> str:
    """The latest message's text."""
    text: str = asked_of(received)["messages"][-1]["content"]
    return text
