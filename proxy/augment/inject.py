"""Passages to the text that the model reads, the *block*, by a template in a file.

The template's `{passages}`, `{collections}` and `{tag}` are replaced as plain text; no part of a document is ever
evaluated. The delimiters carry a digest of the passages, and the text between the delimiters is quoted (`sanitize`): a
document can neither close nor open a delimiter. The same passages give the same bytes, since providers cache by prefix.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote as percent_encoded

from proxy.dialects.quoting import quoted_label, shown_passages
from retrieval.records.documents import Passage

_MAX_SOURCES_BYTES = 1000  # of a header that names sources or operations
_TAG_BYTES = 4
Order = Literal["best_first", "best_first_and_last"]


class TemplateError(ValueError):
    """A template that cannot be used."""


def read_template(file: Path, kind: str, *places: str) -> str:
    """The text of a file that has each of the places once. kind: for an error. Raises TemplateError."""
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"cannot read the {kind} {file}: {error}") from error
    for place in places:
        if (count := text.count(place)) != 1:
            raise TemplateError(f"the {kind} {file} must contain {place} once, got it {count} times")
    return text


class Template:
    """The text around the passages."""

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def read(file: Path) -> "Template":
        """Raises TemplateError if the file cannot be read or lacks {passages}."""
        return Template(read_template(file, "template", "{passages}"))

    def render(self, passages: Sequence[Passage], collections: Sequence[str]) -> str:
        """The block: passages in the order given, each labelled with its title and source, between delimiters."""
        names = ", ".join(quoted_label(name) for name in collections)
        shown = shown_passages(passages)
        tag = _tag(shown)
        # Split first: a collection's name may hold "{passages}" as well as a passage may hold "{collections}".
        parts = self.text.split("{passages}")
        head, tail = (part.replace("{tag}", tag).replace("{collections}", names) for part in parts)
        texts = (f"[{i}] {label} #{tag}\n{text}\n[end of {i}] #{tag}" for i, (label, text) in enumerate(shown, 1))
        return head + "\n\n".join(texts) + tail


def in_order(passages: Sequence[Passage], order: Order) -> Sequence[Passage]:
    """The passages, given best first, in the order of the block. The same passages always have the same order.

    best_first_and_last: the first, third, fifth … forwards, then the others backwards, so that the weakest stand in the
    middle, which a model reads least (Liu et al., "Lost in the Middle", TACL 2024).
    """
    return (*passages[::2], *passages[1::2][::-1]) if order == "best_first_and_last" else passages


def _tag(shown: Sequence[tuple[str, str]]) -> str:
    """Eight hexadecimal digits of all labels and texts: a passage alone cannot contain the tag of the block."""
    digest = hashlib.blake2b(digest_size=_TAG_BYTES)
    for label, text in shown:
        digest.update(f"{label}\0{text}\0".encode())
    return digest.hexdigest()


def sources_header(sources: Sequence[str]) -> bytes:
    """The distinct sources, best first, as `names_header`."""
    return names_header(list(dict.fromkeys(sources)))


def names_header(names: Sequence[str]) -> bytes:
    """The names, percent-encoded and comma-separated; cut at a whole name."""
    header = b""
    for name in names:
        entry = (b"," if header else b"") + percent_encoded(name, safe="/.-_~ #", errors="replace").encode()
        if len(header) + len(entry) > _MAX_SOURCES_BYTES:
            break
        header += entry
    return header
