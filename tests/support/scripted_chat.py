"""A scripted model behind chat completions: the answers of `scripted_responses`, in the form of a completion."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.scripted_responses import ARGUMENTS, CACHED, COMPLETION, PROMPT, REASONING, SUMMARY, TEXT, thirds

Json = dict[str, Any]
USAGE = {
    "prompt_tokens": PROMPT,
    "completion_tokens": COMPLETION,
    "total_tokens": PROMPT + COMPLETION,
    "prompt_tokens_details": {"cached_tokens": CACHED},
    "completion_tokens_details": {"reasoning_tokens": REASONING},
}


def completion_to(asked: Json) -> Json:
    """The whole completion."""
    message, finish = _message(asked)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**_head(asked), "object": "chat.completion", "choices": [choice], "usage": USAGE}


def frames_to(asked: Json) -> list[bytes]:
    """The events of the streamed completion, on the wire."""
    rows = [{**_head(asked), "object": "chat.completion.chunk", **chunk} for chunk in _chunks(asked)]
    return [*(f"data: {json.dumps(row, ensure_ascii=False)}\n\n".encode() for row in rows), b"data: [DONE]\n\n"]


def _head(asked: Json) -> Json:
    return {"id": "chatcmpl-1", "created": 1700000000, "model": asked["model"], "service_tier": "default"}


def _message(asked: Json) -> tuple[Json, str]:
    """The message and the finish reason."""
    message: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    if asked.get("reasoning_effort"):
        message["reasoning_content"] = SUMMARY
    if asked.get("tools") and all(each["role"] != "tool" for each in asked["messages"]):
        function = {"name": asked["tools"][0]["function"]["name"], "arguments": ARGUMENTS}
        call = {"id": "call_0123456789abcdef", "type": "function", "function": function}
        return {**message, "tool_calls": [call]}, "tool_calls"
    as_json = (asked.get("response_format") or {}).get("type") == "json_schema"
    return {**message, "content": ARGUMENTS if as_json else TEXT}, "stop"


def _chunks(asked: Json) -> Iterator[Json]:
    message, finish = _message(asked)
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in thirds(message.get("reasoning_content", ""))]
    for call in message.get("tool_calls", ()):
        deltas.append({"tool_calls": [{"index": 0, **call, "function": {**call["function"], "arguments": ""}}]})
        for piece in thirds(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    deltas += [{"content": piece} for piece in thirds(message["content"] or "")]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield {"choices": [], "usage": USAGE}
