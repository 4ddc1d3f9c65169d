"""Chat completion messages, in the order and forms that strict servers take.

OpenAI, and servers that check like it, refuse calls whose results do not follow at once, pictures in results, and
assistant messages with neither text nor call. Stricter servers take lists of parts only from users: a list of texts
becomes one text, unless its last one alone confirms a call.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from proxy.dialects.codes import code_line
from proxy.upstream.bridges.members import Json


def arranged(messages: Iterable[Json]) -> list[Json]:
    """Put each result after its call; what stood between comes after the results."""
    groups: list[list[Json]] = []
    waiting: dict[Any, list[Json]] = {}  # id of a call without a result -> its message, and that message's results
    for message in messages:
        group = waiting.pop(message.get("tool_call_id"), None) if message["role"] == "tool" else None
        if group is not None:
            group.append(message)
            continue
        groups.append([message])
        waiting |= {call["id"]: groups[-1] for call in message.get("tool_calls", ())}
    return [message for group in groups for message in _readable(group)]


def _readable(group: list[Json]) -> Iterator[Json]:
    """Make contents plain; pictures and files from results follow in a user message."""
    beside: list[Json] = []
    for message in group:
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, list):
            beside += [part for part in content if part["type"] != "text"]
            content = [part if part["type"] == "text" else _note(part) for part in content]
        message["content"] = content if message["role"] == "user" and _confirms(content) else _plain(content)
        if message["content"] or message["role"] in ("user", "tool") or message.get("tool_calls"):
            yield message
    if beside:
        yield {"role": "user", "content": beside}


def _note(part: Json) -> Json:
    kind = "picture" if part["type"] == "image_url" else "file"
    return {"type": "text", "text": f"[The {kind} is in the next message.]"}


def _confirms(content: Any) -> bool:
    """Whether the last of several parts is a code line. Clients put context before what a person writes."""
    last = content[-1].get("text") if isinstance(content, list) and len(content) > 1 else None
    return isinstance(last, str) and code_line(last) is not None


def _plain(content: Any) -> Any:
    """A single text, if all parts are texts without marks."""
    if not isinstance(content, list) or any(part.keys() != {"type", "text"} for part in content):
        return content
    return "\n".join(part["text"] for part in content)
