"""What a person wrote, of messages in any dialect: not what a tool, a document or a coding agent adds to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.dialects.base import PROGRAM_ELEMENTS

_TEXTS = ("text", "input_text", "output_text")  # types of parts
_OTHERS = ("image_url", "input_image", "input_audio", "image")  # parts that hold no text


def own_text(message: Mapping[str, Any]) -> str:
    """The last text of a person's message, because clients put context before it; "": another message.

    A part that a coding agent added does not count. A message with a document or a tool's result is another message.
    """
    content = message.get("content")
    if message.get("role") != "user":
        return ""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [one for one in content if isinstance(one, dict) and one.get("type") in (*_TEXTS, *_OTHERS)]
    texts = [one for one in _texts_of(parts) if _without_program(one).strip()]
    return texts[-1] if texts and len(parts) == len(content) else ""


def own_words(messages: Sequence[Any]) -> list[str]:
    """The person's messages, without those that hold no text."""
    found = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
        texts = [content] if isinstance(content, str) else _texts_of(content) if isinstance(content, list) else []
        if text := "\n".join(filter(None, map(_without_program, texts))).strip():
            found.append(text)
    return found


def _texts_of(parts: Sequence[Any]) -> list[str]:
    found = [one.get("text") for one in parts if isinstance(one, dict) and one.get("type") in _TEXTS]
    return [one for one in found if isinstance(one, str)]


def _without_program(text: str) -> str:
    """The text without a coding agent's elements, each from its first opening to its last closing.

    An element quotes files, and a file may hold a closing of its own.
    """
    for name in PROGRAM_ELEMENTS:
        before, opening, rest = text.partition(f"<{name}>")
        if opening:
            _, closing, after = rest.rpartition(f"</{name}>")
            text = before + (after if closing else "")
    return text
