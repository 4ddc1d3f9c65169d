"""Answers to a confirmation without a code line: by the button of an application, or by MCP's elicitation.

The record, the checks and the sending are those of a chat. The answer comes from the key that asked; if the settings
want four eyes, from another key that may make the same calls itself.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.agent.actions import Apis
from proxy.agent.writes.confirming import Asker, Writes, rights_digest
from proxy.agent.writes.mode import mode_of
from proxy.agent.writes.pending import Claimed, Denied, PendingWrite
from proxy.agent.writes.sending import sent
from proxy.apis.call import Api
from proxy.apis.library import ActionLibrary
from proxy.apis.openapi.operation import Operation
from proxy.caller import NOTHING, Rights
from proxy.exchange import ActionTrace, Exchange

Called = Mapping[tuple[str, str], tuple[Api, Operation]]  # by set and operation


@dataclass(frozen=True, slots=True)
class Group:
    """The writes of one confirmation, as one key may answer it."""

    writes: Sequence[PendingWrite]
    called: Called  # as the key that asked calls the operations now
    rights: Rights  # of the key that asked, now
    four_eyes: bool  # another key than the one that asked must approve
    own: bool  # the key that asked is the one that looks

    @property
    def id(self) -> str:
        return self.writes[0].group

    @property
    def waits(self) -> bool:
        return all(one.state == "pending" for one in self.writes)


class ApprovedCall(NamedTuple):
    """A write that was approved and sent."""

    write: PendingWrite
    report: str  # what became of it, in the gateway's words
    text: str  # the result, or what went wrong


class Approvals:
    """The confirmations that a key may answer."""

    def __init__(
        self, writes: Writes, library: ActionLibrary, apis: Apis, rights_of: Callable[[str], Rights | None]
    ) -> None:
        """rights_of: the rights of the key with this id; None: no valid key."""
        self.writes = writes
        self._library, self._apis, self._rights_of = library, apis, rights_of

    async def waiting(self, exchange: Exchange) -> list[Group]:
        """What waits for an answer of this key, oldest first. Raises RetrievalError."""
        rows: dict[str, list[PendingWrite]] = {}
        for one in await asyncio.to_thread(self.writes.store.waiting):
            rows.setdefault(one.group, []).append(one)
        found = [await self._seen(one, exchange) for one in rows.values()]
        return [one for one in found if one is not None and (one.own or one.four_eyes)]

    async def group(self, id: str, exchange: Exchange) -> Group | None:
        """A confirmation; None: there is none, or none for this key. Raises RetrievalError."""
        return await self._seen(await asyncio.to_thread(self.writes.group, id), exchange)

    async def approve(
        self, group: Group, exchange: Exchange, *, person: str, numbers: Collection[int] | None, way: str
    ) -> list[ApprovedCall] | Denied:
        """Send the writes, or some of them. way: of the answer, for the log. Raises RetrievalError.

        person: who asked, as the client names the person.
        """
        if group.four_eyes and group.own:
            return Denied("four_eyes")
        return await self.writes.kept(self._approved(group, exchange, person, numbers, way))

    async def decline(self, group: Group) -> bool:
        """Give the writes up; returns whether they waited. Raises RetrievalError."""
        first = group.writes[0]
        return await asyncio.to_thread(self.writes.store.void, first.key, first.conversation) > 0

    async def _approved(
        self, group: Group, exchange: Exchange, person: str, numbers: Collection[int] | None, way: str
    ) -> list[ApprovedCall] | Denied:
        first = group.writes[0]
        wanted = [group.called.get((one.set, one.operation)) for one in group.writes]
        claimed = await asyncio.to_thread(
            self.writes.store.claim,
            group.id,
            code=None,
            key=first.key,
            person=person,
            conversation=first.conversation,
            numbers=numbers,
            rights=rights_digest(group.rights, wanted),
            approver=way if group.own else f"{way} {exchange.key}",
        )
        return claimed if isinstance(claimed, Denied) else await self._sent(group, claimed, exchange)

    async def _sent(self, group: Group, claimed: Claimed, exchange: Exchange) -> list[ApprovedCall]:
        trace = exchange.action_trace = exchange.action_trace or ActionTrace([*{one.set for one in group.writes}], "")
        made = []
        for write, request in zip(claimed.writes, claimed.requests, strict=True):
            asker, traced = Asker(exchange, write.person, write.language), trace.begin_call(exchange.elapsed_ms())
            called = group.called[write.set, write.operation]
            result, report = await sent(self.writes, write, request, called, asker, traced)
            made.append(ApprovedCall(write, report, result.text))
        return made

    async def _seen(self, writes: Sequence[PendingWrite], exchange: Exchange) -> Group | None:
        """The writes as this key may answer them; None: it may not."""
        if not writes:
            return None
        key = writes[0].key
        own = key == exchange.key
        rights = exchange.rights if own else self._rights_of(key) or NOTHING
        called = await self._called(writes, rights)
        four_eyes = any(api.policy.needs_four_eyes(operation) for api, operation in called.values())
        if own:
            return Group(writes, called, rights, four_eyes, own)
        may = [
            one is not None and mode_of(exchange.rights, *one) != "refuse"
            for one in (called.get((each.set, each.operation)) for each in writes)
        ]
        return Group(writes, called, rights, four_eyes, own) if key and four_eyes and all(may) else None

    async def _called(self, writes: Sequence[PendingWrite], rights: Rights) -> Called:
        """The operations as they are now, if the key that asked may still call them."""
        named = {one.set for one in writes}
        rows = [row for row in await asyncio.to_thread(self._library.store.sets) if row.name in named]
        apis = await self._apis.of(writes[0].key, rows)
        places = {(one.set, one.operation) for one in writes if one.set in apis}
        known = await asyncio.to_thread(self._library.store.found, places)
        return {
            place: (apis[place[0]], one)
            for place, one in known.items()
            if not apis[place[0]].why_not_called(one, rights)
        }
