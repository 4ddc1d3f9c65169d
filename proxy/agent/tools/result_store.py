"""The whole texts of cut results, from which the model can read on.

A result has an id, by which later questions of the conversation find the result, too. A result belongs to one key: the
stored record stands under a digest of the key and the id.
"""

import secrets
from dataclasses import dataclass, field
from time import time

from runtime.record_store import RecordStore
from runtime.write_behind import NEXT_REQUEST_EVERY_S, Count, Record, WriteBehindQueue, record_id

_ID_BYTES = 6  # a small model copies 12 letters without an error


class StoredResults(WriteBehindQueue[Record[bytes]]):
    """The unwritten results of this process, and access to all stored results."""

    KIND = "action_results"

    def __init__(self, store: RecordStore, count: Count) -> None:
        super().__init__(store, lambda one: one.value, count, every_s=NEXT_REQUEST_EVERY_S)

    def keep(self, key: str, id: str, content: bytes) -> bool:
        """Store a result for a key; returns whether the queue had room."""
        return self.add(Record(record_id(key=key, result=id), time(), content, len(content)))

    async def find(self, key: str, id: str) -> bytes | None:
        """A result of the key; None: no result of this id. Raises RetrievalError."""
        record = await self.find_record(record_id(key=key, result=id), again=True)
        return record.value if isinstance(record, Record) else record


@dataclass(slots=True)
class ResultStore:
    """The results that a chat can read."""

    stored: StoredResults | None = None  # None keeps the results of this chat alone
    key: str = ""  # of the caller
    # Of this chat, without the stored results: a chat may last minutes.
    _contents: dict[str, bytes] = field(default_factory=dict, init=False)

    def put(self, text: str) -> str:
        """Keep a whole result; returns the id."""
        id = secrets.token_hex(_ID_BYTES)
        content = text.encode("utf-8", "replace")  # a text with one 😀 takes four times the memory
        if self.stored is None or not self.stored.keep(self.key, id, content):
            self._contents[id] = content
        return id

    async def content(self, id: str) -> bytes | None:
        """A whole result; None: no result of this id. Raises RetrievalError."""
        if id in self._contents or self.stored is None:
            return self._contents.get(id)
        return await self.stored.find(self.key, id)
