"""A context to the text of one system message, by a template that is a file.

The template's `{passages}` and `{collections}` are replaced as plain text; nothing in a document is ever
evaluated.
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from retrieval.records import Passage

_MAX_SOURCES_BYTES = 1000  # of the header that names the sources


class TemplateError(ValueError):
    """A template that cannot be used."""


class Template:
    """The text around the passages."""

    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def read(file: Path) -> "Template":
        """Raises TemplateError if the file cannot be read or lacks {passages}."""
        try:
            text = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"cannot read the template {file}: {error}") from error
        if text.count("{passages}") != 1:
            raise TemplateError(f"the template {file} must contain {{passages}} once, where the passages go")
        return Template(text)

    def render(self, passages: Sequence[Passage], collections: Sequence[str]) -> str:
        """The system message: passages in the order given, each labelled with its title and source."""
        names = ", ".join(collections)
        # Split first: a collection's name may hold "{passages}" as well as a passage may hold "{collections}".
        head, tail = (part.replace("{collections}", names) for part in self._text.split("{passages}"))
        return head + "\n\n".join(_labelled(i, passage) for i, passage in enumerate(passages, 1)) + tail


def _labelled(number: int, passage: Passage) -> str:
    path = " > ".join(part for part in (passage.title, *passage.headings) if part)
    return f"[{number}] {path} (source: {passage.source})\n{passage.text.strip()}\n[end of {number}]"


def sources_header(sources: Sequence[str]) -> bytes:
    """The distinct sources, best first, percent-encoded and comma-separated; cut at a whole source."""
    header = b""
    for source in dict.fromkeys(sources):
        entry = (b"," if header else b"") + quote(source, safe="/.-_~ #", errors="replace").encode()
        if len(header) + len(entry) > _MAX_SOURCES_BYTES:
            break
        header += entry
    return header
