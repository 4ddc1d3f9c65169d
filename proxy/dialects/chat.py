"""OpenAI's chat completions: the dialect of `/v1/chat/completions`."""

from collections.abc import Sequence
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
    checked_messages,
    index_of_question,
    text_of,
)
from proxy.dialects.chat_reply import ChatReplyReader, completion, completion_frames
from proxy.dialects.json_body import Edit, member_span, nth_item, unescaped, value_at
from proxy.dialects.token_counts import Tokens, reported_tokens, tier_in, usages_in

_MORE_THAN_TEXT = ("tools", "functions", "audio")


class ChatRequest(ModelRequest):
    __slots__ = ()
    BESIDE = ("tools", "functions", "response_format")
    ANSWER_LIMITS = ("max_completion_tokens", "max_tokens")

    def messages(self) -> Sequence[ConversationMessage]:
        """At least one message. Raises ApiError 400: no list, or a message without a role."""
        return [
            ConversationMessage(one["role"], text_of(one.get("content")), one.get("tool_calls"))
            for one in checked_messages(self.fields)
        ]

    def wants_only_text(self) -> bool:
        if self.fields.get("web_search_options") is not None:  # a search without options is {}
            return False
        return self.fields.get("n") in (None, 1) and not any(self.fields.get(name) for name in _MORE_THAN_TEXT)

    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        messages = self.fields["messages"]
        opening = value_at(self.raw, self.members["messages"])
        index = _index_for(position, messages)
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
