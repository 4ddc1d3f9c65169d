"""OpenAI's chat completions: the dialect of `/v1/chat/completions`."""

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.base import (
    INSTRUCTIONS,
    ConversationMessage,
    Dialect,
    ModelRequest,
    Position,
    index_of_question,
    plain_messages,
    text_of,
)
from proxy.dialects.json_body import Edit, JsonBody, member_span, nth_item, unescaped, value_at
from proxy.dialects.replies import (
    ReplyReader,
    Tokens,
    called_tool,
    called_tools,
    content_text,
    error_text,
    json_bytes,
    reported_tokens,
    text_bytes_of,
    tier_in,
    usages_in,
)

_MORE_THAN_TEXT = ("tools", "functions", "audio")


class ChatRequest(ModelRequest):
    __slots__ = ("_messages",)
    BESIDE = ("tools", "functions", "response_format")
    ANSWER_LIMITS = ("max_completion_tokens", "max_tokens")

    def messages(self) -> Sequence[ConversationMessage]:
        """At least one message. Raises ApiError 400: not a list, or a message without a role."""
        known: Sequence[ConversationMessage] | None = getattr(self, "_messages", None)
        if known is None:
            known = self._messages = plain_messages(self.fields)
        return known

    def wants_only_text(self) -> bool:
        if self.fields.get("web_search_options") is not None:  # a search without options is {}
            return False
        return self.fields.get("n") in (None, 1) and not any(self.fields.get(name) for name in _MORE_THAN_TEXT)

    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        messages = self.fields["messages"]
        opening = value_at(self.raw, self.members["messages"])
        index = _index_for(position, messages)
        if index < 0:
            message = b'{"role":"system","content":' + orjson.dumps(text) + b"}"
            return [Edit(opening + 1, opening + 1, message + (b"," if messages else b""))]
        content = messages[index]["content"]
        plain = unescaped(self.raw)
        start, end = member_span(self.raw, plain, nth_item(plain, opening, index), "content")
        if isinstance(content, str):
            empty = plain[start + 1] == ord('"')
            return [Edit(end - 1, end - 1, orjson.dumps(text if empty else "\n\n" + text)[1:-1])]
        part = b'{"type":"text","text":' + orjson.dumps(text) + b"}"
        return [Edit(end - 1, end - 1, b"," + part if content else part)]


def _index_for(position: Position, messages: Sequence[Any]) -> int:
    """Index of the message that takes the text; -1: the text becomes a first message of its own."""
    if position == "lead":
        return -1
    roles = INSTRUCTIONS if position == "merge" else ("user",)
    found = [(i, each) for i, each in enumerate(messages) if isinstance(each, dict) and each.get("role") in roles]
    if position == "merge":
        index = found[0][0] if found else -1
    else:
        index = index_of_question([(i, text_of(message.get("content"))) for i, message in found])
    return index if index >= 0 and isinstance(messages[index].get("content"), str | list) else -1


def usage_in(_start: bytes, end: bytes) -> Tokens | None:
    """The last usage near a reply's end, where upstreams report it; in a stream only if asked to."""
    tokens = next((found for usage in usages_in(end) if (found := reported_tokens(usage)) is not None), None)
    return None if tokens is None else replace(tokens, tier=tokens.tier or tier_in(end))


# --- replies ----------------------------------------------------------------------------------------------------------


class ChatReplyReader(ReplyReader):
    """Reads a chat completion's first choice, streamed or whole; of further choices, only how they end."""

    def __init__(self, *, streamed: bool, **options: Any) -> None:
        super().__init__(streamed=streamed, **options)
        self.finished: dict[int, bool] = {}  # index of a choice -> whether it has a finish reason
        self.call_numbers: list[int] = []  # in the latest event: each piece's call number; -1: none
        self._by_index: dict[int, int] = {}  # index as written -> number of the newest call
        self._by_id: dict[str, int] = {}

    def _read_event(self, event: Mapping[str, Any]) -> None:
        self.call_numbers = []
        if event.get("error"):
            self.error = error_text(event["error"])
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.usage = tokens if (tokens := reported_tokens(usage)) is not None else self.usage
        if self.usage is not None and not self.usage.tier and isinstance(tier := event.get("service_tier"), str):
            self.usage = replace(self.usage, tier=tier)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            index = choice.get("index", 0) if isinstance(choice, dict) else None
            if isinstance(choice, dict):
                self.text_bytes += _bytes_of(choice)
            if isinstance(index, int):
                self.finished[index] = self.finished.get(index, False) or choice.get("finish_reason") is not None
                if index == 0:
                    self._read_choice(choice)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        if "message" in choice:
            self.ended = True
        message = choice.get("delta") or choice.get("message") or {}
        if isinstance(message, dict):
            content = message.get("content")
            self._add(self._answer, content_text(content) if isinstance(content, list) else content)
            self._add(self._refusal, message.get("refusal"))
            for name in ("reasoning_content", "reasoning"):
                self._add(self._reasoning, message.get(name))
            calls = message.get("tool_calls")
            for place, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, dict):
                    self._read_call(call, place)
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _read_call(self, call: Mapping[str, Any], place: int) -> None:
        """A whole tool call, or a piece of one: in most streams, only the first piece has id and name."""
        called = called_tool(call)
        if called is None:
            self.call_numbers.append(-1)
            return
        id, name, arguments = call.get("id"), called.get("name"), called.get("arguments") or called.get("input")
        number = self._number_of(call.get("index"), place, id, begins=bool(name), full=bool(arguments))
        self.call_numbers.append(number)
        if (pieces := self._tool_call(number)) is not None:
            pieces.add(id=id, name=name, arguments=arguments, custom="custom" in call)
            self._by_id.setdefault(pieces.id, number)

    def _number_of(self, index: object, place: int, id: object, *, begins: bool, full: bool) -> int:
        """Which call a piece belongs to. begins: the piece has a name. full: it has arguments.

        Some servers write index 0 for every call, no index, or indexes from 1. So a name with another id begins a new
        call. So does a name with arguments, if the call before has no id and got its arguments in one piece.
        """
        if not self._streamed:  # each call in a whole reply is whole, even if two share an id
            index = place
        elif not isinstance(index, int):
            if isinstance(id, str) and id in self._by_id:
                return self._by_id[id]
            index = place
        number = self._by_index.get(index)
        if number is not None and number < len(self._calls) and begins:
            known = self._calls[number]
            other = id != known.id if id and known.id else not id and full and known.came_whole
            number = None if other and known.name else number
        if number is None:
            number = self._by_index[index] = len(self._calls)
        return number


def _bytes_of(choice: Mapping[str, Any]) -> int:
    """Bytes of texts and calls in a choice or a piece. Some providers write thoughts twice, in two members."""
    message = choice.get("delta") or choice.get("message")
    if not isinstance(message, dict):
        return text_bytes_of(choice.get("text"))  # a plain completion
    calls = message.get("tool_calls")
    called = [message.get("function_call"), *(called_tools(calls) if isinstance(calls, list) else ())]
    pieces = [each.get("arguments") or each.get("input") for each in called if isinstance(each, dict)]
    texts = (message.get("content"), message.get("refusal"), *pieces)
    return text_bytes_of(*texts, either=(message.get("reasoning_content"), message.get("reasoning")))


def completion(request: JsonBody, text: str, tokens: Tokens) -> bytes:
    """A whole reply: `n` times the same choice."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index in range(request.fields.get("n") or 1)
    ]
    return json_bytes({**_envelope(request.fields, "chat.completion"), "choices": choices, "usage": usage_of(tokens)})


def completion_frames(request: JsonBody, texts: Iterable[str], tokens: Tokens) -> Iterator[bytes]:
    """A streamed reply: role, texts and finish, each for every choice; usage if asked for; [DONE]."""
    fields = request.fields
    options = fields.get("stream_options") or {}
    envelope = _envelope(fields, "chat.completion.chunk")
    if options.get("include_usage"):
        envelope["usage"] = None  # in every chunk but the last, like OpenAI
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": "", "refusal": None}, None)]
    deltas += [({"content": text}, None) for text in texts]
    deltas.append(({}, "stop"))
    for delta, finish in deltas:
        for index in range(fields.get("n") or 1):
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
            yield sse.frame(json_bytes({**envelope, "choices": [choice]}))
    if options.get("include_usage"):
        yield sse.frame(json_bytes({**envelope, "choices": [], "usage": usage_of(tokens)}))
    yield sse.DONE


def usage_of(tokens: Tokens) -> dict[str, int]:
    total = tokens.prompt + tokens.completion
    return {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion, "total_tokens": total}


def _envelope(fields: Mapping[str, Any], kind: str) -> dict[str, Any]:
    reply_id, created = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())
    return {"id": reply_id, "object": kind, "created": created, "model": fields.get("model")}


CHAT = Dialect(
    path="/v1/chat/completions",
    key_header=b"authorization",
    reader=ChatReplyReader,
    parse=ChatRequest.parse,
    usage_in=usage_in,
    reply=completion,
    reply_frames=completion_frames,
    error_body=lambda error, _: error.body(),
    error_frame=lambda error, _: sse.frame(error.body()),  # never followed by [DONE]
)
