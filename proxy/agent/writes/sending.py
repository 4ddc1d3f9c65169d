"""The calls that a person has confirmed: sent one after the other, each with a result for the model."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from proxy.agent.execution import Execution, traced_work
from proxy.agent.toolbox import PREFIX, Calling, CallShare, Toolbox
from proxy.agent.tools.operation_tool import OperationTool
from proxy.agent.writes.confirming import Asker, CodeAnswer, Writes
from proxy.agent.writes.pending import Denied, PendingWrite, State
from proxy.agent.writes.sentences import sentences
from proxy.apis.call import Api, CallResult
from proxy.apis.openapi.operation import Operation
from proxy.apis.request import ApiRequest
from proxy.dialects.replies import ToolCall
from proxy.exchange import ActionCall
from retrieval.errors import RetrievalError

# What the model reads of calls that an application with a button, or another key, has answered.
_ENDED: Mapping[State, str] = {
    "done": "Done (status {}): a person has approved this call outside of the chat.",
    "failed": "Failed (status {}): a person has approved this call outside of the chat.",
    "unknown": "A person has approved this call outside of the chat. Whether it took effect is not known.",
    "claimed": "A person has approved this call outside of the chat. It is being sent, and has no result yet.",
    "void": "Given up: nothing was sent.",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A call that was confirmed."""

    call: ToolCall  # as if the model had made it
    text: str  # the result, for the model
    report: str  # what became of it, in the gateway's words
    unsure: bool  # whether it took effect is not known


async def sent(
    writes: Writes,
    write: PendingWrite,
    request: ApiRequest,
    called: tuple[Api, Operation],
    asker: Asker,
    traced: ActionCall,
) -> tuple[CallResult, str]:
    """Send a claimed call, noted in the exchange and in the trace; its result, and the gateway's report."""
    api, operation = called
    traced.set, traced.operation = api.name, f"{api.name}/{operation.name}"
    work = writes.sent(write, request, api, operation, write.key)
    result = await traced_work(work, traced.operation, asker.exchange, traced, changes=True)
    report = await writes.reported(write, request, called, result, asker)
    traced.duration_ms = asker.exchange.elapsed_ms() - traced.started_ms
    return result, report


def ended(writes: Sequence[PendingWrite], toolbox: Toolbox) -> tuple[list[ToolCall], list[str]]:
    """Calls that were answered outside of the chat, as if the model had made them, and their results for the model."""
    texts = [_ENDED[one.state].format(one.status or "none") for one in writes]
    return [_call_of(one, toolbox) for one in writes], texts


async def confirmed(execution: Execution, writes: Writes, answer: CodeAnswer, asker: Asker) -> list[Sent] | str:
    """Send what a code line confirms; a text for the person, if nothing is sent."""
    toolbox = execution.chat.toolbox
    tools = {origin: one for origin, one in toolbox.answered.items() if isinstance(one, OperationTool)}
    try:
        called = {origin: (one.api, one.operation) for origin, one in tools.items()}
        claimed = await writes.claim(answer, asker, called)
        if isinstance(claimed, Denied):
            return await writes.refusal(claimed, answer, asker)
    except RetrievalError:
        return sentences(asker.language).not_read
    share = execution.chat.budget.share(len(claimed.writes), execution.chat.limits.call)
    made = []
    for write, request in zip(claimed.writes, claimed.requests, strict=True):
        tool = tools[write.set, write.operation]
        made.append(await _sent(execution, writes, write, request, tool, asker, share))
    return made


async def _sent(
    execution: Execution,
    writes: Writes,
    write: PendingWrite,
    request: ApiRequest,
    tool: OperationTool,
    asker: Asker,
    share: CallShare,
) -> Sent:
    chat = execution.chat
    traced = chat.trace.begin_call(asker.exchange.elapsed_ms())
    result, report = await sent(writes, write, request, (tool.api, tool.operation), asker, traced)
    read = tool.read(msgspec.json.decode(write.arguments), result, Calling(chat, traced, share))
    text = f"{report}\n\n{read.text}"
    chat.budget.spend(text)
    traced.arguments, traced.result = execution.kept(write.arguments, text)
    return Sent(_call_of(write, chat.toolbox), text, report, result.unsure)


def _call_of(write: PendingWrite, toolbox: Toolbox) -> ToolCall:
    """A write as a call of the model."""
    names = {one.origin: name for name, one in toolbox.tools.items()}
    name = names.get((write.set, write.operation), PREFIX + write.operation)
    return ToolCall(f"call_{secrets.token_hex(8)}", name, write.arguments)
