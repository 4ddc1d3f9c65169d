"""Calls that change something, between the model and the person: shown, confirmed by the next message, sent once.

The calls of one round are a group: one reply of the gateway shows them, with one code. The person's next message is
the code line, and then exactly the sealed requests go out; any other message makes the group void.
"""

import asyncio
import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, Literal, TypeVar

import msgspec

from proxy.agent.conversation import row_id
from proxy.agent.writes.mode import mode_of
from proxy.agent.writes.pending import (
    Claimed,
    Denied,
    PendingStore,
    PendingWrite,
    SentBefore,
    Why,
    digest_of,
)
from proxy.agent.writes.sentences import sentences
from proxy.agent.writes.shown import (
    CannotShow,
    ShownWrite,
    check_before,
    confirmation,
    denial,
    outcome,
    states_of,
    write_texts,
)
from proxy.apis.call import Api, CallLimits, CallResult, arguments_named, call, over_limit, send
from proxy.apis.changes import changes, in_short
from proxy.apis.openapi.effects import read_arguments, undo_arguments
from proxy.apis.openapi.operation import Effects, Operation, query_names
from proxy.apis.request import ApiRequest
from proxy.apis.specs import revision_of
from proxy.caller import Rights
from proxy.dialects.base import INSTRUCTIONS, own_text, text_of
from proxy.dialects.codes import WORDS, CodeLine, code_line, holds_code, new_code
from proxy.dialects.replies import json_of
from proxy.dialects.responses import approval_request
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_BESIDE = "beside"  # of a chat
_BY_SETTINGS = "auto"  # the approver of a call that no person confirms
Ended = Literal["done", "failed", "unknown"]
_ENDED: Mapping[str, Ended] = {"ok": "done", "unknown": "unknown"}  # the others: failed
_LOST = "The call failed, and whether it took effect is not known: the gateway has a fault, which its log describes."
_MADE_NOW = "Nothing was sent: the same call was made just now. Tell the user so, and do not repeat it."
_NOT_NOTED = "Nothing was sent: the gateway cannot note the call at present. Ask again later."
_TEXT_TYPES = ("text", "input_text", "output_text")
_MARGIN_S = 60.0
_READ_S = 10.0  # for the read of what a call changes
_MOST_STATE_CHARS = 50_000
_NOT_THERE = 404
_GUESSES: Sequence[Why] = ("wrong_code", "wrong_number")  # after which the code still counts
_T = TypeVar("_T")


class SeenState(msgspec.Struct, frozen=True):
    """What a read says about the thing that a call changes."""

    operation: str  # the read, in the same set
    arguments: dict[str, Any]
    text: str | None  # None: it is not there (404)


@dataclass(frozen=True, slots=True)
class Proposed:
    """A call of the model that waits for a person: the request is built and checked, and not sent."""

    api: Api
    operation: Operation
    arguments: Mapping[str, Any]  # of the model
    request: ApiRequest
    foreign: Sequence[tuple[str, str, Any]] = ()  # values that no person gave, as `ShownWrite` has them
    sent_before: SentBefore | None = None  # None: not lately
    before: SeenState | None = None  # None: no read shows what the call changes


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a call is made, in which conversation."""

    exchange: Exchange
    person: str  # as the client names the person; "": unknown
    language: str = "en"  # of the person, as `sentences` takes it


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """A person's code line, beside the group that the reply before has shown."""

    line: CodeLine
    conversation: str
    writes: Sequence[PendingWrite]  # none: no group


@dataclass(frozen=True, slots=True)
class EndedElsewhere:
    """Calls that the reply before has shown, and that a button has answered; the newest message is about others."""

    writes: Sequence[PendingWrite]


@dataclass(slots=True, eq=False)
class Writes:
    """The calls that change something, of all conversations."""

    store: PendingStore
    call: CallLimits  # of each call
    confirm_s: float  # for which a code is valid
    again_s: float  # in which the same call is asked again
    most: int  # calls of a group
    found: Callable[[Iterable[tuple[str, str]]], Mapping[tuple[str, str], Operation]]  # stored operations
    private: Collection[str] = ()  # sets whose state is not read, because the person's text would carry it on
    over_changes: Callable[[str], str] = lambda _: ""  # counts a call of a key; why it is not sent. Blocks
    _sending: set[asyncio.Task[Any]] = field(default_factory=set, init=False)

    async def ask(self, proposed: Sequence[Proposed], asker: Asker, messages: Sequence[Any], before: str) -> str:
        """Seal the calls of a round; returns the reply that asks the person.

        messages: visible to the client. before: the client's text of the reply so far. Raises CannotShow for calls
        that no person could check, and RetrievalError.
        """
        check_before(before)
        exchange = asker.exchange
        code = new_code()
        parts = write_texts([shown_write(one, exchange.key_name) for one in proposed], asker.language)
        four_eyes = any(one.api.policy.needs_four_eyes(one.operation) for one in proposed)
        text = confirmation(parts, code, self.confirm_s, asker.language, four_eyes=four_eyes)
        conversation = row_id(exchange.key, [*messages, {"role": "assistant", "content": before + text}])
        rows = self._rows(proposed, parts, asker, conversation)
        await asyncio.to_thread(self.store.add, rows, [one.request for one in proposed], code)
        exchange.pending = rows[0].group
        if exchange.shows_approvals:
            exchange.approvals = tuple(
                approval_request(code, one.number, one.set, one.operation, one.arguments) for one in rows
            )
        return text

    async def ask_beside(self, proposed: Proposed, asker: Asker) -> PendingWrite:
        """Seal a call outside of a chat, which no code line confirms. Raises CannotShow, RetrievalError."""
        own = f"{_BESIDE}-{os.urandom(12).hex()}"  # no conversation finds the group
        shown = write_texts([shown_write(proposed, asker.exchange.key_name)], asker.language)
        (row,) = self._rows([proposed], shown, asker, own)
        await asyncio.to_thread(self.store.add, [row], [proposed.request], new_code())
        return row

    async def answer_in(
        self, key: str, messages: Sequence[Mapping[str, Any]], newest: Mapping[str, Any] | None = None
    ) -> CodeAnswer | EndedElsewhere | None:
        """The code line with which a conversation ends; else what it has shown is void, unless that ended elsewhere.

        messages: of a chat completion. newest: the client's own, in the client's dialect; None: the last of `messages`.
        Raises RetrievalError.
        """
        rows = [one for one in messages if one.get("role") not in INSTRUCTIONS]
        if not rows:
            return None
        line = code_line(own_text(rows[-1] if newest is None else newest))
        if line is None:
            # The client may have begun the model's answer, behind the person's message.
            ended = list[PendingWrite]()
            spoken = max((at for at, one in enumerate(rows) if one.get("role") != "assistant"), default=0)
            for end in {_newest_reply(rows), _newest_reply(rows[:spoken])}:
                asked = _without_guesses(rows[: end + 1])
                if asked and holds_code(text_of(asked[-1].get("content"), _TEXT_TYPES)):
                    ended += await asyncio.to_thread(self._left, key, row_id(key, asked))
            return EndedElsewhere(ended) if ended else None
        asked = _without_guesses(rows[:-1])
        if not asked or asked[-1].get("role") != "assistant":
            return CodeAnswer(line, "", ())
        conversation = row_id(key, asked)
        return CodeAnswer(line, conversation, await asyncio.to_thread(self._group, key, conversation))

    async def waits(self, key: str, line: CodeLine) -> bool:
        """Whether a call of the key waits for a code, in any conversation. Raises RetrievalError."""
        return await asyncio.to_thread(self.store.waits, key, line.code)

    async def claim(
        self, answer: CodeAnswer, asker: Asker, called: Mapping[tuple[str, str], tuple[Api, Operation]]
    ) -> Claimed | Denied:
        """Take the calls that a person has confirmed. called: the operations as they are now. Raises RetrievalError."""
        if not answer.writes:
            return Denied("unknown")
        wanted = [called.get((one.set, one.operation)) for one in answer.writes]
        if any(one is not None and one[0].policy.needs_four_eyes(one[1]) for one in wanted):
            return Denied("four_eyes")
        return await asyncio.to_thread(
            self.store.claim,
            answer.writes[0].group,
            code=answer.line.code,
            key=asker.exchange.key,
            person=asker.person,
            conversation=answer.conversation,
            numbers=answer.line.numbers,
            rights=rights_digest(asker.exchange.rights, wanted),
        )

    async def refusal(self, denied: Denied, answer: CodeAnswer, asker: Asker) -> str:
        """The reply to a code line that sends nothing. Raises RetrievalError."""
        text = denial(denied.why, asker.language)
        if denied.why != "used":
            return text
        now = await asyncio.to_thread(self.group, answer.writes[0].group)  # another may have answered meanwhile
        return f"{text}\n\n{states_of(now, asker.language)}"

    async def at_once(self, one: Proposed, asker: Asker, *, approver: str = _BY_SETTINGS) -> CallResult:
        """Send a call that needs no code; noted as every other. approver: for the log. Only cancellation raises."""
        own = f"{approver}-{os.urandom(12).hex()}"  # no conversation finds the group
        try:
            shown = write_texts([shown_write(one, asker.exchange.key_name)], asker.language)
        except CannotShow as error:  # nobody reads it before the call
            shown = [str(error)]
        rows = self._rows([one], shown, asker, own)
        try:
            await asyncio.to_thread(self.store.add, rows, [one.request], new_code())
            claimed = await asyncio.to_thread(
                self.store.claim,
                rows[0].group,
                code=None,
                key=asker.exchange.key,
                person=asker.person,
                conversation=own,
                numbers=None,
                rights=rows[0].rights,
                approver=approver,
                again_s=self.again_s,
            )
            if isinstance(claimed, Denied):
                await asyncio.to_thread(self.store.void, asker.exchange.key, own)
        except RetrievalError as error:
            log.warning("%s is not sent: %s", rows[0].id, error)
            return CallResult(_NOT_NOTED, word="failed")
        if isinstance(claimed, Denied):  # a client that repeats a request, at the same time
            return CallResult(_MADE_NOW if claimed.why == "used" else _NOT_NOTED, word="failed")
        return await self.sent(claimed.writes[0], claimed.requests[0], one.api, one.operation, asker.exchange.key)

    async def sent(
        self, write: PendingWrite, request: ApiRequest, api: Api, operation: Operation, owner: str
    ) -> CallResult:
        """Send a claimed call, and note what became of it. Only cancellation raises."""
        if (over := await over_limit(api, operation, owner) or await self._over_changes(owner)) is not None:
            await self._finish(write, over)
            return over
        if name := api.idempotency_header(operation):
            request = msgspec.structs.replace(request, headers=(*request.headers, (name, write.id)))
        try:
            await asyncio.to_thread(self.store.sending, write.id)
        except RetrievalError as error:
            log.warning("%s is not sent: %s", write.id, error)
            result = CallResult(_NOT_NOTED, word="failed")
            await self._finish(write, result)
            return result
        result = CallResult(_LOST, sent=True, word="unknown")
        try:
            result = await send(api, request, self.call, owner=owner)
        finally:
            await self._finish(write, result)
        return result

    async def _over_changes(self, key: str) -> CallResult | None:
        """Count a call that is about to be sent; the outcome of a call above the key's limit a day."""
        try:
            why = await asyncio.to_thread(self.over_changes, key)
        except RetrievalError:
            why = "the gateway cannot count the calls at present"
        return CallResult(f"Nothing was sent: {why}.", word="limit") if why else None

    async def looked_up(self, one: Proposed, exchange: Exchange) -> Proposed:
        """The call with what a person should know: whether it was made lately, and what it would change.

        Raises RetrievalError.
        """
        sent_before = await self.sent_before(exchange.key, one.request)
        return replace(one, sent_before=sent_before, before=await self._state(one, exchange))

    async def _state(self, one: Proposed, exchange: Exchange, made: CallResult | None = None) -> SeenState | None:
        """What a read says now about the thing that a call changes, or has `made`; None: no read does.

        Raises RetrievalError.
        """
        found = await self._read_of(one, exchange.rights, made) if one.api.name not in self.private else None
        if found is None:
            return None
        read, given = found
        limits = replace(self.call, seconds=min(self.call.seconds, _READ_S), max_chars=_MOST_STATE_CHARS)
        answer = await call(one.api, read, given, limits, owner=exchange.key)
        if answer.status == _NOT_THERE:
            return SeenState(read.name, given, None)
        return None if not answer.succeeded or answer.whole else SeenState(read.name, given, answer.text)

    async def _read_of(
        self, one: Proposed, rights: Rights, made: CallResult | None = None
    ) -> tuple[Operation, dict[str, Any]] | None:
        """The read, and its arguments, of the thing that a call changes, or has `made`; None: none for the caller.

        Raises RetrievalError.
        """
        effects = one.operation.effects or Effects()
        link = effects.read if made is None else effects.created
        result, location = (None, "") if made is None else (_json_of(made), made.location)
        given = None if link is None else read_arguments(link, one.arguments, result, location)
        if link is None or given is None:
            return None
        place = (one.api.name, link.operation)
        read = (await asyncio.to_thread(self.found, [place])).get(place)
        if read is None or one.api.policy.effect_of(read) != "reads" or one.api.why_not_called(read, rights):
            return None
        return read, given

    async def kept(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of work that goes on if the client leaves."""
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for the calls that are being sent, and close the database."""
        if self._sending:
            await asyncio.wait(set(self._sending))
        self.store.close()

    async def report(self, one: Proposed, result: CallResult, asker: Asker) -> str:
        """What became of a call that was sent, in the gateway's words, with what it changed."""
        lines, still, settle, undo = list[str](), "", "", ""
        say = sentences(asker.language).changes
        try:
            if result.unsure and (found := await self._read_of(one, asker.exchange.rights)) is not None:
                settle = _named(*found)
            made = await self._state(one, asker.exchange, result) if result.word == "ok" else None
            if made is not None and made.text is not None:
                lines = changes(None, made.text, say)
            elif one.before is not None and (result.unsure or result.word == "ok"):
                after = await self._state(one, asker.exchange)
                lines = changes(one.before.text, after.text, say) if after is not None else []
                if result.unsure and lines in ([say.nothing], [say.absent]):
                    lines, still = [], in_short(one.before.text, say)
            if result.word == "ok":
                undo = await self._undo(one, result, asker)
        except RetrievalError as error:  # what shows the effect, and what takes it back, is not known
            log.warning("the effect of %s/%s is not read: %s", one.api.name, one.operation.name, error)
        return outcome(
            shown_write(one, asker.exchange.key_name),
            _ended(result),
            result.status,
            asker.language,
            unsure=result.unsure,
            changes=lines,
            still=still,
            settle=settle,
            undo=undo,
        )

    async def _undo(self, one: Proposed, result: CallResult, asker: Asker) -> str:
        """The call that takes back a call that was done, for people; "": none. Raises RetrievalError."""
        link = one.operation.effects.undo if one.operation.effects is not None else None
        if link is None:
            return ""
        place = (one.api.name, link.operation)
        other = (await asyncio.to_thread(self.found, [place])).get(place)
        if other is None or mode_of(asker.exchange.rights, one.api, other) == "refuse":
            return ""
        before = json_of(one.before.text.encode()) if one.before is not None and one.before.text else None
        given = undo_arguments(other, link, one.arguments, before, _json_of(result), result.location)
        return "" if given is None else _named(other, given)

    async def reported(
        self, write: PendingWrite, request: ApiRequest, called: tuple[Api, Operation], result: CallResult, asker: Asker
    ) -> str:
        """`report`, of a write that was sent."""
        before = msgspec.json.decode(write.effect_read, type=SeenState) if write.effect_read else None
        one = Proposed(*called, msgspec.json.decode(write.arguments), request, before=before)
        return await self.report(one, result, asker)

    async def sent_before(self, key: str, request: ApiRequest) -> SentBefore | None:
        """The same request by the key, lately; None: none that was done or may have been. Raises RetrievalError."""
        return await asyncio.to_thread(self.store.sent_lately, key, digest_of(request), self.again_s)

    async def _finish(self, write: PendingWrite, result: CallResult) -> None:
        state = _ended(result)
        try:
            await asyncio.to_thread(self.store.finish, write.id, state, result.status, result.text)
        except RetrievalError as error:  # the write stays claimed, and is unknown when somebody looks
            log.warning("%s: %s is not noted: %s", write.id, state, error)

    def group(self, id: str) -> list[PendingWrite]:
        """A group of any key; none: no such group. Blocks. Raises RetrievalError."""
        self._end_stale()
        return self.store.group(id, None)

    def _group(self, key: str, conversation: str) -> list[PendingWrite]:
        self._end_stale()
        return self.store.group_of(key, conversation)

    def _left(self, key: str, conversation: str) -> list[PendingWrite]:
        """Give up what waits in a conversation; returns its calls that ended before."""
        return [] if self.store.void(key, conversation) else self._group(key, conversation)

    def _end_stale(self) -> None:
        self.store.stale(self.call.seconds * self.most + _MARGIN_S)

    def _rows(
        self, proposed: Sequence[Proposed], shown: Sequence[str], asker: Asker, conversation: str
    ) -> list[PendingWrite]:
        exchange, now_s, group = asker.exchange, time(), f"pg-{os.urandom(12).hex()}"
        rights = rights_digest(exchange.rights, [(one.api, one.operation) for one in proposed])
        return [
            PendingWrite(
                f"pw-{os.urandom(12).hex()}",
                group,
                number,
                one.api.name,
                one.operation.name,
                revision_of(one.operation, ""),
                exchange.key,
                asker.person,
                conversation,
                rights,
                digest_of(one.request),
                msgspec.json.encode(one.arguments).decode(),
                text,
                msgspec.json.encode(one.before).decode() if one.before is not None else "",
                created_s=now_s,
                expires_s=now_s + self.confirm_s,
                language=asker.language,
            )
            for number, (one, text) in enumerate(zip(proposed, shown, strict=True), 1)
        ]


def shown_write(one: Proposed, key_name: str) -> ShownWrite:
    """A call for people."""
    fixed = {each: value for name, value in one.api.fixed.items() for each in arguments_named(one.operation, name)}
    return ShownWrite(
        one.request,
        one.operation,
        one.api.name,
        key_name,
        fixed,
        query_names(one.api.base_url),
        now=(one.before.text or "") if one.before is not None else "",
        foreign=one.foreign,
        sent_before=one.sent_before,
    )


def _newest_reply(rows: Sequence[Mapping[str, Any]]) -> int:
    return max((at for at, one in enumerate(rows) if one.get("role") == "assistant"), default=-1)


def _named(operation: Operation, arguments: Mapping[str, Any]) -> str:
    """A call, for people."""
    return f"{operation.name} {msgspec.json.encode(arguments).decode()}"


def _json_of(result: CallResult) -> Any:
    return json_of((result.whole or result.text).encode())


def _ended(result: CallResult) -> Ended:
    """What became of a call."""
    return _ENDED.get(result.word, "failed")


def _without_guesses(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The conversation up to the confirmation: without wrong code lines at the end, and the gateway's replies."""
    while len(rows) > 2 and rows[-1].get("role") == "assistant" and code_line(own_text(rows[-2])) is not None:
        if "".join(text_of(rows[-1].get("content"), _TEXT_TYPES).split()) not in _replies_to_guesses():
            break
        rows = rows[:-2]
    return rows


@functools.cache
def _replies_to_guesses() -> frozenset[str]:
    """The gateway's replies to a wrong code or number, in every language, without white space."""
    return frozenset("".join(denial(why, one).split()) for one in WORDS for why in _GUESSES)


def rights_digest(rights: Rights, called: Sequence[tuple[Api, Operation] | None]) -> str:
    """A digest of all by which a call was allowed: the key's rights, the operation, the settings of its API."""
    rows = [
        None
        if one is None
        else [
            one[0].name,
            one[0].base_url,
            list(one[0].servers),
            dict(one[0].fixed),
            revision_of(one[1], ""),
            mode_of(rights, *one),
        ]
        for one in called
    ]
    return hashlib.sha256(json.dumps([rights.as_json(), rows], sort_keys=True, default=str).encode()).hexdigest()
