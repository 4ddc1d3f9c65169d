"""Documents that clients give: written like files, and never taken for any.

A file's key in the catalog is its absolute path. That of a document that was given begins otherwise, so that no ingest
of a folder takes it away, and no client replaces what an ingest wrote.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Literal

import orjson

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.descriptions import readable_documents
from retrieval.catalog.jobs import PREFIX
from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.load import FORMATS
from retrieval.ingest.pipeline import Ingester, Pending, Tally
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.splitting import File, Recipe
from retrieval.records.documents import Groups
from retrieval.records.jobs import DocumentInput, WriteResult

_SLICE = 96  # chunks embedded at a time, as in `pipeline`


def catalog_key(key: str) -> str:
    """The key in the catalog of what a client names `key`."""
    return PREFIX + key


def client_key(key: str) -> str:
    """What a client names the document of that key in the catalog; "" where it is a file."""
    return key.removeprefix(PREFIX) if key.startswith(PREFIX) else ""


class Putter:
    """Writes given documents to collections. Whoever asks it to has them `alone`."""

    def __init__(
        self, catalog: Catalog, ingester: Ingester, preparation: Preparation, *, recipe: Recipe, max_bytes: int
    ) -> None:
        self._catalog = catalog
        self._ingester = ingester
        self._preparation = preparation
        self._recipe = recipe.text
        self._max_bytes = max_bytes

    async def put(self, given: Sequence[DocumentInput], name: str) -> tuple[list[WriteResult], int]:
        """What became of each, their keys being different, and how many chunks were written.

        Each is written by itself: the old one or the new one is there, whole, also where this is cut off.
        Raises UnknownCollection, WrongEmbedder.
        """
        collection = await self._ingester.ready(name)
        keys = [catalog_key(one.key) for one in given]
        known = self._catalog.current_revisions(name, keys)
        failed: dict[str, str] = {}
        refused = self._hidden(zip(keys, given, strict=True), known)
        pending: list[Pending] = []
        for key, one in zip(keys, given, strict=True):
            digest, now = _digest(one), known.get(key)
            if key in refused:
                continue
            if now is not None and (now.content_hash, now.recipe) == (digest, self._recipe):
                continue
            try:
                split = await self._preparation.split(self._file(one))
            except Unreadable as error:
                failed[key] = str(error)
                continue
            if _unreadable(split.document.groups, one.writer):
                refused[key] = "its groups are none of this key's, which could not read it then"
            else:
                pending.append(Pending(key, digest, split, now is not None))
        tally = Tally(len(given), lambda *_: None)
        if pending:
            collection = await self._ingester.hear(collection, [one.split.document for one in pending])
        for batch in _batches(pending):
            await self._ingester.write(collection, batch, tally)
        written, there = {one.key: one.known for one in pending}, self._catalog.current_revisions(name, keys)
        placed = []
        for key, one in zip(keys, given, strict=True):
            if key in failed or key in refused:
                state: Literal["failed", "refused"] = "failed" if key in failed else "refused"
                placed.append(WriteResult(one.key, state, reason=failed.get(key) or refused[key]))
                continue
            placed.append(WriteResult(one.key, _state(written.get(key)), there[key].document))
        return placed, tally.chunks

    def _hidden(
        self, given: Iterable[tuple[str, DocumentInput]], known: Mapping[str, RevisionRecord]
    ) -> dict[str, str]:
        """Those under whose key there is a document that the client may not read, and why that is refused."""
        there = [(key, known[key].document, one.writer) for key, one in given if key in known]
        ids = [id for _, id, _ in there]
        engine, writers = self._catalog.engine, {groups for _, _, groups in there}
        seen = {groups: readable_documents(engine, ids, groups) for groups in writers}
        why = "under its key there is a document that this key may not read"
        return {key: why for key, id, groups in there if id not in seen[groups]}

    def _file(self, given: DocumentInput) -> File:
        if len(given.content) > self._max_bytes:
            size = f"{len(given.content):,} bytes, at most {self._max_bytes:,}"
            raise Unreadable(f"too large: {size} are read; split it or raise the limit (ingest.max_file_mb)")
        modified_s = time.time() if given.modified_s is None else given.modified_s
        path = Path(PurePosixPath(given.source).name)
        format = given.format or FORMATS.get(path.suffix.lower()) or given.otherwise
        said = (given.title, format, given.attributes, given.groups)
        return File(path, given.source, given.content, modified_s, *said)


def _unreadable(groups: Sequence[str], reader: Groups) -> bool:
    return bool(groups) and reader is not None and not set(groups) & set(reader)


def _state(replaced: bool | None) -> Literal["created", "replaced", "unchanged"]:
    """replaced: whether there was another one; None where nothing was written."""
    if replaced is None:
        return "unchanged"
    return "replaced" if replaced else "created"


def _digest(given: DocumentInput) -> str:
    """Of all that a client said; the same again changes nothing."""
    said = orjson.dumps(replace(given, content=b"", writer=()), default=lambda _: None, option=orjson.OPT_SORT_KEYS)
    return sha256(said + b"\0" + given.content).hexdigest()


def _batches(pending: Sequence[Pending]) -> list[list[Pending]]:
    """In groups worth embedding together."""
    batches: list[list[Pending]] = []
    chunks = _SLICE
    for one in pending:
        if chunks >= _SLICE:
            batches.append([])
            chunks = 0
        batches[-1].append(one)
        chunks += len(one.split.chunks)
    return batches
