"""Actions for clients of `/v1/responses` and `/v1/messages`: every round is a chat completion.

A bridge writes the client's request as a chat completion, and all rounds' reply as one reply in the client's dialect. A
request that it cannot write, or whose upstream has no chat completions, gets no offer and passes on unchanged.

The upstream does not store such a response. Unless the client sends `"store": false`, the gateway keeps the
conversation's items, and a later request may continue the response by `previous_response_id`, or name an item instead
of repeating it (`item_reference`).
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proxy.agent.actions import Actions
from proxy.agent.conversation import HiddenRounds
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.dialects.base import INSTRUCTIONS, ModelRequest, text_of
from proxy.dialects.chat import CHAT, ChatRequest
from proxy.dialects.codes import holds_code
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from proxy.dialects.paths import DIALECT_NAMES
from proxy.dialects.replies import json_bytes
from proxy.dialects.responses import OWN_ID, RESPONSES, ResponsesRequest, response_of_item
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.bridges.bridge import TranslatedRequest, bridged
from proxy.upstream.bridges.responses_request import has_custom_tools, with_code_lines
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_NO_CHAT = (404, 405, 501)  # upstream has no chat completions, or none for this model
_NO_CUSTOM = (400, 422)  # upstream's chat completions know no custom tools
_CUSTOM = "custom tools in chat completions"
_MOST_ITEMS_BYTES = 1 << 20  # of a conversation that a stored response continues
_RETRY_AFTER_S = 5
_NEWEST = 6  # messages


@dataclass(frozen=True, slots=True)
class ClientChat:
    """A chat as a chat completion, without passages."""

    request: ChatRequest
    target: Target  # with the place for passages in the chat completion
    body: bytes | None = None  # another dialect's, for the bridge; None: the client's own request
    items: Sequence[Any] | None = None  # if the response is stored: the whole conversation
    continues: bool = False  # continues a response that only the gateway has stored
    narrowed: bool = False  # the client limits which tools may or must be called
    custom: bool = False  # the client has custom tools, such as Codex's `apply_patch`
    own: Sequence[Any] = ()  # the messages in the client's dialect, without which a document may pass for the person


async def client_chat(
    request: ModelRequest, model: str, target: Target, exchange: Exchange, actions: Actions
) -> ClientChat | None:
    """The client's request as a chat completion; None: it passes on unchanged.

    model: as the client named the model. Raises ApiError where the request continues a
    response that only the gateway knows: 400 where the bridge refuses a member, 503 where the response is not read.
    """
    earlier = await _earlier_items(request, exchange, actions)
    suited = exchange.action_trace is not None and _knows_chat(request, target, actions)
    if earlier is None and not suited and (actions.writes is None or not _shows_code(request.fields)):
        return None
    try:
        return await by_size(request.raw, lambda: _translated(request, model, target, earlier, exchange, actions))
    except ApiError as error:
        if earlier is not None:
            raise
        log.info("%s no operation is offered: %s", exchange.id, error.message)
        return None


async def _earlier_items(request: ModelRequest, exchange: Exchange, actions: Actions) -> Sequence[Any] | None:
    """All items of a request that continues a gateway response, or names items of such responses.

    None: it does neither, or the gateway does not know the response or an item. Raises ApiError 503.
    """
    if actions.hidden_rounds is None or exchange.dialect is not RESPONSES:
        return None
    try:
        before: list[Any] | None = []
        if previous := request.previous_reply:
            before = await actions.hidden_rounds.items(exchange.key, previous) if previous.startswith(OWN_ID) else None
        given = None if before is None else await _resolved(request, exchange.key, actions.hidden_rounds)
    except RetrievalError as error:  # only the gateway has this conversation: an upstream would answer without it
        log.warning("%s the response before is not read: %s", exchange.id, error)
        message = "The conversation of the response cannot be read at present: try again later."
        again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
        raise ApiError(503, message, code="response_unavailable", type="server_error", headers=again) from error
    return None if before is None or given is None else [*before, *given]


async def _resolved(request: ModelRequest, key: str, hidden_rounds: HiddenRounds) -> Sequence[Any] | None:
    """The request's items, with gateway response items in place of references.

    None: it continues no gateway response, or an item is not known. Raises RetrievalError.
    """
    given = _items_of(request.fields.get("input"))
    named = {at: one["id"] for at, one in enumerate(given) if _names_own_item(one)}
    if not named and not request.previous_reply:
        return None
    known: dict[str, Any] = {}
    for id in reversed(named.values()):  # the newest response has earlier ones' items, too
        if id not in known:
            items = await hidden_rounds.items(key, response_of_item(id)) or []
            known |= {one["id"]: one for one in items if isinstance(one, dict) and isinstance(one.get("id"), str)}
        if id not in known:
            return None
    return [known[named[at]] if at in named else one for at, one in enumerate(given)]


def _names_own_item(item: Any) -> bool:
    """Whether a request item only names an item of a gateway response."""
    return isinstance(item, dict) and item.get("type") == "item_reference" and response_of_item(item.get("id")) != ""


def _knows_chat(request: ModelRequest, target: Target, actions: Actions) -> bool:
    """Whether the upstream may know chat completions with this request's tools."""
    stated = not target.dialects or DIALECT_NAMES[CHAT.path] in target.dialects
    needed = [CHAT.path, *([_CUSTOM] if _has_custom_tools(request) else [])]
    return stated and not any(actions.unsupported.knows(target, name, model=target.model) for name in needed)


def _has_custom_tools(request: ModelRequest) -> bool:
    with contextlib.suppress(ApiError):  # the bridge says what is wrong
        return isinstance(request, ResponsesRequest) and has_custom_tools(request.fields)
    return False


def _translated(
    request: ModelRequest,
    model: str,
    target: Target,
    earlier: Sequence[Any] | None,
    exchange: Exchange,
    actions: Actions,
) -> ClientChat:
    """earlier: all items of a request that continues a gateway response. Raises ApiError 400."""
    fields = {name: value for name, value in request.fields.items() if name != "rag"}
    fields["model"] = target.model or model
    items = None
    if exchange.dialect is RESPONSES:
        items = _items_of(fields.get("input")) if earlier is None else earlier
    if earlier is not None:
        fields.pop("previous_response_id", None)
        fields["input"] = items
    body = json_bytes(fields)
    chat = TranslatedRequest.of(exchange.dialect, body, target, actions.unsupported).chat
    choice = fields.get("tool_choice")
    choice = choice.get("type") if isinstance(choice, dict) else choice
    return ClientChat(
        ChatRequest.parse(chat),
        # As in the client's dialect, where passages never stand before the client's own instructions.
        replace(target, position="tail" if target.position == "tail" else "merge"),
        body,
        items if request.stored else None,
        continues=earlier is not None,
        narrowed=choice not in (None, "auto"),
        custom=_has_custom_tools(request),
        own=own_messages({**fields, "input": items} if items is not None else fields),
    )


def own_messages(fields: Mapping[str, Any]) -> Sequence[Any]:
    """The messages of a request in the client's dialect; a code line in place of approvals. fields: its members."""
    if "input" not in fields:
        messages = fields.get("messages")
        return messages if isinstance(messages, list) else ()
    items = [("", one) for one in _items_of(fields["input"]) if isinstance(one, dict)]
    return [one for _, one in with_code_lines(items)]


def _shows_code(fields: Mapping[str, Any]) -> bool:
    """Whether one of the newest messages shows a code, which a request without an offer may give up."""
    given = fields.get("input", fields.get("messages"))
    rows = [one for one in given[-_NEWEST:] if isinstance(one, dict)] if isinstance(given, list) else []
    texts = [text_of(one.get("content"), ("text", "output_text")) for one in rows if one.get("role") == "assistant"]
    return any(map(holds_code, texts))


def newest_of(own: Sequence[Any]) -> Mapping[str, Any]:
    """The newest of the client's messages that is not an instruction."""
    rows = (one for one in reversed(own) if isinstance(one, dict) and one.get("role") not in INSTRUCTIONS)
    return next(rows, {})


def _items_of(given: Any) -> Sequence[Any]:
    """A response request's `input`, as items."""
    if isinstance(given, list):
        return given
    return [] if given is None else [{"type": "message", "role": "user", "content": given}]


Rounds = Callable[[App, ChatRequest], App]  # upstream and chat completion -> app that answers the chat


class BridgedChat:
    """Answers a chat in another dialect by chat completions."""

    def __init__(
        self,
        upstream: App,
        chat: ClientChat,
        native: bytes,
        native_call: App,
        rounds: Rounds,
        actions: Actions,
        *,
        resumes: bool,
    ) -> None:
        """native: the client's request with passages, which `native_call` sends if the upstream has no chat
        completions.

        resumes: calls of an earlier round waited, so chat completions have answered this conversation.
        """
        self._upstream = upstream
        self._chat = chat
        self._native, self._native_call = native, native_call
        self._rounds = rounds
        self._actions = actions
        self._resumes = resumes
        self._settled = False  # a chat completion was answered, or something was sent to the client
        self._lacks = CHAT.path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError like the bridge and the upstream."""
        exchange: Exchange = scope[EXCHANGE]
        target = self._chat.target
        resolved, exchange.body = exchange.target, self._chat.body

        async def begin(message: Message) -> None:
            self._settled = True  # the loop may keep a stream alive before it asks the upstream
            await send(message)

        try:
            keep = functools.partial(self._keep, exchange.key)
            await bridged(self._answer, scope, receive, begin, self._actions.unsupported, before_end=keep)
        except _NoChatError:
            exchange.target, exchange.body, exchange.tokens = resolved, self._native, None
            if exchange.action_trace is not None:
                exchange.action_trace.offer = "not suited"
            await self._native_call(scope, receive, send)
            if exchange.status < 400 and not self._resumes:
                self._actions.unsupported.learn(target, self._lacks, "no operation is offered", model=target.model)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the chat completion in `exchange.body`."""
        body: bytes = scope[EXCHANGE].body or b""
        request = await by_size(body, lambda: ChatRequest.parse(body))
        await self._rounds(self._ask, request)(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the upstream. Raises _NoChatError if it refuses the first chat completion as unknown."""
        no_custom = _NO_CUSTOM if self._chat.custom else ()

        async def look(message: Message) -> None:
            status = message.get("status")
            if not self._settled and not self._chat.continues and status in (*_NO_CHAT, *no_custom):
                self._lacks = CHAT.path if status in _NO_CHAT else _CUSTOM
                raise _NoChatError
            self._settled = True
            await send(message)

        await self._upstream(scope, receive, look)

    def _keep(self, key: str, reply: Mapping[str, Any]) -> None:
        """Remember the conversation for requests that continue this response."""
        hidden_rounds, items = self._actions.hidden_rounds, self._chat.items
        if hidden_rounds is None or items is None or len(self._chat.body or b"") > _MOST_ITEMS_BYTES:
            return
        kept = json_bytes([*items, *reply["output"]])
        if len(kept) <= _MOST_ITEMS_BYTES:
            hidden_rounds.keep_items(key, reply["id"], kept)


class _NoChatError(Exception):
    """The upstream has no chat completions for this model; nothing was sent to the client yet."""
