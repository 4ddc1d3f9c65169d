"""What every source can do: list its documents, read one, and say which it no longer has.

A new source implements `Source`; `Ingester` needs no change. Documents of a source that are not files have keys with
the source's own prefix, so that no source removes another's documents.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from retrieval.catalog.revisions import RevisionRecord
from retrieval.ingest.load import FileCandidate, FoundFiles
from retrieval.ingest.splitting import SourceFile

Known = Mapping[str, RevisionRecord]  # key -> current revision; a file's key is its path
# key -> mark and version of what was ingested: what has the same mark is not opened again (a file's time and size, a
# page's ETag)
Marks = dict[str, tuple[str, str]]


class Unchanged(Exception):
    """A document still has the mark that `read` was given."""


class LeftOut(Exception):
    """A document that turned out to be none: a page that is gone, or another page's copy. The text is the reason."""


class Source(Protocol):
    """Documents in one place."""

    async def list(self) -> FoundFiles:
        """Return all documents, and what cannot become a document. Raises Unreachable."""
        ...

    async def read(self, candidate: FileCandidate, mark: str = "") -> SourceFile:
        """mark: of the text that the collection has; "": none, or the text is needed again.

        Raises Unreadable, Unchanged, LeftOut.
        """
        ...

    def version(self, file: SourceFile) -> str:
        """Return a text that differs for a changed document."""
        ...

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        """Return keys of known documents that the source no longer has.

        A container that the source still has keeps its members, but for those that it leaves out. source_of: a known
        document's name for people.
        """
        ...

    def leaves_out(self, key: str) -> bool:
        """Whether the source does not want this member of a container."""
        ...
