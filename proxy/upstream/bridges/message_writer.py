"""Writes a chat completion as an Anthropic message, streamed or whole."""

import json
import math
from collections.abc import Mapping
from typing import Any

from proxy.dialects.errors import upstream_error
from proxy.dialects.messages import begun_message, usage_of_message
from proxy.dialects.replies import Tokens
from proxy.upstream.bridges.members import Json
from proxy.upstream.bridges.reply_writer import Kind, ReplyWriter

_STOP_REASONS = {
    "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use",
    "content_filter": "refusal",
}  # fmt: skip
# Block type -> type of its deltas, and the member with their text
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_TEXT: Json = {"type": "text", "text": ""}
_THOUGHTS: Json = {"type": "thinking", "thinking": "", "signature": ""}


class MessageWriter(ReplyWriter):
    """Writes one block after another: thoughts, texts and calls."""

    def __init__(self, fields: Mapping[str, Any], *, streamed: bool) -> None:
        """fields: the client's request."""
        super().__init__(streamed=streamed)
        self._message = begun_message(fields, usage_of_message(Tokens(0, 0)))  # usage is reported at the end
        self._content: list[Json] = []
        self._block: Json = {}  # the block being written; empty: none
        self._pieces: list[str] = []  # of the block
        self._refused = False

    def begin(self) -> None:
        self.emit({"type": "message_start", "message": self._message})

    def piece(self, kind: Kind, text: str) -> None:
        self._refused = self._refused or kind == "refusal"
        block = _THOUGHTS if kind == "reasoning" else _TEXT
        if self._block.get("type") != block["type"]:
            self._begin_block({**block})
        self.arguments(text)

    def signed(self, block: Json) -> None:
        """A signature ends the thoughts before it; sealed thoughts are a block without text."""
        if "data" in block:
            self._begin_block({"type": "redacted_thinking", "data": block["data"]})
        else:
            if self._block.get("type") != "thinking":
                self._begin_block({**_THOUGHTS})
            self._block["signature"] = block["signature"]
            self._delta({"type": "signature_delta", "signature": block["signature"]})
        self.end_item()

    def begin_call(self, id: str, name: str, *, custom: bool) -> None:
        self._begin_block({"type": "tool_use", "id": id, "name": name, "input": {}})

    def arguments(self, piece: str) -> None:
        """Also writes pieces of other blocks."""
        self._pieces.append(piece)
        kind, member = _DELTAS[self._block["type"]]
        self._delta({"type": kind, member: piece})

    def keep_alive(self) -> None:
        self.emit({"type": "ping"})

    def finish(self) -> None:
        self.end_item()
        reason = _STOP_REASONS.get(self.finish_reason or "", "end_turn")
        if self._refused:
            reason = "refusal"
        elif reason == "end_turn" and any(block["type"] == "tool_use" for block in self._content):
            reason = "tool_use"  # some servers finish a tool call with `stop`
        stop = {"stop_reason": reason, "stop_sequence": None}
        usage = self._usage()
        self.emit({"type": "message_delta", "delta": stop, "usage": usage})
        self.emit({"type": "message_stop"})
        self.whole = {**self._message, "content": self._content, **stop, "usage": usage}

    def _usage(self) -> Json:
        """Zeros if the upstream reports none: the API does not allow null."""
        usage = usage_of_message(self.usage or Tokens(0, 0))
        written = self.usage_fields.get("cache_creation_input_tokens")  # litellm's, from a provider with a cache
        if isinstance(written, int) and 0 < written <= usage["input_tokens"]:
            usage["cache_creation_input_tokens"] = written
            usage["input_tokens"] -= written
        return usage

    # --- Blocks

    def _delta(self, delta: Json) -> None:
        self.emit({"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta})

    def _begin_block(self, block: Json) -> None:
        self.end_item()
        self._block = block
        self._content.append(block)
        self.emit({"type": "content_block_start", "index": len(self._content) - 1, "content_block": block})

    def end_item(self) -> None:
        if not self._block:
            return
        kind, text = self._block["type"], "".join(self._pieces)
        if kind == "tool_use":
            self._block["input"] = self._input(text)
        elif kind in _DELTAS:
            self._block[_DELTAS[kind][1]] = text
        self.emit({"type": "content_block_stop", "index": len(self._content) - 1})
        self._block, self._pieces = {}, []

    def _input(self, arguments: str) -> Json:
        """A call's arguments as an object. Raises ApiError 502, but not in a stream, where the client reads the
        pieces.
        """
        given = _object_in(arguments) if arguments.strip() else {}
        if given is not None:
            return given
        if self.streamed:
            return {}
        words = "The model called a tool with arguments that are not a JSON object: ask again, or raise `max_tokens`."
        raise upstream_error(502, words, "upstream_garbled")


def _object_in(text: str) -> Json | None:
    """The object in a text; None if there is none, or if it has numbers that JSON, and so a message, cannot hold."""
    try:
        given = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a number in JSON")
    return value
