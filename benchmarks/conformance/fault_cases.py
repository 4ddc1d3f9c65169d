"""The cases about faults, and the cases about a provider with another dialect (Anthropic's)."""

import json
from dataclasses import replace
from typing import Any

from benchmarks.conformance import judge
from benchmarks.conformance.case import COMPLETION, FIRST_WORD, QUESTION, TRAP, Case, chat, choice, completion
from benchmarks.conformance.judge import Judge
from benchmarks.conformance.reply_cases import DONE, MARKS, PLAIN, ROLE, STOP, STREAMED, WORDS, delta
from benchmarks.conformance.wire import EVENTS, JSON, Pairs, Script

_MADE = (  # Anthropic's dialect has no such member, or another member
    "`id`", "`created`", "`object`", "`model`", "`system_fingerprint`", "`choices[0].logprobs: null`",
    "`choices[0].finish_reason: null`", "`choices[0].message.refusal: null`",
)  # fmt: skip
_BROKEN_OFF = (500, 502, 503, 504)


def _fault(name: str, check: Judge, *scripts: Script, body: bytes = b"", leave: Any = "") -> Case:
    return Case("fault", name, body or chat(STREAMED), check, scripts, leave=leave)


def _before_the_head() -> list[Case]:
    garbage = b"\x16\x03\x01 this is not HTTP\r\n\r\n"
    return [
        _fault("nobody listens", judge.fails(*_BROKEN_OFF), Script(), body=chat("", model="down")),
        _fault("nobody listens, stream", judge.fails(*_BROKEN_OFF), Script(), body=chat(STREAMED, model="down")),
        _fault("silence before the head", judge.fails(504, 408), Script(headless=True, end="silent"), body=chat("")),
        _fault("silence before the head, stream", judge.fails(504, 408), Script(headless=True, end="silent")),
        _fault("reset before the head", judge.fails(*_BROKEN_OFF), Script(headless=True, end="reset"), body=chat("")),
        _fault("reset before the head, stream", judge.fails(*_BROKEN_OFF), Script(headless=True, end="reset")),
        _fault("closed before the head", judge.fails(*_BROKEN_OFF), Script(headless=True, end="fin"), body=chat("")),
        _fault("garbage instead of HTTP", judge.fails(*_BROKEN_OFF), Script(raw=garbage, end="fin"), body=chat("")),
        _fault("half a head", judge.fails(*_BROKEN_OFF), Script(raw=b"HTTP/1.1 200 OK\r\ncontent-ty", end="fin"),
               body=chat("")),
    ]  # fmt: skip


def _cut(pieces: int, end: Any, *, of: tuple[bytes, ...] = PLAIN[:-1], framing: Any = "chunked") -> Script:
    return Script(of[:pieces], headers=EVENTS, framing=framing, end=end, marks=MARKS[:pieces])


def _within_the_reply() -> list[Case]:
    half = (ROLE, WORDS[0], WORDS[1][:60])
    half_call = delta('"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]')
    chunks = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n"
    bad = Script(
        (ROLE, WORDS[0]),
        headers=EVENTS,
        end="silent",
        raw=chunks + b"".join(chunk % (len(piece), piece) for piece in (ROLE, WORDS[0])) + b"zz\r\n",
    )
    short = Script((COMPLETION[:40],), headers=(*JSON, (b"content-length", b"%d" % len(COMPLETION))), end="fin")
    broken = Script((COMPLETION[:40],), framing="chunked", end="reset")
    return [
        _fault("reset after the head and each event", judge.honest_cut, *(_cut(k, "reset") for k in range(5))),
        _fault("closed after the head and each event", judge.honest_cut, *(_cut(k, "fin") for k in range(5))),
        _fault("closed after each event, close-delimited", judge.honest_cut, *(
            _cut(k, "fin", framing="close") for k in range(1, 5))),
        _fault("closed after the last choice, before [DONE]", judge.honest_cut, _cut(5, "fin")),
        _fault("cut inside an event", judge.honest_cut, _cut(3, "fin", of=half), _cut(3, "reset", of=half)),
        _fault("cut inside an event, close-delimited", judge.honest_cut, _cut(3, "fin", of=half, framing="close")),
        _fault("cut inside a tool call", judge.honest_cut, _cut(2, "fin", of=(ROLE, half_call))),
        _fault("cut inside a tool call, close-delimited", judge.honest_cut,
               _cut(2, "fin", of=(ROLE, half_call), framing="close")),
        _fault("chunk of a size that is no number", judge.honest_cut, bad),
        _fault("silence within the stream", judge.honest_cut, _cut(2, "silent")),
        _fault("whole answer shorter than its content-length", judge.honest_cut, short, body=chat("")),
        _fault("whole answer reset within", judge.honest_cut, broken, body=chat("")),
    ]  # fmt: skip


def _client_leaves() -> list[Case]:
    """Five times each."""
    quiet = Script(headless=True, end="silent")
    begun = Script((ROLE, WORDS[0]), headers=EVENTS, framing="chunked", end="silent")
    first: Any = "before the first byte"
    return [
        _fault("client leaves before the first byte of a stream", judge.closes_upstream, *[quiet] * 5, leave=first),
        _fault("client leaves within a stream", judge.closes_upstream, *[begun] * 5, leave="within the stream"),
        _fault("client leaves before a whole answer", judge.closes_upstream, *[quiet] * 5, body=chat(""), leave=first),
        replace(_fault("client leaves, retrieval on", judge.closes_upstream, *[quiet] * 5, leave=first), rag=True),
    ]


# --- A provider with another dialect


def _provider(name: str, body: bytes, check: Judge, *scripts: Script, headers: Pairs = (), leave: Any = "") -> Case:
    return Case("provider", name, body, check, scripts, headers=headers, leave=leave, relayed=False)


def _claude(extra: str = "", messages: str = "") -> bytes:
    return chat(extra, messages=messages, model="claude")


def _message(*content: dict[str, Any], stop: str = "end_turn") -> Script:
    usage = {"input_tokens": 9, "output_tokens": 2}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-scripted-1", "content": content,
            "stop_reason": stop, "stop_sequence": None, "usage": usage}  # fmt: skip
    return Script((json.dumps(body).encode(),))


def _event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def _streamed(block: dict[str, Any], deltas: list[dict[str, Any]], stop: str = "end_turn") -> tuple[bytes, ...]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-scripted-1", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    ending = {"stop_reason": stop, "stop_sequence": None}
    return (
        _event("message_start", message=message),
        _event("content_block_start", index=0, content_block=block),
        *(_event("content_block_delta", index=0, delta=each) for each in deltas),
        _event("content_block_stop", index=0),
        _event("message_delta", delta=ending, usage={"output_tokens": 3}),
        _event("message_stop"),
    )


_TEXT = _streamed({"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in ("alpha", "beta")])
_TOOL = _streamed({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}, [
    {"type": "input_json_delta", "partial_json": part} for part in ('{"a":', " 1}")], "tool_use")  # fmt: skip


def _asked(**members: Any) -> bytes:
    """The expected request at the provider: only the client's content."""
    text = [{"type": "text", "text": QUESTION}]
    asked = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": text}], **members}
    return json.dumps(asked).encode()


def _providers() -> list[Case]:
    function = '{"name":"look","arguments":"{\\"a\\": 1}"}'
    call = f'"content":null,"refusal":null,"tool_calls":[{{"id":"toolu_1","type":"function","function":{function}}}]'
    yes = _message({"type": "text", "text": "Yes."})
    used = _message({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}, stop="tool_use")
    tool = '"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}]'
    words = b"".join((delta('"role":"assistant","content":"alpha"'), delta('"content":"beta"'), STOP, DONE))
    pieces = b"".join(
        (
            delta(
                '"role":"assistant","tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"look",'
                '"arguments":""}}]'
            ),
            *(
                delta(f'"tool_calls":[{{"index":0,"function":{{"arguments":{json.dumps(part)}}}}}]')
                for part in ('{"a":', " 1}")
            ),
            delta("", finish='"tool_calls"'),
            DONE,
        )
    )
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    busy = Script((json.dumps(overloaded).encode(),), b"529 Overloaded", (*JSON, (b"retry-after", b"7")))
    moved = Script((b"",), b"307 Temporary Redirect", ((b"location", f"http://127.0.0.1:{TRAP}/v1".encode()),))
    events = {"headers": EVENTS, "framing": "chunked"}

    def sends(*some: bytes, **more: Any) -> Script:
        return Script(some, **{**events, **more})

    broken = _event("error", error=overloaded["error"])
    ask = judge.request(expect=_asked(), block=False)
    ask_max = judge.request(expect=_asked(max_tokens=64), block=False)
    return [
        _provider("request: max_tokens given", _claude('"max_tokens":64'), ask_max, yes),
        _provider("request: no max_tokens", _claude(), ask, yes),
        _provider("n, which it does not have", _claude('"n":2'), ask, yes),
        _provider("seed, which it does not have", _claude('"seed":7'), ask, yes),
        _provider("answer", _claude(), judge.reply(
            expect=completion(choice('"content":"Yes.","refusal":null')), made=_MADE), yes),
        _provider("answer with a tool call", _claude(tool), judge.reply(
            expect=completion(choice(call, "tool_calls")), made=_MADE), used),
        _provider("answer cut by max_tokens", _claude(), judge.reply(
            expect=completion(choice('"content":"Yes.","refusal":null', "length")), made=_MADE),
            _message({"type": "text", "text": "Yes."}, stop="max_tokens")),
        _provider("stream", _claude('"stream":true'), judge.stream(expect=words, made=_MADE), sends(*_TEXT)),
        _provider("stream, each event passed on before the next comes", _claude('"stream":true'), judge.stream(
            expect=words, made=_MADE), sends(*_TEXT, marks=(b"", b"", b"alpha", b"beta"))),
        _provider("stream of a tool call", _claude(f'"stream":true,{tool}'), judge.stream(
            expect=pieces, made=_MADE), sends(*_TOOL)),
        _provider("529 with retry-after", _claude(), judge.fails(529), busy),
        _provider("retry-after of that 529", _claude(), judge.reply_headers(b"retry-after"), busy),
        _provider("redirect: not followed", _claude(), judge.redirected, moved),
        _provider("closed within the stream", _claude('"stream":true'), judge.honest_cut, sends(
            *_TEXT[:3], end="fin", marks=(b"", b"", b"alpha"))),
        _provider("closed within the stream, close-delimited", _claude('"stream":true'), judge.honest_cut, sends(
            *_TEXT[:3], end="fin", framing="close", marks=(b"", b"", b"alpha"))),
        _provider("closed after a whole tool call, close-delimited", _claude(f'"stream":true,{tool}'), judge.honest_cut,
                  sends(*_TOOL[:5], end="fin", framing="close")),
        _provider("an error within the stream", _claude('"stream":true'), judge.honest_cut, sends(
            *_TEXT[:3], broken, marks=(b"", b"", b"alpha"))),
        _provider("client leaves within the stream", _claude('"stream":true'), judge.closes_upstream, sends(
            *_TEXT[:3], end="silent"), leave="within the stream"),
    ]  # fmt: skip


FAULTS = [*_before_the_head(), *_within_the_reply(), *_client_leaves()]
PROVIDERS = _providers()
assert FIRST_WORD == b"alpha", "the word in _TEXT"
