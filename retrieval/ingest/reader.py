"""What there is to be said of files before they are written: which changed or are gone, and their language."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.load import Candidate, content_hash, read
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.splitting import File, Recipe
from retrieval.knowledge import DETECTED
from retrieval.lexical.language import detect
from retrieval.records.documents import Document

_T = TypeVar("_T")
_MOST_HEARD = 20  # documents that vote for their collection's language


class Reader:
    """Reads files as one recipe wants them."""

    def __init__(self, preparation: Preparation, recipe: Recipe, *, max_bytes: int) -> None:
        self._preparation = preparation
        self._recipe = recipe
        self._max_bytes = max_bytes

    async def content(self, candidate: Candidate) -> bytes:
        """Raises Unreadable."""
        return await asyncio.to_thread(read, candidate.path, max_bytes=self._max_bytes)

    async def changed(self, candidate: Candidate, known: RevisionRecord | None) -> bytes | None:
        """A file's content; None where it is the one that is known, made by this recipe. Raises Unreadable."""
        key = str(candidate.path)
        if not _is_utf8(key):  # no database keeps such a key, and a changed one would not find the file again
            raise Unreadable("its name, or that of a folder above it, is not UTF-8: rename it")
        data = await self.content(candidate)
        unchanged = known is not None and (known.content_hash, known.recipe) == (content_hash(data), self._recipe.text)
        return None if unchanged else data

    async def file(self, candidate: Candidate, data: bytes) -> File:
        """Raises Unreadable where it is gone by now."""
        try:
            modified_s = candidate.path.stat().st_mtime
        except OSError as error:
            raise Unreadable(f"vanished while it was read ({error.strerror})") from error
        return File(candidate.path, candidate.source, data, modified_s)

    async def language(self, collection: str, of: Sequence[Candidate | Document]) -> str:
        """The language a new generation is to have: the setting, else that of most of some of these documents."""
        if (language := self._recipe.language_of(collection)) != DETECTED:
            return language
        texts = []
        for one in spread(of):
            try:
                texts.append(one.text if isinstance(one, Document) else await self._text(one))
            except Unreadable:  # it is named when its turn comes
                continue
        return await asyncio.to_thread(detect, texts)

    async def _text(self, candidate: Candidate) -> str:
        file = await self.file(candidate, await self.content(candidate))
        return (await self._preparation.split(file)).document.text


def _is_utf8(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def spread(items: Sequence[_T]) -> Sequence[_T]:
    """At most _MOST_HEARD of them, from the first to the last at like distances."""
    return items[:: max(1, -(-len(items) // _MOST_HEARD))]


def gone(
    paths: Sequence[Path], found: set[str], failed: Sequence[str], known: dict[str, RevisionRecord]
) -> dict[str, RevisionRecord]:
    """Known documents below the given paths whose files are no longer there.

    What could not be read this time is not gone: only a file that no longer exists is.
    """
    apart = outside(paths, known)
    return {
        key: entry
        for key, entry in known.items()
        if key not in found
        and key not in apart
        and not any(key.startswith(failure.rstrip(os.sep) + os.sep) for failure in failed)
        and not os.path.lexists(key)
    }


def outside(paths: Sequence[Path], known: dict[str, RevisionRecord]) -> dict[str, RevisionRecord]:
    """Known documents that are not below the given paths."""
    roots = [os.path.realpath(path) for path in paths]
    return {
        key: entry
        for key, entry in known.items()
        if not any(key == root or key.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
    }
