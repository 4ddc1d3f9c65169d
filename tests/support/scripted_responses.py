"""A scripted model behind the Responses API: the response to a request, whole and as events, in OpenAI's own form.

The request decides: a function tool without a result is called, `text.format` with a schema gets JSON, `reasoning` gets
a reasoning item, with `encrypted_content` where `include` asks for the content. Every other request gets `TEXT`.
"""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
TEXT = "Ask the harbour master: he knows. Ünïcödé 😀"
ARGUMENTS = '{"city":"Bonn"}'
SUMMARY = "The user asks for a driver."
ENCRYPTED = "gAAAAABscripted+/=="
CACHED, PROMPT, COMPLETION, REASONING = 1024, 1100, 40, 20


def response_to(asked: Json) -> Json:
    """The whole response."""
    background = bool(asked.get("background"))
    items = [] if background else list(_items(asked))
    return {**_envelope(asked, "queued" if background else "completed", items), "background": background}


def events_to(asked: Json) -> Iterator[Json]:
    """The events of the streamed response."""
    items = list(_items(asked))
    started = _envelope(asked, "in_progress", [])
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    yield {"type": "response.completed", "response": _envelope(asked, "completed", items)}


def frames_to(asked: Json) -> list[bytes]:
    """The same events on the wire."""
    rows = [{**event, "sequence_number": number} for number, event in enumerate(events_to(asked))]
    return [f"event: {row['type']}\ndata: {json.dumps(row, ensure_ascii=False)}\n\n".encode() for row in rows]


def _envelope(asked: Json, status: str, items: list[Json]) -> Json:
    usage = {
        "input_tokens": PROMPT,
        "input_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": 0},
        "output_tokens": COMPLETION,
        "output_tokens_details": {"reasoning_tokens": REASONING},
        "total_tokens": PROMPT + COMPLETION,
    }
    reasoning = asked.get("reasoning") or {}
    text = asked.get("text") or {}
    return {
        "id": "resp_0123456789abcdef",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "background": False,
        "completed_at": 1700000001 if status == "completed" else None,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": f"{asked['model']}-2025-08-07",
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": asked.get("previous_response_id"),
        "prompt_cache_key": asked.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary") and "detailed"},
        "safety_identifier": None,
        "service_tier": "default",
        "store": asked.get("store", True),
        "temperature": 1.0,
        "text": {"format": text.get("format") or {"type": "text"}, "verbosity": "medium"},
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_logprobs": 0,
        "top_p": 0.98,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
        "metadata": asked.get("metadata") or {},
    }


def _items(asked: Json) -> Iterator[Json]:
    if asked.get("reasoning"):
        summary = [{"type": "summary_text", "text": SUMMARY}]
        encrypted = "reasoning.encrypted_content" in (asked.get("include") or ())
        sealed = {"encrypted_content": ENCRYPTED} if encrypted else {}
        yield {"id": "rs_0123456789abcdef", "type": "reasoning", "summary": summary, **sealed}
    functions = [tool["name"] for tool in asked.get("tools") or () if tool.get("type") == "function"]
    if functions and not _has_result(asked["input"]):
        yield {
            "id": "fc_0123456789abcdef",
            "type": "function_call",
            "status": "completed",
            "arguments": ARGUMENTS,
            "call_id": "call_0123456789abcdef",
            "name": functions[0],
        }
        return
    as_json = ((asked.get("text") or {}).get("format") or {}).get("type") == "json_schema"
    yield {
        "id": "msg_0123456789abcdef",
        "type": "message",
        "status": "completed",
        "content": [_part(ARGUMENTS if as_json else TEXT)],
        "role": "assistant",
    }


def _has_result(given: Any) -> bool:
    return isinstance(given, list) and any(str(item.get("type")).endswith("_output") for item in given)


def _part(text: str) -> Json:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    if item["type"] == "reasoning":
        begun, middle = {**item, "summary": []}, _reasoning_events
    elif item["type"] == "function_call":
        begun, middle = {**item, "status": "in_progress", "arguments": ""}, _call_events
    else:
        begun, middle = {**item, "status": "in_progress", "content": []}, _message_events
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from middle({"item_id": item["id"], "output_index": index}, item)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _reasoning_events(place: Json, item: Json) -> Iterator[Json]:
    at, (part,) = {**place, "summary_index": 0}, item["summary"]
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
    for piece in thirds(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece, "obfuscation": "x7"}
    yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _call_events(place: Json, item: Json) -> Iterator[Json]:
    for piece in thirds(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece, "obfuscation": "x7"}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield {"type": "response.function_call_arguments.done", **place, **done}


def _message_events(place: Json, item: Json) -> Iterator[Json]:
    at, (part,) = {**place, "content_index": 0}, item["content"]
    yield {"type": "response.content_part.added", **at, "part": _part("")}
    for piece in thirds(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": [], "obfuscation": "x7"}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def thirds(text: str) -> list[str]:
    """The text in up to three pieces."""
    third = len(text) // 3
    return [piece for piece in (text[:third], text[third : 2 * third], text[2 * third :]) if piece]
