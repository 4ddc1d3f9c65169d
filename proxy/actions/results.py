"""The result of a call as a text for a model: JSON cut by structure, HTML as text, binary as type and size."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from proxy.actions.openapi.operations import is_json

# (elements of a list, characters of a text), from generous to narrow; the first that fits is used.
_CUTS = ((100, 4000), (50, 1000), (30, 500), (20, 300), (12, 200), (8, 120), (5, 80), (3, 60), (2, 40), (1, 30))
_MOST_DEPTH = 12


def result_text(content: bytes, media_type: str, *, max_chars: int) -> str:
    """The text of a response's body, at most `max_chars` long but for a note of what is cut."""
    bare = media_type.partition(";")[0].strip().lower()
    if not content:
        return "(empty)"
    if is_json(bare) or content[:1] in (b"{", b"["):
        try:
            return json_text(orjson.loads(content), max_chars=max_chars)
        except orjson.JSONDecodeError:
            pass
    if bare and not bare.startswith("text/") and not bare.endswith(("+xml", "/xml", "/x-www-form-urlencoded", "yaml")):
        return f"({bare}, {len(content):,} bytes)"
    text = content.decode("utf-8", "replace")
    return cut_middle(_html_text(text) if bare in ("text/html", "application/xhtml+xml") else text, max_chars)


def json_text(value: Any, *, max_chars: int) -> str:
    """A JSON value as JSON, cut by structure: the shape stays, lists and texts lose their middle.

    A cut list has "… 180 more" in place of the elements left out. Where anything is cut, null members go.
    """
    whole = _dumped(value)
    if len(whole) <= max_chars:
        return whole
    text = whole
    for elements, chars in _CUTS:
        text = _dumped(_cut(value, elements, chars, 0))
        if len(text) <= max_chars:
            return text
    return cut_middle(text, max_chars)


def cut_middle(text: str, max_chars: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[len(text) - half :]}"


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()


def _cut(value: Any, elements: int, chars: int, depth: int) -> Any:
    inner: Callable[[Any], Any] = functools.partial(_cut, elements=elements, chars=chars, depth=depth + 1)
    if isinstance(value, str):
        return value if len(value) <= chars else f"{value[: chars * 2 // 3]} … {value[-chars // 3 :]}"
    if isinstance(value, list):
        if depth > _MOST_DEPTH:
            return f"… {len(value)} elements" if value else value
        if len(value) <= elements:
            return [inner(one) for one in value]
        return [*(inner(one) for one in value[:elements]), f"… {len(value) - elements} more"]
    if isinstance(value, Mapping):
        if depth > _MOST_DEPTH:
            return f"… {len(value)} members" if value else value
        return {name: inner(one) for name, one in value.items() if one is not None}
    return value


def _html_text(html: str) -> str:
    from bs4 import BeautifulSoup  # 100 ms, and only for APIs that answer in HTML

    soup = BeautifulSoup(html, "html.parser")
    for tag in soup(["script", "style", "head", "noscript", "template"]):
        tag.decompose()
    return "\n".join(line for line in soup.get_text("\n").splitlines() if line.strip())
