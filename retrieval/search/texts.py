"""Pieces of documents' stored texts, with the small documents read lately in memory.

A piece costs .1 ms of CPU to read from SQL, but in a thread, and on a busy machine a thread waits its turn: 15 ms for
half of the questions where twenty processes shared two cores. Documents are mostly small, and asked for again.
"""

import asyncio
from collections.abc import Mapping, Sequence

from retrieval.catalog.catalog import Catalog

Key = tuple[str, int]  # document and revision
Span = tuple[str, int, int, int]  # document, revision, start, end
_SMALL_CHARS = 100_000  # of a document that is kept; of a larger one only the piece is read, which takes longer
_KEPT_CHARS = 8_000_000  # of all texts kept


class Texts:
    """Reads pieces of texts. A revision's text never changes, so nothing here grows old."""

    def __init__(self, catalog: Catalog, *, kept_chars: int = _KEPT_CHARS) -> None:
        self._catalog = catalog
        self._kept_chars = kept_chars
        self._kept: dict[Key, str] = {}  # the longest unasked first
        self._chars = 0

    async def spans(self, wanted: Sequence[Span]) -> list[str]:
        """The characters of each, of current revisions; "" where there is no such text any more."""
        texts = {span[:2]: self._kept[span[:2]] for span in wanted if span[:2] in self._kept}
        unknown = [span for span in wanted if span[:2] not in texts]
        pieces: Mapping[Span, str] = {}
        if unknown:
            small, pieces = await asyncio.to_thread(self._read, unknown)
            texts.update(small)
        self._keep(texts)
        return [texts[span[:2]][span[2] : span[3]] if span[:2] in texts else pieces[span] for span in wanted]

    def _read(self, spans: Sequence[Span]) -> tuple[dict[Key, str], dict[Span, str]]:
        """The texts of small documents, and of others the pieces."""
        short = self._catalog.short_texts([document for document, *_ in spans], max_chars=_SMALL_CHARS)
        large = [span for span in spans if span[:2] not in short]
        return short, dict(zip(large, self._catalog.spans(large), strict=True))

    def _keep(self, texts: Mapping[Key, str]) -> None:
        """As the latest asked for; the longest unasked go where these are too many."""
        for key, text in texts.items():
            self._chars += len(text) - len(self._kept.pop(key, ""))
            self._kept[key] = text
        while self._chars > self._kept_chars:
            self._chars -= len(self._kept.pop(next(iter(self._kept))))
