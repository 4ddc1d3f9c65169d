"""The signed thoughts of a model's reply, as litellm writes thoughts of Claude models in chat completions.

Anthropic refuses a conversation that has the calls of a thinking model without the thoughts before the calls.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


class Thoughts:
    """Collects the blocks of a reply: a signature comes after the text, which comes in pieces."""

    def __init__(self) -> None:
        self.blocks: list[Json] = []
        self._text = ""  # without a signature yet

    def read(self, delta: Mapping[str, Any]) -> None:
        """Read a piece of the message, or the whole message."""
        given = delta.get("thinking_blocks")
        for block in given if isinstance(given, list) else ():
            if not isinstance(block, dict):
                continue
            self._text += str(block.get("thinking") or "")
            if block.get("data"):
                self.blocks.append(block)
            elif block.get("signature"):
                self.blocks.append({**block, "thinking": self._text})
                self._text = ""
