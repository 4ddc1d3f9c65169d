"""How many tokens of passages a model's context window has room for.

The conversation is estimated, not counted: the gateway holds no tokenizer, and its passages are counted by another
model's than the one asked anyway. Three bytes of UTF-8 a token is more than most texts and tokenizers need (English
prose four and more, code three to four, Chinese three), so the estimate errs towards fewer passages. Images and
sounds, whose tokens do not follow from their bytes, are left out; the share leaves room for them, for the answer and
for what a tool loop adds. That is not counted, either: every round of it shall get the same passages.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.dialects.chat import text_of

_BYTES_A_TOKEN = 3
_MESSAGE_TOKENS = 4  # what a chat template puts around a message


def room_tokens(fields: Mapping[str, Any], *, window_tokens: int, share: float) -> int:
    """The most tokens that passages may take: a share of what the conversation leaves of the window; 0 or more.

    fields: the request body's. What it reserves for the answer (`max_completion_tokens`, `max_tokens`) is not left.
    """
    answer = fields.get("max_completion_tokens") or fields.get("max_tokens")
    reserved = answer if isinstance(answer, int) and answer > 0 else 0
    return max(0, int(share * (window_tokens - reserved - conversation_tokens(fields))))


def conversation_tokens(fields: Mapping[str, Any]) -> int:
    """About how many tokens the request's tools, and its messages up to the user's latest, take."""
    listed = fields.get("messages")
    messages = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    last = max((i for i, one in enumerate(messages) if one.get("role") == "user"), default=-1)
    count, total_bytes = last + 1, 0
    for message in messages[: last + 1]:
        total_bytes += _bytes_of(text_of(message.get("content"))) + _json_bytes(message.get("tool_calls"))
    for key in ("tools", "functions", "response_format"):
        total_bytes += _json_bytes(fields.get(key))
    return total_bytes // _BYTES_A_TOKEN + _MESSAGE_TOKENS * count


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _json_bytes(value: Any) -> int:
    """The bytes of a value as JSON; 0 where there is none."""
    if not value:
        return 0
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # half a surrogate pair, a number beyond 64 bits: other readers take them
        return len(str(value))
