"""The rounds of a chat that was offered operations: ask the model, make its calls, ask again, until it answers.

The loop is an ASGI app in front of the upstream, and stands only in chats with an offer. The client gets one reply; the
rounds with gateway calls alone stay hidden. A client that leaves ends the call under way.
"""

import logging

from proxy.agent.actions import Actions
from proxy.agent.ask.model import ChatModel, ModelApi, ModelTurn
from proxy.agent.ask.transcript import Transcript
from proxy.agent.events import ClientReply
from proxy.agent.execution import Execution
from proxy.agent.toolbox import Toolbox
from proxy.agent.writes.confirming import Asker, CodeAnswer
from proxy.agent.writes.sending import confirmed, ended
from proxy.agent.writes.sentences import language_of
from proxy.agent.writes.shown import CannotShow
from proxy.asgi import Receive, Scope, Send
from proxy.dialects.base import INSTRUCTIONS, ModelRequest
from proxy.exchange import ActionCall, ActionTrace, Exchange
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_NOT_STORED = "Calls that change something cannot be made at present."
_NO_ANSWER = "The limit of calls for one answer is reached, and the model gave no answer."
_IN_VAIN = "The model called tools that do not exist, and gave no answer."
_LEAKED = "Nothing was sent: a call in the text of an answer is not made. Call the tool, or answer without a call."


class ActionLoop:
    """The upstream of one chat."""

    def __init__(
        self,
        api: ModelApi,
        request: ModelRequest,
        toolbox: Toolbox,
        exchange: Exchange,
        actions: Actions,
    ) -> None:
        self._request = request
        self._toolbox = toolbox
        self._exchange = exchange
        self._trace = trace = exchange.action_trace or ActionTrace()
        self._limits = limits = actions.limits
        assert exchange.target is not None, "the route sets the target"
        messages = request.messages()
        toolbox.instructions = [message.text for message in messages if message.role in INSTRUCTIONS]
        replies = [message.text for message in messages[:-1] if message.role == "assistant"]
        accepts_fields = actions.tool_protocols.accepts_provider_fields(exchange.target)
        self._transcript = transcript = Transcript(
            request, toolbox, actions.hidden_rounds, exchange.key, api.sendable, accepts_fields=accepts_fields
        )
        private = transcript.private_sets(limits.private, trace.sets, messages, forgotten=trace.forgotten)
        results = transcript.results()
        self._execution = execution = Execution(
            toolbox,
            limits,
            exchange,
            [*toolbox.passages, *transcript.known_texts(messages)],
            [one.text for one in messages if one.role == "user"] if toolbox.said is None else toolbox.said,
            results,
            private,
        )
        toolbox.go_on = execution.after_question(replies[-1]) if replies and toolbox.tool_protocol != "native" else ""
        self._model = ChatModel(api, toolbox, transcript, exchange, actions.tool_protocols, execution.has_read)
        self._in_vain = False  # the model has called only tools that do not exist, in one round
        self._must_answer = False  # the next round has no calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the chat. Raises ApiError if the model's first request fails."""
        shown = _wants_progress(scope) and not self._toolbox.structured_output
        plain = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]}
        client = ClientReply(send, self._request, self._exchange.id, self._limits.settings.keepalive_s)
        if self._transcript.waiting and await self._resume(client):
            return
        if self._toolbox.answer is not None and await self._answer(client, self._toolbox.answer):
            return
        if self._toolbox.ended:
            self._transcript.add_calls(*ended(self._toolbox.ended, self._toolbox))
        for number in range(self._limits.settings.rounds + 2):
            last = number >= self._limits.settings.rounds or self._execution.over or self._must_answer
            turn = await self._model.ask(plain, receive, client, last=last)
            if turn.takes_no_tools:
                await self._model.ask_without_tools(scope, receive, send)
                return
            if not turn.goes_on:
                self._trace.answered_by = "model" if turn.complete else "error"
                return
            ignores = last and not turn.cut and not self._in_vain  # Ollama ignores `tool_choice`
            if ignores and self._toolbox.tool_protocol == "native":
                self._toolbox.tool_protocol = "text"
                continue
            if turn.cut or last:
                await self._stop(turn, client)
                return
            self._model.learn(turn)
            by_text = self._toolbox.tool_protocol != "native"
            self._must_answer = by_text and all(map(self._execution.repeats, turn.calls))
            if not self._must_answer and await self._calls(turn, client, shown=shown):
                return

    async def _calls(self, turn: ModelTurn, client: ClientReply, *, shown: bool) -> bool:
        """Make the calls of a turn; returns whether the chat is answered. shown: the client gets a line for each."""
        before = len(self._trace.calls)
        results = [_LEAKED] * len(turn.calls)
        if not turn.leaked:
            written = turn.written or self._toolbox.tool_protocol != "native"
            calls = [self._toolbox.typed(one) for one in turn.calls] if written else turn.calls
            results = await client.kept_alive(self._execution.results(calls))
        if self._execution.question:
            await self._say(client, self._execution.question)
            return True
        if self._execution.waiting and (text := await self._confirmation(results, client)):
            self._transcript.add(turn, results)
            await self._say(client, text)
            return True
        made = self._trace.calls[before:]
        if turn.leaked or all(call.outcome == "unknown_tool" for call in made):
            has_results = any(map(self._ran, self._trace.calls))  # from which the model may answer
            if self._in_vain and not has_results:
                await self._stop(turn, client)
                return True
            mends = has_results or self._toolbox.tool_protocol != "native" or turn.leaked
            similar = any(self._execution.similar(call.name) for call in turn.calls)
            self._must_answer = self._in_vain or not (mends or similar)
            self._in_vain = True
        if shown and client.streams and (lines := [call.line for call in made if self._ran(call)]):
            await client.note("\n".join([*lines, "", ""]))
        self._transcript.add(turn, results)
        return False

    def _ran(self, call: ActionCall) -> bool:
        """Whether a call was sent to an API, or is one of a tool that has answered."""
        return call.sent or (call.outcome == "ok" and call.operation in self._exchange.actions)

    async def _resume(self, client: ClientReply) -> bool:
        """Make the calls that waited for the client's results; returns whether the gateway answers the chat."""
        results = await client.kept_alive(self._execution.results(self._transcript.waiting))
        text = self._execution.question
        if not text and self._execution.waiting:
            text = await self._confirmation(results, client)
        self._transcript.resume(results)
        if text:
            await self._say(client, text)
        return bool(text)

    async def _say(self, client: ClientReply, text: str) -> None:
        """End the reply with a text of the gateway."""
        self._trace.answered_by = "gateway"
        self._transcript.remember(client.text + text)
        await client.say(text)

    @property
    def _asker(self) -> Asker:
        return Asker(self._exchange, self._toolbox.person, language_of(self._execution.chat.said))

    async def _confirmation(self, results: list[str], client: ClientReply) -> str:
        """Seal the calls of a round that wait for a person; returns the reply that shows them.

        "" if the calls cannot be shown or stored: `results` say so to the model.
        """
        waiting, writes = self._execution.waiting, self._toolbox.writes
        assert writes is not None, "no call waits otherwise"
        try:
            asked = writes.ask([*waiting.values()], self._asker, self._request.fields["messages"], client.text)
            return await client.kept_alive(asked)
        except (CannotShow, RetrievalError) as error:
            log.info("%s no call is shown: %s", self._exchange.id, error)
            why = str(error) if isinstance(error, CannotShow) else _NOT_STORED
            for at in waiting:
                results[at] = f"Nothing was sent. {why}"
            return ""

    async def _answer(self, client: ClientReply, answer: CodeAnswer) -> bool:
        """Send what the person has confirmed; returns whether the gateway has answered by itself: nothing was sent."""
        writes = self._toolbox.writes
        assert writes is not None, "there is no answer otherwise"
        sent = await client.kept_alive(writes.kept(confirmed(self._execution, writes, answer, self._asker)))
        if isinstance(sent, str):
            await self._say(client, sent)
            return True
        self._transcript.add_calls([one.call for one in sent], [one.text for one in sent])
        self._model.instead = "\n\n".join(one.report for one in sent)
        if not self._toolbox.structured_output:  # the model might say otherwise
            client.keep("\n\n".join(one.report for one in sent if one.unsure))
        return False

    async def _stop(self, turn: ModelTurn, client: ClientReply) -> None:
        """End the reply without an answer: at the client's limit, or at the last round.

        The client's limit would cut the next call, too.
        """
        self._trace.answered_by = "model" if turn.cut else "gateway"
        text, finish = _IN_VAIN if self._in_vain else _NO_ANSWER, "stop"
        if turn.cut:
            # The client has other texts.
            text, finish = (turn.text or "") if self._toolbox.structured_output else "", "length"
        self._transcript.remember(client.text + text)
        await client.say(text, finish)


def _wants_progress(scope: Scope) -> bool:
    """Whether the client asks for a line of text for each call: `x-rag-progress: on`, in any letter case."""
    return any(name == b"x-rag-progress" and value.strip().lower() == b"on" for name, value in scope["headers"])
