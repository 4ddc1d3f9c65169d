"""Prompt files, and JSON in model replies."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.answers.records import BenchError

_PLACE = re.compile(r"\{(\w+)\}")
_VERSION_BYTES = 4
_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class PromptTemplate:
    """A text with placeholders, for example {question}. Each placeholder takes a quoted text."""

    def __init__(self, text: str, places: Sequence[str]) -> None:
        self._parts = _PLACE.split(text)
        self._places = places
        self.version = hashlib.blake2b(text.encode(), digest_size=_VERSION_BYTES).hexdigest()

    @staticmethod
    def read(file: Path, places: Sequence[str]) -> "PromptTemplate":
        """Raises BenchError if the file cannot be read, or if a placeholder does not occur exactly once."""
        try:
            text = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f"cannot read the prompt {file}: {error}") from error
        for name in places:
            if (times := text.count(f"{{{name}}}")) != 1:
                raise BenchError(f"the prompt {file} must contain {{{name}}} exactly once, found {times} times")
        return PromptTemplate(text, places)

    def render(self, **values: str) -> str:
        """Fill in the placeholders.

        A quoted text cannot end the quotation, and placeholders in a quoted text stay as text.
        """
        text, *rest = self._parts
        pairs = zip(rest[::2], rest[1::2], strict=True)
        return text + "".join(
            (_quoted(values[name]) if name in self._places else f"{{{name}}}") + after for name, after in pairs
        )


def json_object(text: str) -> dict[str, Any]:
    """Parse a reply that is one JSON object, with or without a code fence. Raises ValueError, RecursionError."""
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    found = json.loads(fenced[1] if fenced else stripped, object_pairs_hook=_once)
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__} in place of an object")
    return found


def _quoted(text: str) -> str:
    return text.strip().replace("</", "< /") or "(none)"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)
