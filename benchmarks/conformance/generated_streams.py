"""Generated event streams of the three dialects, as odd as real ones: unknown members, comments, CRLF, odd spacing."""

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

_LETTERS = 'abc äß 中文 🙂 \\"{}[]:,\n\t  data: event: [DONE] </ \u200b'
_Json = dict[str, Any]
_Event = tuple[str, _Json]  # name ("" for none) and value


def stream(random: Random, path: str) -> tuple[bytes, ...]:
    """The events of one stream, as bytes. path: of the dialect."""
    end = random.choice([b"\n", b"\n", b"\r\n"])
    return tuple(_framed(random, end, name, value) for name, value in _DIALECTS[path](random)) + (
        (b"data: [DONE]" + end + end,) if path == "/v1/chat/completions" else ()
    )


def _framed(random: Random, end: bytes, name: str, value: _Json) -> bytes:
    separators = random.choice([(",", ":"), (", ", ": ")])
    text = json.dumps(value, ensure_ascii=random.random() < 0.5, separators=separators)
    lines = [b": " + _text(random).encode().replace(b"\n", b"").replace(b"\r", b"")] if random.random() < 0.1 else []
    lines += [b"event: " + name.encode()] if name else []
    lines.append((b"data: " if random.random() < 0.8 else b"data:") + text.encode())
    return end.join([*lines, b"", b""])


def _text(random: Random) -> str:
    return "".join(random.choices(_LETTERS, k=random.choice([1, 3, 10, 200])))


def _texts(random: Random) -> list[str]:
    return [_text(random) for _ in range(random.choice([1, 2, 5, 30]))]


def _unknown(random: Random) -> _Json:
    values: list[Any] = [None, 0, -1.5, True, _text(random), [], {"a": [1, {"b": None}]}]
    return {random.choice(["obfuscation", "x_unknown", "p"]): random.choice(values)} if random.random() < 0.3 else {}


def _chat(random: Random) -> Iterator[_Event]:
    envelope = {"id": f"c-{random.random()}", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}

    def chunk(delta: _Json, finish: str | None = None, **more: Any) -> _Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **_unknown(random)}
        return "", {**envelope, "choices": [choice], **more, **_unknown(random)}

    yield chunk({"role": "assistant", **random.choice([{}, {"content": ""}, {"content": None}])})
    for text in _texts(random) if random.random() < 0.3 else ():
        yield chunk({"reasoning_content": text})
    for text in _texts(random):
        yield chunk({"content": text})
    yield chunk({}, random.choice(["stop", "length", "content_filter"]))
    if random.random() < 0.5:
        yield "", {**envelope, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}


def _responses(random: Random) -> Iterator[_Event]:
    numbers = iter(range(10_000))
    reply = {"id": f"resp_{random.random()}", "object": "response", "status": "in_progress", "output": []}

    def event(name: str, **members: Any) -> _Event:
        return name, {"type": name, "sequence_number": next(numbers), **members, **_unknown(random)}

    yield event("response.created", response=reply)
    output = []
    for at in range(random.choice([1, 1, 2])):
        place = {"item_id": f"msg_{at}", "output_index": at, "content_index": 0}
        item = {"id": f"msg_{at}", "type": "message", "role": "assistant", "content": []}
        yield event("response.output_item.added", output_index=at, item=item)
        yield event("response.content_part.added", **place, part={"type": "output_text", "text": ""})
        texts = _texts(random)
        for text in texts:
            yield event("response.output_text.delta", **place, delta=text)
        part = {"type": "output_text", "text": "".join(texts), "annotations": []}
        yield event("response.output_text.done", **place, text=part["text"])
        output.append({**item, "status": "completed", "content": [part]})
        yield event("response.output_item.done", output_index=at, item=output[-1])
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    yield event("response.completed", response={**reply, "status": "completed", "output": output, "usage": usage})


def _messages(random: Random) -> Iterator[_Event]:
    def event(name: str, **members: Any) -> _Event:
        return name, {"type": name, **members, **_unknown(random)}

    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": f"msg_{random.random()}", "type": "message", "role": "assistant", "content": [], "usage": usage}
    yield event("message_start", message=message)
    for at, kind in enumerate(random.choice([["text"], ["thinking", "text"], ["text", "text"]])):
        yield event("content_block_start", index=at, content_block={"type": kind, kind: ""})
        if random.random() < 0.3:
            yield event("ping")
        for text in _texts(random):
            yield event("content_block_delta", index=at, delta={"type": f"{kind}_delta", kind: text})
        yield event("content_block_stop", index=at)
    yield event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 5})
    yield event("message_stop")


_DIALECTS: Mapping[str, Callable[[Random], Iterator[_Event]]] = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _messages,
}
