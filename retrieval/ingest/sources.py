"""Where documents come from: a source lists its documents, reads one, and says whether it has changed.

`Folder` is the only source today. Another one implements `Source`; `Ingester` needs no change.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.exclude import excluded_below
from retrieval.ingest.load import FileCandidate, FoundFiles, content_hash, find, printable_path, read
from retrieval.ingest.splitting import SourceFile

Known = Mapping[str, RevisionRecord]  # key -> current revision; a file's key is its path


class Source(Protocol):
    """Documents in one place."""

    async def list(self) -> FoundFiles:
        """Return all documents, and what cannot become a document."""
        ...

    async def read(self, candidate: FileCandidate) -> SourceFile:
        """Raises Unreadable."""
        ...

    def version(self, file: SourceFile) -> str:
        """Return a text that differs for a changed document."""
        ...

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        """Return keys of known documents that the source no longer has.

        source_of: a known document's name for people.
        """
        ...


class Folder:
    """Files and folders. Under each folder, deleted and excluded files are gone; an unreadable file is not."""

    def __init__(
        self, paths: Sequence[Path], exclude: Sequence[str] = (), *, max_bytes: int, follow_links: bool
    ) -> None:
        """follow_links: out of the given folders."""
        self._paths = paths
        self._exclude = exclude
        self._max_bytes, self._follow_links = max_bytes, follow_links

    async def list(self) -> FoundFiles:
        return await asyncio.to_thread(
            find, self._paths, max_bytes=self._max_bytes, follow_links=self._follow_links, exclude=self._exclude
        )

    async def read(self, candidate: FileCandidate) -> SourceFile:
        path = candidate.path
        try:
            str(path).encode()
        except UnicodeEncodeError as error:  # databases refuse such a key, and an altered key would not find the file
            message = "the file's name or a folder's name is not UTF-8: rename the file or the folder"
            raise Unreadable(message) from error
        data, modified_s = await asyncio.to_thread(read, path, max_bytes=self._max_bytes)
        return SourceFile(path, candidate.source, data, modified_s)

    def version(self, file: SourceFile) -> str:
        return content_hash(file.data)

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        roots = [os.path.realpath(path) for path in self._paths]
        there, failed = {str(file.path) for file in found.candidates}, [failure.path for failure in found.failures]
        gone = set()
        for key, record in known.items():
            if not any(_below(key, root) for root in roots):
                # Here through a link that is left out now. The source identifies the link.
                links = [link for link in found.left_out if _below(key, str(link.target))]
                sources = {link.source + printable_path(key.removeprefix(str(link.target))) for link in links}
                deleted = bool(sources) and source_of(record) in sources
            else:
                unread = key in there or any(key != path and _below(key, path) for path in failed)
                deleted = not unread and not os.path.lexists(key)
            if deleted or excluded_below(self._paths, Path(key), self._exclude):
                gone.add(key)
        return gone


def _below(key: str, root: str) -> bool:
    return key == root or key.startswith(root.rstrip(os.sep) + os.sep)
