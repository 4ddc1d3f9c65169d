"""An operation of an API as a tool: a call is checked, compared with the conversation, and sent.

A further tool searches for operations.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from proxy.agent.execution import traced_call, traced_work
from proxy.agent.grounding.arguments import (
    WHICH,
    TooManyValues,
    allowed,
    asked,
    identifiers,
    is_blank,
    needs_of,
    question,
    row_for,
    ungrounded,
    without_marks,
)
from proxy.agent.grounding.chosen_rows import ListedRows, OpenChoice, json_in, open_choice, row_for_choice
from proxy.agent.grounding.origins import ChatTexts, ValueOrigin, keeps_from_auto, only_foreign, origins
from proxy.agent.grounding.said import name_in, says
from proxy.agent.text_calls.written_calls import example
from proxy.agent.toolbox import (
    PREFIX,
    Calling,
    ChatState,
    Done,
    NeedsConfirmation,
    NeedsPerson,
    Refused,
    Tool,
    ToolResult,
    arguments_schema,
)
from proxy.agent.tools.read_result import ReadResult
from proxy.agent.writes.confirming import Asker, Proposed, Writes
from proxy.agent.writes.mode import mode_of
from proxy.agent.writes.pending import digest_of
from proxy.agent.writes.sentences import language_of
from proxy.agent.writes.shown import CannotShow
from proxy.apis.call import Api, CallResult, arguments_named
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.producers import searches_by
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.dialects.quoting import quoted, quoted_label
from proxy.exchange import CallOutcome
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from runtime.public_addresses import ForbiddenAddress

log = logging.getLogger("ragway")
FIND = "find_actions"
_MOST_DESCRIPTION_CHARS = 1_000
_FAILURES = 2  # rounds with wrong arguments of one operation; then the gateway asks the person
_MOST_NAME_WORDS = 4  # of a person's answer that is a name
# Models that are not asked by tools go on with further calls, and lose the fact.
_ANSWER_NOW = "If this result answers the question, answer the user now, with the facts of the result."
_ANSWER_FROM_ALL = "If this result and the passages answer the question, answer the user now, with the facts of both."
_GO_ON = "The user has answered the question for a value. Go on with the call: answer with {}"
_ASKS_ITSELF = "The user is shown the call and confirms it before it is sent: call without asking first."
_LARGE_RESULTS = 1 << 16  # characters that are searched in a thread


class OperationTool(Tool):
    asked: set[str]

    def __init__(self, operation: Operation, api: Api) -> None:
        self.operation = operation
        self.api = api
        self.name = PREFIX + operation.name
        self.schema = api.schema_of(operation)  # without the fixed arguments
        self.asked = api.asked_of(operation)
        self.origin = api.name, operation.name
        self.label = "/".join(self.origin)
        self.effect = api.policy.effect_of(operation)
        texts = [one.strip(". \n") for one in (operation.summary, operation.description)]
        known = ". ".join(filter(None, texts)) or operation.operation_id or operation.name
        description = quoted(f"{known} ({api.name}: {operation.method} {self.path})")
        if len(description) > _MOST_DESCRIPTION_CHARS:
            description = description[: _MOST_DESCRIPTION_CHARS - 1] + "…"
        asks = self.effect == "changes" and self.confirms
        self.description = f"{description} {_ASKS_ITSELF}" if asks else description

    @cached_property
    def confirms(self) -> bool:
        return not self.api.why_not_called(self.operation)

    @property
    def secrets(self) -> Collection[str]:
        return self.api.known_secrets()

    @property
    def path(self) -> str:
        """The path for the model, without the names of fixed arguments."""
        path = self.operation.path
        for one in self.operation.parameters:
            if one.place == "path" and one.argument not in self.schema["properties"]:
                path = path.replace(f"{{{one.name}}}", "…")
        return path

    @property
    def summary(self) -> str:
        return self.operation.summary or self.path

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as they are: wrong arguments may be a question to the person."""
        return arguments

    def after_question(self, reply: str, chat: ChatState) -> str:
        """Small models explain the call in words otherwise."""
        rows = asked(self.operation, [reply])
        return _Call(self, chat, {}).after_question(rows) if rows else ""

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        return await _Call(self, calling.chat, arguments).result(calling)

    def read(self, arguments: dict[str, Any], outcome: CallResult, calling: Calling) -> Done:
        """The result of a call that was made."""
        return _Call(self, calling.chat, arguments).read(outcome, calling)


@dataclass(eq=False)
class FindActions(Tool):
    """Makes tools of the operations that are found."""

    search: Callable[[Sequence[Turn]], Awaitable[Sequence[OperationTool]]]
    seconds: float | None = None  # for a search; None: no limit
    name = FIND
    description = (
        "Search for further operations of the APIs, where no other tool fits. "
        "The operations found are tools afterwards."
    )
    schema = arguments_schema(
        "query",
        query={"type": "string", "minLength": 1, "description": "What the operation should do, in a few words"},
    )

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        toolbox = calling.chat.toolbox
        try:
            async with asyncio.timeout(self.seconds):
                found = await self.search([Turn("user", arguments["query"])])
        except (RetrievalError, TimeoutError):
            return Refused("The search does not work at present.", "failed")
        rows = [f"{name}: {quoted_label(one.summary)}" for one in found for name in toolbox.add([one])]
        return Done("These tools can be called now:\n" + "\n".join(rows) if rows else "No operation was found.")


class _Call:
    """A call of an operation, beside what the chat knows."""

    def __init__(self, tool: OperationTool, chat: ChatState, arguments: dict[str, Any]) -> None:
        self._tool = tool
        self._chat = chat
        self._toolbox = chat.toolbox
        self._native = chat.toolbox.tool_protocol == "native"
        self._properties: Mapping[str, Any] = tool.schema["properties"]
        self._required: Sequence[str] = tool.schema["required"]
        self._arguments = arguments
        self._in_path = {one.argument for one in tool.operation.parameters if one.place == "path"}
        # The operation that finds the identifiers; None: not offered.
        producers = {(tool.api.name, name) for name in tool.operation.producers}
        offered = chat.toolbox.operations if producers else ()
        self._producer = next((one for one in offered if one.origin in producers), None)
        self._needs = needs_of(self._producer.schema) if self._producer is not None else {}

    @cached_property
    def _asked(self) -> Collection[str]:
        """The arguments that the person was asked for, in an earlier reply."""
        return asked(self._tool.operation, self._chat.known)

    async def result(self, calling: Calling) -> ToolResult:
        tool, chat = self._tool, self._chat
        if tool.api.name in chat.limits.public and chat.private_before:
            sets = ", ".join(chat.private_before)
            return Refused(
                f"Nothing was sent: {tool.api.name} is a public API, and this conversation has private data of {sets}. "
                "Answer without this call, or tell the user to ask in a new conversation.",
                "private_data",
            )
        if rows := self._to_ask():
            return self._ask(rows, "invalid_arguments")
        if wrong := problems(tool.schema, self._arguments):
            missing = self._missing()
            text = f"Nothing was sent: {'; '.join(wrong)}. {self._repair_hint(missing)}".rstrip()
            return self._failed(missing, text, "invalid_arguments")
        try:
            made_up = ungrounded(tool.operation, tool.schema, self._arguments, chat.known, self._asked, chat.said)
            choice = None if made_up else await self._open_choice()
        except TooManyValues as error:
            return Refused(f"Nothing was sent: {error}.", "invalid_arguments")
        if made_up:
            names = [text.partition(":")[0] for text in made_up]
            if self._names_nothing(names):
                return self._ask(self._rows(names), "invented_value")
            text = (
                f"Nothing was sent. These values stand neither in the conversation nor in an earlier result: "
                f"{'; '.join(made_up)}. {self._producer_hint()}"
            )
            return self._failed(names, text, "invented_value")
        if choice is not None:
            return self._of_named_row(*choice)
        return await (self._changing(calling) if tool.effect == "changes" else self._sent(calling))

    async def _changing(self, calling: Calling) -> ToolResult:
        """A call that changes something: sent at once if the rights say so, else for a person to confirm."""
        tool, chat, writes, exchange = self._tool, self._chat, self._toolbox.writes, self._chat.exchange
        mode = mode_of(exchange.rights, tool.api, tool.operation)
        if writes is None or mode == "refuse":
            return Refused(f"Nothing was sent: {tool.operation.name} could change something.", "could_change")
        if tool.api.refusal:
            return Refused(tool.api.refusal, "no_credentials")
        try:
            request = tool.api.request(tool.operation, self._arguments)
        except (BadArgument, ForbiddenAddress) as error:
            return Refused(tool.api.masked_text(f"Nothing was sent: {error}."), "invalid_arguments")
        if (digest := digest_of(request)) in chat.proposed:
            return Refused("Nothing was sent: the same call was made before for this question.", "invalid_arguments")
        chat.proposed.add(digest)
        try:
            values = await asyncio.to_thread(self._origins)
            foreign = [
                ("passage" if "passage" in row.origins else "result", row.path, row.value)
                for row in only_foreign(values)
            ]
            one = Proposed(tool.api, tool.operation, self._arguments, request, foreign)
            one = await writes.looked_up(one, exchange)
            if mode == "auto" and not keeps_from_auto(values) and one.sent_before is None:
                return await self._at_once(writes, one, calling)
        except (TooManyValues, RetrievalError) as error:
            log.warning("%s nothing is sent: %s", exchange.id, error)
            why = f"{error}." if isinstance(error, TooManyValues) else "it cannot be made at present."
            return Refused(f"Nothing was sent: {why}", "failed")
        if self._toolbox.structured_output:
            text = "Nothing was sent: a person has to confirm this call, in a chat without structured output."
            return Refused(text, "waits")
        return NeedsConfirmation(one)

    async def _at_once(self, writes: Writes, one: Proposed, calling: Calling) -> Done:
        asker = Asker(self._chat.exchange, self._toolbox.person, language_of(self._chat.said))
        work = writes.kept(writes.at_once(one, asker))
        result = await traced_work(work, self._tool.label, self._chat.exchange, calling.traced, changes=True)
        done = self.read(result, calling)
        if not result.sent:
            return done
        with contextlib.suppress(CannotShow):  # the model has the result
            done = replace(done, text=f"{await writes.report(one, result, asker)}\n\n{done.text}")
        return done

    def _origins(self) -> Sequence[ValueOrigin]:
        """Where the values of the call come from. Raises TooManyValues.

        A text of the conversation that neither the person nor the application wrote counts as a result.
        """
        chat, operation = self._chat, self._tool.operation
        results = [("", text) for text in (*chat.known, *(text for text, _ in chat.listed))]
        texts = ChatTexts(chat.said, self._toolbox.instructions, self._toolbox.passages, results)
        fixed = {one for name in self._tool.api.fixed for one in arguments_named(operation, name)}
        return origins(operation, self._tool.schema, self._arguments, texts, fixed)

    async def _sent(self, calling: Calling) -> Done:
        tool, chat, share = self._tool, self._chat, calling.share
        seconds = max(0.1, min(chat.limits.call.seconds, chat.until_s - time.monotonic()))
        limits = replace(share.call, seconds=seconds)
        outcome = await traced_call(tool.api, tool.operation, self._arguments, limits, chat.exchange, calling.traced)
        return self.read(outcome, calling)

    def read(self, outcome: CallResult, calling: Calling) -> Done:
        """The text of a result for the model, whose values later calls may use."""
        tool, chat, share = self._tool, self._chat, calling.share
        narrows = self._narrows()
        chat.budget.size_bytes -= outcome.size
        fitted = share.fitted(outcome.text)
        text = quoted(fitted)
        if outcome.sent:  # the text of a refused call has the values that stand nowhere
            chat.known.append(without_marks(text))
            chat.listed.append((outcome.whole or outcome.text, narrows))
            chat.note_private(tool.api.name)
        if whole := outcome.whole or (outcome.text if fitted != outcome.text else ""):
            id = self._toolbox.result_store.put(whole)
            (read,) = self._toolbox.add([ReadResult(self._toolbox.result_store)])
            text += f"\n(The result is cut. {read} with the id {id} reads on: a path, a query or a start.)"
            if share.short:
                text += "\n(Results are shorter now: the limit of tokens for the results of this answer is near.)"
        if not self._native and outcome.succeeded:
            text += f"\n\n{self._after_result(json_in(outcome.whole or outcome.text))}"
        return Done(text, outcome.word, fits=True)

    def _after_result(self, result: Any) -> str:
        """The sentence behind a result, for a model that is not asked by tools."""
        wanted = self._chat.wanted.pop(self._tool.label, "")
        if _is_empty(result):
            return self._nothing_found()
        if wanted:
            return f"Now call {wanted} with the right value of this result, if the question needs it."
        return _ANSWER_FROM_ALL if self._toolbox.passages else _ANSWER_NOW

    def after_question(self, rows: Collection[str]) -> str:
        """How the model goes on after the person has answered a question with these rows."""
        named = self._named
        name = self._toolbox.name_of(self._tool)
        if self._producer is not None and named and (need := next((one for one in self._needs if one in rows), "")):
            self._chat.wanted[self._producer.label] = name
            return _GO_ON.format(example(self._toolbox.name_of(self._producer), {need: named}))
        return _GO_ON.format(f"one JSON object alone, which calls {name}")

    def _to_ask(self) -> list[str]:
        """The rows of a question to the person, without whose answer a call cannot be right; none: go on.

        Asked are the values that only a person knows (the setting `ask`), and the required values for which a model
        that is not asked by tools writes null or a placeholder.
        """
        said = self._chat.said
        given = {name: one for name, one in self._arguments.items() if not self._is_blank(name, one)}
        known = self._asked if said and "?" not in said[-1] else ()
        own = self._tool.asked & self._properties.keys()
        unsaid = [
            name
            for name, schema in self._properties.items()
            if name in own
            and (
                name in self._required
                if name not in given
                else name not in known and not says(said, name, given[name], schema, self._tool.schema)
            )
        ]
        blank = [name for name in self._required if name in self._arguments and name not in given and name not in own]
        if not unsaid and (self._native or not blank):
            return []
        absent = [name for name in self._required if name not in given and name not in unsaid]
        if self._producer is not None and (not self._needs or self._named):
            absent = [name for name in absent if name not in self._in_path]
        return self._rows([*unsaid, *absent])

    def _is_blank(self, name: str, value: Any) -> bool:
        """Whether a model says by a value that the model does not know the value."""
        schema = self._properties.get(name)
        return is_blank(value) and value not in allowed(schema) and not says(self._chat.said, name, value)

    def _names_nothing(self, names: Sequence[str]) -> bool:
        """Whether a small model made up an identifier for a question that names nothing to find the identifier by.

        Where passages may answer as well, the model gets another try.
        """
        if self._native or (self._toolbox.passages and not self._toolbox.sure):
            return False
        return set(names) <= self._in_path and bool(self._needs) and not self._named

    def _rows(self, names: Sequence[str]) -> list[str]:
        """The rows of a question for arguments. No person knows an identifier that an operation finds: the row is for
        what the operation needs.
        """
        rows = []
        for name in names:
            found = self._producer is not None and name in self._in_path
            meaning = row_for(name, self._properties.get(name))
            if found and self._needs:
                rows += [row_for(*need) for need in self._needs.items()]
            else:
                rows.append(row_for_choice() if found and meaning == name else meaning)
        return rows

    def _ask(self, rows: Sequence[str], outcome: CallOutcome) -> ToolResult:
        """Ask the person in place of the model; with structured output, the model asks by itself."""
        text = f"Nothing was sent: only the user knows these values: {'; '.join(rows)}. Ask the user."
        return self._needs_person(rows, text, outcome)

    def _failed(self, names: Sequence[str], text: str, outcome: CallOutcome) -> ToolResult:
        """Note a call with wrong arguments; ask the person where the model has read of a wrong call before."""
        rounds = self._chat.failures.setdefault(self._tool.label, set())
        rounds.add(self._chat.round)
        if len(rounds) < _FAILURES or not names:
            return Refused(text, outcome)
        return self._needs_person(self._rows(names), text, outcome)

    def _needs_person(self, rows: Sequence[str], text: str, outcome: CallOutcome) -> ToolResult:
        if self._toolbox.structured_output:
            return Refused(text, outcome)
        return NeedsPerson(question(self._tool.operation, rows), text, outcome)

    async def _open_choice(self) -> tuple[str, OpenChoice] | None:
        """The argument with a value of a row that the person has not named, and the choice; None: none.

        Raises TooManyValues.
        """
        listed = self._chat.listed
        if self._native or WHICH in self._asked or not listed:
            return None
        values = identifiers(self._tool.operation, self._tool.schema, self._arguments)

        def found() -> tuple[str, OpenChoice] | None:
            results = [ListedRows(json_in(text), narrowed) for text, narrowed in listed]
            choices = ((path, open_choice(value, results, self._chat.said)) for path, value in values)
            return next(((path, choice) for path, choice in choices if choice is not None), None)

        large = sum(len(text) for text, _ in listed) > _LARGE_RESULTS
        return await asyncio.to_thread(found) if large else found()

    def _of_named_row(self, path: str, choice: OpenChoice) -> ToolResult:
        """For a model that took a value of another row than the person named; without a name, the person is asked."""
        right = {**self._arguments, path: choice.right}
        if choice.right is None or path not in self._arguments or problems(self._tool.schema, right):
            return self._ask([row_for_choice(choice)], "invented_value")
        call = example(self._toolbox.name_of(self._tool), right)
        text = (
            f"Nothing was sent: {path} {choice.value} is not of the row that the user named. "
            f"If the question needs it, answer with {call}"
        )
        return self._failed([path], text, "invented_value")

    def _narrows(self) -> bool:
        """Whether a word of the model, which the person has not said, narrows the rows of a result."""
        return any(
            isinstance(value, str) and searches_by(name) and not says(self._chat.said, name, value)
            for name, value in self._arguments.items()
        )

    @property
    def _named(self) -> str:
        """What the newest message of the person names; a short answer to a question of the gateway as a whole."""
        latest = self._chat.said[-1].strip() if self._chat.said else ""
        short = len(latest.split()) <= _MOST_NAME_WORDS and "?" not in latest and self._asked
        return name_in(latest) or (latest.strip(" .!") if short else "")

    def _missing(self) -> list[str]:
        """The required arguments without a value, else the arguments that the schema refuses."""
        if absent := [name for name in self._required if name not in self._arguments]:
            return absent
        alone = {**self._tool.schema, "required": []}
        return [
            name for name, one in self._arguments.items() if name in self._properties and problems(alone, {name: one})
        ]

    def _repair_hint(self, missing: Sequence[str]) -> str:
        """How a model that is not asked by tools mends a call: finds a value, or leaves out unknown arguments."""
        if self._native:
            return ""
        if missing:
            self._chat.incomplete.add(self._tool.label)
            return self._producer_hint() if self._tool.operation.producers else ""
        known = {name: value for name, value in self._arguments.items() if name in self._properties}
        if problems(self._tool.schema, known):
            return ""
        name = self._toolbox.name_of(self._tool)
        return f"If {name} without these arguments is right, answer with {example(name, known)}"

    def _producer_hint(self) -> str:
        producer = self._producer
        if producer is None:
            return "Find the values by another tool, or ask the user."
        name = self._toolbox.name_of(producer)
        self._chat.wanted[producer.label] = self._toolbox.name_of(self._tool)
        if self._native:
            return f"Find the values by {name}, or ask the user."
        named = self._named
        filled = {one: named for one in list(self._needs)[:1] if named and not problems(self._needs[one], named)}
        if not set(producer.schema["required"]) <= filled.keys():
            return f"If the question needs the values, find them by {name}, or ask the user."
        # A small model answers at once where it may, so only a question that passages may answer offers the way out.
        way_out = " Otherwise answer the user." if self._toolbox.passages and not self._toolbox.sure else ""
        return f"If the question needs the values, call {name}: answer with {example(name, filled)}{way_out}"

    def _nothing_found(self) -> str:
        """The text after an empty result: which arguments the model may leave out."""
        optional = [
            f"`{name}`" for name, one in self._arguments.items() if name not in self._required and one is not None
        ]
        if optional:
            return f"Nothing was found. Leave out {' or '.join(optional)}, or tell the user that nothing was found."
        return "Nothing was found. Tell the user so, and make up nothing."


def _is_empty(value: Any) -> bool:
    """Whether a result is a list without rows, or an object with such lists and counts alone."""
    if not isinstance(value, dict):
        return bool(value == [])
    lists = [one for one in value.values() if isinstance(one, list)]
    return bool(lists) and not any([*lists, *(one for one in value.values() if isinstance(one, dict))])
