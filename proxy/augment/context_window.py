"""How many tokens of passages a model's context window has room for.

The gateway has no tokenizer, so the size of the conversation is an estimate. Three bytes of UTF-8 per token are fewer
than most texts and tokenizers need (English prose four and more, code three to four, Chinese three), so the estimate
errs towards fewer passages. The tokens of images and sounds do not follow from the bytes: the estimate leaves images
and sounds out. The share of the window leaves room for images, for the answer and for the messages of a tool loop.
Messages of a tool loop do not count, either: every round of the loop gets the same passages.
"""

import contextlib
from typing import Any

import orjson

from proxy.dialects.base import ModelRequest

_BYTES_PER_TOKEN = 3
_MESSAGE_TOKENS = 4  # a chat template puts as many around a message


def room_tokens(request: ModelRequest, *, window_tokens: int, share: float) -> int:
    """The most tokens that passages may take: a share of the window's rest; 0 or more.

    The rest is the window without the conversation and without the tokens that the client reserves for the answer.
    """
    return max(0, int(share * (window_tokens - request.answer_tokens() - conversation_tokens(request))))


def conversation_tokens(request: ModelRequest) -> int:
    """About how many tokens the tools, and the messages up to the latest user message, take."""
    messages = request.messages()
    last = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    total_bytes = sum(map(_json_bytes, request.beside_messages()))
    for message in messages[: last + 1]:
        total_bytes += _text_bytes(message.text) + _json_bytes(message.calls)
    return total_bytes // _BYTES_PER_TOKEN + _MESSAGE_TOKENS * (last + 1)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _json_bytes(value: Any) -> int:
    """The bytes of a value as JSON; 0 for null and empty values."""
    if not value:
        return 0
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # half a surrogate pair, or a number beyond 64 bits: other readers take both
        with contextlib.suppress(RecursionError):  # orjson writes at most 254 levels, and reads 1,024
            return len(str(value))
        return 0
