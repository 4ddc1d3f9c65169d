"""The form in which a model takes the requests of a chat: found by asking again, and learned by the process.

An error may refuse the tools, a single function, messages of another model, or provider fields such as thoughts.
"""

from collections.abc import Awaitable, Callable, Sequence

from proxy.agent.action_trace import ActionTrace
from proxy.agent.ask.protocols import request_parts, spoken
from proxy.agent.ask.ways import FORM_REFUSED, REFUSED, Ways, refused_function
from proxy.agent.memory import HiddenMessages
from proxy.agent.model_reply import ModelReply, is_own_id
from proxy.agent.toolbox import Toolbox
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit
from proxy.dialects.provider_fields import further_names, without_further
from proxy.dialects.replies import json_bytes, json_of
from proxy.dialects.target import Target, ToolsWay
from proxy.upstream.translated.request import sendable


class Negotiation:
    """The form of one chat's requests, and the hidden messages in this form."""

    def __init__(self, ways: Ways, target: Target, offer: Toolbox, request: ModelRequest, trace: ActionTrace) -> None:
        self._ways = ways
        self._target = target
        self._offer = offer
        self._request = request
        self._trace = trace
        self.hidden: list[bytes] = []  # messages of this question
        self._further: set[str] = set()  # names of the provider fields that an error may refuse
        self._takes_further = ways.takes_further(target)
        self._dropped = False  # the newest error named provider fields; not known yet whether the model goes on without
        self._refused: list[ToolsWay] = []  # ways that errors name; not known yet whether the model goes on otherwise
        self._beside = bool(request.fields.get("tools"))  # the client has tools
        self.earlier = self._taken(offer.conversation.hidden)  # messages of earlier questions
        # An error may refuse calls or thoughts of another model, which the client asked before.
        self._may_flatten = (
            offer.way == "native"
            and any('"role":"tool"' in one.messages for one in self.earlier)
            and not any(one.get("tool_calls") or one.get("role") == "tool" for one in request.fields["messages"])
        )
        self._flattened = False  # the messages of earlier questions are texts
        self._note_further()

    def _note_further(self) -> None:
        if self._takes_further and not self._may_flatten:
            self._further.update(*(further_names(row) for one in self.earlier for row in one.rows()))

    def resume(self, earlier: Sequence[HiddenMessages]) -> None:
        """Go on with other messages of earlier questions."""
        self.earlier = self._taken(tuple(earlier))
        self._note_further()

    def add(self, *messages: bytes) -> None:
        """Add messages of this question."""
        self.hidden += messages
        self._may_flatten = False

    def parts(self, *, last: bool) -> tuple[Sequence[Edit], str]:
        """As `request_parts`."""
        return request_parts(self._offer, self._request, self.earlier, self.hidden, last=last)

    async def until_taken(self, ask: Callable[[], Awaitable[tuple[ModelReply, bool]]]) -> tuple[ModelReply, bool]:
        """Ask, and ask again in other forms while the model refuses the form of the request."""
        reply, going_on = await ask()
        while reply.refuses_way and self._asks_again(reply):
            reply, going_on = await ask()
        if reply.complete:
            for operation in self._offer.left_out:
                self._ways.refuse(self._target, operation)
            for way in self._refused:
                self._ways.learn(self._target, way, refused=True)
            if self._dropped:
                self._ways.refuse_further(self._target)
            self._refused, self._dropped = [], False
        return reply, going_on

    def refused_beside_form(self) -> None:
        """Learn that the model refuses tools beside structured output, once it answers without tools.

        Without an answer, the refusal may be about the client's schema.
        """
        if self._offer.form and not self._beside:
            self._ways.learn(self._target, self._offer.way, refused=True, form=True)

    def _asks_again(self, reply: ModelReply) -> bool:
        """Change the request after an error that refuses it; returns whether the model is asked again.

        An error about one function teaches nothing about the model: the operation is left out.
        """
        if self._offer.way == "native":
            name = refused_function(reply.error, list(self._offer.tools), len(self._request.fields.get("tools") or ()))
            if operation := self._offer.leave_out(name):
                self._trace.left_out.append(operation)
                return True
        return self._flatten() or self._drop_further(reply) or self.lower(refused=True) != "none"

    def _flatten(self) -> bool:
        """Write the messages of earlier questions as texts, from now on; returns whether the model is asked again."""
        if not self._may_flatten:
            return False
        self.earlier = tuple(spoken(one) for one in self.earlier)
        self._may_flatten, self._flattened = False, True
        return True

    def _drop_further(self, reply: ModelReply) -> bool:
        """Write the hidden messages without the provider fields that an error names, from now on.

        Returns whether the model is asked again.
        """
        self._dropped = reply.names(self._further_words())
        if not self._dropped:
            return False
        self._further, self._takes_further = set(), False
        self.earlier = self._taken(self.earlier)
        self.hidden = [json_bytes(without_further(json_of(one))) for one in self.hidden]
        return True

    def _taken(self, hidden: tuple[HiddenMessages, ...]) -> tuple[HiddenMessages, ...]:
        """The messages without provider fields, if the model refuses them."""
        if self._takes_further:
            return hidden
        return tuple(one.with_rows(map(without_further, one.rows())) for one in hidden)

    def refusals(self) -> Sequence[bytes]:
        """The words of an error that refuses the way in which the model is asked."""
        way = self._offer.way
        any_error = [b""] if self._may_flatten else []
        functions = [name.lower().encode() for name in self._offer.tools] if way == "native" else []
        ways = FORM_REFUSED if self._offer.form else REFUSED[way]
        return [*any_error, *self._further_words(), *functions, *ways]

    def _further_words(self) -> Sequence[bytes]:
        return [name.lower().encode() for name in self._further]

    def lower(self, *, refused: bool) -> ToolsWay:
        """Ask the model in the next way; beside tools of the client or a form, in no other way.

        Beside tools of the client, an error teaches nothing about the model: the tools may be too many. Another error
        teaches something only once the model goes on: the client's messages may be wrong, or too long.
        """
        if self._offer.form or self._beside:
            return "none" if refused else self._offer.way
        if refused:
            self._refused.append(self._offer.way)
        else:
            self._ways.learn(self._target, self._offer.way, refused=False)
        self._offer.way = self._ways.after(self._target, self._offer.way, refused=refused)
        return self._offer.way

    def learn(self, reply: ModelReply) -> None:
        """Learn from a reply with calls whether the model makes calls by tools."""
        if self._offer.way != "native":
            return
        if not reply.written:
            self._ways.note_call_by_tools(self._target)
        elif not reply.leaked and not self.hidden and not self._flattened:
            self.lower(refused=False)

    @property
    def by_tools(self) -> bool:
        """Whether the model has made a call by tools, in this chat or in another."""
        rows = [*self._request.fields["messages"], *(row for one in self.earlier for row in one.rows())]
        ids = (str(call.get("id")) for row in rows for call in row.get("tool_calls") or () if isinstance(call, dict))
        return self._ways.calls_by_tools(self._target) or any(not is_own_id(id) for id in ids)

    def message(self, reply: ModelReply) -> bytes:
        """The model's message with all calls, as the model sent the message."""
        calls = []
        for number, call in enumerate(reply.all_calls):
            further = reply.further.call(number)
            kind = "custom" if call.custom else "function"
            given = {"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"}
            called = {"name": call.name, **given, **further.pop("function", {})}
            calls.append({"id": call.id, "type": kind, kind: called, **further})
        message = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
        message |= reply.further.message
        if not self._takes_further:
            return json_bytes(without_further(message))
        self._further |= further_names(message)
        return json_bytes(sendable(message) if self._target.lane == "translated" else message)
