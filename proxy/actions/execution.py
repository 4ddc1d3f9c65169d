"""The model's calls of offered operations: checked, grounded and made, each with a text for the model."""

import asyncio
import contextlib
import difflib
import json
import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proxy.action_trace import ActionCall, ActionTrace
from proxy.actions.actions import ActionLimits
from proxy.actions.arguments import TooManyValues, identifiers, invented, is_blank
from proxy.actions.asking import allowed, asked, asked_which, needs_of, question, row_for, row_for_choice
from proxy.actions.chosen_rows import ListedRows, OpenChoice, json_in, open_choice
from proxy.actions.known_texts import without_marks
from proxy.actions.offer import PREFIX, Offer, OfferedOperation
from proxy.actions.own_tools import OwnTool
from proxy.actions.protocols import example
from proxy.actions.quotes import stands_in
from proxy.actions.result_budget import CallShare, ResultBudget
from proxy.actions.said import name_in, says
from proxy.apis.call import Api, CallLimits, Outcome, call
from proxy.apis.masking import masked_ends
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.producers import searches_by
from proxy.apis.schema_check import problems, turned
from proxy.dialects.quoting import quoted
from proxy.dialects.replies import ToolCall, json_bytes, json_of
from proxy.exchange import Exchange

log = logging.getLogger("ragway")
_FAULT = "The call failed: the gateway has a fault, which its log describes. Go on without this result."
_LIMIT = "Nothing was sent: the limit of calls for this answer is reached. Answer with what is known."
_FAILURES = 2  # rounds with wrong arguments of one operation; then the gateway asks the person
_MOST_NAMES = 12  # of tools, in a reply to a call of another tool
_MOST_NAME_CHARS = 64
_MOST_NAME_WORDS = 4  # of a person's answer that is a name
_LEAST_SIMILAR = 0.5  # of two names, from 0 to 1
# Models that are not asked by tools go on with further calls, and lose the fact.
_ANSWER_NOW = "If this result answers the question, answer the user now, with the facts of the result."
# For which no value of the person matters.
_REFUSALS = ("unknown_tool", "could_change", "invalid_arguments", "private_data")
_ANSWER_FROM_ALL = "If this result and the passages answer the question, answer the user now, with the facts of both."
_GO_ON = "The user has answered the question for a value. Go on with the call: answer with {}"
_LARGE_RESULTS = 1 << 16  # characters that are searched in a thread
_MOST_KEPT_CHARS = 2_000  # of arguments and of a result, in a receipt
_LONG_NUMBER = re.compile(r"[0-9]{19}")


class Execution:
    """The calls of one chat."""

    def __init__(
        self,
        offer: Offer,
        limits: ActionLimits,
        exchange: Exchange,
        known: Sequence[str],
        said: Sequence[str] = (),
        results: Sequence[str] = (),
        private: Collection[str] = (),
    ) -> None:
        """known: the texts of the conversation. said: the texts of the person alone. results: of earlier questions.

        private: the private sets of which the conversation has results.
        """
        self._offer = offer
        self._limits = limits
        self._exchange = exchange
        self._known = list(known)
        self._said = said
        self._listed = [(text, False) for text in results]  # results, and whether a word of the model narrows the rows
        self._until_s = time.monotonic() + limits.total_s
        self._left = limits.calls
        self._budget = ResultBudget(limits.result_tokens, limits.total_bytes)
        self._round = 0
        self._failures: dict[str, set[int]] = {}  # operation -> rounds with wrong arguments
        self._incomplete: set[str] = set()  # operations that were called without a value
        self._trace = exchange.action_trace or ActionTrace()
        self._private = set(private)  # also of calls that run
        self._private_before: Sequence[str] = ()  # of which the model has read results
        self._trace.private = sorted(self._private)
        self._done: set[tuple[str, str]] = set()  # name and arguments of calls that bring nothing new if made again
        self._wanted: dict[str, str] = {}  # operation -> the tool whose call waits for a value of the result
        self.question = ""  # of the gateway to the person, where arguments are wrong again; "": none

    @property
    def over(self) -> bool:
        """Whether no further call may start."""
        return self._left <= 0 or self._budget.size_bytes <= 0 or time.monotonic() >= self._until_s

    def has_read(self, one: ToolCall) -> bool:
        """Whether a call stands word for word in the conversation, in a passage or in a result."""
        return stands_in(one, self._known)

    def repeats(self, one: ToolCall) -> bool:
        """Whether the same call has brought a result, or a refusal that no value of the person changes."""
        return (one.name, _canonical(one.arguments)) in self._done

    def after_question(self, reply: str) -> str:
        """How a model goes on after the person has answered the gateway's question; "": no question.

        reply: the message before the person's newest message. Small models explain the call in words otherwise.
        """
        for name, tool in self._offer.tools.items():
            if not isinstance(tool, OfferedOperation) or not (rows := asked(tool, [reply])):
                continue
            found, named = self._producer(tool), self._named(tool)
            if found is not None and named and rows & needs_of(found[1]).keys():
                need = next(one for one in needs_of(found[1]) if one in rows)
                self._wanted[found[1].label] = name
                return _GO_ON.format(example(found[0], _json({need: named})))
            return _GO_ON.format(f"one JSON object alone, which calls {name}")
        return ""

    async def results(self, calls: Sequence[ToolCall]) -> list[str]:
        """The texts for the model, in the order of the calls, which run at the same time.

        The calls beyond the limit have one entry in the trace: a model may write 10,000.
        """
        made = calls[: 0 if self.over else self._left]
        share = self._budget.share(max(1, len(made)), self._limits.call)
        self._round += 1
        self._private_before = sorted(self._private)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._result(one, share)) for one in made]
        texts = [task.result() for task in running]
        if beyond := calls[len(made) :]:
            text = _LIMIT if len(beyond) == 1 else f"({len(beyond):,} calls) {_LIMIT}"
            at_ms = self._exchange.elapsed_ms()
            self._trace.calls.append(
                ActionCall(len(self._trace.rounds), at_ms, outcome="limit", duration_ms=0.0, result=text)
            )
            texts += [_LIMIT] * len(beyond)
        for text in texts:
            self._budget.spend(text)
        return texts

    async def _result(self, one: ToolCall, share: CallShare) -> str:
        tool = self._offer.named(one.name)  # a waiting call may outlive the operation
        traced = ActionCall(len(self._trace.rounds), self._exchange.elapsed_ms())
        if tool is not None:
            traced.set, traced.operation = tool.origin[0], "/".join(filter(None, tool.origin))
        self._trace.calls.append(traced)
        try:
            text = await self._text(one, tool, traced, share)
        except Exception:
            log.exception("%s: a call of %s failed", self._exchange.id, traced.operation or "an unknown tool")
            traced.outcome, text = "failed", _FAULT
        finally:
            traced.duration_ms = self._exchange.elapsed_ms() - traced.started_ms
        refused = traced.outcome in _REFUSALS and traced.operation not in self._incomplete
        if traced.sent or refused or (traced.outcome == "ok" and isinstance(tool, OwnTool)):
            self._done.add((one.name, _canonical(one.arguments)))
        traced.arguments, traced.result = self._kept(one.arguments), self._kept(text)
        return text

    async def _text(
        self, one: ToolCall, tool: OfferedOperation | OwnTool | None, traced: ActionCall, share: CallShare
    ) -> str:
        """The text for the model."""
        if self.over:
            traced.outcome = "limit"
            return _LIMIT
        self._left -= 1
        arguments = _arguments(one.arguments)
        if tool is not None:
            arguments = turned(tool.schema, arguments)
        if not isinstance(arguments, dict):
            traced.outcome = "invalid_arguments"
            return "Nothing was sent: the arguments are not a JSON object."
        if tool is None and (label := self._changing(one.name)):
            (traced.set, _, name), traced.operation, traced.outcome = label.partition("/"), label, "could_change"
            return f"Nothing was sent: {name} could change something. This gateway only reads."
        if tool is None:
            traced.outcome = "unknown_tool"
            names = ", ".join([*self._offer.tools, *sorted(self._offer.taken)][:_MOST_NAMES])
            text = f"Nothing was sent: no tool has the name {one.name[:_MOST_NAME_CHARS]!r}. The tools are {names}."
            return f"{text}{self._similar(one.name, arguments)}"
        if isinstance(tool, OwnTool):
            return await self._answered(tool, arguments, traced, share)
        return await self._called(tool, arguments, traced, share)

    async def _answered(self, tool: OwnTool, arguments: dict[str, Any], traced: ActionCall, share: CallShare) -> str:
        """The answer of a tool of the gateway."""
        if wrong := problems(tool.schema, arguments):
            traced.outcome = "invalid_arguments"
            return f"Nothing was done: {'; '.join(wrong)}."
        answer = await tool.answer({name: _whole(one) for name, one in arguments.items()}, share.call.max_chars)
        text = share.fitted(answer.text)
        traced.outcome = answer.outcome
        if answer.known:
            self._known.append(without_marks(text))
        return text

    async def _called(
        self, tool: OfferedOperation, arguments: dict[str, Any], traced: ActionCall, share: CallShare
    ) -> str:
        if tool.set in self._limits.public and self._private_before:
            traced.outcome = "private_data"
            sets = ", ".join(self._private_before)
            return (
                f"Nothing was sent: {tool.set} is a public API, and this conversation has private data of {sets}. "
                "Answer without this call, or tell the user to ask in a new conversation."
            )
        if rows := self._to_ask(tool, arguments):
            traced.outcome = "invalid_arguments"
            return f"Nothing was sent: {self._ask(tool, rows)}"
        if wrong := problems(tool.schema, arguments):
            traced.outcome = "invalid_arguments"
            missing = _missing(tool, arguments)
            self._failed(tool, missing)
            return f"Nothing was sent: {'; '.join(wrong)}. {self._mended(tool, arguments, missing)}".rstrip()
        try:
            made_up = invented(tool.operation, tool.schema, arguments, self._known, self._asked(tool), self._said)
            choice = None if made_up else await self._open_choice(tool, arguments)
        except TooManyValues as error:
            traced.outcome = "invalid_arguments"
            return f"Nothing was sent: {error}."
        if made_up:
            traced.outcome = "invented_value"
            names = [text.partition(":")[0] for text in made_up]
            if self._names_nothing(tool, names):
                return f"Nothing was sent: {self._ask(tool, self._rows(tool, names))}"
            self._failed(tool, names)
            return (
                f"Nothing was sent. These values stand neither in the conversation nor in an earlier result: "
                f"{'; '.join(made_up)}. {self._finder(tool)}"
            )
        if choice is not None:
            traced.outcome = "invented_value"
            return f"Nothing was sent: {self._of_named_row(tool, arguments, *choice)}"
        return await self._sent(tool, arguments, traced, share)

    async def _sent(
        self, tool: OfferedOperation, arguments: dict[str, Any], traced: ActionCall, share: CallShare
    ) -> str:
        """The text of the result of a checked call."""
        seconds = max(0.1, min(self._limits.call.seconds, self._until_s - time.monotonic()))
        limits = replace(share.call, seconds=seconds)
        outcome = await traced_call(tool.api, tool.operation, arguments, limits, self._exchange, traced)
        self._budget.size_bytes -= outcome.size
        fitted = share.fitted(outcome.text)
        text = quoted(fitted)
        if outcome.sent:  # the text of a refused call has the values that stand nowhere
            self._known.append(without_marks(text))
            self._listed.append((outcome.whole or outcome.text, self._narrowed(tool, arguments)))
        if outcome.sent and tool.set in self._limits.private:
            self._private.add(tool.set)
            self._trace.private = sorted(self._private)
        whole = outcome.whole or (outcome.text if fitted != outcome.text else "")
        if whole:
            text += f"\n{self._on_shelf(whole, share)}"
        if not outcome.succeeded or self._offer.way == "native":
            return text
        wanted = self._wanted.pop(tool.label, "")
        if _is_empty(json_in(outcome.whole or outcome.text)):
            return f"{text}\n\n{_nothing_found(tool, arguments)}"
        if wanted:
            return f"{text}\n\nNow call {wanted} with the right value of this result, if the question needs it."
        return f"{text}\n\n{_ANSWER_FROM_ALL if self._offer.passages else _ANSWER_NOW}"

    def _to_ask(self, tool: OfferedOperation, arguments: Mapping[str, Any]) -> list[str]:
        """The rows of a question to the person, without whose answer a call cannot be right; none: go on.

        Asked are the values that only a person knows (the setting `ask`), and the required values for which a model
        that is not asked by tools writes null or a placeholder.
        """
        schema, required = tool.schema, tool.schema["required"]
        given = {name: one for name, one in arguments.items() if not self._is_blank(tool, name, one)}
        known = self._asked(tool) if self._said and "?" not in self._said[-1] else ()
        own = tool.api.asked_of(tool.operation) & schema["properties"].keys()
        unsaid = [
            name
            for name in schema["properties"]
            if name in own
            and (
                name in required
                if name not in given
                else name not in known and not says(self._said, name, given[name], schema["properties"][name], schema)
            )
        ]
        blank = [name for name in required if name in arguments and name not in given and name not in own]
        if not unsaid and (self._offer.way == "native" or not blank):
            return []
        absent = [name for name in required if name not in given and name not in unsaid]
        finder = self._producer(tool)
        if finder is not None and (not needs_of(finder[1]) or self._named(tool)):
            absent = [name for name in absent if name not in _in_path(tool)]
        return self._rows(tool, [*unsaid, *absent])

    def _is_blank(self, tool: OfferedOperation, name: str, value: Any) -> bool:
        """Whether a model says by a value that the model does not know the value."""
        schema = tool.schema["properties"].get(name)
        return is_blank(value) and value not in allowed(schema) and not says(self._said, name, value)

    def _names_nothing(self, tool: OfferedOperation, names: Sequence[str]) -> bool:
        """Whether a small model made up an identifier for a question that names nothing to find the identifier by.

        Where passages may answer as well, the model gets another try.
        """
        finder = self._producer(tool)
        if self._offer.way == "native" or finder is None or (self._offer.passages and not self._offer.sure):
            return False
        return set(names) <= _in_path(tool) and bool(needs_of(finder[1])) and not self._named(tool)

    def _rows(self, tool: OfferedOperation, names: Sequence[str]) -> list[str]:
        """The rows of a question for arguments. No person knows an identifier that an operation finds: the row is for
        what the operation needs.
        """
        properties, finder, in_path = tool.schema["properties"], self._producer(tool), _in_path(tool)
        rows = []
        for name in names:
            needs = needs_of(finder[1]) if finder is not None and name in in_path else {}
            meaning = row_for(name, properties.get(name))
            if needs:
                rows += [row_for(*need) for need in needs.items()]
            elif finder is None or name not in in_path or meaning != name:
                rows.append(meaning)
            else:
                rows.append(row_for_choice())
        return rows

    def _ask(self, tool: OfferedOperation, rows: Sequence[str]) -> str:
        """Ask the person in place of the model; returns the text for a model whose answer has a form."""
        if not self._offer.form:
            self.question = question(tool, rows)
        return f"only the user knows these values: {'; '.join(rows)}. Ask the user."

    async def _open_choice(self, tool: OfferedOperation, arguments: Mapping[str, Any]) -> tuple[str, OpenChoice] | None:
        """The argument with a value of a row that the person has not named, and the choice; None: none.

        Raises TooManyValues.
        """
        if self._offer.way == "native" or asked_which(tool, self._known):
            return None
        values = identifiers(tool.operation, tool.schema, arguments)

        def found() -> tuple[str, OpenChoice] | None:
            results = [ListedRows(json_in(text), narrowed) for text, narrowed in self._listed]
            choices = ((path, open_choice(value, results, self._said)) for path, value in values)
            return next(((path, choice) for path, choice in choices if choice is not None), None)

        if not values or not self._listed:
            return None
        large = sum(len(text) for text, _ in self._listed) > _LARGE_RESULTS
        return await asyncio.to_thread(found) if large else found()

    def _of_named_row(self, tool: OfferedOperation, arguments: dict[str, Any], path: str, choice: OpenChoice) -> str:
        """The text for a model that took a value of another row than the person named; without a name, the person is
        asked.
        """
        right = {**arguments, path: choice.right}
        if choice.right is None or path not in arguments or problems(tool.schema, right):
            return self._ask(tool, [row_for_choice(choice)])
        self._failed(tool, [path])
        call = example(self._name(tool), _json(right))
        return (
            f"{path} {choice.value} is not of the row that the user named. If the question needs it, answer with {call}"
        )

    def _narrowed(self, tool: OfferedOperation, arguments: Mapping[str, Any]) -> bool:
        """Whether a word of the model, which the person has not said, narrows the rows of a result."""
        return any(
            isinstance(value, str) and searches_by(name) and not says(self._said, name, value)
            for name, value in arguments.items()
        )

    def _named(self, tool: OfferedOperation) -> str:
        """What the newest message of the person names; a short answer to a question of the gateway as a whole."""
        latest = self._said[-1].strip() if self._said else ""
        short = len(latest.split()) <= _MOST_NAME_WORDS and "?" not in latest and self._asked(tool)
        return name_in(latest) or (latest.strip(" .!") if short else "")

    def _on_shelf(self, whole: str, share: CallShare) -> str:
        """Put a whole result on the shelf; returns how the model reads on."""
        id = self._offer.shelf.put(whole)
        read = self._offer.add_own(self._offer.shelf.tool)
        more = f"(The result is cut. {read} with the id {id} reads on: a path, a query or a start.)"
        if not share.short:
            return more
        return f"{more}\n(Results are shorter now: the limit of tokens for the results of this answer is near.)"

    def _kept(self, text: str) -> str:
        """The text for a receipt: without the secrets of all offered APIs, and cut."""
        secrets = {one for offered in self._offer.operations for one in offered.api.known_secrets()}
        return masked_ends(text, secrets, _MOST_KEPT_CHARS)

    def _changing(self, tool: str) -> str:
        """The operation that a model names, where a search has found that the operation could change something."""
        name = tool.removeprefix(PREFIX)
        found = (one for search in self._trace.searches for one in search.found if one.outcome == "could_change")
        return next((one.operation for one in found if one.operation.partition("/")[2] == name), "")

    def _similar(self, name: str, arguments: dict[str, Any]) -> str:
        """The call of the tool with the most similar name, for a model that is not asked by tools."""
        if self._offer.way == "native":
            return ""
        found = self.similar(name)
        return f" If {found} is meant, answer with {example(found, _json(arguments))}" if found else ""

    def similar(self, name: str) -> str:
        """The tool with the most similar name; "": none."""
        found = difflib.get_close_matches(name[:_MOST_NAME_CHARS], self._offer.tools, 1, _LEAST_SIMILAR)
        return found[0] if found else ""

    def _mended(self, tool: OfferedOperation, arguments: dict[str, Any], missing: Sequence[str]) -> str:
        """How a model that is not asked by tools mends a call: finds a value, or leaves out unknown arguments."""
        if self._offer.way == "native":
            return ""
        if missing:
            self._incomplete.add(tool.label)
            return self._finder(tool) if tool.operation.producers else ""
        known = {name: value for name, value in arguments.items() if name in tool.schema["properties"]}
        if problems(tool.schema, known):
            return ""
        name = self._name(tool)
        return f"If {name} without these arguments is right, answer with {example(name, _json(known))}"

    def _name(self, tool: OfferedOperation) -> str:
        return next(name for name, one in self._offer.tools.items() if one is tool)

    def _producer(self, tool: OfferedOperation) -> tuple[str, OfferedOperation] | None:
        """The name and the tool of the operation that finds the identifiers of an operation; None: not offered."""
        for name, one in self._offer.tools.items():
            if (
                isinstance(one, OfferedOperation)
                and one.set == tool.set
                and one.operation.name in tool.operation.producers
            ):
                return name, one
        return None

    def _finder(self, tool: OfferedOperation) -> str:
        """How the model finds the values of an operation."""
        found = self._producer(tool)
        if found is None:
            return "Find the values by another tool, or ask the user."
        name, finder = found
        self._wanted[finder.label] = self._name(tool)
        if self._offer.way == "native":
            return f"Find the values by {name}, or ask the user."
        needs, named = needs_of(finder), self._named(tool)
        filled = {one: named for one in list(needs)[:1] if named and not problems(needs[one], named)}
        if not set(finder.schema["required"]) <= filled.keys():
            return f"If the question needs the values, find them by {name}, or ask the user."
        call = example(name, _json(filled))
        # A small model answers at once where it may, so only a question that passages may answer offers the way out.
        way_out = " Otherwise answer the user." if self._offer.passages and not self._offer.sure else ""
        return f"If the question needs the values, call {name}: answer with {call}{way_out}"

    def _asked(self, tool: OfferedOperation) -> Collection[str]:
        """The arguments that the gateway asked the person for, in an earlier reply."""
        return asked(tool, self._known)

    def _failed(self, tool: OfferedOperation, names: Sequence[str]) -> None:
        """Note a call with wrong arguments; ask the person where the model has read of a wrong call before."""
        rounds = self._failures.setdefault(tool.label, set())
        rounds.add(self._round)
        if len(rounds) >= _FAILURES and names and not self._offer.form:
            self.question = question(tool, self._rows(tool, names))


async def traced_call(
    api: Api,
    operation: Operation,
    arguments: Mapping[str, Any],
    limits: CallLimits,
    exchange: Exchange,
    traced: ActionCall,
) -> Outcome:
    """`call`, noted in the exchange and in the trace. Only cancellation raises: a fault is in the log."""
    began, label = time.perf_counter(), f"{api.name}/{operation.name}"
    traced.sent = True  # a call that is ended may be sent
    try:
        outcome = await call(api, operation, arguments, limits, owner=exchange.key)
        traced.sent = outcome.sent
    except Exception:  # of what an API sends, too
        log.exception("%s: a call of %s failed", exchange.id, label)
        outcome = Outcome(_FAULT, sent=True, word="failed")
    finally:
        exchange.ended_step("action", began, label)
        if traced.sent:
            exchange.actions = (*exchange.actions, label)
    traced.outcome, traced.status = outcome.word, outcome.status
    traced.size_bytes, traced.tries = outcome.size, outcome.tries
    return outcome


def _arguments(text: str) -> Any:
    """The arguments as a model wrote them; None: no JSON. orjson rounds whole numbers beyond 64 bits."""
    value = json_of(text.encode()) if text.strip() not in ("", "null") else {}
    if value is not None and _LONG_NUMBER.search(text):
        with contextlib.suppress(ValueError, RecursionError):  # a number of 4,300 digits; many levels
            return json.loads(text)
    return value


def _whole(value: Any) -> Any:
    """The value; a text without half pairs of surrogates, which no search takes."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _json(arguments: dict[str, Any]) -> str:
    try:
        return json_bytes(arguments).decode()
    except RecursionError:  # no call can send the arguments
        return "{}"


def _canonical(arguments: str) -> str:
    """The arguments in one spelling."""
    value = json_of(arguments.encode("utf-8", "replace"))
    try:
        return json.dumps(value, sort_keys=True) if value is not None else arguments  # orjson refuses half a pair
    except RecursionError:
        return arguments


def _missing(tool: OfferedOperation, arguments: dict[str, Any]) -> list[str]:
    """The required arguments without a value, else the arguments that the schema refuses."""
    absent = [name for name in tool.schema["required"] if name not in arguments]
    if absent:
        return absent
    alone = {**tool.schema, "required": []}
    return [
        name for name, one in arguments.items() if name in tool.schema["properties"] and problems(alone, {name: one})
    ]


def _in_path(tool: OfferedOperation) -> set[str]:
    return {one.argument for one in tool.operation.parameters if one.place == "path"}


def _is_empty(value: Any) -> bool:
    """Whether a result is a list without rows, or an object with such lists and counts alone."""
    if not isinstance(value, dict):
        return bool(value == [])
    lists = [one for one in value.values() if isinstance(one, list)]
    return bool(lists) and not any([*lists, *(one for one in value.values() if isinstance(one, dict))])


def _nothing_found(tool: OfferedOperation, arguments: Mapping[str, Any]) -> str:
    """The text after an empty result: which arguments the model may leave out."""
    optional = [
        f"`{name}`" for name, one in arguments.items() if name not in tool.schema["required"] and one is not None
    ]
    if optional:
        return f"Nothing was found. Leave out {' or '.join(optional)}, or tell the user that nothing was found."
    return "Nothing was found. Tell the user so, and make up nothing."
