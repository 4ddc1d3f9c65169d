"""What a conversation did that the client does not have: the rounds of calls, and the offered tools.

The client sends the visible messages again. The gateway puts the hidden messages back at the same places, with the same
bytes, because providers cache by prefix. A record belongs to one key, under a digest of the key and the visible
messages up to the model's newest reply, so an edited history finds no record, and the chat goes on without.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import msgspec

from proxy.dialects.base import ModelRequest, text_of
from proxy.dialects.json_body import Edit, end_of, nth_item, unescaped, value_at
from proxy.dialects.replies import json_bytes
from proxy.observe.receipts.receipt_store import ReceiptStore
from proxy.observe.receipts.write_behind import Count, WriteBehindQueue

_WRITE_EVERY_S = 0.05  # a client that runs a tool sends the next request within milliseconds
_AGAIN_S = 0.1  # another worker may be about to write
_INSTRUCTIONS = ("system", "developer")


class HiddenMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages that stand before the visible message `at`, or in place of the visible message."""

    at: int
    messages: str  # JSON, separated by commas
    replaces: bool = False


class WaitingCall(msgspec.Struct, frozen=True, array_like=True):
    """A call of a round with calls of the client's and of the gateway's tools."""

    id: str
    name: str
    arguments: str
    owned: bool


class Conversation(msgspec.Struct, frozen=True, array_like=True):
    """The record of one conversation."""

    hidden: tuple[HiddenMessages, ...] = ()
    tools: tuple[tuple[str, str, str], ...] = ()  # name of each tool, set ("": a tool of the gateway), operation
    waiting: tuple[WaitingCall, ...] = ()  # all calls of the newest reply, where the gateway's calls are not made yet
    message: str = ""  # the newest reply with all calls, as JSON


NEW = Conversation()


@dataclass(slots=True)
class Remembered:
    """A record in the queue."""

    id: str
    at_s: float
    conversation: Conversation


class ActionMemory(WriteBehindQueue[Remembered]):
    """The unwritten records of this process, and access to all stored records."""

    def __init__(self, store: ReceiptStore, count: Count) -> None:
        super().__init__(store, lambda one: msgspec.json.encode(one.conversation), count, every_s=_WRITE_EVERY_S)

    async def find(self, key: str, messages: Sequence[Mapping[str, Any]]) -> Conversation | None:
        """The record of a conversation; None: no record. Raises RetrievalError."""
        newest = _newest_reply(messages)
        if newest < 0:
            return None
        row = row_id(key, messages[: newest + 1])
        found = await self._read(row)
        if found is None and messages[-1].get("role") == "tool":
            await asyncio.sleep(_AGAIN_S)
            found = await self._read(row)
        return found

    async def _read(self, row: str) -> Conversation | None:
        if (known := self.unwritten(row)) is not None:
            return known.conversation
        content = await asyncio.to_thread(self._store.read, row)
        return None if content is None else msgspec.json.decode(content, type=Conversation)

    def keep(self, key: str, messages: Sequence[Mapping[str, Any]], conversation: Conversation) -> None:
        """Remember a conversation. messages: visible to the client, the newest reply last."""
        self.add(Remembered(row_id(key, messages), time(), conversation))


def row_id(key: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """The id of a record. Instructions do not count: some clients write the time into the instructions."""
    rows = [_canonical(message) for message in messages if message.get("role") not in _INSTRUCTIONS]
    said = json_bytes({"key": key, "count": len(messages), "messages": rows})
    return hashlib.sha256(said).hexdigest()


def _canonical(message: Mapping[str, Any]) -> list[Any]:
    """The parts of a message that clients send back as received."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        content = text_of(content).strip()
    calls = message.get("tool_calls")
    functions = [
        [call.get("id"), (call.get("function") or {}).get("name"), (call.get("function") or {}).get("arguments")]
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and isinstance(call.get("function"), dict | None)
    ]
    return [role, content, functions, message.get("tool_call_id")]


def _newest_reply(messages: Sequence[Mapping[str, Any]]) -> int:
    """Index of the model's newest message; -1: none."""
    return max((index for index, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)


def resumed(
    conversation: Conversation, messages: Sequence[Mapping[str, Any]], results: Mapping[str, bytes]
) -> tuple[HiddenMessages, ...]:
    """The hidden messages with the waiting calls, and with a result for each call, in the order of the calls.

    results: id of each call of the gateway's -> the message with the result.
    """
    newest = _newest_reply(messages)
    places = {
        str(one.get("tool_call_id")): index
        for index, one in enumerate(messages)
        if index > newest and one.get("role") == "tool"
    }
    end = max(places.values(), default=newest) + 1
    hidden = [HiddenMessages(newest, conversation.message, replaces=True)]
    for number, call in enumerate(conversation.waiting):
        if call.owned:
            later = (places[one.id] for one in conversation.waiting[number:] if one.id in places)
            hidden.append(HiddenMessages(next(later, end), results[call.id].decode()))
    return (*conversation.hidden, *hidden)


def edits_of(request: ModelRequest, hidden: Iterable[HiddenMessages], appended: Sequence[bytes]) -> Sequence[Edit]:
    """The edits that put hidden messages into the body's `messages`. appended: messages after all others."""
    plain, count = unescaped(request.raw), len(request.fields["messages"])
    opening = value_at(request.raw, request.members["messages"])
    before: dict[int, list[bytes]] = {count: []}
    edits = []
    for one in hidden:
        new = one.messages.encode()
        if one.replaces:
            start = nth_item(plain, opening, one.at)
            edits.append(Edit(start, end_of(plain, start), new))
        else:
            before.setdefault(one.at, []).append(new)
    before[count] += appended
    for at, messages in before.items():
        if at < count:
            start = nth_item(plain, opening, at)
            edits.append(Edit(start, start, b",".join(messages) + b","))
        elif messages:
            end = end_of(plain, opening) - 1
            edits.append(Edit(end, end, b"," + b",".join(messages)))
    return edits
