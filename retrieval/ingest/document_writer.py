"""Documents from clients: written like files, and kept apart from them.

A file's catalog key is its absolute path. A client's document has a key with a prefix, so that no ingest of a folder
removes it, and no client replaces a file's document.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal

import orjson

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.descriptions import readable_documents
from retrieval.catalog.revisions import RevisionRecord, catalog_key
from retrieval.errors import Unreadable
from retrieval.ingest.formats.registry import holds_text, is_container
from retrieval.ingest.ingester import Ingester, Pending, Row
from retrieval.ingest.load import too_large
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.splitting import Recipe, SourceFile
from retrieval.records.documents import Groups
from retrieval.records.jobs import DocumentInput, WriteResult


@dataclass(frozen=True, slots=True)
class ReadDocuments:
    """Clients' documents, read and embedded for their collection as it was then."""

    documents: Sequence[DocumentInput]
    collection: str
    generation: int
    language: str
    known: dict[str, RevisionRecord]  # key -> current revision of these documents
    pending: Sequence[Pending]
    vectors: Sequence[Row]  # of all chunks of `pending`, in order
    failed: dict[str, str]  # key -> reason
    refused: dict[str, str]


class DocumentWriter:
    """Writes clients' documents to collections, in two steps: only the second needs the write lock."""

    def __init__(
        self, catalog: Catalog, ingester: Ingester, preparation: Preparation, *, recipe: Recipe, max_bytes: int
    ) -> None:
        self._catalog = catalog
        self._ingester = ingester
        self._preparation = preparation
        self._recipe = recipe.text
        self._max_bytes = max_bytes

    async def read(
        self, documents: Sequence[DocumentInput], name: str, *, split: asyncio.Event | None = None
    ) -> ReadDocuments:
        """Read and embed new and changed documents (keys must differ). Raises UnknownCollection.

        split: set once they are split, for a client that waits; None if no client does.
        """
        collection = self._catalog.collection(name)
        keys = [catalog_key(document.key) for document in documents]
        known = self._catalog.current_revisions(name, keys)
        failed: dict[str, str] = {}
        refused = self._refusals(zip(keys, documents, strict=True), known)
        pending: list[Pending] = []
        for key, document in zip(keys, documents, strict=True):
            digest, current = _digest(document), known.get(key)
            if key in refused:
                continue
            if current is not None and (current.content_hash, current.recipe) == (digest, self._recipe):
                continue
            try:
                parts = await self._preparation.split(
                    self._source_file(document), owner=document.owner, waits=split is not None
                )
            except Unreadable as error:
                failed[key] = str(error)
                continue
            if _unreadable(parts.document.groups, document.writer):
                refused[key] = "this API key has none of the document's groups, and could not read the document"
            else:
                pending.append(Pending(key, digest, parts, current is not None))
        if split is not None:
            split.set()
        language, vectors = collection.language, list[Row]()
        if pending:
            language = await self._ingester.language(collection, [item.split.document for item in pending])
            vectors = await self._ingester.vectors([item.split for item in pending], language, owner=documents[0].owner)
        return ReadDocuments(documents, name, collection.generation, language, known, pending, vectors, failed, refused)

    async def write(self, read: ReadDocuments) -> list[WriteResult] | None:
        """Return each document's result; None if the collection or a document has changed since they were read.

        The caller holds the write lock. Each document is written on its own: an interruption leaves either the old or
        the new one, complete.

        Raises UnknownCollection, WrongEmbedder.
        """
        collection = await self._ingester.prepare_for_writing(read.collection)
        if read.pending:
            collection = self._ingester.with_language(collection, read.language)
        keys = [catalog_key(document.key) for document in read.documents]
        unchanged = self._catalog.current_revisions(read.collection, keys) == read.known
        if not unchanged or (collection.generation, collection.language) != (read.generation, read.language):
            return None
        vectors = iter(read.vectors)
        for item in read.pending:
            await self._ingester.write(collection, item, list(islice(vectors, len(item.split.chunks))))
        states: dict[str, Literal["created", "replaced", "unchanged"]] = {
            item.key: "replaced" if item.known else "created" for item in read.pending
        }
        notes = {item.key: item.split.document.note for item in read.pending}
        stored = self._catalog.current_revisions(read.collection, keys)
        results = []
        for key, document in zip(keys, read.documents, strict=True):
            if key in read.failed:
                results.append(WriteResult(document.key, "failed", reason=read.failed[key]))
            elif key in read.refused:
                results.append(WriteResult(document.key, "refused", reason=read.refused[key]))
            else:
                state = states.get(key, "unchanged")
                results.append(WriteResult(document.key, state, stored[key].document, notes.get(key, "")))
        return results

    def _refusals(
        self, documents: Iterable[tuple[str, DocumentInput]], known: Mapping[str, RevisionRecord]
    ) -> dict[str, str]:
        """Return key -> reason for refusal, for keys of documents that the client may not read."""
        stored = [(key, known[key].document, document.writer) for key, document in documents if key in known]
        ids = [id for _, id, _ in stored]
        engine, writers = self._catalog.engine, {groups for _, _, groups in stored}
        readable = {groups: readable_documents(engine, ids, groups) for groups in writers}
        reason = "a document with the same key exists, and this API key may not read that document"
        return {key: reason for key, id, groups in stored if id not in readable[groups]}

    def _source_file(self, document: DocumentInput) -> SourceFile:
        if len(document.content) > self._max_bytes:
            raise Unreadable(too_large(len(document.content), self._max_bytes))
        modified_s = time.time() if document.modified_s is None else document.modified_s
        path = Path(PurePosixPath(document.source).name)
        kind = document.format or (None if holds_text(path) else document.otherwise)  # the text of a slide is no slide
        fields = (document.title, kind, document.attributes, document.groups)
        joined = kind is None and is_container(path)
        return SourceFile(path, document.source, document.content, modified_s, *fields, joined=joined)


def _unreadable(groups: Sequence[str], reader: Groups) -> bool:
    return bool(groups) and reader is not None and not set(groups) & set(reader)


def _digest(document: DocumentInput) -> str:
    """Hash all of the client's input; equal input changes no document."""
    fields = orjson.dumps(
        replace(document, content=b"", writer=(), owner=""), default=lambda _: None, option=orjson.OPT_SORT_KEYS
    )
    return sha256(fields + b"\0" + document.content).hexdigest()
