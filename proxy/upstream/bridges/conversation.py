"""The messages of a chat completion, in the order and the forms that strict servers take.

OpenAI and the servers that check as OpenAI does refuse a call whose results do not follow at once, a picture in a
result, and an assistant's message without a text and a call. Servers with strict forms take a list of parts from users
only: a content of texts alone becomes one text.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from proxy.upstream.bridges.members import Json


def arranged(messages: Iterable[Json]) -> list[Json]:
    """The messages, each result after the call; what stood between comes after the results."""
    groups: list[list[Json]] = []
    waiting: dict[Any, list[Json]] = {}  # id of a call without a result -> the message with the call, and the results
    for message in messages:
        group = waiting.pop(message.get("tool_call_id"), None) if message["role"] == "tool" else None
        if group is not None:
            group.append(message)
            continue
        groups.append([message])
        waiting |= {call["id"]: groups[-1] for call in message.get("tool_calls", ())}
    return [message for group in groups for message in _readable(group)]


def _readable(group: list[Json]) -> Iterator[Json]:
    """The messages with plain contents; pictures and files of the results follow in a message of the user."""
    beside: list[Json] = []
    for message in group:
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, list):
            beside += [part for part in content if part["type"] != "text"]
            content = [part if part["type"] == "text" else _note(part) for part in content]
        message["content"] = _plain(content)
        if message["content"] or message["role"] in ("user", "tool") or message.get("tool_calls"):
            yield message
    if beside:
        yield {"role": "user", "content": beside}


def _note(part: Json) -> Json:
    kind = "picture" if part["type"] == "image_url" else "file"
    return {"type": "text", "text": f"[The {kind} is in the next message.]"}


def _plain(content: Any) -> Any:
    """A single text where all parts are texts without marks."""
    if not isinstance(content, list) or any(part.keys() != {"type", "text"} for part in content):
        return content
    return "\n".join(part["text"] for part in content)
