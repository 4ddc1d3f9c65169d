"""A streamed chat completion's bytes, as they come, to its answer, its usage and when its first text was there."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.token_counts import Tokens, reported_tokens

_MOST_BYTES = 64 * 2**20
_MOST_TOLD_CHARS = 500  # of an error
# Where deltas have text: the answer, what stands in its place, and what reasoning models say before it.
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class TooLong(ValueError):
    """A reply that nobody asks for."""


class Reading:
    """What is known of a reply so far."""

    def __init__(self, *, streamed: bool) -> None:
        """streamed: whether it is an event stream; else it is JSON in one piece, as not every upstream streams."""
        self._streamed = streamed
        self.first_ms: float | None = None
        self.finish_reason: str | None = None
        self.usage: Tokens | None = None
        self.error = ""  # told in the stream
        self._raw = bytearray()
        self._frames = sse.Frames()
        self._texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self._ended = False  # by [DONE], or as one piece

    def take(self, received: bytes, at_ms: float) -> None:
        """The next bytes of the body. Raises TooLong."""
        self._raw += received
        if len(self._raw) > _MOST_BYTES:
            raise TooLong(f"the reply is longer than {_MOST_BYTES >> 20} MB")
        if self._streamed:
            for frame in self._frames.whole(received):
                self._take(sse.data_of(frame), at_ms)

    def end(self, at_ms: float) -> None:
        """The body is over."""
        self._take(sse.data_of(self._frames.rest()) if self._streamed else bytes(self._raw), at_ms)

    @property
    def raw(self) -> str:
        return self._raw.decode("utf-8", "replace")

    @property
    def answer(self) -> str | None:
        """The text of the first choice; where it refused, what it said."""
        return self._joined("content") or self._joined("refusal") or None

    @property
    def refused(self) -> bool:
        """Whether the answer is a refusal by the reply's own word."""
        return not self._joined("content") and bool(self._joined("refusal"))

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self._ended or self.finish_reason is not None

    def said_bytes(self) -> int:
        """Of all texts, reasoning included: a token is at least one byte."""
        return sum(len(self._joined(name).encode()) for name in _TEXTS)

    def _joined(self, name: str) -> str:
        return "".join(self._texts[name]).encode("utf-8", "replace").decode()  # without half surrogate pairs

    def _take(self, data: bytes | None, at_ms: float) -> None:
        if data is None:
            return
        if data.strip() == b"[DONE]":
            self._ended = True
            return
        row = _json(data)
        if not isinstance(row, dict):
            return
        if row.get("error"):
            self.error = told_of(row["error"])
        usage = row.get("usage")
        if isinstance(usage, dict):
            self.usage = reported_tokens(usage) or self.usage
        for choice in _list(row, "choices"):
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._take_choice(choice, at_ms)

    def _take_choice(self, choice: Mapping[str, Any], at_ms: float) -> None:
        if "message" in choice:
            self._ended = True
        said = choice.get("delta") or choice.get("message") or {}
        for name in _TEXTS:
            text = said.get(name) if isinstance(said, dict) else None
            if isinstance(text, str) and text:
                self._texts[name].append(text)
                self.first_ms = at_ms if self.first_ms is None else self.first_ms
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]


def told_of(error: object) -> str:
    """What an error says, of OpenAI's shape or another, on one line."""
    told: object = error
    if isinstance(error, dict):
        told = error.get("message") or error.get("detail") or error
    text = told if isinstance(told, str) else repr(told)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_TOLD_CHARS else text[:_MOST_TOLD_CHARS] + "…"


def error_of(body: bytes) -> tuple[str, str]:
    """What a refusal's body says, and its code; "" where it has none."""
    row = _json(body)
    error = row.get("error", row) if isinstance(row, dict) else body.decode("utf-8", "replace")
    code = error.get("code") if isinstance(error, dict) else ""
    return told_of(error), code if isinstance(code, str) else ""


def stages_of(header: str) -> dict[str, float]:
    """Server-Timing to milliseconds; what is not of its form is left out."""
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            try:
                if name and key == "dur":
                    found[name] = float(value.strip('"'))
            except ValueError:
                continue
    return found


def _list(row: Mapping[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return value if isinstance(value, list) else []


def _json(data: bytes) -> Any:
    """JSON with half surrogate pairs, too; None where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
