"""How many tokens of passages fit into a model's context window.

The gateway has no tokenizer, so it estimates how long a conversation is. Three bytes of UTF-8 per token are fewer than
most texts and tokenizers need (English prose four and more, code three to four, Chinese three): it errs towards fewer
passages. It leaves out images and sounds, whose bytes do not tell their tokens. Only a share of the window is used,
which leaves room for images, an answer and a tool loop's messages. These do not count, either: every round of a loop
gets the same passages.
"""

import contextlib
from typing import Any

import orjson

from proxy.dialects.base import ModelRequest

_BYTES_PER_TOKEN = 3
_MESSAGE_TOKENS = 4  # what a chat template puts around a message


def room_tokens(request: ModelRequest, *, window_tokens: int, share: float) -> int:
    """How many tokens passages may take: a share of what is left of the window; 0 or more.

    What is left: the window minus the conversation and the tokens that the client reserves for its answer.
    """
    return max(0, int(share * (window_tokens - request.answer_tokens() - conversation_tokens(request))))


def conversation_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of tools, and of messages up to the latest user message."""
    messages = request.messages()
    last = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    total_bytes = sum(map(_json_bytes, request.beside_messages()))
    for message in messages[: last + 1]:
        total_bytes += _text_bytes(message.text) + _json_bytes(message.calls)
    return total_bytes // _BYTES_PER_TOKEN + _MESSAGE_TOKENS * (last + 1)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _json_bytes(value: Any) -> int:
    """A value's length as JSON, in bytes; 0 for null and empty values."""
    if not value:
        return 0
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # half a surrogate pair, or a number beyond 64 bits: others take both
        with contextlib.suppress(RecursionError):  # orjson writes at most 254 levels, and reads 1,024
            return len(str(value))
        return 0
