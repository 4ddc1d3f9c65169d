"""The form in which a model takes the requests of a chat: found by asking again, and learned by the process.

An error may refuse the tools, a single function, messages of another model, or provider fields such as thoughts.
"""

from collections.abc import Awaitable, Callable, Sequence

from proxy.agent.action_trace import ActionTrace
from proxy.agent.ask.request_forms import as_plain_text, request_parts
from proxy.agent.ask.tool_protocols import FORM_REFUSED, REFUSED, ToolProtocols, refused_function
from proxy.agent.conversation import HiddenMessages
from proxy.agent.model_reply import ModelReply, is_own_id
from proxy.agent.toolbox import Toolbox
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit
from proxy.dialects.provider_fields import provider_field_names, strip_provider_fields
from proxy.dialects.replies import json_bytes, json_of
from proxy.dialects.target import Target, ToolProtocol
from proxy.upstream.translated.request import sendable


class Negotiation:
    """The form of one chat's requests, and the hidden messages in this form."""

    def __init__(
        self, protocols: ToolProtocols, target: Target, toolbox: Toolbox, request: ModelRequest, trace: ActionTrace
    ) -> None:
        self._protocols = protocols
        self._target = target
        self._toolbox = toolbox
        self._request = request
        self._trace = trace
        self.hidden: list[bytes] = []  # messages of this question
        self._provider_fields: set[str] = set()  # names of the provider fields that an error may refuse
        self._accepts_provider_fields = protocols.accepts_provider_fields(target)
        self._dropped = False  # the newest error named provider fields; not known yet whether the model goes on without
        self._refused: list[ToolProtocol] = []  # that errors name; not known yet whether the model goes on otherwise
        self._beside = bool(request.fields.get("tools"))  # the client has tools
        self.earlier = self._taken(toolbox.conversation.hidden)  # messages of earlier questions
        # An error may refuse calls or thoughts of another model, which the client asked before.
        self._may_flatten = (
            toolbox.tool_protocol == "native"
            and any('"role":"tool"' in one.messages for one in self.earlier)
            and not any(one.get("tool_calls") or one.get("role") == "tool" for one in request.fields["messages"])
        )
        self._flattened = False  # the messages of earlier questions are texts
        self._note_provider_fields()

    def _note_provider_fields(self) -> None:
        if self._accepts_provider_fields and not self._may_flatten:
            self._provider_fields.update(*(provider_field_names(row) for one in self.earlier for row in one.rows()))

    def resume(self, earlier: Sequence[HiddenMessages]) -> None:
        """Go on with other messages of earlier questions."""
        self.earlier = self._taken(tuple(earlier))
        self._note_provider_fields()

    def add(self, *messages: bytes) -> None:
        """Add messages of this question."""
        self.hidden += messages
        self._may_flatten = False

    def parts(self, *, last: bool) -> tuple[Sequence[Edit], str]:
        """As `request_parts`."""
        return request_parts(self._toolbox, self._request, self.earlier, self.hidden, last=last)

    async def until_taken(self, ask: Callable[[], Awaitable[tuple[ModelReply, bool]]]) -> tuple[ModelReply, bool]:
        """Ask, and ask again in other forms while the model refuses the form of the request."""
        reply, going_on = await ask()
        while reply.refuses_protocol and self._asks_again(reply):
            reply, going_on = await ask()
        if reply.complete:
            for operation in self._toolbox.left_out:
                self._protocols.refuse(self._target, operation)
            for protocol in self._refused:
                self._protocols.learn(self._target, protocol, refused=True)
            if self._dropped:
                self._protocols.refuse_provider_fields(self._target)
            self._refused, self._dropped = [], False
        return reply, going_on

    def refused_beside_form(self) -> None:
        """Learn that the model refuses tools beside structured output, once it answers without tools.

        Without an answer, the refusal may be about the client's schema.
        """
        if self._toolbox.structured_output and not self._beside:
            self._protocols.learn(self._target, self._toolbox.tool_protocol, refused=True, structured_output=True)

    def _asks_again(self, reply: ModelReply) -> bool:
        """Change the request after an error that refuses it; returns whether the model is asked again.

        An error about one function teaches nothing about the model: the operation is left out.
        """
        if self._toolbox.tool_protocol == "native":
            before = len(self._request.fields.get("tools") or ())
            name = refused_function(reply.error, list(self._toolbox.tools), before)
            if operation := self._toolbox.leave_out(name):
                self._trace.left_out.append(operation)
                return True
        return self._flatten() or self._drop_provider_fields(reply) or self.lower(refused=True) != "none"

    def _flatten(self) -> bool:
        """Write the messages of earlier questions as texts, from now on; returns whether the model is asked again."""
        if not self._may_flatten:
            return False
        self.earlier = tuple(as_plain_text(one) for one in self.earlier)
        self._may_flatten, self._flattened = False, True
        return True

    def _drop_provider_fields(self, reply: ModelReply) -> bool:
        """Write the hidden messages without the provider fields that an error names, from now on.

        Returns whether the model is asked again.
        """
        self._dropped = reply.names(self._provider_field_words())
        if not self._dropped:
            return False
        self._provider_fields, self._accepts_provider_fields = set(), False
        self.earlier = self._taken(self.earlier)
        self.hidden = [json_bytes(strip_provider_fields(json_of(one))) for one in self.hidden]
        return True

    def _taken(self, hidden: tuple[HiddenMessages, ...]) -> tuple[HiddenMessages, ...]:
        """The messages without provider fields, if the model refuses them."""
        if self._accepts_provider_fields:
            return hidden
        return tuple(one.with_rows(map(strip_provider_fields, one.rows())) for one in hidden)

    def refusals(self) -> Sequence[bytes]:
        """The words of an error that refuses the protocol by which the model is asked."""
        protocol = self._toolbox.tool_protocol
        any_error = [b""] if self._may_flatten else []
        functions = [name.lower().encode() for name in self._toolbox.tools] if protocol == "native" else []
        words = FORM_REFUSED if self._toolbox.structured_output else REFUSED[protocol]
        return [*any_error, *self._provider_field_words(), *functions, *words]

    def _provider_field_words(self) -> Sequence[bytes]:
        return [name.lower().encode() for name in self._provider_fields]

    def lower(self, *, refused: bool) -> ToolProtocol:
        """Ask the model by the next protocol; beside client tools or structured output, by no other.

        Beside tools of the client, an error teaches nothing about the model: the tools may be too many. Another error
        teaches something only once the model goes on: the client's messages may be wrong, or too long.
        """
        if self._toolbox.structured_output or self._beside:
            return "none" if refused else self._toolbox.tool_protocol
        if refused:
            self._refused.append(self._toolbox.tool_protocol)
        else:
            self._protocols.learn(self._target, self._toolbox.tool_protocol, refused=False)
        self._toolbox.tool_protocol = self._protocols.after(self._target, self._toolbox.tool_protocol, refused=refused)
        return self._toolbox.tool_protocol

    def learn(self, reply: ModelReply) -> None:
        """Learn from a reply with calls whether the model makes calls by tools."""
        if self._toolbox.tool_protocol != "native":
            return
        if not reply.written:
            self._protocols.note_call_by_tools(self._target)
        elif not reply.leaked and not self.hidden and not self._flattened:
            self.lower(refused=False)

    @property
    def by_tools(self) -> bool:
        """Whether the model has made a call by tools, in this chat or in another."""
        rows = [*self._request.fields["messages"], *(row for one in self.earlier for row in one.rows())]
        ids = (str(call.get("id")) for row in rows for call in row.get("tool_calls") or () if isinstance(call, dict))
        return self._protocols.calls_by_tools(self._target) or any(not is_own_id(id) for id in ids)

    def message(self, reply: ModelReply) -> bytes:
        """The model's message with all calls, as the model sent the message."""
        calls = []
        for number, call in enumerate(reply.all_calls):
            fields = reply.provider_fields.call(number)
            kind = "custom" if call.custom else "function"
            given = {"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"}
            called = {"name": call.name, **given, **fields.pop("function", {})}
            calls.append({"id": call.id, "type": kind, kind: called, **fields})
        message = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
        message |= reply.provider_fields.message
        if not self._accepts_provider_fields:
            return json_bytes(strip_provider_fields(message))
        self._provider_fields |= provider_field_names(message)
        return json_bytes(sendable(message) if self._target.lane == "translated" else message)
