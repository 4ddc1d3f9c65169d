"""A scripted model behind the Messages API: the message for a request, whole and as events, in Anthropic's own form.

The request decides: a tool without a result is called, `output_config` with a schema gets JSON, `thinking` gets a
thinking block with a signature. Every other request gets the text of the scripted responses.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.scripted_responses import ARGUMENTS, CACHED, COMPLETION, SUMMARY, TEXT, thirds

Json = dict[str, Any]
SIGNATURE = "EqQBCkYscripted+/=="
COUNTED = 1234


def message_to(asked: Json) -> Json:
    """The whole message."""
    content = list(_blocks(asked))
    reason = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    return _envelope(asked, content, reason)


def frames_to(asked: Json) -> list[bytes]:
    """The events of the streamed message, on the wire."""
    return [
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in _events(asked)
    ]


def _envelope(asked: Json, content: list[Json], reason: str | None) -> Json:
    usage = {
        "input_tokens": 76,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": COMPLETION if reason else 1,
        "service_tier": "standard",
    }
    return {
        "model": asked["model"],
        "id": "msg_0123456789abcdef",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _blocks(asked: Json) -> Iterator[Json]:
    if (asked.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        yield {"type": "thinking", "thinking": SUMMARY, "signature": SIGNATURE}
    tools = [tool["name"] for tool in asked.get("tools") or () if "input_schema" in tool]
    if tools and not _has_result(asked["messages"]):
        yield {"type": "tool_use", "id": "toolu_0123456789abcdef", "name": tools[0], "input": json.loads(ARGUMENTS)}
        return
    configured = (asked.get("output_config") or {}).get("format") or asked.get("output_format") or {}
    yield {"type": "text", "text": ARGUMENTS if configured.get("type") == "json_schema" else TEXT}


def _has_result(messages: list[Json]) -> bool:
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    return any(block.get("type") == "tool_result" for content in contents for block in content)


def _events(asked: Json) -> Iterator[Json]:
    whole = message_to(asked)
    yield {"type": "message_start", "message": _envelope(asked, [], None)}
    for index, block in enumerate(whole["content"]):
        begun, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": COMPLETION}}
    yield {"type": "message_stop"}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """The empty block, and the deltas that fill the block."""
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thirds(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] == "tool_use":
        pieces = ["", *thirds(json.dumps(block["input"], separators=(",", ":")))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in thirds(block["text"])]
