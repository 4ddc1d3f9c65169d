"""Pieces of documents' stored texts, with a cache of small documents.

Reading a piece from SQL takes .1 ms of CPU, but in a thread, and on a busy machine a thread waits for the processor: 15
ms for half of the questions with twenty processes on two cores. Most documents are small and read again.
"""

import asyncio
from collections.abc import Mapping, Sequence

from retrieval.catalog.catalog import Catalog

Key = tuple[str, int]  # document and revision
Span = tuple[str, int, int, int]  # document, revision, start, end
_SMALL_CHARS = 100_000  # largest cached document; of a larger document only the piece is read, which takes longer
_CACHE_CHARS = 8_000_000  # of all cached texts


class Texts:
    """Reads pieces of texts. A revision's text never changes, so the cache never becomes stale."""

    def __init__(self, catalog: Catalog, *, cache_chars: int = _CACHE_CHARS) -> None:
        self._catalog = catalog
        self._cache_chars = cache_chars
        self._cache: dict[Key, str] = {}  # least recently used first
        self._chars = 0

    async def spans(self, wanted: Sequence[Span]) -> list[str]:
        """The text of each span, of current revisions; "" for a text that no longer exists."""
        texts = {span[:2]: self._cache[span[:2]] for span in wanted if span[:2] in self._cache}
        unknown = [span for span in wanted if span[:2] not in texts]
        pieces: Mapping[Span, str] = {}
        if unknown:
            small, pieces = await asyncio.to_thread(self._read, unknown)
            texts.update(small)
        self._remember(texts)
        return [texts[span[:2]][span[2] : span[3]] if span[:2] in texts else pieces[span] for span in wanted]

    def _read(self, spans: Sequence[Span]) -> tuple[dict[Key, str], dict[Span, str]]:
        """The texts of small documents, and the pieces of other documents."""
        short = self._catalog.short_texts([document for document, *_ in spans], max_chars=_SMALL_CHARS)
        large = [span for span in spans if span[:2] not in short]
        return short, dict(zip(large, self._catalog.spans(large), strict=True))

    def _remember(self, texts: Mapping[Key, str]) -> None:
        """Add texts to the cache as most recently used; drop the least recently used texts over the limit."""
        for key, text in texts.items():
            self._chars += len(text) - len(self._cache.pop(key, ""))
            self._cache[key] = text
        while self._chars > self._cache_chars:
            self._chars -= len(self._cache.pop(next(iter(self._cache))))
