"""Action sets: written from OpenAPI documents, and searched by questions of people."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from proxy.actions.openapi.operation import Operation, Uncallable
from proxy.actions.openapi.operations import BadServer, operations_of, server_of
from proxy.actions.openapi.read import UnreadableSpec, read_spec
from proxy.actions.search_text import search_text, title_of
from proxy.actions.store import ActionStore, collection_of, revision_of
from retrieval.errors import CollectionExists, RetrievalError, UnknownCollection
from retrieval.knowledge import HitOptions, Knowledge
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import PUBLIC, Turn, View

_BATCH = 100  # documents written at a time
_HITS_PER_OPERATION = 3  # chunks of an operation
# Lower than the gate of passages, which would find no operation for 5 of 100 questions of RestBench: a question without
# a good document may still name an operation.
_MIN_RELEVANCE = 0.02

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
class FoundAction:
    """An operation found by a search."""

    set: str
    operation: Operation


class ActionLibrary:
    """The action sets with their searchable texts."""

    def __init__(self, store: ActionStore, knowledge: Knowledge) -> None:
        self.store = store
        self._knowledge = knowledge

    async def add(self, name: str, raw: bytes, *, base_url: str = "", progress: Progress | None = None) -> AddReport:
        """Bring a set up to date with a document; base_url: "" takes the document's first server.

        An unreadable document changes no set. Raises UnreadableSpec, RetrievalError.
        """
        document = read_spec(raw)
        operations, uncallable = operations_of(document)
        if not operations:
            why = f": {uncallable[0].method} {uncallable[0].path}: {uncallable[0].reason}" if uncallable else ""
            raise UnreadableSpec(f"the document has no operation that can be called{why}")
        base = base_url or _server(document)
        info = document.get("info")
        title = str(info.get("title", "")) if isinstance(info, dict) else ""
        added, changed, removed = await self.write(name, operations, uncallable, title, base, progress)
        return AddReport(title, base, added, changed, len(operations) - added - changed, removed, uncallable)

    async def write(
        self,
        name: str,
        operations: Sequence[Operation],
        uncallable: Sequence[Uncallable],
        title: str,
        base_url: str,
        progress: Progress | None = None,
    ) -> tuple[int, int, int]:
        """Bring a set up to date with operations; returns the numbers of added, changed and removed operations.

        Raises RetrievalError.
        """
        before = self.store.revisions(name)
        now = {one.name: revision_of(one) for one in operations}
        written = [one for one in operations if before.get(one.name) != now[one.name]]
        await self._write_texts(name, written, progress)
        self.store.put(name, operations, uncallable, title=title, base_url=base_url)
        removed = [each for each in before if each not in now]
        for each in removed:
            await self._knowledge.writing.detach(collection_of(name), each, None)
        added = sum(1 for one in written if one.name not in before)
        return added, len(written) - added, len(removed)

    async def remove(self, name: str) -> bool:
        """Delete a set; returns whether the set existed. Raises RetrievalError."""
        existed = self.store.remove(name)
        try:
            await self._knowledge.writing.delete_collection(collection_of(name), None)
        except UnknownCollection:
            return existed
        return True

    async def find(
        self, question: Sequence[Turn], sets: Sequence[str], *, k: int, view: View = PUBLIC
    ) -> list[FoundAction]:
        """At most k operations for the latest question, the best first, each before the producers.

        Sets without documents are left out. Raises RetrievalError.
        """
        known = {row.name for row in await self._knowledge.library.collections(view.groups)}
        collections = [collection_of(name) for name in sets if collection_of(name) in known]
        if not collections:
            return []
        found = await self._knowledge.search.retrieve(
            question,
            collections,
            k=k * _HITS_PER_OPERATION,
            budget_tokens=0,
            view=view,
            hit_options=HitOptions(min_relevance=_MIN_RELEVANCE),
        )
        sources = list(dict.fromkeys(hit.passage.source for hit in found.hits))[:k]
        return (await asyncio.to_thread(self._read_with_producers, sets, sources))[:k]

    def _read_with_producers(self, sets: Sequence[str], sources: Sequence[str]) -> list[FoundAction]:
        """The operations of the sources, each once, and each before the producers."""
        best = self._read(sets, sources)
        producers = self._read(sets, [f"{one.set}/{name}" for one in best for name in one.operation.producers])
        by_name = {(one.set, one.operation.name): one for one in [*producers, *best]}
        names = [(one.set, name) for one in best for name in (one.operation.name, *one.operation.producers)]
        return [by_name[each] for each in dict.fromkeys(names) if each in by_name]

    def _read(self, sets: Sequence[str], sources: Sequence[str]) -> list[FoundAction]:
        """The operations of the sources "set/name", in the order of the sources."""
        read: dict[str, FoundAction] = {}
        for name in sets:
            wanted = [each.removeprefix(f"{name}/") for each in sources if each.startswith(f"{name}/")]
            for one in self.store.operations(name, wanted) if wanted else ():
                read[f"{name}/{one.name}"] = FoundAction(name, one)
        return [read[each] for each in sources if each in read]

    async def _write_texts(self, name: str, operations: Sequence[Operation], progress: Progress | None) -> None:
        with contextlib.suppress(CollectionExists):
            await self._knowledge.writing.create_collection(collection_of(name), None)
        for at in range(0, len(operations), _BATCH):
            results = await self._knowledge.writing.put(
                collection_of(name), [_document(name, one) for one in operations[at : at + _BATCH]]
            )
            failed = next((result for result in results if result.state in ("refused", "failed")), None)
            if failed is not None:
                raise RetrievalError(f"{failed.key} cannot be stored: {failed.reason}")
            if progress is not None:
                progress(min(at + _BATCH, len(operations)), len(operations), 0)


def _document(name: str, operation: Operation) -> DocumentInput:
    return DocumentInput(
        key=operation.name,
        source=f"{name}/{operation.name}",
        content=search_text(operation).encode("utf-8", "replace"),
        title=title_of(operation),
        format="text",
        attributes={},
        groups=(),
        writer=None,
    )


def _server(document: dict[str, object]) -> str:
    """The address of the API. Raises UnreadableSpec: the document names none."""
    try:
        url = server_of(document.get("servers"))
    except BadServer as error:
        raise UnreadableSpec(f"{error}: give the address with --base-url") from error
    parts = urlsplit(urljoin("https://", url)) if url.startswith("//") else urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UnreadableSpec("the document names no server with an address: give the address with --base-url")
    return parts.geturl()
