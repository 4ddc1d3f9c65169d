"""Anthropic's Messages API: the dialect of `POST /v1/messages`."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.base import (
    X_API_KEY,
    ConversationMessage,
    Dialect,
    ModelRequest,
    Position,
    checked_messages,
    index_of_question,
    text_of,
)
from proxy.dialects.errors import ApiError, encodable
from proxy.dialects.json_body import Edit, JsonBody, end_of, kind_of, member_span, nth_item, unescaped, value_at
from proxy.dialects.replies import (
    ReplyReader,
    Tokens,
    ToolCallPieces,
    cumulative_tokens,
    error_text,
    json_bytes,
    text_bytes_of,
    usages_in,
)

COUNT_PATH = "/v1/messages/count_tokens"
_MORE_THAN_TEXT = ("tools", "mcp_servers", "container")
# Anthropic's error types: https://docs.claude.com/en/api/errors.
_ERROR_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


class MessagesRequest(ModelRequest):
    """A request for a message, or for a token count of such a request."""

    __slots__ = ()
    NAMES = ("model", "messages", "system", "rag")
    BESIDE = ("tools", "output_config")
    ANSWER_LIMITS = ("max_tokens",)

    def messages(self) -> Sequence[ConversationMessage]:
        """At least one. Raises ApiError 400: not a list, a message without a role, or an unreadable `system`."""
        system = self.fields.get("system")
        if not isinstance(system, str | list | None):
            text = f"'system' must be a text or a list of text blocks, got {kind_of(system)}."
            raise ApiError(400, text, code="invalid_messages", param="system")
        read = [ConversationMessage("system", text_of(system))] if system else []
        return [*read, *map(_read, checked_messages(self.fields))]

    def _persons(self) -> Sequence[Any]:
        metadata = self.fields.get("metadata")
        return [metadata.get("user_id")] if isinstance(metadata, dict) else []

    def wants_only_text(self) -> bool:
        return not any(self.fields.get(name) for name in _MORE_THAN_TEXT)

    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        """A text block at the end of `system`, after all its `cache_control` blocks: the cache stays valid.

        For tail, at the end of the newest user message that asks something, after its tool results. A message of tool
        results alone gets no text: models then answer with an empty message. And every round of a tool conversation
        keeps the same bytes up to its tool results, so their cache stays valid, too.
        """
        if position == "tail":
            return _at_end(*self._question(), text)
        if "system" not in self.members:
            opening = self.raw.index(b"{") + 1
            return [Edit(opening, opening, b'"system":' + orjson.dumps(text) + b",")]
        system, plain = self.fields["system"], unescaped(self.raw)
        start = value_at(self.raw, self.members["system"])
        end = end_of(plain, start)
        if system is None:
            return [Edit(start, end, orjson.dumps(text))]
        return _at_end(start, end, system, text)

    def _question(self) -> tuple[int, int, Any]:
        """Place and value of the newest content that asks something. The request must have a question."""
        messages, plain = self.fields["messages"], unescaped(self.raw)
        read = [(index, _read(message)) for index, message in enumerate(messages)]
        index = index_of_question([(index, message.text) for index, message in read if message.role == "user"])
        opening = value_at(self.raw, self.members["messages"])
        start, end = member_span(self.raw, plain, nth_item(plain, opening, index), "content")
        return start, end, messages[index]["content"]


def _at_end(start: int, end: int, content: Any, text: str) -> Sequence[Edit]:
    """Append the text as a block to a content: a text or a list of blocks. start, end: its place in the body.

    Claude Code sends a question first as a block, later as a text: the blocks before our passages stay the same.
    """
    if isinstance(content, str) and content.strip():
        return [Edit(start, start, b'[{"type":"text","text":'), Edit(end, end, b"}," + _block(text) + b"]")]
    if isinstance(content, str):  # Anthropic refuses a block with an empty text
        return [Edit(end - 1, end - 1, orjson.dumps("\n\n" + text if content else text)[1:-1])]
    return [Edit(end - 1, end - 1, b"," + _block(text) if content else _block(text))]


def _block(text: str) -> bytes:
    return b'{"type":"text","text":' + orjson.dumps(text) + b"}"


def _read(message: dict[str, Any]) -> ConversationMessage:
    """Read one message. A user message that holds only tool results gets the role tool."""
    role, content = message["role"], message.get("content")
    if isinstance(content, str):
        return ConversationMessage(role, content)
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if role == "user" and blocks and all(block.get("type") == "tool_result" for block in blocks):
        return ConversationMessage("tool", "\n".join(text_of(block.get("content")) for block in blocks))
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return ConversationMessage(role, text_of(content), calls or None)


def _usage_in(start: bytes, end: bytes) -> Tokens | None:
    """A stream reports its prompt in the first event and its answer near the end; a whole message, both near the
    end.
    """
    usages = [*islice(usages_in(end), 1)]
    if start.lstrip()[:1] != b"{":  # a whole message may hold a tool's own `usage`
        usages += usages_in(start)
    return cumulative_tokens(usages)


def _error_body(error: ApiError, request_id: str) -> bytes:
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    row: dict[str, Any] = {"type": kind, "message": encodable(error.message)}
    if error.details:
        row["details"] = error.details
    return orjson.dumps({"type": "error", "error": row, "request_id": request_id})


# --- replies ----------------------------------------------------------------------------------------------------------


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


MESSAGES = Dialect(
    path="/v1/messages",
    key_header=X_API_KEY,
    reader=MessageReader,
    parse=MessagesRequest.parse,
    usage_in=_usage_in,
    reply=whole_message,
    reply_frames=message_frames,
    error_body=_error_body,
    error_frame=lambda error, request_id: b"event: error\n" + sse.frame(_error_body(error, request_id)),
)
