"""Files and folders as a source."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.containers import container_of, file_path
from retrieval.ingest.exclude import excluded_below
from retrieval.ingest.load import FileCandidate, FoundFiles, content_hash, find, printable_path, read, sidecars_of
from retrieval.ingest.sources.source import Known
from retrieval.ingest.splitting import SourceFile


class Folder:
    """Files and folders. Under each folder, deleted and excluded files are gone; an unreadable file is not."""

    def __init__(
        self,
        paths: Sequence[Path],
        exclude: Sequence[str] = (),
        *,
        max_bytes: int,
        follow_links: bool,
        not_below: Sequence[str] = (),
    ) -> None:
        """follow_links: out of the given folders. not_below: folders of other sources, whose documents stay."""
        self._paths = paths
        self._exclude = exclude
        self._others = [os.path.realpath(path) for path in not_below]
        self._max_bytes, self._follow_links = max_bytes, follow_links

    async def list(self) -> FoundFiles:
        return await asyncio.to_thread(
            find, self._paths, max_bytes=self._max_bytes, follow_links=self._follow_links, exclude=self._exclude
        )

    async def read(self, candidate: FileCandidate, mark: str = "") -> SourceFile:
        path = candidate.path
        try:
            str(path).encode()
        except UnicodeEncodeError as error:  # databases refuse such a key, and an altered key would not find the file
            message = "the file's name or a folder's name is not UTF-8: rename the file or the folder"
            raise Unreadable(message) from error
        data, modified_s = await asyncio.to_thread(read, path, max_bytes=self._max_bytes)
        sidecars = await asyncio.to_thread(sidecars_of, path)
        return SourceFile(path, candidate.source, data, modified_s, mark=candidate.mark, sidecars=sidecars)

    def version(self, file: SourceFile) -> str:
        return content_hash(file.data, file.sidecars)

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        roots = [os.path.realpath(path) for path in self._paths]
        there, failed = {str(file.path) for file in found.candidates}, [failure.path for failure in found.failures]
        gone = set()
        for key, record in known.items():
            file = container_of(key)
            if any(below(file, other) for other in self._others):
                continue
            if not any(below(file, root) for root in roots):
                # Here through a link that is left out now. The source identifies the link.
                links = [link for link in found.left_out if below(file, str(link.target))]
                inside = printable_path(file_path(key))
                sources = {link.source + inside.removeprefix(str(link.target)) for link in links}
                deleted = bool(sources) and source_of(record) in sources
            else:
                unread = file in there or any(file != path and below(file, path) for path in failed)
                deleted = not unread and not os.path.lexists(file)
            if deleted or self.leaves_out(key):
                gone.add(key)
        return gone

    def leaves_out(self, key: str) -> bool:
        return excluded_below(self._paths, Path(file_path(key)), self._exclude)


def below(key: str, root: str) -> bool:
    """Whether a path is another one, or is below it."""
    return key == root or key.startswith(root.rstrip(os.sep) + os.sep)
