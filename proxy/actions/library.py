"""Action sets: written from OpenAPI documents, and searched by questions of people.

The texts of all sets are documents of one collection, each with the set as an attribute. The key of an operation's text
is SET/OPERATION, of the description apart SET/OPERATION/description, and of the text about the API SET/. With a
collection for each set, a search of 1,474 sets took 746 ms, and a search of one collection takes 1 ms. A word also
counts as rare by the operations of all APIs, not of one.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urljoin, urlsplit

from proxy.actions.addresses import origin_of
from proxy.actions.openapi.budget import DocumentTooLarge
from proxy.actions.openapi.operation import Operation, Uncallable
from proxy.actions.openapi.operations import operations_of, server_of
from proxy.actions.openapi.read import UnreadableSpec, read_spec
from proxy.actions.search_text import api_text, api_title, description_of, search_text, title_of
from proxy.actions.sources import is_url
from proxy.actions.store import COLLECTION, ActionSet, ActionStore, document_hash, revision_of
from retrieval.errors import CollectionExists, RetrievalError, UnknownCollection
from retrieval.filters import checked_filter
from retrieval.knowledge import HitOptions, Knowledge
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import PUBLIC, Hit, Retrieved, Turn, View

_BATCH = 100  # documents written at a time
_GIVE_ADDRESS = "give the address with --base-url, or in actions.NAME.base_url"
_HITS_PER_OPERATION = 5  # chunks of an operation
_CANDIDATES = 100  # of each arm: an operation has two to four chunks
# Lower than the gate of passages, which would find no operation for 5 of 100 questions of RestBench: a question without
# a good document may still name an operation.
MIN_RELEVANCE = 0.02
_SET = "action_set"  # the attribute of a text
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufeff]")  # a document with such characters counts as binary
_FILTER_VALUES = 100  # in one condition of a filter
# The weight of the mean score of a set's first _BEST_OF_SET operations. A question of several steps needs operations of
# one API, and several hits in one API are evidence for each of them. Among 10,000 operations of other APIs, recall@10
# of RestBench rises by .013, of ToolBench by .007; with .5 hit@5 of ToolBench falls by .007.
_SET_WEIGHT = 0.25
_BEST_OF_SET = 3
_API_WEIGHT = 0.3  # of the score of the text about the API

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class AddReport:
    """The changes made by `add`."""

    title: str
    base_url: str
    added: int
    changed: int
    unchanged: int
    removed: int
    uncallable: Sequence[Uncallable]


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """The operations of a document."""

    document: Mapping[str, object]
    title: str
    operations: Sequence[Operation]
    uncallable: Sequence[Uncallable]
    hash: str  # `document_hash`


@dataclass(frozen=True, slots=True)
class FoundAction:
    """An operation found by a search."""

    set: str
    operation: Operation
    hit: Hit | None = None  # the best text of the operation; None: found as a producer only

    @property
    def label(self) -> str:
        """The set and the operation, for logs and reports."""
        return f"{self.set}/{self.operation.name}"


@dataclass(frozen=True, slots=True)
class FoundActions:
    """The result of a search."""

    actions: Sequence[FoundAction] = field(default_factory=list)  # the best first, each before the producers
    texts: Retrieved | None = None  # of the search of texts; None: no set has documents


class ActionLibrary:
    """The action sets with their searchable texts."""

    def __init__(self, store: ActionStore, knowledge: Knowledge) -> None:
        self.store = store
        self._knowledge = knowledge

    async def add(
        self, name: str, raw: bytes, *, base_url: str = "", source: str = "", progress: Progress | None = None
    ) -> AddReport:
        """Bring a set up to date with a document.

        base_url: "" takes the document's first server. source: file or URL of the document; "": sent by a client.

        An unreadable document changes no set. After an interruption, the operations are the old operations, and the
        next `add` of any document completes the texts. Raises UnreadableSpec, RetrievalError.
        """
        read = await asyncio.to_thread(read_document, raw)
        base = base_url or address_of(read.document, source)
        added, changed, removed = await self.write(name, read, base, source=source, progress=progress)
        unchanged = len(read.operations) - added - changed
        return AddReport(read.title, base, added, changed, unchanged, removed, read.uncallable)

    async def write(
        self, name: str, read: ReadDocument, base_url: str, *, source: str = "", progress: Progress | None = None
    ) -> tuple[int, int, int]:
        """Bring a set up to date with operations; returns the numbers of added, changed and removed operations.

        All texts are written, because an earlier writing may have been interrupted; the index keeps unchanged texts.
        Raises RetrievalError.
        """
        now = await asyncio.to_thread(_revisions, read)
        texts = await asyncio.to_thread(_texts, name, read)
        row = ActionSet(name, read.title, base_url, 0.0, read.uncallable, source=source)
        async with self.store.turn():  # two writings at the same time would remove each other's texts
            before = await asyncio.to_thread(self.store.revisions, name)
            await asyncio.to_thread(self.store.note_document, name, "")
            await self._write_texts(texts, progress)
            await asyncio.to_thread(self.store.put, row, read.operations)
            await self._remove_texts(name, {text.key for text in texts})
            await asyncio.to_thread(self.store.note_document, name, read.hash)
        added = len(now.keys() - before.keys())
        changed = sum(1 for each in now.keys() & before.keys() if now[each] != before[each])
        return added, changed, len(before.keys() - now.keys())

    async def remove(self, name: str) -> bool:
        """Delete a set; returns whether the set existed. Raises RetrievalError."""
        async with self.store.turn():
            existed = await asyncio.to_thread(self.store.remove, name)
            return await self._remove_texts(name, ()) > 0 or existed

    async def find(self, question: Sequence[Turn], sets: Sequence[str], *, k: int, view: View = PUBLIC) -> FoundActions:
        """At most k operations for the latest question.

        Sets without documents are left out. Raises RetrievalError.
        """
        if not sets:
            return FoundActions()
        try:
            found = await self._knowledge.search.retrieve(
                question,
                [COLLECTION],
                k=k * _HITS_PER_OPERATION,
                budget_tokens=0,
                view=replace(view, filter=_filter(tuple(sets))),
                hit_options=HitOptions(min_relevance=MIN_RELEVANCE, candidates=_CANDIDATES),
            )
        except UnknownCollection:
            return FoundActions()
        read = await asyncio.to_thread(self._read_with_producers, _by_set(found.hits), k)
        hits = {_name_of(hit.passage.source): hit for hit in reversed(found.hits)}
        actions = [FoundAction(name, operation, hits.get((name, operation.name))) for name, operation in read[:k]]
        return FoundActions(actions, found)

    def _read_with_producers(self, names: Sequence[tuple[str, str]], k: int) -> list[tuple[str, Operation]]:
        """The sets and the first k operations that exist, each once, and each before the producers.

        names: (set, name), also of texts without an operation: a writing may go on, or was interrupted.
        """
        read: dict[tuple[str, str], Operation] = {}
        for at in range(0, len(names), k):
            if len(read) < k:
                read |= self.store.found(names[at : at + k])
        found = [one for one in names if one in read][:k]
        producers = {one: [(one[0], name) for name in read[one].producers] for one in found}
        read |= self.store.found({each for some in producers.values() for each in some} - read.keys())
        wanted = [each for one in found for each in (one, *producers[one])]
        return [(one[0], read[one]) for one in dict.fromkeys(wanted) if one in read]

    async def _write_texts(self, texts: Sequence[DocumentInput], progress: Progress | None) -> None:
        with contextlib.suppress(CollectionExists):
            await self._knowledge.writing.create_collection(COLLECTION, None)
        for at in range(0, len(texts), _BATCH):
            results = await self._knowledge.writing.put(COLLECTION, texts[at : at + _BATCH])
            failed = next((result for result in results if result.state in ("refused", "failed")), None)
            if failed is not None:
                raise RetrievalError(f"{failed.key} cannot be stored: {failed.reason}")
            if progress is not None:
                progress(min(at + _BATCH, len(texts)), len(texts), 0)

    async def _remove_texts(self, name: str, kept: Collection[str]) -> int:
        """Delete the set's texts with other keys, also texts that an interrupted writing left; returns the number."""
        writing, removed = self._knowledge.writing, 0
        with contextlib.suppress(UnknownCollection):
            keys = await self._knowledge.library.keys_under(COLLECTION, f"{name}/")
            gone = [key for key in keys if key not in kept]
            for at in range(0, len(gone), _BATCH):
                removed += await writing.detach(COLLECTION, gone[at : at + _BATCH], None)
        return removed


def read_document(raw: bytes) -> ReadDocument:
    """The operations of a document, at least one. Raises UnreadableSpec."""
    document = read_spec(raw)
    try:
        operations, uncallable = operations_of(document)
    except DocumentTooLarge as error:
        raise UnreadableSpec(str(error)) from error
    if not operations:
        why = f": {uncallable[0].method} {uncallable[0].path}: {uncallable[0].reason}" if uncallable else ""
        raise UnreadableSpec(f"the document has no operation that can be called{why}")
    info = document.get("info")
    title = _NO_TEXT.sub(" ", str(info.get("title", ""))) if isinstance(info, dict) else ""
    return ReadDocument(document, title, operations, uncallable, document_hash(raw))


def _revisions(read: ReadDocument) -> dict[str, str]:
    return {one.name: revision_of(one, read.title) for one in read.operations}


def _texts(name: str, read: ReadDocument) -> list[DocumentInput]:
    """The documents of a set, with the name of the set and of the operation as source."""
    texts = []
    for one in read.operations:
        source, title = f"{name}/{one.name}", title_of(one, read.title)
        texts.append(_text(name, source, source, title, search_text(one)))
        if _NO_TEXT.sub("", description := description_of(one)).strip():
            texts.append(_text(name, f"{source}/description", source, title, description))
    if _NO_TEXT.sub("", about := api_text(read.document, read.operations)).strip():
        texts.append(_text(name, f"{name}/", f"{name}/", api_title(read.title), about))
    return texts


def _text(name: str, key: str, source: str, title: str, text: str) -> DocumentInput:
    content = _NO_TEXT.sub(" ", text).encode("utf-8", "replace")
    return DocumentInput(
        key, source, content, title, "text", attributes={_SET: name}, groups=(), writer=None, owner=f"actions.{name}"
    )


def _name_of(source: str) -> tuple[str, str]:
    """The set and the name of an operation; "" for the text about the API."""
    name, _, operation = source.partition("/")
    return name, operation


def _by_set(hits: Sequence[Hit]) -> list[tuple[str, str]]:
    """The operations (set, name) of the hits, by the score of the best chunk and by the scores of the set."""
    lowest = min((hit.score for hit in hits), default=0.0)
    scores: dict[tuple[str, str], float] = {}
    for hit in hits:
        scores.setdefault(_name_of(hit.passage.source), hit.score - lowest)
    of_api = {name: scores.pop((name, "")) for name, operation in list(scores) if not operation}
    of_set: dict[str, list[float]] = {}
    for (name, _), score in scores.items():
        of_set.setdefault(name, []).append(score)
    worth = {
        name: _SET_WEIGHT * sum(sorted(some)[-_BEST_OF_SET:]) / _BEST_OF_SET + _API_WEIGHT * of_api.get(name, 0.0)
        for name, some in of_set.items()
    }
    return sorted(scores, key=lambda one: -(scores[one] + worth[one[0]]))


@lru_cache(maxsize=16)  # the check of 2,000 sets takes 1 ms
def _filter(sets: tuple[str, ...]) -> str:
    """The condition on documents: of one of the sets."""
    parts: list[object] = [
        {"type": "in", "key": _SET, "value": list(sets[at : at + _FILTER_VALUES])}
        for at in range(0, len(sets), _FILTER_VALUES)
    ]
    return checked_filter({"type": "or", "filters": parts} if len(parts) > 1 else parts[0])


def address_of(document: Mapping[str, object], source: str) -> str:
    """The address of the API, by the document's first server.

    A relative server counts from the document's URL. A document from a URL names no other origin than the URL's:
    credentials go to the address. Raises UnreadableSpec.
    """
    base = source.partition("?")[0] if is_url(source) else ""
    try:
        url = server_of(document.get("servers"))
        parts = urlsplit(urljoin(base or "https://", url or "/") if base or url.startswith("//") else url)
    except ValueError as error:  # a server without an address, or not a URL
        raise UnreadableSpec(f"{error}: {_GIVE_ADDRESS}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or origin_of(parts.geturl()) is None:
        raise UnreadableSpec(f"the document names no server with an address: {_GIVE_ADDRESS}")
    if base and origin_of(parts.geturl()) != origin_of(base):
        raise UnreadableSpec(
            f"the document names a server of another origin than the document's URL, {parts.geturl()}: {_GIVE_ADDRESS}"
        )
    return parts.geturl()
