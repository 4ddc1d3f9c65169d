"""OpenAI's Responses API: the dialect of `POST /v1/responses`."""

import re
from collections.abc import Sequence
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.base import (
    ConversationMessage,
    Dialect,
    ModelRequest,
    Position,
    index_of_question,
    text_of,
)
from proxy.dialects.chat import usage_in
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import Edit, end_of, kind_of, nth_item, unescaped, value_at
from proxy.dialects.responses_reply import ResponseReader, response, response_frames

_TEXT_PARTS = ("input_text", "output_text", "text")
_MORE_THAN_TEXT = ("tools", "background", "conversation", "prompt")
_STORED = re.compile(r"/v1/responses/[\w-]+(/cancel|/input_items)?")
_STORED_METHODS = {None: ("GET", "DELETE"), "/cancel": ("POST",), "/input_items": ("GET",)}


_DELETED = re.compile(r"/v1/(?:responses|conversations)/([\w-]+)")


def stored_id(path: str) -> str:
    """The stored response or conversation that a path names; "" for other paths."""
    found = _DELETED.fullmatch(path)
    return "" if found is None else found[1]


def stored_methods(path: str) -> Sequence[str]:
    """Methods allowed on a stored response's path; () for other paths."""
    found = _STORED.fullmatch(path)
    return () if found is None else _STORED_METHODS[found[1]]


class ResponsesRequest(ModelRequest):
    __slots__ = ()
    NAMES = ("model", "input", "instructions", "rag")
    BESIDE = ("tools", "text")
    ANSWER_LIMITS = ("max_output_tokens",)

    def messages(self) -> Sequence[ConversationMessage]:
        """Empty without `instructions` and `input`. Raises ApiError 400: `input` is neither a text nor a list.

        An item without a role counts as a tool call or a tool result.
        """
        read = []
        if isinstance(instructions := self.fields.get("instructions"), str):
            read.append(ConversationMessage("system", instructions))
        given = self.fields.get("input")
        if isinstance(given, str):
            return [*read, ConversationMessage("user", given)]
        if not isinstance(given, list | None):
            message = f"'input' must be a text or a list of items, got {kind_of(given)}."
            raise ApiError(400, message, code="invalid_input", param="input")
        for item in given or ():
            if not isinstance(item, dict):
                continue
            if isinstance(role := item.get("role"), str):
                read.append(ConversationMessage(role, text_of(item.get("content"), _TEXT_PARTS)))
            elif str(item.get("type")).endswith("_call"):
                read.append(ConversationMessage("assistant", "", item))
            else:
                read.append(ConversationMessage("tool", text_of(item.get("output"), _TEXT_PARTS)))
        return read

    def wants_only_text(self) -> bool:
        """A stored response counts as more: a second request would store a second one."""
        return self.fields.get("store") is False and not any(self.fields.get(name) for name in _MORE_THAN_TEXT)

    @property
    def stored(self) -> bool:
        """OpenAI stores responses by default."""
        return self.fields.get("store") is not False

    @property
    def previous_reply(self) -> str:
        return _id_of(self.fields.get("previous_response_id"))

    @property
    def conversation(self) -> str:
        given = self.fields.get("conversation")
        return _id_of(given.get("id") if isinstance(given, dict) else given)

    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        """At the end of `instructions`; for tail, a developer item before the newest question.

        A stored prompt may have its own instructions, which `instructions` would replace: with `prompt` alone, the text
        goes into a developer item, too.
        """
        instructions = self.fields.get("instructions")
        for_item = position == "tail" or not isinstance(instructions, str | None)
        if for_item or (instructions is None and self.fields.get("prompt")):
            return self._developer_item(text)
        opening = self.raw.index(b"{") + 1
        if "instructions" not in self.members:
            return [Edit(opening, opening, b'"instructions":' + orjson.dumps(text) + b",")]
        start = value_at(self.raw, self.members["instructions"])
        end = end_of(unescaped(self.raw), start)
        if instructions is None:
            return [Edit(start, end, orjson.dumps(text))]
        return [Edit(end - 1, end - 1, orjson.dumps("\n\n" + text if instructions else text)[1:-1])]

    def _developer_item(self, text: str) -> Sequence[Edit]:
        """Before the newest question. Without a user item, after the last item: a tool result stays next to its call,
        which the provider has stored. There is always an item: we search for a user item's text, or for the question
        that an item here continues.
        """
        given, plain = self.fields["input"], unescaped(self.raw)
        start = value_at(self.raw, self.members["input"])
        item = b'{"type":"message","role":"developer","content":' + orjson.dumps(text) + b"}"
        if isinstance(given, str):
            end, user = end_of(plain, start), b'{"type":"message","role":"user","content":'
            return [Edit(start, start, b"[" + item + b"," + user), Edit(end, end, b"}]")]
        users = [(i, each) for i, each in enumerate(given) if isinstance(each, dict) and each.get("role") == "user"]
        if not users:
            end = end_of(plain, start) - 1
            return [Edit(end, end, b"," + item)]
        question = index_of_question([(i, text_of(user.get("content"), _TEXT_PARTS)) for i, user in users])
        place = nth_item(plain, start, question)
        return [Edit(place, place, item + b",")]


def _id_of(given: Any) -> str:
    return given if isinstance(given, str) else ""


def _error_frame(error: ApiError, _request_id: str) -> bytes:
    """An `error` event with the members in OpenAI's reference, plus `error`, which the SDKs look for."""
    row = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
    return b"event: error\n" + sse.frame(orjson.dumps({**row, **orjson.loads(error.body())}))


RESPONSES = Dialect(
    path="/v1/responses",
    key_header=b"authorization",
    reader=ResponseReader,
    parse=ResponsesRequest.parse,
    usage_in=usage_in,  # the last event repeats the response, `usage` near its end
    reply=response,
    reply_frames=response_frames,
    error_body=lambda error, _: error.body(),
    error_frame=_error_frame,
)
