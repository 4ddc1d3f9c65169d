"""OpenAI's Responses API: the dialect of `POST /v1/responses`."""

import json
import re
import secrets
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from proxy.dialects.json_body import Edit, JsonBody, end_of, kind_of, nth_item, unescaped, value_at
from proxy.dialects.replies import ReplyReader, Tokens, error_text, json_bytes, reported_tokens, text_bytes_of

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


# --- replies ----------------------------------------------------------------------------------------------------------


OWN_ID = "resp_ragway_"  # begins ids of responses that we wrote and did not store
_OWN_ITEM = re.compile(r"[a-z]+_(ragway_\w+)_\d+")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CALL_PIECES = (
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
)
# Members that repeat the request, with the values to use if it lacks them.
_REPEATED: Mapping[str, Any] = {
    **dict.fromkeys(("instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p")),
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
}


class ResponseReader(ReplyReader):
    """Reads a response, streamed or whole."""

    def _read_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type", ""))
        item = event.get("item")
        self.text_bytes += _bytes_of_event(kind, event)
        if not self.id:
            self._read_id(event if event.get("object") == "response" else event.get("response"))
        if kind == "response.output_text.delta":
            self._add(self._answer, event.get("delta"))
        elif kind == "response.refusal.delta":
            self._add(self._refusal, event.get("delta"))
        elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
            self._add(self._reasoning, event.get("delta"))
        elif kind == "response.output_item.added" and isinstance(item, dict):
            self._begin_call(item)
        elif kind in _CALL_PIECES and self._calls:
            self._calls[-1].add(arguments=event.get("delta"))
        elif kind == "error":
            self.error = error_text(event.get("error") or event)
        elif kind in _ENDS:
            self._end(event.get("response"))
        elif event.get("object") == "response":
            for item in _objects(event.get("output")):
                self._read_item(item)
            self._end(event)
        elif event.get("error"):
            self.error = error_text(event["error"])

    def _read_id(self, answer: object) -> None:
        """A stream's first event has the response, with its id."""
        if isinstance(answer, dict) and isinstance(answer.get("id"), str):
            self.id = answer["id"]

    def _read_item(self, item: Mapping[str, Any]) -> None:
        self._begin_call(item)
        for part in _objects(item.get("content")):
            texts = self._reasoning if item.get("type") == "reasoning" else self._answer
            self._add(texts, part.get("text"))
            self._add(self._refusal, part.get("refusal"))
        for part in _objects(item.get("summary")):
            self._add(self._reasoning, part.get("text"))

    def _begin_call(self, item: Mapping[str, Any]) -> None:
        """A call for the client, with its arguments so far.

        A provider's own tool, such as a web search, has no `call_id`.
        """
        called = str(item.get("type", "")).endswith("_call") and isinstance(item.get("call_id"), str)
        if called and (pieces := self._tool_call(len(self._calls))) is not None:
            arguments = item.get("arguments") or item.get("input")
            pieces.add(id=item["call_id"], name=item.get("name"), arguments=arguments)

    def _end(self, answer: object) -> None:
        """A response's status, usage and error."""
        if not isinstance(answer, dict):
            return
        details, usage = answer.get("incomplete_details"), answer.get("usage")
        reason = details.get("reason") if isinstance(details, dict) else None
        status = str(answer.get("status"))
        self.ended = status not in ("queued", "in_progress")
        if self.ended:
            limits = {"max_output_tokens": "length", "content_filter": "content_filter"}
            self.finish_reason = "stop" if status == "completed" else limits.get(str(reason), status)
        if isinstance(usage, dict):
            self.usage = tokens if (tokens := reported_tokens(usage)) is not None else self.usage
        if self.usage is not None and isinstance(tier := answer.get("service_tier"), str):
            self.usage = replace(self.usage, tier=tier)
        if answer.get("error"):
            self.error = error_text(answer["error"])


def _bytes_of_event(kind: str, event: Mapping[str, Any]) -> int:
    """How many bytes of text and calls an event adds; events that end an item repeat it."""
    if kind.endswith(".delta"):
        return 0 if ".audio." in kind else text_bytes_of(event.get("delta"))
    return sum(map(_bytes_of, _objects(event.get("output")))) if event.get("object") == "response" else 0


def _bytes_of(item: Mapping[str, Any]) -> int:
    parts = [*_objects(item.get("content")), *_objects(item.get("summary"))]
    texts = [part.get(name) for part in parts for name in ("text", "refusal")]
    return text_bytes_of(*texts, item.get("arguments") or item.get("input"))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def response(request: JsonBody, text: str, tokens: Tokens) -> bytes:
    """A whole response, with one message."""
    return json_bytes(_completed(envelope(request.fields), _message(), text, tokens))


def response_frames(request: JsonBody, texts: Iterable[str], tokens: Tokens) -> Iterator[bytes]:
    """A streamed response's events, with a single message."""
    begun, message, said = envelope(request.fields), _message(), ""
    place = {"item_id": message["id"], "output_index": 0, "content_index": 0}

    def events() -> Iterator[dict[str, Any]]:
        nonlocal said
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        yield {"type": "response.output_item.added", "output_index": 0, "item": message}
        yield {"type": "response.content_part.added", **place, "part": _part("")}
        for text in texts:
            said += text
            yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
        answer = _completed(begun, message, said, tokens)
        yield {"type": "response.output_text.done", **place, "text": said, "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": _part(said)}
        yield {"type": "response.output_item.done", "output_index": 0, "item": answer["output"][0]}
        yield {"type": "response.completed", "response": answer}

    for number, event in enumerate(events()):
        name = str(event["type"]).encode()
        yield b"event: " + name + b"\n" + sse.frame(json_bytes({**event, "sequence_number": number}))


def _completed(begun: dict[str, Any], message: dict[str, Any], text: str, tokens: Tokens) -> dict[str, Any]:
    output = [{**message, "status": "completed", "content": [_part(text)]}]
    return {**begun, "status": "completed", "output": output, "usage": usage_of(tokens)}


def usage_of(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_writes},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def envelope(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A response in progress. fields: the request's members. We store no response."""
    repeated = {name: fields.get(name, value) for name, value in _REPEATED.items()}
    state: dict[str, Any] = {
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }
    head = {"id": OWN_ID + secrets.token_hex(12), "object": "response", "created_at": int(time.time())}
    return {**head, "model": fields.get("model"), **state, **repeated, "store": False}


def item_id(kind: str, response_id: str, number: int) -> str:
    """An id for an item in one of our responses; it names the response. kind: msg, fc, ctc or rs."""
    return f"{kind}_{response_id.removeprefix('resp_')}_{number}"


def response_of_item(id: object) -> str:
    """Which of our responses has this item; "" for a provider's item."""
    found = _OWN_ITEM.fullmatch(id) if isinstance(id, str) else None
    return "" if found is None else f"resp_{found[1]}"


def _message() -> dict[str, Any]:
    item = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant"}
    return {**item, "status": "in_progress", "content": []}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


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


# --- Approvals: an item names a call that waits by the code of its confirmation and its number.

# Categories of characters that a screen does not show, or that turn the text around.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_APPROVAL = re.compile(r"mcpr_([A-Z2-7]{4})([A-Z2-7]{4})_([0-9]{1,3})")


def approval_request(code: str, number: int, set_name: str, operation: str, arguments: str) -> dict[str, Any]:
    """The item that asks for a call's approval. code: of the confirmation, as KX7M-4QPD. arguments: JSON.

    The arguments have escapes of JSON in place of characters that a person would not see.
    """
    id = f"mcpr_{code.replace('-', '')}_{number}"
    shown = "".join(json.dumps(one)[1:-1] if unicodedata.category(one) in _UNSEEN else one for one in arguments)
    named = {"server_label": set_name, "name": operation, "arguments": shown}
    return {"id": id, "type": "mcp_approval_request", **named}


def approved_call(id: object) -> tuple[str, int] | None:
    """Code and number of the call that an item of `approval_request` names; None: another item."""
    found = _APPROVAL.fullmatch(id) if isinstance(id, str) else None
    return None if found is None else (f"{found[1]}-{found[2]}", int(found[3]))
