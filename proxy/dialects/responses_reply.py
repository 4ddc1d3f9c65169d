"""A response of OpenAI's Responses API, read and written."""

import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from proxy.dialects import sse
from proxy.dialects.json_body import JsonBody
from proxy.dialects.replies import ReplyReader, error_text, json_bytes, text_bytes_of
from proxy.dialects.token_counts import Tokens, reported_tokens

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
