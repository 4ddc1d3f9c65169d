"""The action sets that chats can use, and what a chat is offered from them.

The operations are found by the conversation, like passages. A chat without a found operation, and a chat whose meaning
an offer could change, goes on without a change.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from config.sections import ActionsApi
from proxy.agent.ask.tool_protocols import ToolForm, ToolProtocols
from proxy.agent.conversation import Conversation, HiddenRounds, has_results
from proxy.agent.execution import tools_for
from proxy.agent.toolbox import ActionLimits, Tool, Toolbox
from proxy.agent.tools.operation_tool import FindActions, OperationTool
from proxy.agent.tools.query_tables import QUERY, TableOffers
from proxy.agent.tools.read_result import ReadResult
from proxy.agent.tools.result_store import ResultStore, StoredResults
from proxy.agent.writes.confirming import CodeAnswer, EndedElsewhere, Writes
from proxy.apis.call import Api
from proxy.apis.library import ActionLibrary, ActionSet, BakedInFault, FoundAction, baked_in, whole_groups
from proxy.apis.openapi.operation import Operation
from proxy.caller import Rights
from proxy.dialects.base import INSTRUCTIONS, ConversationMessage, ModelRequest
from proxy.dialects.chat import ChatRequest
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.errors import ApiError
from proxy.dialects.quoting import quoted_label
from proxy.dialects.replies import tool_name
from proxy.exchange import ActionTrace, Exchange, FoundOperation, FoundOutcome, OperationSearch
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn, View

log = logging.getLogger("ragway")
# Of a search for a model that is not asked by tools: such a model calls what is offered. Of 12 questions about another
# subject, 1 reaches this relevance, and of 25 questions for an operation all do.
_LEAST_RELEVANCE = 0.07
_SURE_RELEVANCE = 0.76  # of 24 questions for an operation 22 have it, of 4 questions that a passage answers none
SEARCHED = 3  # times as many operations are searched as offered: operations that do not read are left out
_MOST_TIMES = 4  # as many operations as for one question in a conversation, before no further operation is added
_SETS_S = 10.0  # the list of the sets is read again after so long
# Members that an offer could change the meaning of: older calls, speech, a search of the provider (`{}`, too); and a
# predicted answer, beside which OpenAI refuses tools.
_UNSUITED = ("functions", "function_call", "audio", "web_search_options", "prediction")


class Apis(Protocol):
    """The APIs of the action sets, for each key."""

    async def of(self, key: str, sets: Sequence[ActionSet]) -> Mapping[str, Api]:
        """Name of each set that a key may call -> the API. key: the id; "": no key. Raises RetrievalError."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ToolSources:
    """Where the tools of a chat may come from."""

    sets: Sequence[str] = ()
    databases: Sequence[str] = ()
    named: bool = False  # by the client, so that no search decides whether a database is meant
    answered: float = 0.0  # probability that a passage in the request answers the question


@dataclass(slots=True, eq=False)
class Actions:
    """The action sets that chats can use."""

    library: ActionLibrary
    apis: Apis
    configured: Mapping[str, ActionsApi]  # the settings of each set
    limits: ActionLimits
    hidden_rounds: HiddenRounds | None  # None keeps no round
    unsupported: UnsupportedFeatures  # by upstreams, for chats of other dialects
    stored: StoredResults | None = None  # None keeps no result for later questions
    writes: Writes | None = None  # None: no set allows calls that change something
    tables: TableOffers | None = None  # None: no database can be queried
    tool_protocols: ToolProtocols = field(init=False)
    _keeping: list[asyncio.Task[None]] = field(default_factory=list, init=False)
    _sets: Mapping[str, ActionSet] = field(default_factory=dict, init=False)
    _baked_in: Mapping[str, Sequence[Operation]] = field(default_factory=dict, init=False)
    _faults: Sequence[BakedInFault] = field(default=(), init=False)
    _read_s: float = field(default=-_SETS_S, init=False)

    def __post_init__(self) -> None:
        self.tool_protocols = ToolProtocols(self.unsupported)

    async def start(self) -> None:
        """Start to write the memory and the results; log what is wrong with baked-in operations."""
        with contextlib.suppress(RetrievalError):  # the database may work when a chat comes
            await self._known_sets()
        for queue in self._queues:
            await asyncio.to_thread(queue.warm)
            self._keeping.append(asyncio.create_task(queue.run()))

    async def close(self) -> None:
        """Write remaining memory and results; close the API connections and the database."""
        for queue in self._queues:
            queue.stop()
        await asyncio.gather(*self._keeping)
        if self.writes is not None:
            await self.writes.close()
        await self.apis.close()
        self.library.store.close()
        if self.tables is not None:
            await self.tables.close()

    @property
    def _queues(self) -> list[HiddenRounds | StoredResults]:
        return [queue for queue in (self.hidden_rounds, self.stored) if queue is not None]

    def forget(self, key: str, id: str) -> None:
        """Forget the conversation of a stored response that the client deletes."""
        if self.hidden_rounds is not None:
            self.hidden_rounds.keep_items(key, id, b"")

    def read_sets_again(self) -> None:
        """Note that a set was written: the next chat reads the list of the sets."""
        self._read_s = -_SETS_S

    def sets_of(self, named: Sequence[str] | None, rights: Rights) -> Sequence[str]:
        """The sets of a chat. named: by the client; None: the sets of the settings that the caller may read.

        Raises ApiError 404, the same error for an unknown set and for a set that the caller may not read.
        """
        readable = [name for name in self.configured if rights.may_use(name)]
        if named is None:
            return [name for name in readable if self.configured[name].offer]
        databases = self.databases_of(named, rights)
        for name in named:
            if name not in readable and name not in databases:
                known = ", ".join([*readable, *self._databases(rights)]) or "none"
                message = (
                    f"There is no action set or database {name!r} for this request; there are: {known}. A set needs a "
                    "row in the setting `actions`, and a key needs `--read actions.SET`; a database needs a row in "
                    "`tables`, and a key needs `--query DATABASE.TABLE`."
                )
                raise ApiError(404, message, code="action_set_not_found", param="actions")
        return [name for name in dict.fromkeys(named) if name in readable]

    def sources_of(self, named: Sequence[str] | None, rights: Rights) -> ToolSources:
        """The sets and databases of a chat, as `sets_of`. Raises ApiError 404."""
        return ToolSources(self.sets_of(named, rights), self.databases_of(named, rights), named=named is not None)

    def databases_of(self, named: Sequence[str] | None, rights: Rights) -> Sequence[str]:
        """The databases of a chat, as `sets_of` the sets."""
        if self.tables is None:
            return []
        offered = self.tables.names(named)
        return [name for name in self._databases(rights) if name in offered]

    def _databases(self, rights: Rights) -> list[str]:
        """The databases that the caller may query."""
        configured = () if self.tables is None else self.tables.queries.configured
        return [name for name in configured if rights.may_query(name)]

    async def offer(
        self,
        request: ModelRequest,
        turns: Sequence[Turn],
        sources: ToolSources,
        exchange: Exchange,
        form: ToolForm,
        own: Sequence[Tool] = (),
        answer: CodeAnswer | EndedElsewhere | None = None,
    ) -> Toolbox | None:
        """The tools for the latest question, after the conversation's own; None: no tool.

        own: further tools, which the chat has in any case. answer: a code line in place of a question, or calls that
        ended since the reply before.

        A round of the client's own tools is offered operations only where the round's reply was. Raises RetrievalError.
        """
        messages, sets = request.fields["messages"], sources.sets
        trace = exchange.action_trace = exchange.action_trace or ActionTrace(sets)
        trace.offer = ""  # until the search ends
        conversation = await self._remembered(exchange.key, messages, trace)
        if conversation is None and has_results(messages):
            trace.offer = "not suited"
            log.info("%s no operation is offered: the reply before was without operations", exchange.id)
            return None

        known = await self._known_sets(sets) if sets else {}
        trace.not_ready = [name for name in sets if name not in known]
        if trace.not_ready:
            log.info("%s no document of %s is read yet", exchange.id, ", ".join(trace.not_ready))
        apis = await self.apis.of(exchange.key, [known[name] for name in sets if name in known])

        def search(turns: Sequence[Turn]) -> Awaitable[Sequence[OperationTool]]:
            return self._search(
                turns, apis, exchange.rights, trace, 0.0 if form.protocol == "native" else _LEAST_RELEVANCE
            )

        taken, others = _names_of(request.fields.get("tools"))

        toolbox = Toolbox(
            taken,
            others=others,
            result_store=ResultStore(self.stored, exchange.key),
            tool_protocol=form.protocol,
            refused=form.refused,
            structured_output=form.structured_output,
            writes=self.writes,
        )
        of_tables = await self._table_tools(sources, turns, exchange, conversation)
        own = [*tools_for(self.limits, turns[-1].text), *own, *of_tables]
        find = [FindActions(search, self.limits.search_s)] if sets else []
        if conversation is not None:
            toolbox.conversation = conversation
            named = (*find, *self.limits.tools, *own, ReadResult(toolbox.result_store))
            await self._restore(toolbox, apis, {tool.name: tool for tool in named}, exchange.rights)
        if always := self._always_offered(apis, exchange.rights):
            toolbox.add(always)
        if answer is not None:
            await self._take(answer, toolbox, apis, exchange.rights)
        operations = toolbox.operations if toolbox.tools else []
        has_room = len(operations) < self.limits.settings.k * _MOST_TIMES
        if sets and not isinstance(answer, CodeAnswer) and has_room:
            toolbox.add(await self._found(search, turns, exchange, needed=not operations))
        if trace.searches:
            toolbox.changing = trace.searches[0].changing
            toolbox.sure = (trace.searches[0].relevance or 0.0) >= _SURE_RELEVANCE
        offered = bool(own or toolbox.operations or answer) or self.limits.has_tool_of(toolbox)
        trace.offer = "offered" if offered else "nothing found" if apis or not sets else "no usable set"
        trace.tools = toolbox.tools
        if not offered:
            return None
        trace.forgotten = trace.forgotten and conversation is None
        toolbox.add([*find, *own])
        return toolbox

    async def _table_tools(
        self, sources: ToolSources, turns: Sequence[Turn], exchange: Exchange, conversation: Conversation | None
    ) -> Sequence[Tool]:
        """The tools that query databases; a conversation that has them keeps them. Raises RetrievalError."""
        if self.tables is None or not sources.databases:
            return ()
        kept = conversation is not None and any(name == QUERY for _, _, name in conversation.tools)
        return await self.tables.tools(
            sources.databases, turns, exchange, named=sources.named or kept, answered=sources.answered
        )

    async def _remembered(
        self, key: str, messages: Sequence[Mapping[str, Any]], trace: ActionTrace
    ) -> Conversation | None:
        """The record of the conversation; the trace says whether hidden messages are missing until they are put back.

        Raises RetrievalError.
        """
        if self.hidden_rounds is None:
            return None
        trace.forgotten = True  # until the record is read
        found = await self.hidden_rounds.find(key, messages)
        if found is None:
            trace.forgotten = await self.hidden_rounds.had_hidden_rounds(key, messages)
            if trace.forgotten:  # another worker may be about to write the record
                found = await self.hidden_rounds.find(key, messages, again=True)
        if found is not None:
            trace.forgotten = found.hidden != () or found.waiting != ()
        return found

    def _always_offered(self, apis: Mapping[str, Api], rights: Rights) -> list[OperationTool]:
        return [
            OperationTool(one, apis[name])
            for name, operations in self._baked_in.items()
            if name in apis
            for one in operations
            if not apis[name].why_not_called(one, rights)
        ]

    async def _found(
        self,
        search: Callable[[Sequence[Turn]], Awaitable[Sequence[OperationTool]]],
        turns: Sequence[Turn],
        exchange: Exchange,
        *,
        needed: bool,
    ) -> Sequence[OperationTool]:
        """The operations that a search finds. Raises RetrievalError if no other operation is offered (`needed`)."""
        try:
            async with asyncio.timeout(None if needed else self.limits.search_s):
                return await search(turns)
        except (RetrievalError, TimeoutError) as error:
            if needed:
                raise
            reason = str(error) or "the search takes too long"
            log.warning("%s no further operation is offered: %s", exchange.id, reason)
            return []

    async def _restore(
        self, toolbox: Toolbox, apis: Mapping[str, Api], own: Mapping[str, Tool], rights: Rights
    ) -> None:
        """Offer the conversation's tools again, in the same order under the same names. own: by name."""
        wanted = [(in_set, operation) for _, in_set, operation in toolbox.conversation.tools if in_set in apis]
        known = await asyncio.to_thread(self.library.store.found, wanted)
        for name, in_set, operation in toolbox.conversation.tools:
            if name in toolbox.taken:
                continue
            one = known.get((in_set, operation))
            if not in_set and operation in own:
                toolbox.tools[name] = own[operation]
            elif one is not None and not apis[in_set].why_not_called(one, rights):
                for again in toolbox.taking([OperationTool(one, apis[in_set])]):
                    toolbox.tools[name] = again

    async def _take(
        self, answer: CodeAnswer | EndedElsewhere, toolbox: Toolbox, apis: Mapping[str, Api], rights: Rights
    ) -> None:
        """Offer the operations of the calls that waited, as they are now, if they may still be called."""
        wanted = {(one.set, one.operation) for one in answer.writes if one.set in apis}
        known = await asyncio.to_thread(self.library.store.found, wanted)
        if isinstance(answer, CodeAnswer):
            toolbox.answer = answer
        else:
            toolbox.ended = answer.writes
        toolbox.answered = {
            place: OperationTool(one, apis[place[0]])
            for place, one in known.items()
            if not apis[place[0]].why_not_called(one, rights)
        }
        toolbox.add([*toolbox.answered.values()])

    async def _search(
        self, turns: Sequence[Turn], apis: Mapping[str, Api], rights: Rights, trace: ActionTrace, least: float
    ) -> Sequence[OperationTool]:
        """Reading operations, the best first; the trace gets all operations found.

        least: the relevance of the best text below which no operation is offered. Raises RetrievalError.
        """
        k = self.limits.settings.k
        why: dict[tuple[str, str], FoundOutcome | Literal[""]] = {}  # why no call is made; "": calls are

        def exists(name: str, one: Operation) -> bool:
            if (reason := apis[name].why_not_called(one, rights)) == "not_granted":
                return False
            why[name, one.name] = reason
            return True

        found = await self.library.find(
            turns,
            list(apis),
            k=k * SEARCHED,
            view=View(rights.groups),
            exists=exists,
            rows=self._sets,
        )
        actions = found.actions
        usable = _with_producers([one for one in actions if not why[_place_of(one)]], k)
        if (texts := found.texts) is not None:
            likely = (texts.relevance or 0.0) >= least
            left_out: FoundOutcome = "surplus" if likely else "irrelevant"
            usable = usable if likely else []
            rows = [
                _found_operation(one, why[_place_of(one)] or ("offered" if one in usable else left_out))
                for one in actions
            ]
            first = actions[0] if likely and actions else None
            refused = first is not None and why[_place_of(first)] == "could_change"
            changing = quoted_label(first.operation.summary or first.operation.name) if first and refused else ""
            trace.searches.append(OperationSearch(texts.query.text, texts.relevance, rows, changing))
        return [OperationTool(one.operation, apis[one.set]) for one in usable]

    async def _known_sets(self, wanted: Sequence[str] = ()) -> Mapping[str, ActionSet]:
        """The sets with documents. The list is read again after some time, and for a wanted set without a document."""
        if time.monotonic() - self._read_s > _SETS_S or not self._sets.keys() >= set(wanted):
            await asyncio.to_thread(self._read_sets)
        return self._sets

    def _read_sets(self) -> None:
        store = self.library.store
        self._sets = {row.name: row for row in store.sets()}
        configured = {name: row for name, row in self.configured.items() if name in self._sets}
        self._baked_in, faults = baked_in(store, configured)
        for one in faults:
            if one not in self._faults:
                log.warning("%s", one)
        self._faults, self._read_s = faults, time.monotonic()


def _place_of(found: FoundAction) -> tuple[str, str]:
    return found.set, found.operation.name


def _with_producers(found: Sequence[FoundAction], k: int) -> list[FoundAction]:
    """At most k operations, each with the producers that can be called."""
    if not any(one.operation.producers for one in found):
        return list(found[:k])
    known = {(one.set, one.operation.name): one for one in found}
    groups = [[key, *((one.set, name) for name in one.operation.producers)] for key, one in known.items()]
    return [known[key] for key in whole_groups([[key for key in group if key in known] for group in groups], k)]


def _found_operation(one: FoundAction, outcome: FoundOutcome) -> FoundOperation:
    label = "/".join(_place_of(one))
    if one.hit is None:
        return FoundOperation(label, outcome, None, {}, {})
    return FoundOperation(label, outcome, one.hit.score, one.hit.ranks, one.hit.scores)


def unsuited(request: ChatRequest, messages: Sequence[ConversationMessage]) -> str:
    """Why an offer could change the meaning of a request; "": the chat ends with a question or with results.

    Coding agents write instructions behind the question and behind results.
    """
    fields = request.fields
    if named := [name for name in _UNSUITED if fields.get(name) is not None]:
        return f"the request has {named[0]!r}"
    if fields.get("n") not in (None, 1):
        return "the request asks for several answers"
    if fields.get("tool_choice") not in (None, "auto"):
        return "the request chooses the tool"
    if not isinstance(fields.get("tools"), list | None):
        return "'tools' is not a list"
    last = next((one.role for one in reversed(messages) if one.role not in INSTRUCTIONS), "")
    return "" if last in ("user", "tool") else "the last message is neither a question nor the result of a tool"


def _names_of(tools: Any) -> tuple[Collection[str], bool]:
    """The names of the client's tools, and whether a tool has no name."""
    rows = [tool for tool in tools or () if isinstance(tool, dict)]
    names = {name for row in rows if (name := tool_name(row))}
    return names, len(names) < len(rows)
