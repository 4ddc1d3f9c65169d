"""OpenAI's chat completions: the dialect of `/v1/chat/completions`."""

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.base import (
    INSTRUCTIONS,
    ConversationMessage,
    Dialect,
    ModelRequest,
    Position,
    index_of_question,
    plain_messages,
    text_of,
)
from proxy.dialects.json_body import Edit, JsonBody, member_span, nth_item, unescaped, value_at
from proxy.dialects.replies import (
    ChatReplyReader,
    Tokens,
    json_bytes,
    reported_tokens,
    tier_in,
    usages_in,
)

_MORE_THAN_TEXT = ("tools", "functions", "audio")


class ChatRequest(ModelRequest):
    __slots__ = ()
    BESIDE = ("tools", "functions", "response_format")
    ANSWER_LIMITS = ("max_completion_tokens", "max_tokens")

    def messages(self) -> Sequence[ConversationMessage]:
        """At least one message. Raises ApiError 400: not a list, or a message without a role."""
        if self._messages is None:
            self._messages = plain_messages(self.fields)
        messages: Sequence[ConversationMessage] = self._messages
        return messages

    def wants_only_text(self) -> bool:
        if self.fields.get("web_search_options") is not None:  # a search without options is {}
            return False
        return self.fields.get("n") in (None, 1) and not any(self.fields.get(name) for name in _MORE_THAN_TEXT)

    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        messages = self.fields["messages"]
        index = _index_for(position, messages)
        opening = value_at(self.raw, self.members["messages"])
        if index < 0:
            message = b'{"role":"system","content":' + orjson.dumps(text) + b"}"
            return [Edit(opening + 1, opening + 1, message + (b"," if messages else b""))]
        content = messages[index]["content"]
        plain = unescaped(self.raw)
        start, end = member_span(self.raw, plain, nth_item(plain, opening, index), "content")
        if isinstance(content, str):
            empty = plain[start + 1] == ord('"')
            return [Edit(end - 1, end - 1, orjson.dumps(text if empty else "\n\n" + text)[1:-1])]
        part = b'{"type":"text","text":' + orjson.dumps(text) + b"}"
        return [Edit(end - 1, end - 1, b"," + part if content else part)]


def _index_for(position: Position, messages: Sequence[Any]) -> int:
    """Index of the message that takes the text; -1: the text becomes a first message of its own."""
    if position == "lead":
        return -1
    roles = INSTRUCTIONS if position == "merge" else ("user",)
    found = [(i, each) for i, each in enumerate(messages) if isinstance(each, dict) and each.get("role") in roles]
    if position == "merge":
        index = found[0][0] if found else -1
    else:
        index = index_of_question([(i, text_of(message.get("content"))) for i, message in found])
    return index if index >= 0 and isinstance(messages[index].get("content"), str | list) else -1


def usage_in(_start: bytes, end: bytes) -> Tokens | None:
    """The last usage near a reply's end, where upstreams report it; in a stream only if asked to."""
    tokens = next((found for usage in usages_in(end) if (found := reported_tokens(usage)) is not None), None)
    return None if tokens is None else replace(tokens, tier=tokens.tier or tier_in(end))


# --- replies ----------------------------------------------------------------------------------------------------------


def completion(request: JsonBody, text: str, tokens: Tokens) -> bytes:
    """A whole reply: `n` times the same choice."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index in range(request.fields.get("n") or 1)
    ]
    return json_bytes({**_envelope(request.fields, "chat.completion"), "choices": choices, "usage": usage_of(tokens)})


def completion_frames(request: JsonBody, texts: Iterable[str], tokens: Tokens) -> Iterator[bytes]:
    """A streamed reply: role, texts and finish, each for every choice; usage if asked for; [DONE]."""
    fields = request.fields
    options = fields.get("stream_options") or {}
    envelope = _envelope(fields, "chat.completion.chunk")
    if options.get("include_usage"):
        envelope["usage"] = None  # in every chunk but the last, like OpenAI
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": "", "refusal": None}, None)]
    deltas += [({"content": text}, None) for text in texts]
    deltas.append(({}, "stop"))
    for delta, finish in deltas:
        for index in range(fields.get("n") or 1):
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
            yield sse.frame(json_bytes({**envelope, "choices": [choice]}))
    if options.get("include_usage"):
        yield sse.frame(json_bytes({**envelope, "choices": [], "usage": usage_of(tokens)}))
    yield sse.DONE


def usage_of(tokens: Tokens) -> dict[str, int]:
    total = tokens.prompt + tokens.completion
    return {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion, "total_tokens": total}


def _envelope(fields: Mapping[str, Any], kind: str) -> dict[str, Any]:
    reply_id, created = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())
    return {"id": reply_id, "object": kind, "created": created, "model": fields.get("model")}


CHAT = Dialect(
    path="/v1/chat/completions",
    key_header=b"authorization",
    reader=ChatReplyReader,
    parse=ChatRequest.parse,
    usage_in=usage_in,
    reply=completion,
    reply_frames=completion_frames,
    error_body=lambda error, _: error.body(),
    error_frame=lambda error, _: sse.frame(error.body()),  # never followed by [DONE]
)
