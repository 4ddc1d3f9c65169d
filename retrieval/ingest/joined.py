"""An uploaded container as one document, because an upload has one key: each member is a part of its text.

A part's place is the member's name, so passages are cited as "box.zip, notes/a.md" or "box.zip, costs.pdf, page 3".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from retrieval.errors import Unreadable
from retrieval.ingest.containers import Member, Packed, unpack
from retrieval.ingest.formats.registry import READABLE
from retrieval.ingest.load import title_of
from retrieval.records.documents import Chunk, Document, Places

_BETWEEN = "\n\n"  # parts
_MOST_SHOWN = 5  # members that cannot be read


@dataclass(frozen=True, slots=True)
class MemberDocument:
    """A member as a document. name: "" for a mail's own text."""

    name: str
    document: Document


def parts_of(packed: Packed, parse: Callable[[Member], Document]) -> tuple[list[MemberDocument], str]:
    """Return the members that are read, at least one, and a note on those that cannot be. Raises Unreadable."""
    unpacked = unpack(packed)
    failures = [
        f"{failure.path}: {failure.reason}" if failure.path else failure.reason for failure in unpacked.failures
    ]
    parts = []
    for member in unpacked.members:
        try:
            parts.append(MemberDocument(member.name, parse(member)))
        except Unreadable as error:
            failures.append(_said(member.name, str(error)))
    if not parts:
        raise Unreadable(failures[0] if failures else f"holds no file that can be read; expected one of {READABLE}")
    if len({part.document.groups for part in parts}) > 1:
        raise Unreadable("its files name different groups of readers: upload them one by one, or give the groups")
    shown, more = failures[:_MOST_SHOWN], len(failures) - _MOST_SHOWN
    note = "without " + "; ".join(shown + [f"and {more:,} more"] * (more > 0)) if failures else ""
    return parts, note


def join(
    source: str, title: str, parts: Sequence[MemberDocument], split: Callable[[Document], list[Chunk]]
) -> tuple[Document, list[Chunk]]:
    """Return the parts as one document, and its chunks.

    source: of the container. title: of the container; "": the mail's, or the container's name.
    split: returns a part's chunks, which fit the embedder with the container's and the member's title.
    """
    main = parts[0].document if not parts[0].name or len(parts) == 1 else None
    title = title or (main.title if main else title_of(PurePosixPath(source)))
    text, places, chunks = "", list[tuple[int, str]](), list[Chunk]()
    for part in parts:
        document, path = replace(part.document, title=title), tuple[str, ...]()
        if part.name:
            path = (part.document.title,)
            named = _named(part.name, document.places)
            document = replace(document, title=f"{title} > {path[0]}", places=named)
        text += _BETWEEN if text else ""
        start = len(text)
        for chunk in split(document):
            moved = replace(chunk, ordinal=len(chunks), start=start + chunk.start, end=start + chunk.end)
            titled = chunk.headings[:1] == path  # its first heading is its title
            chunks.append(moved if titled else replace(moved, headings=path + chunk.headings))
        places += [(start + offset, place) for offset, place in document.places]
        text += document.text
    whole = main or replace(parts[0].document, format="text", attributes={})
    return replace(whole, source=source, title=title, text=text, places=tuple(places)), chunks


def _said(name: str, reason: str) -> str:
    return f"{name}: {reason}" if name else reason


def _named(name: str, places: Places) -> Places:
    whole = () if places and places[0][0] == 0 else ((0, name),)
    return (*whole, *((offset, f"{name}, {place}") for offset, place in places))
