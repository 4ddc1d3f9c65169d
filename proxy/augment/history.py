"""Histories of stored conversations: turns that a request continues by id instead of sending them.

Providers of `/v1/responses` store a response, and the next request names it (`previous_response_id`) or a
`conversation`. We store such a request's turns under the same id, so that later questions are rewritten as in a chat
that sends its whole history. A history belongs to one key, under a digest of key and id.

It is written after the reply has passed, in a thread. A request whose reply is not stored by the provider (`"store":
false`, every chat completion) neither writes nor reads a history.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, time

import orjson

from proxy.asgi import App, Receive, Scope, Send
from proxy.dialects.base import Dialect
from proxy.dialects.content_encoding import unpacked_start
from proxy.exchange import Exchange
from proxy.kept_reply import KeptReply
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from runtime.record_store import RecordStore
from runtime.write_behind import NEXT_REQUEST_EVERY_S, Count, Record, WriteBehindQueue

_MOST_TURNS = 12  # including the answer
_MOST_TURN_CHARS = 1000  # rewriting reads no more
_MOST_ANSWER_CHARS = 300  # its beginning, which names the subject
_MOST_REPLY_BYTES = 64 * 1024  # responses repeat instructions, passages included, before the answer
_PIECE_BYTES = 4096
_REST_S = 10.0  # without reads, after one that failed or took too long
_READS = 2  # at once; others wait
# Finds a response's id if its instructions or answer are longer than what we keep. Within a text, quotes would be
# escaped.
_FIRST_ID = re.compile(rb'(?:\A|"response"\s*:)\s*\{\s*"id"\s*:\s*"([^"\\]+)"')


class Histories(WriteBehindQueue[Record[Sequence[Turn]]]):
    """This process's unwritten histories, and access to all stored ones.

    A history is a stored conversation's turns; empty: the client deleted it.
    """

    KIND = "histories"

    def __init__(self, store: RecordStore, count: Count) -> None:
        super().__init__(store, lambda history: orjson.dumps(history.value), count, every_s=NEXT_REQUEST_EVERY_S)
        self._threads = ThreadPoolExecutor(_READS, "history")  # a hanging database blocks no other work
        self._rests_until_s = 0.0

    async def find(self, key: str, id: str, *, deadline_s: float, again: bool = False) -> Sequence[Turn]:
        """Turns of a key's response or conversation; empty: no history. Raises RetrievalError, TimeoutError.

        again: if nothing is found, look a second time.
        """
        row = row_id(key, id)
        if monotonic() < self._rests_until_s and self.unwritten(row) is None:
            return ()
        try:
            async with asyncio.timeout(deadline_s):
                record = await self.find_record(row, again=again)
        except (RetrievalError, TimeoutError):
            self._rests_until_s = monotonic() + _REST_S
            raise
        return record.value if isinstance(record, Record) else [Turn(**turn) for turn in orjson.loads(record or b"[]")]

    def _read(self, id: str) -> Awaitable[bytes | None]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self._store.read, id)

    def forget(self, key: str, id: str) -> None:
        """Replace a history by an empty one, which is deleted in time like all others."""
        row = row_id(key, id)
        self._waiting[row] = Record(row, time(), ())
        self._wake.set()

    def remembering(self, upstream: App, exchange: Exchange, conversation: str, turns: Sequence[Turn]) -> App:
        """Wraps the upstream's app: after each reply, turns and answer are stored.

        conversation: id of the conversation that the reply belongs to; "": none.
        """

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            reply = KeptReply(send, _MOST_REPLY_BYTES)
            try:
                await upstream(scope, receive, reply.send)
            finally:  # clients may leave after the last event
                id, answer = _read(reply, exchange.dialect)
                ids = [each for each in (id, conversation if id else "") if each]
                for each in ids:
                    self.add(Record(row_id(exchange.key, each), time(), _kept(turns, answer)))

        return call


def row_id(key: str, id: str) -> str:
    """A history's id: other keys cannot find it, and the database does not name the response."""
    return hashlib.sha256(f"{key}\n{id}".encode("utf-8", "replace")).hexdigest()


def _kept(turns: Sequence[Turn], answer: str) -> Sequence[Turn]:
    """The last turns, shortened, with the answer."""
    said = [*turns, Turn("assistant", answer)] if answer else turns
    return [Turn(turn.role, head_and_end(turn.text)) for turn in said[-_MOST_TURNS:]]


def head_and_end(text: str) -> str:
    """The head and end of a long text."""
    half = _MOST_TURN_CHARS // 2
    return text if len(text) <= _MOST_TURN_CHARS else f"{text[:half]} … {text[-half:]}"


def _read(reply: KeptReply, dialect: Dialect) -> tuple[str, str]:
    """The reply's id, and how its answer begins; "" if it has none, or reports an error."""
    if not 0 < reply.status < 400:
        return "", ""
    kept = b"".join(piece for _, piece in reply.pieces)[:_MOST_REPLY_BYTES]
    body = unpacked_start(kept, reply.encoding, _MOST_REPLY_BYTES)
    reader = dialect.reader(streamed=reply.streamed)
    for start in range(0, len(body), _PIECE_BYTES):
        reader.feed(body[start : start + _PIECE_BYTES])
        if len(reader.answer or "") >= _MOST_ANSWER_CHARS:
            break
    else:
        reader.close()
    if not reader.id and (first := _FIRST_ID.search(body)):
        return first[1].decode("utf-8", "replace"), ""
    return reader.id, (reader.answer or "")[:_MOST_ANSWER_CHARS]
