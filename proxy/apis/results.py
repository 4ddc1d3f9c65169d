"""A call's result as text for a model: JSON cut by structure, HTML as text, binary as type and size."""

import codecs
import contextlib
import functools
import itertools
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from proxy.apis.credentials import plain_html, plain_json
from proxy.apis.html_text import html_text
from proxy.apis.openapi.operation import bare_type, is_json

# (list elements, text characters), from generous to narrow; the first that fits is used.
_CUTS = ((100, 4000), (50, 1000), (30, 500), (20, 300), (12, 200), (8, 120), (5, 80), (3, 60), (2, 40), (1, 30))
_MEMBERS = 4  # object members kept for each list element kept: most objects are small
_MOST_DEPTH = 12
_MOST_HTML_CHARS = 200_000  # 30 ms
_CHARSET = re.compile(
    r"(?i)(?:charset|encoding)\s*=\s*[\"']?"
    r"((?:utf-?(?:8|16|32)|iso[-_]?8859|latin|windows-|cp|koi8|shift|euc|gb|big5)[\w-]*)"
)
_MOST_HEAD_BYTES = 1024  # of XML or HTML, with its encoding's name
_FLOAT_DIGITS = 17  # that no float loses
_LONG_NUMBER = re.compile(r"[0-9][0-9.]{17}")  # may have more digits than a float


class ResultText(NamedTuple):
    text: str
    whole: str = ""  # without cuts, if the text is cut


def result_text(content: bytes, media_type: str, *, max_chars: int) -> ResultText:
    """A response body as text, at most `max_chars` long, plus a note on what is cut."""
    if not content:
        return ResultText("(empty)")
    bare, in_json, text = _kind(content, media_type)
    if not in_json and not text:
        return ResultText(f"({bare}, {len(content):,} bytes)")
    whole = _decoded(content, media_type)
    if in_json:
        with contextlib.suppress(orjson.JSONDecodeError):
            value = json_value(whole)
            shown, is_whole = _json_text(value, max_chars)
            return ResultText(shown, "" if is_whole else whole)
    if bare in ("text/html", "application/xhtml+xml"):
        whole = html_text(whole[:_MOST_HTML_CHARS])
    return ResultText(cut_middle(whole, max_chars), whole if len(whole) > max_chars else "")


def normalised(content: bytes, media_type: str) -> tuple[bytes, str]:
    """Text in UTF-8 without needless escapes, and its media type without a charset; other content as given."""
    bare, in_json, text = _kind(content, media_type)
    if not in_json and not text:
        return content, media_type
    content = _decoded(content, media_type).encode("utf-8", "replace")
    if in_json:
        content = plain_json(content)
    elif bare.endswith(("html", "xml")):
        content = plain_html(content)
    return content, bare


def _kind(content: bytes, media_type: str) -> tuple[str, bool, bool]:
    """The media type without parameters, whether the content is JSON, and whether it is other text."""
    bare = bare_type(media_type)
    ends = ("xml", "/x-www-form-urlencoded", "yaml", "javascript", "graphql", "csv", "json-seq")
    return (
        bare,
        is_json(bare) or content[:1] in (b"{", b"["),
        not bare or bare.startswith("text/") or bare.endswith(ends),
    )


def _decoded(content: bytes, media_type: str) -> str:
    charset = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    named = _CHARSET.search(media_type)
    if named is None and charset == "utf-8" and content.lstrip()[:1] == b"<" and not _is_utf8(content):
        named = _CHARSET.search(content[:_MOST_HEAD_BYTES].decode("latin-1"))  # XML's encoding="ISO-8859-1"
    try:
        text = content.decode(named[1] if named else charset, "replace")
    except LookupError:
        text = content.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def _is_utf8(content: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        content.decode()
        return True
    return False


def json_value(text: str) -> Any:
    """A JSON text's value; a number whose digits orjson would lose is a text. Raises orjson.JSONDecodeError."""
    value = orjson.loads(text)
    if not _LONG_NUMBER.search(text):
        return value
    try:
        return json.loads(text, parse_int=_number, parse_float=_number)
    except RecursionError:
        return value


def _number(written: str) -> Any:
    value = orjson.loads(written)
    digits = written.lower().partition("e")[0].strip("-0.").replace(".", "")
    if isinstance(value, int) or len(digits) <= _FLOAT_DIGITS:
        return value
    with contextlib.suppress(ArithmeticError, ValueError):  # an exponent beyond Decimal's; a text of 2 GB
        after = len(written.partition(".")[2])
        if Decimal(repr(value)) == Decimal(written) or f"{value:.{after}f}" == written:  # written with all digits
            return value
    return written


def json_text(value: Any, *, max_chars: int) -> str:
    """A JSON value as JSON, cut by structure: its shape stays; lists, objects and texts lose their ends or middles.

    A cut list has "… 180 more" in place of left-out elements, a cut object the member "…": "180 more". If a value is
    cut, null members go.
    """
    return _json_text(value, max_chars)[0]


def _json_text(value: Any, max_chars: int) -> tuple[str, bool]:
    """The text, and whether it has the whole value."""
    with contextlib.suppress(orjson.JSONEncodeError):  # more than 254 levels
        whole = _dumped(value)
        if len(whole) <= max_chars:
            return whole, True
    text = ""
    for elements, chars in _CUTS:
        text = _dumped(_cut(value, elements, chars, 0))
        if len(text) <= max_chars:
            return text, False
    return cut_middle(text, max_chars), False


def cut_middle(text: str, max_chars: int) -> str:
    """A long text's beginning and end."""
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
        present = {name: one for name, one in value.items() if one is not None}
        kept = {name: inner(present[name]) for name in itertools.islice(present, elements * _MEMBERS)}
        return kept if len(kept) == len(present) else {**kept, "…": f"{len(present) - len(kept)} more"}
    return value
