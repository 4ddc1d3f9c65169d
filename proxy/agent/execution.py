"""The model's calls of one chat: run together within the limits, each with a text for the model."""

import asyncio
import contextlib
import difflib
import json
import logging
import re
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any

from proxy.agent.grounding.arguments import without_marks
from proxy.agent.text_calls.quotes import stands_in
from proxy.agent.text_calls.written_calls import example
from proxy.agent.toolbox import (
    PREFIX,
    ActionLimits,
    Calling,
    CallShare,
    ChatState,
    Done,
    NeedsConfirmation,
    NeedsPerson,
    Refused,
    ResultBudget,
    Tool,
    Toolbox,
    ToolResult,
)
from proxy.agent.writes.confirming import Proposed
from proxy.apis.call import Api, CallLimits, CallResult, call
from proxy.apis.credentials import masked_ends
from proxy.apis.openapi.operation import Operation
from proxy.apis.schema_check import turned
from proxy.dialects.replies import ToolCall, json_of
from proxy.exchange import ActionCall, ActionTrace, Exchange

log = logging.getLogger("ragway")
_FAULT = "The call failed: the gateway has a fault, which its log describes. Go on without this result."
_LIMIT = "Nothing was sent: the limit of calls for this answer is reached. Answer with what is known."
_MOST_NAMES = 12  # of tools, in a reply to a call of another tool
_MOST_NAME_CHARS = 64
_LEAST_SIMILAR = 0.5  # of two names, from 0 to 1
# For which no value of the person matters.
_REFUSALS = ("unknown_tool", "could_change", "invalid_arguments", "private_data", "limit")
_MOST_KEPT_CHARS = 2_000  # of arguments and of a result, in a receipt
_LONG_NUMBER = re.compile(r"[0-9]{19}")


class Execution:
    def __init__(
        self,
        toolbox: Toolbox,
        limits: ActionLimits,
        exchange: Exchange,
        known: Sequence[str],
        said: Sequence[str] = (),
        results: Sequence[str] = (),
        private: Collection[str] = (),
    ) -> None:
        """known: the conversation's texts. said: the person's texts alone. results: of earlier questions.

        private: the private sets of which the conversation has results.
        """
        self._toolbox = toolbox
        self._exchange = exchange
        self._trace = exchange.action_trace or ActionTrace()
        self.chat = ChatState(
            toolbox,
            limits,
            exchange,
            self._trace,
            known=list(known),
            said=said,
            listed=[(text, False) for text in results],
            private=set(private),
            budget=ResultBudget(limits.settings.result_tokens, limits.total_bytes),
            until_s=time.monotonic() + limits.settings.total_s,
            calls_left=limits.settings.calls,
        )
        self._trace.private = sorted(private)
        self._done: set[tuple[str, str]] = set()  # name and arguments of calls that bring nothing new if made again
        self.question = ""  # of the gateway to the person; "": none
        self.waiting: dict[int, Proposed] = {}  # place in the newest round -> a call that a person has to confirm

    @property
    def over(self) -> bool:
        """Whether no further call may start."""
        chat = self.chat
        return chat.calls_left <= 0 or chat.budget.size_bytes <= 0 or time.monotonic() >= chat.until_s

    def has_read(self, one: ToolCall) -> bool:
        """Whether a call stands word for word in the conversation, a passage or a result."""
        return stands_in(one, self.chat.known)

    def repeats(self, one: ToolCall) -> bool:
        """Whether the same call has brought a result, or a refusal that no value of the person changes."""
        return (one.name, _canonical(one.arguments, _arguments(one.arguments))) in self._done

    def after_question(self, reply: str) -> str:
        """How a model goes on after the person has answered the gateway's question; "": no question.

        reply: the message before the person's newest message.
        """
        tools = self._toolbox.tools.values()
        return next(filter(None, (tool.after_question(reply, self.chat) for tool in tools)), "")

    async def results(self, calls: Sequence[ToolCall]) -> list[str]:
        """The texts for the model, in the order of the calls, which run at the same time.

        The calls beyond the limit have one entry in the trace: a model may write 10,000.
        """
        chat = self.chat
        made = calls[: 0 if self.over else chat.calls_left]
        share = chat.budget.share(max(1, len(made)), chat.limits.call)
        chat.round += 1
        self.waiting = {}
        chat.private_before = sorted(chat.private)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._result(one, share, at)) for at, one in enumerate(made)]
        texts = [task.result() for task in running]
        self.waiting = dict(sorted(self.waiting.items()))
        if beyond := calls[len(made) :]:
            text = _LIMIT if len(beyond) == 1 else f"({len(beyond):,} calls) {_LIMIT}"
            refused = self._trace.begin_call(self._exchange.elapsed_ms())
            refused.outcome, refused.duration_ms, refused.result = "limit", 0.0, text
            texts += [_LIMIT] * len(beyond)
        for text in texts:
            chat.budget.spend(text)
        return texts

    async def _result(self, one: ToolCall, share: CallShare, at: int) -> str:
        given = _arguments(one.arguments)
        tool = self._toolbox.named(one.name)  # a waiting call may outlive the operation
        began = time.perf_counter()
        traced = self._trace.begin_call((began - self._exchange.started) * 1000)
        if tool is not None:
            traced.set, traced.operation = tool.origin[0], tool.label
        try:
            result = await self._called(one, given, tool, traced, share)
            text = result.text
            if isinstance(result, NeedsPerson):
                self.question = result.question
            elif isinstance(result, NeedsConfirmation):
                self.waiting[at] = result.proposed
            elif isinstance(result, Done) and not result.fits:
                text = share.fitted(text)
                self.chat.known += [without_marks(text)] if result.known else []
            traced.outcome = result.outcome
        except Exception:
            log.exception("%s: a call of %s failed", self._exchange.id, traced.operation or "an unknown tool")
            traced.outcome, text = "failed", _FAULT
        finally:
            traced.duration_ms = (time.perf_counter() - began) * 1000
        refused = traced.outcome in _REFUSALS and traced.operation not in self.chat.incomplete
        if traced.sent or refused or traced.outcome == "ok":
            self._done.add((one.name, _canonical(one.arguments, given)))
        traced.arguments, traced.result = self.kept(one.arguments, text)
        return text

    async def _called(
        self, one: ToolCall, arguments: Any, tool: Tool | None, traced: ActionCall, share: CallShare
    ) -> ToolResult:
        """The one place that decides whether a call is made. arguments: as `_arguments`."""
        if self.over:
            return Refused(_LIMIT, "limit")
        self.chat.calls_left -= 1
        if tool is not None:
            arguments = turned(tool.schema, arguments)
        if not isinstance(arguments, dict):
            return Refused("Nothing was sent: the arguments are not a JSON object.", "invalid_arguments")
        label = tool.label if tool is not None else self._writing_operation(one.name)
        if label and (tool is None or (tool.effect == "changes" and not tool.confirms)):
            (traced.set, _, name), traced.operation = label.rpartition("/"), label
            return Refused(f"Nothing was sent: {name} could change something. This gateway only reads.", "could_change")
        if tool is None:
            names = ", ".join([*self._toolbox.tools, *sorted(self._toolbox.taken)][:_MOST_NAMES])
            text = f"Nothing was sent: no tool has the name {one.name[:_MOST_NAME_CHARS]!r}. The tools are {names}."
            return Refused(f"{text}{self._did_you_mean(one.name, arguments)}", "unknown_tool")
        checked = tool.checked(arguments)
        if isinstance(checked, Refused):
            return checked
        if tool not in self.chat.limits.tools:
            return await tool.call(checked, Calling(self.chat, traced, share))
        return await self._small_tool(tool, checked, Calling(self.chat, traced, share))

    async def _small_tool(self, tool: Tool, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        """A call of a tool of the setting `tools`, within the time of a call."""
        limit_s, began = calling.share.call.seconds, time.perf_counter()
        try:
            async with asyncio.timeout(limit_s):
                result = await tool.call(arguments, calling)
        except TimeoutError:
            return Refused(f"{tool.name} did not answer within {limit_s:g} s. Go on without it.", "timeout")
        finally:
            self._exchange.ended_step("action", began, tool.label, calling.traced)
        if isinstance(result, Done):
            self._exchange.actions = (*self._exchange.actions, tool.label)
        return result

    def kept(self, *texts: str) -> list[str]:
        """The texts for a receipt: without the secrets of all offered tools, and cut."""
        secrets = {one for tool in self._toolbox.tools.values() for one in tool.secrets}
        return [masked_ends(text, secrets, _MOST_KEPT_CHARS) for text in texts]

    def _writing_operation(self, tool: str) -> str:
        """The operation that a model names, if a search has found that it could change something."""
        name = tool.removeprefix(PREFIX)
        found = (one for search in self._trace.searches for one in search.found if one.outcome == "could_change")
        return next((one.operation for one in found if one.operation.partition("/")[2] == name), "")

    def _did_you_mean(self, name: str, arguments: dict[str, Any]) -> str:
        """The call of the tool with the most similar name, for a model that is not asked by tools."""
        found = "" if self._toolbox.tool_protocol == "native" else self.similar(name)
        return f" If {found} is meant, answer with {example(found, arguments)}" if found else ""

    def similar(self, name: str) -> str:
        """The tool with the most similar name; "": none."""
        found = difflib.get_close_matches(name[:_MOST_NAME_CHARS], self._toolbox.tools, 1, _LEAST_SIMILAR)
        return found[0] if found else ""


def tools_for(limits: ActionLimits, *questions: str) -> list[Tool]:
    """The tools of the setting `tools` that suit one of the questions."""
    return [tool for tool in limits.tools if tool.name in limits.always or any(_suits(tool, one) for one in questions)]


def _suits(tool: Tool, question: str) -> bool:
    """Whether a tool suits a question; a fault of the tool's rule costs the tool, and not the chat."""
    try:
        return tool.suits(question)
    except Exception:
        log.exception("the tool %s is not offered: its rule failed", tool.name)
        return False


def traced_call(
    api: Api,
    operation: Operation,
    arguments: Mapping[str, Any],
    limits: CallLimits,
    exchange: Exchange,
    traced: ActionCall,
) -> Awaitable[CallResult]:
    """`call`, noted in the exchange and in the trace. Only cancellation raises: a fault is in the log."""
    work = call(api, operation, arguments, limits, owner=exchange.key, granted=exchange.rights)
    return traced_work(work, f"{api.name}/{operation.name}", exchange, traced)


async def traced_work(
    work: Awaitable[CallResult], label: str, exchange: Exchange, traced: ActionCall, *, changes: bool = False
) -> CallResult:
    """The outcome of a call, noted in the exchange and in the trace. Only cancellation raises.

    changes: the call changes something, so after a fault it is not known whether it took effect.
    """
    began = time.perf_counter()
    traced.changes = changes
    traced.sent = True  # a call that is ended may be sent
    try:
        outcome = await work
        traced.sent = outcome.sent
    except Exception:  # of what an API sends, too
        log.exception("%s: a call of %s failed", exchange.id, label)
        outcome = CallResult(_FAULT, sent=True, word="unknown" if changes else "failed")
    finally:
        exchange.ended_step("action", began, label, traced)
        if traced.sent:
            exchange.actions = (*exchange.actions, label)
    traced.outcome, traced.status = outcome.word, outcome.status
    traced.size_bytes, traced.tries = outcome.size, outcome.tries
    return outcome


def _arguments(text: str) -> Any:
    """The arguments as a model wrote them; None: not JSON. orjson rounds whole numbers beyond 64 bits."""
    value = json_of(text.encode("utf-8", "replace")) if text.strip() not in ("", "null") else {}
    if value is not None and _LONG_NUMBER.search(text):
        with contextlib.suppress(ValueError, RecursionError):  # a number of 4,300 digits; many levels
            return json.loads(text)
    return value


def _canonical(text: str, arguments: Any) -> str:
    """A call's arguments in one form, however they are written. arguments: as `_arguments`."""
    try:
        return json.dumps(arguments, sort_keys=True) if arguments is not None else text
    except RecursionError:
        return text
