"""A message of Anthropic's Messages API, read and written."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from proxy.dialects import sse
from proxy.dialects.json_body import JsonBody
from proxy.dialects.replies import ReplyReader, ToolCallPieces, error_text, json_bytes, text_bytes_of
from proxy.dialects.token_counts import Tokens, cumulative_tokens

# Anthropic's stop reason -> a chat completion's finish reason; any other reason stays.
_FINISH_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
    "tool_use": "tool_calls", "refusal": "content_filter",
}  # fmt: skip


class MessageReader(ReplyReader):
    """Reads a message, streamed or whole."""

    def __init__(self, *, streamed: bool, **options: Any) -> None:
        super().__init__(streamed=streamed, **options)
        self._usages: list[Mapping[str, Any]] = []
        self._call: ToolCallPieces | None = None  # in the arriving block

    def _read_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._add_usage(_object(event.get("message")))
        elif kind == "content_block_start":
            self._begin_block(_object(event.get("content_block")))
        elif kind == "content_block_delta":
            self._read_delta(_object(event.get("delta")))
        elif kind == "content_block_stop":
            self._end_block()
        elif kind == "message_delta":
            self._finish(_object(event.get("delta")))
            self._add_usage(event)
        elif kind == "message_stop":
            self.ended = True
        elif kind == "message":
            self._read_whole(event)
        elif event.get("error"):
            self.error = error_text(event["error"])

    def _read_whole(self, message: Mapping[str, Any]) -> None:
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else ():
            self._begin_block(_object(block))
            self._end_block()
        self._finish(message)
        self._add_usage(message)
        self.ended = True

    def _begin_block(self, block: Mapping[str, Any]) -> None:
        """Only `tool_use` blocks are calls for the client; other tools run at the provider."""
        self._add(self._answer, block.get("text"))
        self._add(self._reasoning, block.get("thinking"))
        self.text_bytes += text_bytes_of(block.get("text"), block.get("thinking"), block.get("input"))
        self._call = self._tool_call(len(self._calls)) if block.get("type") == "tool_use" else None
        if self._call is not None:
            given = block.get("input")  # in a stream {}: arguments come as deltas
            arguments = json_bytes(given).decode() if isinstance(given, dict) and given else ""
            self._call.add(id=block.get("id"), name=block.get("name"), arguments=arguments)

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        self._add(self._answer, delta.get("text"))
        self._add(self._reasoning, delta.get("thinking"))
        self.text_bytes += text_bytes_of(delta.get("text"), delta.get("thinking"), delta.get("partial_json"))
        if self._call is not None:
            self._call.add(arguments=delta.get("partial_json"))

    def _end_block(self) -> None:
        if self._call is not None and not self._call.call().arguments:
            self._call.add(arguments="{}")
        self._call = None

    def _finish(self, message: Mapping[str, Any]) -> None:
        if isinstance(reason := message.get("stop_reason"), str):
            self.finish_reason = _FINISH_REASONS.get(reason, reason)

    def _add_usage(self, message: Mapping[str, Any]) -> None:
        if usage := _object(message.get("usage")):
            self._usages.append(usage)
            self.usage = cumulative_tokens(self._usages)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def whole_message(request: JsonBody, text: str, tokens: Tokens) -> bytes:
    """A whole message, with one text block."""
    message = begun_message(request.fields, usage_of_message(tokens))
    return json_bytes({**message, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})


def message_frames(request: JsonBody, texts: Iterable[str], tokens: Tokens) -> Iterator[bytes]:
    """A streamed message's events, with one text block."""
    usage = usage_of_message(tokens)
    yield _event("message_start", message=begun_message(request.fields, {**usage, "output_tokens": 1}))
    yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    yield _event("ping")
    for text in texts:
        yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    yield _event("content_block_stop", index=0)
    yield _event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def _event(kind: str, **members: Any) -> bytes:
    return b"event: " + kind.encode() + b"\n" + sse.frame(json_bytes({"type": kind, **members}))


def begun_message(fields: Mapping[str, Any], usage: Mapping[str, int]) -> dict[str, Any]:
    """A message in progress. fields: the request's members."""
    head = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": fields.get("model")}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}


def usage_of_message(tokens: Tokens) -> dict[str, int]:
    """A message's `usage`: `input_tokens` leaves out what the provider's cache wrote or read."""
    cached = {"cache_creation_input_tokens": tokens.cache_writes, "cache_read_input_tokens": tokens.cached}
    new = tokens.prompt - tokens.cached - tokens.cache_writes
    return {"input_tokens": new, **cached, "output_tokens": tokens.completion}
