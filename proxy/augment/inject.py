"""Turns passages into text that a model reads, the *block*, by a template in a file.

`{passages}`, `{collections}` and `{tag}` in the template are replaced as plain text; nothing in a document is ever
evaluated. Delimiters carry a digest of the passages, and the text between them is quoted (`quoting`): a document can
neither close nor open a delimiter. Equal passages give equal bytes, since providers cache by prefix.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote as percent_encoded

from proxy.dialects.quoting import quoted_label, shown_passages
from retrieval.records.documents import Passage

_MAX_SOURCES_BYTES = 1000  # for a header that names sources or operations
_TAG_BYTES = 4
Order = Literal["best_first", "best_first_and_last"]


class TemplateError(ValueError):
    """The template cannot be used."""


def read_template(file: Path, kind: str, *places: str) -> str:
    """Read a file that must have each place once. kind: for an error. Raises TemplateError."""
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"cannot read the {kind} {file}: {error}") from error
    for place in places:
        if (count := text.count(place)) != 1:
            raise TemplateError(f"the {kind} {file} must contain {place} once, got it {count} times")
    return text


class Template:
    """Text around passages."""

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def read(file: Path) -> "Template":
        """Raises TemplateError if the file cannot be read or lacks {passages}."""
        return Template(read_template(file, "template", "{passages}"))

    def render(self, passages: Sequence[Passage], collections: Sequence[str]) -> str:
        """The block: passages in their given order, each labelled with title and source, between delimiters."""
        names = ", ".join(quoted_label(name) for name in collections)
        shown = shown_passages(passages)
        tag = _tag(shown)
        # Split first: a collection's name may hold "{passages}" as well as a passage may hold "{collections}".
        parts = self.text.split("{passages}")
        head, tail = (part.replace("{tag}", tag).replace("{collections}", names) for part in parts)
        texts = (f"[{i}] {label} #{tag}\n{text}\n[end of {i}] #{tag}" for i, (label, text) in enumerate(shown, 1))
        return head + "\n\n".join(texts) + tail


def in_order(passages: Sequence[Passage], order: Order) -> Sequence[Passage]:
    """Put passages, given best first, into the block's order: always the same for the same passages.

    best_first_and_last: first, third, fifth … forwards, then the others backwards, so that the weakest are in the
    middle, which models read least (Liu et al., "Lost in the Middle", TACL 2024).
    """
    return (*passages[::2], *passages[1::2][::-1]) if order == "best_first_and_last" else passages


def _tag(shown: Sequence[tuple[str, str]]) -> str:
    """Eight hexadecimal digits from all labels and texts: a passage alone cannot contain its block's tag."""
    digest = hashlib.blake2b(digest_size=_TAG_BYTES)
    for label, text in shown:
        digest.update(f"{label}\0{text}\0".encode())
    return digest.hexdigest()


def sources_header(sources: Sequence[str]) -> bytes:
    """Distinct sources, best first, as in `names_header`."""
    return names_header(list(dict.fromkeys(sources)))


def names_header(names: Sequence[str]) -> bytes:
    """Names, percent-encoded and comma-separated; cut after a whole one."""
    header = b""
    for name in names:
        entry = (b"," if header else b"") + percent_encoded(name, safe="/.-_~ #", errors="replace").encode()
        if len(header) + len(entry) > _MAX_SOURCES_BYTES:
            break
        header += entry
    return header
