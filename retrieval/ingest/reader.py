"""Files before writing: changed files, deleted files, and the language of files."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.load import FileCandidate, content_hash, read
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.splitting import Recipe, SourceFile
from retrieval.knowledge import DETECTED
from retrieval.lexical.language import detect
from retrieval.records.documents import Document

_T = TypeVar("_T")
_SAMPLE_DOCUMENTS = 20  # documents that vote on a collection's language


class FileReader:
    """Reads files for one recipe."""

    def __init__(self, preparation: Preparation, recipe: Recipe, *, max_bytes: int) -> None:
        self._preparation = preparation
        self._recipe = recipe
        self._max_bytes = max_bytes

    async def content(self, candidate: FileCandidate) -> bytes:
        """Raises Unreadable."""
        return await asyncio.to_thread(read, candidate.path, max_bytes=self._max_bytes)

    async def changed(self, candidate: FileCandidate, known: RevisionRecord | None) -> bytes | None:
        """Return a file's content; None if the catalog has the same content and recipe. Raises Unreadable."""
        key = str(candidate.path)
        if not _is_utf8(key):  # databases refuse such a key, and an altered key would not find the file again
            raise Unreadable("the file's name or a folder's name is not UTF-8: rename the file or the folder")
        data = await self.content(candidate)
        unchanged = known is not None and (known.content_hash, known.recipe) == (content_hash(data), self._recipe.text)
        return None if unchanged else data

    async def file(self, candidate: FileCandidate, data: bytes) -> SourceFile:
        """Raises Unreadable if the file is gone."""
        try:
            modified_s = candidate.path.stat().st_mtime
        except OSError as error:
            raise Unreadable(f"the file disappeared while ragway read the file ({error.strerror})") from error
        return SourceFile(candidate.path, candidate.source, data, modified_s)

    async def language(self, collection: str, samples: Sequence[FileCandidate | Document]) -> str:
        """Return the language for a new generation: the setting, or the main language of a sample of documents."""
        if (language := self._recipe.language_of(collection)) != DETECTED:
            return language
        texts = []
        for item in sample(samples):
            try:
                texts.append(item.text if isinstance(item, Document) else await self._text(item))
            except Unreadable:  # reported when the file's turn comes
                continue
        return await asyncio.to_thread(detect, texts)

    async def _text(self, candidate: FileCandidate) -> str:
        file = await self.file(candidate, await self.content(candidate))
        return (await self._preparation.split(file)).document.text


def _is_utf8(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def sample(items: Sequence[_T]) -> Sequence[_T]:
    """Return a sample of at most _SAMPLE_DOCUMENTS items at equal distances."""
    return items[:: max(1, -(-len(items) // _SAMPLE_DOCUMENTS))]


def deleted_documents(
    paths: Sequence[Path], found: set[str], failed: Sequence[str], known: dict[str, RevisionRecord]
) -> dict[str, RevisionRecord]:
    """Return the known documents below the given paths whose files no longer exist.

    An unreadable file is not deleted: only a missing file is.
    """
    outside = outside_paths(paths, known)
    return {
        key: entry
        for key, entry in known.items()
        if key not in found
        and key not in outside
        and not any(key.startswith(failure.rstrip(os.sep) + os.sep) for failure in failed)
        and not os.path.lexists(key)
    }


def outside_paths(paths: Sequence[Path], known: dict[str, RevisionRecord]) -> dict[str, RevisionRecord]:
    """Return the known documents outside the given paths."""
    roots = [os.path.realpath(path) for path in paths]
    return {
        key: entry
        for key, entry in known.items()
        if not any(key == root or key.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
    }
