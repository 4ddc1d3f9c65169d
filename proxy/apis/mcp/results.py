"""A tool's result as bytes for a model: texts and structured content; other content is named, not inlined."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from mcp import types


def content_of(result: "types.CallToolResult") -> bytes:
    """The content, a line for each part. Structured content that a text repeats stands once."""
    texts = list(_texts(result.content))
    structured = result.structured_content
    if structured is not None and not any(_repeats(text, structured) for text in texts):
        texts.append(orjson.dumps(structured).decode())
    return "\n".join(texts).encode("utf-8", "replace")


def _repeats(text: str, structured: Any) -> bool:
    """Whether a text says what the structured content says, or its only member: SDKs wrap a bare value in `result`."""
    bare = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else structured
    if text == bare:
        return True
    try:
        return orjson.loads(text) in (bare, structured)
    except ValueError:
        return False


def _texts(content: Sequence[Any]) -> Iterator[str]:
    for one in content:
        match one.type:
            case "text":
                yield one.text
            case "image" | "audio":
                yield f"({one.type}: {one.mime_type}, {_size(one.data):,} bytes)"
            case "resource" if hasattr(one.resource, "text"):
                yield f"(resource {one.resource.uri})\n{one.resource.text}"
            case "resource":
                kind = one.resource.mime_type or "unknown type"
                yield f"(resource {one.resource.uri}: {kind}, {_size(one.resource.blob):,} bytes)"
            case "resource_link":
                yield f"(resource {one.uri}: {one.description or one.title or one.name})"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
