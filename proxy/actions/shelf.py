"""The shelf: the whole texts of cut results, from which the model can read on.

A result has an id, by which later questions of the conversation find the result, too. A result belongs to one key: the
stored record stands under a digest of the key and the id.
"""

import secrets
from time import time
from typing import Any

from proxy.actions.own_tools import OwnTool, ToolAnswer, arguments_schema
from proxy.actions.result_reading import NoPlace, read_on
from proxy.dialects.json_body import by_size
from retrieval.errors import RetrievalError
from runtime.record_store import RecordStore
from runtime.write_behind import NEXT_REQUEST_EVERY_S, Count, Record, WriteBehindQueue, record_id

READ = "read_result"
_ID_BYTES = 6  # a small model copies 12 letters without an error
_NOT_HERE = "No result has this id, or the result is no longer kept. Call the operation again."


class StoredResults(WriteBehindQueue[Record[bytes]]):
    """The unwritten results of this process, and access to all stored results."""

    def __init__(self, store: RecordStore, count: Count) -> None:
        super().__init__(
            store, lambda one: one.value, count, every_s=NEXT_REQUEST_EVERY_S, size_bytes=lambda one: len(one.value)
        )

    def keep(self, key: str, id: str, content: bytes) -> bool:
        """Store a result for a key; returns whether the queue had room."""
        return self.add(Record(record_id(key=key, result=id), time(), content))

    async def find(self, key: str, id: str) -> bytes | None:
        """A result of the key; None: no result of this id. Raises RetrievalError."""
        record = await self.find_record(record_id(key=key, result=id), again=True)
        return record.value if isinstance(record, Record) else record


class Shelf:
    """The results that a chat can read."""

    def __init__(self, stored: StoredResults | None = None, key: str = "") -> None:
        """stored: None keeps the results of this chat alone. key: of the caller."""
        self._stored = stored
        self._key = key
        self._contents: dict[str, bytes] = {}  # of this chat, without the stored results: a chat may last minutes
        self.tool = OwnTool(
            READ,
            "Read on in a result that was cut: a place in the JSON, the rows that hold some words, or the next page.",
            arguments_schema(
                "id",
                id={"type": "string", "description": "The id that the cut result names"},
                path={
                    "type": "string",
                    "description": "A place, as a JSON Pointer: /results/7 is the element 7, /results/20-39 a range",
                },
                query={"type": "string", "description": "Words: the answer has the rows with the words"},
                start={"type": "integer", "minimum": 0, "description": "The first character of the page"},
            ),
            self._answer,
        )

    def put(self, text: str) -> str:
        """Keep a whole result; returns the id."""
        id = secrets.token_hex(_ID_BYTES)
        content = text.encode("utf-8", "replace")  # a text with one 😀 takes four times the memory
        if self._stored is None or not self._stored.keep(self._key, id, content):
            self._contents[id] = content
        return id

    async def _answer(self, asked: dict[str, Any], max_chars: int) -> ToolAnswer:
        try:
            content = await self._content(asked["id"])
        except RetrievalError:
            return ToolAnswer("The result cannot be read at present.", outcome="failed")
        if content is None:
            return ToolAnswer(_NOT_HERE)

        def read() -> str:
            return read_on(
                content.decode(),
                path=asked.get("path", ""),
                query=asked.get("query", ""),
                start=int(asked.get("start", 0)),  # 8000.0 is a whole number, too
                max_chars=max_chars,
            )

        try:
            return ToolAnswer(await by_size(content, read), known=True)
        except NoPlace as error:
            return ToolAnswer(f"The path names no place: {error}.", known=True)

    async def _content(self, id: str) -> bytes | None:
        """A whole result; None: no result of this id. Raises RetrievalError."""
        if id in self._contents or self._stored is None:
            return self._contents.get(id)
        return await self._stored.find(self._key, id)
