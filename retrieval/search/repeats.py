"""Documents that say the same, such as a mirror, or one text as PDF and as Word file: their passages are shown once.

The catalog has a fingerprint of what each document says, so that passages of two documents may begin and end at other
places. Only hits are compared: whoever may read one of two documents only gets that one.
"""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from retrieval.catalog.catalog import Catalog
from retrieval.lexical.said import said_in, said_words
from retrieval.records.documents import Passage
from retrieval.records.search import Hit
from retrieval.records.traces import Fate
from retrieval.search.pack import share_words

_SHOWN = 0.5  # of a passage's pairs of words: with more, the rest stands beside the passages that are shown


class Repeats:
    """The distinct hits of one question, and the fates of those left out."""

    def __init__(self, catalog: Catalog, question: str) -> None:
        self.fates: dict[str, Fate] = {}
        self._catalog = catalog
        self._question = question
        self._shown: list[Passage] = []
        self._fingerprints: dict[str, int | None] = {}

    async def without(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return further hits (best first) without those whose text other hits show."""
        await self._read_fingerprints([hit.passage for hit in hits])
        distinct = []
        for hit in hits:
            if self._is_shown(hit.passage):
                self.fates[hit.id] = "duplicate"
            else:
                distinct.append(hit)
                self._shown.append(hit.passage)
        return distinct

    async def _read_fingerprints(self, passages: Sequence[Passage]) -> None:
        """Read fingerprints of documents that share words; most questions find none."""
        alike = set[str]()
        for number, passage in enumerate(passages):
            for other in (*self._shown, *passages[:number]):
                if passage.document != other.document and share_words(passage.text, other.text):
                    alike |= {passage.document, other.document}
        if unread := sorted(alike - self._fingerprints.keys()):
            read = await asyncio.to_thread(self._catalog.fingerprints, unread)
            self._fingerprints.update((document, read.get(document)) for document in unread)

    def _is_shown(self, passage: Passage) -> bool:
        fingerprint = self._fingerprints.get(passage.document)
        if fingerprint is None:
            return False
        same = [
            other
            for other in self._shown
            if other.document != passage.document and self._fingerprints.get(other.document) == fingerprint
        ]
        if not same:
            return False
        pairs, shown = _pairs(passage), set[tuple[str, str]]().union(*map(_pairs, same))
        if len(pairs & shown) <= _SHOWN * len(pairs):
            return False
        return not (self._asked & said_in(passage).words) - frozenset().union(*(said_in(one).words for one in same))

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(said_words(self._question))


def _pairs(passage: Passage) -> set[tuple[str, str]]:
    """A passage's pairs of adjacent words."""
    return set(pairwise(["", *said_words(passage.text), ""]))
