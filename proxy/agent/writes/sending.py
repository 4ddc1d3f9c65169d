"""The calls that a person has confirmed: sent one after the other, each with a result for the model."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from proxy.agent.execution import Execution, traced_work
from proxy.agent.toolbox import Calling, CallShare
from proxy.agent.tools.operation_tool import OperationTool
from proxy.agent.writes.confirming import Asker, CodeAnswer, Writes
from proxy.agent.writes.pending import Denied, PendingWrite
from proxy.apis.request import ApiRequest
from proxy.dialects.replies import ToolCall
from retrieval.errors import RetrievalError

_NOT_READ = "What waits for this code cannot be read at present. Nothing was sent: answer with the code again later."


@dataclass(frozen=True, slots=True)
class Sent:
    """A call that was confirmed."""

    call: ToolCall  # as if the model had made it
    text: str  # the result, for the model
    report: str  # what became of it, in the gateway's words
    unsure: bool  # whether it took effect is not known


async def confirmed(execution: Execution, writes: Writes, answer: CodeAnswer, asker: Asker) -> list[Sent] | str:
    """Send what a code line confirms; a text for the person, if nothing is sent."""
    toolbox = execution.chat.toolbox
    tools = {origin: one for origin, one in toolbox.answered.items() if isinstance(one, OperationTool)}
    try:
        called = {origin: (one.api, one.operation) for origin, one in tools.items()}
        claimed = await writes.claim(answer, asker, called)
    except RetrievalError:
        return _NOT_READ
    if isinstance(claimed, Denied):
        return writes.refusal(claimed, answer, asker)
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
    chat, exchange = execution.chat, asker.exchange
    traced = chat.trace.begin_call(exchange.elapsed_ms())
    traced.set, traced.operation = tool.origin[0], tool.label
    arguments: Mapping[str, Any] = msgspec.json.decode(write.arguments)
    result = await traced_work(
        writes.sent(write, request, tool.api, tool.operation, exchange.key), tool.label, exchange, traced, changes=True
    )
    report = await writes.reported(write, request, (tool.api, tool.operation), result, asker)
    text = f"{report}\n\n{tool.read(dict(arguments), result, Calling(chat, traced, share)).text}"
    chat.budget.spend(text)
    traced.duration_ms = exchange.elapsed_ms() - traced.started_ms
    traced.arguments, traced.result = execution.kept(write.arguments), execution.kept(text)
    names = {one.origin: name for name, one in chat.toolbox.tools.items()}
    call = ToolCall(f"call_{secrets.token_hex(8)}", names.get(tool.origin, tool.name), write.arguments)
    return Sent(call, text, report, result.unsure)
