"""What a conversation holds that its client does not: rounds of calls, and offered tools.

Clients send visible messages again. The gateway puts hidden ones back at the same places with the same bytes, because
providers cache by prefix. A record belongs to one key and is found by a digest of it and the visible messages up to the
model's newest reply. An edited history finds no record, and the chat goes on without.

Two marks live twice as long: one under the visible messages before the reply, one under the newest question and reply
alone. A mark without a record shows that a conversation had hidden messages, even if its client sends only the end.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import time
from typing import Any

import msgspec
import orjson

from proxy.agent.grounding.arguments import is_refusal
from proxy.dialects.base import INSTRUCTIONS, ModelRequest, text_of
from proxy.dialects.json_body import Edit, end_of, items, unescaped, value_at
from proxy.dialects.replies import called_tool, json_bytes, json_of, tool_name
from runtime.record_store import RecordStore
from runtime.write_behind import NEXT_REQUEST_EVERY_S, Count, Record, WriteBehindQueue, record_id

_MOST_MARKS = 8  # looked up, for the newest replies


class HiddenMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages before the visible message `at`, or in its place.

    Stored positions do not count instructions: clients may add, move and drop them.
    """

    at: int
    messages: str  # JSON, separated by commas
    replaces: bool = False  # a reply in several messages is replaced as one

    def rows(self) -> list[dict[str, Any]]:
        """The messages."""
        rows: list[dict[str, Any]] = json.loads(f"[{self.messages}]")
        return rows

    def with_rows(self, rows: Iterable[Mapping[str, Any]]) -> "HiddenMessages":
        """Other messages in the same place."""
        return HiddenMessages(self.at, b",".join(map(json_bytes, rows)).decode(), self.replaces)


class WaitingCall(msgspec.Struct, frozen=True, array_like=True):
    """A call in a round with both client and gateway calls."""

    id: str
    name: str
    arguments: str
    owned: bool


class Conversation(msgspec.Struct, frozen=True, array_like=True):
    """One conversation's record."""

    hidden: tuple[HiddenMessages, ...] = ()
    tools: tuple[tuple[str, str, str], ...] = ()  # each tool's name, set ("": the gateway's own), operation
    waiting: tuple[WaitingCall, ...] = ()  # the newest reply's calls, if gateway calls are not made yet
    message: str = ""  # newest reply with all calls, as JSON
    items: str = ""  # stored responses only: all conversation items, as JSON

    @property
    def size_bytes(self) -> int:
        """Memory of its long texts."""
        texts = [one.messages for one in self.hidden] + [one.arguments for one in self.waiting]
        return sum(map(sys.getsizeof, [*texts, self.message, self.items]))

    def private_results(self, private: Collection[str]) -> set[str]:
        """Private sets whose results are in the hidden rounds: after these, no public set is called.

        A model may copy text from one API into a call to another, by mistake or because an attacker's text asks for it.
        """
        set_of = {name: in_set for name, in_set, _ in self.tools}
        rows = [row for one in self.hidden for row in one.rows()]
        sent = {row.get("tool_call_id") for row in rows if row["role"] == "tool" and not is_refusal(row["content"])}
        calls = [call for row in rows for call in row.get("tool_calls") or () if call.get("id") in sent]
        return {in_set for call in calls if (in_set := set_of.get(tool_name(call), "")) in private}


NEW = Conversation()


class HiddenRounds(WriteBehindQueue[Record[Conversation]]):
    """This process's unwritten records, and access to all stored ones."""

    KIND = "action_rounds"

    def __init__(self, store: RecordStore, count: Count) -> None:
        super().__init__(
            store,
            lambda one: msgspec.json.encode(one.value),
            count,
            every_s=NEXT_REQUEST_EVERY_S,
        )

    async def find(
        self, key: str, messages: Sequence[Mapping[str, Any]], *, again: bool = False
    ) -> Conversation | None:
        """A conversation's record; None: no record. Raises RetrievalError.

        again: look a second time if the first look finds nothing, as is always done after client tool results.
        """
        newest = _newest_reply(messages)
        if newest < 0:
            return None
        row = row_id(key, messages[: newest + 1])
        found = await self._conversation(row, again=again or has_results(messages))
        if found is None:
            return None
        places = [at for at, one in enumerate(messages) if one.get("role") not in INSTRUCTIONS]
        return _moved(found, lambda at: places[at] if at < len(places) else len(messages))

    async def had_hidden_rounds(self, key: str, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a conversation without a record had hidden messages. Raises RetrievalError."""
        begun = [at for at, one in enumerate(messages) if at and _is_reply(one) and not _is_reply(messages[at - 1])]
        ends = [
            at
            for at, one in enumerate(messages, 1)
            if _is_reply(one) and not any(map(_is_reply, messages[at : at + 1]))
        ]
        marks = [_mark(key, messages[:at]) for at in begun[-_MOST_MARKS:]]
        marks += [_pair(key, messages[:at]) for at in ends[-_MOST_MARKS:]]
        if not marks or any(self.unwritten(mark) for mark in marks):
            return bool(marks)
        return await asyncio.to_thread(self._store.has_any, marks)

    def mark(self, key: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Note that hidden messages follow. messages: visible to the client, up to its question or results."""
        self.add(Record(_mark(key, messages), time() + self._store.keep_s, NEW))

    async def items(self, key: str, id: str) -> list[Any] | None:
        """Conversation items up to a stored response; None: not known. Raises RetrievalError."""
        found = await self._conversation(record_id(key=key, response=id), again=True)
        items: list[Any] | None = orjson.loads(found.items) if found is not None and found.items else None
        return items

    async def _conversation(self, row: str, *, again: bool) -> Conversation | None:
        record = await self.find_record(row, again=again)
        if isinstance(record, Record):
            return record.value
        return None if record is None else msgspec.json.decode(record, type=Conversation)

    def keep(self, key: str, messages: Sequence[Mapping[str, Any]], conversation: Conversation) -> None:
        """Remember a conversation. messages: visible to the client, newest reply last."""
        if conversation.hidden or conversation.waiting:
            self.add(Record(_pair(key, messages), time() + self._store.keep_s, NEW))
        counted = [0, *itertools.accumulate(int(one.get("role") not in INSTRUCTIONS) for one in messages)]
        stored = _moved(conversation, lambda at: counted[min(at, len(messages))])
        size_bytes = stored.size_bytes
        self.add(Record(row_id(key, messages), time(), stored, size_bytes))

    def keep_items(self, key: str, id: str, items: bytes) -> None:
        """Remember a conversation up to a stored response. items: as JSON; b"" forgets it."""
        stored = Conversation(items=items.decode())
        self.add(Record(record_id(key=key, response=id), time(), stored, stored.size_bytes))


def _moved(conversation: Conversation, place: Callable[[int], int]) -> Conversation:
    """The conversation with its hidden messages moved. place: old place -> new place."""
    hidden = tuple(HiddenMessages(place(one.at), one.messages, one.replaces) for one in conversation.hidden)
    return msgspec.structs.replace(conversation, hidden=hidden)


def row_id(key: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """A record's id, whatever instructions the messages have.

    Some clients write the time into instructions, and coding agents add and drop reminders.
    """
    rows: list[list[Any]] = []
    for message in messages:
        row = _canonical(message)
        if row[0] in INSTRUCTIONS:
            continue
        if row[0] == "assistant" and rows and rows[-1][0] == "assistant":  # parts of one reply
            rows[-1] = ["assistant", rows[-1][1] + row[1], rows[-1][2] + row[2], None]
        else:
            rows.append(row)
    return record_id(key=key, messages=rows)


def _mark(key: str, messages: Sequence[Mapping[str, Any]]) -> str:
    return f"asked-{row_id(key, messages)}"


def _pair(key: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """A mark's id for the newest question and its reply, whatever comes before. messages: the reply last."""
    asked = [at for at, one in enumerate(messages) if one.get("role") == "user"]
    return f"pair-{row_id(key, messages[asked[-1] if asked else 0 :])}"


def _is_reply(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant"


def _canonical(message: Mapping[str, Any]) -> list[Any]:
    """Message parts that clients send back as received."""
    role, calls = message.get("role"), message.get("tool_calls")
    functions = [
        [call.get("id") or "", called.get("name"), _arguments(called.get("arguments", called.get("input")))]
        for call in (calls if isinstance(calls, list) else ())
        if (called := called_tool(call)) is not None
    ]
    return [role, _content(role, message.get("content")), functions, message.get("tool_call_id")]


def _content(role: Any, content: Any) -> Any:
    """Message content in one form: texts as a single text.

    White space in a reply does not count: clients of messages and responses send it back in several parts. Some clients
    move provider cache marks from message to message.
    """
    if role == "assistant":
        return "".join((content if isinstance(content, str) else text_of(content)).split())
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return content
    if all(part.get("type") == "text" for part in content):
        return text_of(content)
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in content]


def _arguments(given: Any) -> Any:
    """A call's arguments: clients of messages send them back as an object, not as text."""
    value = json_of(given.encode("utf-8", "replace")) if isinstance(given, str) and given.strip() else {}
    return given if value is None else value


def _newest_reply(messages: Sequence[Mapping[str, Any]]) -> int:
    """Index of the model's newest message; -1: none."""
    return max((index for index, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)


def has_results(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the client has sent tool results since the model's newest reply."""
    return any(one.get("role") == "tool" for one in messages[_newest_reply(messages) + 1 :])


def resumed(
    conversation: Conversation, messages: Sequence[Mapping[str, Any]], results: Mapping[str, bytes]
) -> tuple[HiddenMessages, ...]:
    """Hidden messages, now with the waiting calls and a result for each gateway call, in call order.

    results: each gateway call's id -> its result message.
    """
    newest = _newest_reply(messages)
    places = {
        str(one.get("tool_call_id") or ""): index  # some servers write no ids
        for index, one in enumerate(messages)
        if index > newest and one.get("role") == "tool"
    }
    end = max(places.values(), default=newest) + 1
    first = newest  # of the reply's messages
    while first > 0 and _is_reply(messages[first - 1]):
        first -= 1
    hidden = [HiddenMessages(first, conversation.message, replaces=True)]
    for number, call in enumerate(conversation.waiting):
        if call.owned:
            later = (places[one.id] for one in conversation.waiting[number:] if one.id in places)
            hidden.append(HiddenMessages(next(later, end), results[call.id].decode()))
    return (*conversation.hidden, *hidden)


def edits_of(request: ModelRequest, hidden: Sequence[HiddenMessages], appended: Sequence[bytes]) -> Sequence[Edit]:
    """Edits that put hidden messages into the body's `messages`. appended: messages after all others."""
    if not hidden and not appended:
        return ()
    plain, count = unescaped(request.raw), len(request.fields["messages"])
    opening = value_at(request.raw, request.members["messages"])
    places = list(items(plain, opening)) if hidden else []
    before: dict[int, list[bytes]] = {count: []}
    edits = []
    for one in hidden:
        new = one.messages.encode()
        if one.replaces:
            last = one.at
            while last + 1 < count and _is_reply(request.fields["messages"][last + 1]):
                last += 1
            edits.append(Edit(places[one.at], end_of(plain, places[last]), new))
        else:
            before.setdefault(one.at, []).append(new)
    before[count] += appended
    for at, messages in before.items():
        if at < count:
            edits.append(Edit(places[at], places[at], b",".join(messages) + b","))
        elif messages:
            end = end_of(plain, opening) - 1
            edits.append(Edit(end, end, b"," + b",".join(messages)))
    return edits
