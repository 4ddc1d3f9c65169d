"""The cases about the reply: which parts of an upstream's reply, whole or streamed, reach the client."""

import gzip
import json
from collections.abc import Sequence

from benchmarks.conformance import judge
from benchmarks.conformance.case import COMPLETION, FIRST_WORD, TRAP, USAGE, Case, chat, choice, completion
from benchmarks.conformance.judge import Judge
from benchmarks.conformance.wire import EVENTS, JSON, Pairs, Script

LIMITS: Pairs = (
    (b"x-ratelimit-limit-requests", b"500"), (b"x-ratelimit-remaining-tokens", b"149984"),
    (b"x-ratelimit-reset-tokens", b"6ms"),
)  # fmt: skip
OPENAIS: Pairs = ((b"openai-processing-ms", b"12"), (b"openai-version", b"2020-10-01"), (b"openai-organization", b"o"))
BASELINE_REPLY, BASELINE_STREAM = (
    "a plain completion",
    "plain",
)  # the rows that show a lane's changes in every answer
_GZIP: Pairs = ((b"accept-encoding", b"gzip"),)
_CALL = '{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\\"a\\": 1.0}"}}'
_LOGPROB = '{"token":"Yes","logprob":-0.1,"bytes":[89,101,115],"top_logprobs":[]}'


def _whole(name: str, body: bytes, *about: str, headers: Pairs = JSON) -> Case:
    return Case("reply", name, chat('"n":2,"logprobs":true'), judge.reply(*about), [Script((body,), headers=headers)])


def _status(status: bytes, kind: str, code: str, *more: tuple[bytes, bytes]) -> Case:
    error = {"error": {"message": "What the upstream says.", "type": kind, "param": None, "code": code}}
    script = Script((json.dumps(error).encode(),), status, (*JSON, *more))
    return Case("reply", f"status {status.decode()}", chat(""), judge.reply(), [script])


def _statuses() -> list[Case]:
    return [
        _status(b"400 Bad Request", "invalid_request_error", "invalid_value"),
        _status(b"401 Unauthorized", "invalid_request_error", "invalid_api_key"),
        _status(b"403 Forbidden", "invalid_request_error", "unsupported_country"),
        _status(b"404 Not Found", "invalid_request_error", "model_not_found"),
        _status(b"409 Conflict", "invalid_request_error", "conflict"),
        _status(b"422 Unprocessable Entity", "invalid_request_error", "unprocessable"),
        _status(b"429 Too Many Requests", "requests", "rate_limit_exceeded"),
        _status(b"500 Internal Server Error", "server_error", "internal"),
        _status(b"503 Service Unavailable", "server_error", "overloaded"),
        _status(b"529 Site Is Overloaded", "overloaded_error", "overloaded"),
    ]


def _bodies() -> list[Case]:
    known = '"content":"Yes.","refusal":null'
    said = choice(known)
    usage = '"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11'
    cited = (
        '{"type":"url_citation","url_citation":{"start_index":0,"end_index":3,"title":"t","url":"https://example.com"}}'
    )
    spaced = completion(said, f'{USAGE},\n "x_odd" : 1.50e2').replace(b'"index":0', b'"index":0.0')
    null = '"content":null,"refusal":null'
    two = f'{null},"tool_calls":[{_CALL},{_CALL.replace("call_1", "call_2")}]'
    error = b'{"error":{"message":"Out of memory.","type":"server_error","param":null,"code":null}}'
    return [
        _whole(BASELINE_REPLY, COMPLETION),
        _whole("white space, key order, number spellings", spaced, "space", "order", "numbers"),
        _whole("unknown field of the completion", completion(said, f'{USAGE},"x_trace":{{"a":[1]}}')),
        _whole("unknown field of a choice", completion(choice(known, more=',"logprobs":null,"stop_token":128009'))),
        _whole("unknown field of the message", completion(choice(known + ',"x_note":"n"'))),
        _whole("unknown field of the usage", completion(said, f',{usage},"queue_time":0.17,"x_cached":3}}')),
        _whole("no usage", completion(said, "")),
        _whole("usage with details", completion(
            said, f',{usage},"prompt_tokens_details":{{"cached_tokens":4,"audio_tokens":0}}}}')),
        _whole("system_fingerprint and service_tier", completion(
            said, f'{USAGE},"system_fingerprint":"fp_2","service_tier":"default"')),
        _whole("no refusal, no logprobs", completion(choice('"content":"Yes."', more=""))),
        _whole("two choices", completion(said + "," + choice('"content":"No.","refusal":null', "length", index=1))),
        _whole("tool call, content null", completion(choice(f'{null},"tool_calls":[{_CALL}]', "tool_calls"))),
        _whole("two tool calls", completion(choice(two, "tool_calls"))),
        _whole("refusal", completion(choice('"content":null,"refusal":"I will not."'))),
        _whole("reasoning_content", completion(choice(known + ',"reasoning_content":"Hm."'))),
        _whole("reasoning (another name)", completion(choice(known + ',"reasoning":"Hm."'))),
        _whole("annotations", completion(choice(f'{known},"annotations":[{cited}]'))),
        _whole("logprobs", completion(choice(known, more=f',"logprobs":{{"content":[{_LOGPROB}],"refusal":null}}'))),
        _whole("finish_reason content_filter", completion(choice('"content":"","refusal":null', "content_filter"))),
        _whole("finish_reason nobody knows", completion(choice(known, "abort"))),
        _whole("no choices", completion("")),
        _whole("empty id, created 0", completion(said).replace(b"chatcmpl-1", b"").replace(b"1700000000", b"0")),
        _whole("escapes and raw Unicode", completion(
            choice('"content":"\\u00e9 😀 \u2028 \\/","refusal":null')), "escapes"),
        _whole("error in a 200", error),
        _whole("plain text in a 200", b"ok, but not JSON", headers=((b"content-type", b"text/plain"),)),
    ]  # fmt: skip


def _transport() -> list[Case]:
    pressed = gzip.compress(COMPLETION, mtime=0)
    zipped = Script((pressed,), headers=(*JSON, (b"content-encoding", b"gzip")))
    moved = Script((b"",), b"307 Temporary Redirect", ((b"location", f"http://127.0.0.1:{TRAP}/v1".encode()),))
    html = Script((b"<html>Bad gateway</html>",), b"502 Bad Gateway", ((b"content-type", b"text/html"),))
    single = Script(_singly(COMPLETION), framing="chunked")
    busy = Script((b'{"error":{"message":"m","type":"requests","param":null,"code":null}}',), b"429 Too Many Requests")

    def asked(name: str, check: Judge, script: Script, headers: Pairs = ()) -> Case:
        return Case("reply", name, chat(""), check, [script], headers=headers)

    def headed(name: str, *pairs: tuple[bytes, bytes]) -> Case:
        check = judge.reply_headers(*(pair[0] for pair in pairs))
        return asked(name, check, Script((COMPLETION,), headers=(*JSON, *pairs)))

    return [
        headed("header x-request-id", (b"x-request-id", b"req_1")),
        headed("headers x-ratelimit-…", *LIMITS),
        headed("headers openai-…", *OPENAIS),
        headed("a header nobody knows", (b"x-served-by", b"gpu-7")),
        asked("header retry-after of a 429", judge.reply_headers(b"retry-after"), Script(
            busy.pieces, busy.status, (*JSON, (b"retry-after", b"7")))),
        asked("header retry-after-ms of a 429", judge.reply_headers(b"retry-after-ms"), Script(
            busy.pieces, busy.status, (*JSON, (b"retry-after-ms", b"70")))),
        asked("x-ratelimit-… of a 429", judge.reply_headers(*(name for name, _ in LIMITS)), Script(
            busy.pieces, busy.status, (*JSON, *LIMITS))),
        asked("gzip", judge.reply("encoding"), zipped, _GZIP),
        asked("body in chunks of one byte", judge.reply(), single),
        asked("body that ends with the connection", judge.reply(), Script((COMPLETION,), framing="close", end="fin")),
        asked("redirect: not followed", judge.redirected, moved),
        asked("error page in HTML", judge.reply(), html),
    ]  # fmt: skip


# --- Streams


def delta(content: str, more: str = "", *, finish: str = "null", index: int = 0, top: str = "") -> bytes:
    """An event of one choice; `content` is the text of the delta's members."""
    head = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-2024-08-06"'
    picked = f'{{"index":{index},"delta":{{{content}}},"logprobs":null,"finish_reason":{finish}{more}}}'
    return f'data: {{{head},"system_fingerprint":"fp_1","choices":[{picked}]{top}}}\n\n'.encode()


ROLE = delta('"role":"assistant","content":""')
WORDS = tuple(delta(f'"content":"{word.decode()}"') for word in (FIRST_WORD, b"beta", b"gamma"))
MARKS = (b"", FIRST_WORD, b"beta", b"gamma")  # of ROLE and WORDS
STOP = delta("", finish='"stop"')
DONE = b"data: [DONE]\n\n"
_USAGE = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-2024-08-06",'
    b'"system_fingerprint":"fp_1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}\n\n'
)
PLAIN = (ROLE, *WORDS, STOP, DONE)
STREAMED = '"stream":true,"stream_options":{"include_usage":true}'


def _events(
    name: str, pieces: Sequence[bytes], *about: str, headers: Pairs = EVENTS, marks: Sequence[bytes] = ()
) -> Case:
    script = Script(tuple(pieces), headers=headers, framing="chunked", marks=tuple(marks))
    return Case("stream", name, chat(STREAMED), judge.stream(*about), [script])


def _spelled() -> list[Case]:
    whole = b"".join(PLAIN)
    return [
        _events(BASELINE_STREAM, PLAIN),
        _events("plain, usage at the end", (*PLAIN[:-1], _USAGE, DONE)),
        _events("all in one write", (whole,)),
        _events("comments, keep-alives", (b": connected\n\n", ROLE, b":\n\n: waiting\n\n", *PLAIN[1:]), "comments"),
        _events("line ends CRLF", (whole.replace(b"\n", b"\r\n"),), "lines"),
        _events("line ends CR", (whole.replace(b"\n", b"\r"),), "lines"),
        _events("byte order mark", (b"\xef\xbb\xbf", *PLAIN), "BOM"),
        _events("event:, id: and retry: lines", (b"retry: 10\nid: 7\nevent: chunk\n" + ROLE, *PLAIN[1:]), "fields"),
        _events("data over several lines", (ROLE.replace(b',"choices"', b',\ndata: "choices"'), *PLAIN[1:]), "space"),
        _events("no space after data:", (whole.replace(b"data: ", b"data:"),), "space"),
        _events("writes of one byte", _singly(ROLE + delta('"content":"né 😀 漢"') + STOP + DONE)),
        _events("an event split inside a letter", _halves(delta('"content":"é😀"'), "😀".encode())),
        _events("each event passed on before the next comes", (*PLAIN[:4], STOP, DONE), marks=MARKS),
        _events("half an event passed on at once", (ROLE, WORDS[0][:-20], WORDS[0][-20:], *PLAIN[2:]), "half",
                marks=(b"", FIRST_WORD)),
        _events("no last blank line", (whole.removesuffix(b"\n"),), "space"),
        _events("no [DONE]", PLAIN[:-1]),
        _events("more after [DONE]", (*PLAIN, b": bye\n\n"), "comments"),
        _events("nothing but [DONE]", (DONE,)),
        _events("media type text/plain", PLAIN, headers=((b"content-type", b"text/plain"),)),
        _events("no media type", PLAIN, headers=((b"x-none", b"1"),)),
        _events("a whole answer, though a stream was asked for", (COMPLETION,), headers=JSON),
    ]  # fmt: skip


def _said() -> list[Case]:
    call = '"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":""}}]'
    arguments = '"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\": 1.0}"}}]'
    second = call.replace('"index":0', '"index":1').replace("call_1", "call_2")
    calls = (delta(f'"role":"assistant","content":null,{call}'), delta(arguments))
    done = (delta("", finish='"tool_calls"'), DONE)
    two = (delta('"content":"No"', index=1), STOP, delta("", finish='"length"', index=1))
    logprobs = delta('"content":"Yes"').replace(b'"logprobs":null', f'"logprobs":{{"content":[{_LOGPROB}]}}'.encode())
    error = b'data: {"error":{"message":"Out of memory.","type":"server_error","param":null,"code":null}}\n\n'
    return [
        _events("tool call in pieces", (*calls, *done)),
        _events("two tool calls", (*calls, delta(second), *done)),
        _events("two choices", (ROLE, WORDS[0], *two, DONE)),
        _events("refusal", (delta('"role":"assistant","refusal":""'), delta('"refusal":"I will not."'), STOP, DONE)),
        _events("reasoning_content", (ROLE, delta('"reasoning_content":"Hm."'), *PLAIN[1:])),
        _events("reasoning (another name)", (ROLE, delta('"reasoning":"Hm."'), *PLAIN[1:])),
        _events("finish_reason content_filter", (*PLAIN[:4], delta("", finish='"content_filter"'), DONE)),
        _events("finish_reason nobody knows", (*PLAIN[:4], delta("", finish='"abort"'), DONE)),
        _events("logprobs", (ROLE, logprobs, STOP, DONE)),
        _events("unknown field of an event", (ROLE, delta('"content":"a"', top=',"x_groq":{"id":"r"}'), STOP, DONE)),
        _events("unknown field of a choice", (ROLE, delta('"content":"a"', ',"token_ids":[7]'), STOP, DONE)),
        _events("unknown field of a delta", (ROLE, delta('"content":"a","x_note":"n"'), STOP, DONE)),
        _events("usage null in every event", [each.replace(b"]}\n", b'],"usage":null}\n') for each in PLAIN]),
        _events("obfuscation", (ROLE, delta('"content":"a"', top=',"obfuscation":"Qup1"'), STOP, DONE)),
        _events("usage with the last choice", (*PLAIN[:4], delta("", finish='"stop"', top=(
            ',"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"x_cached":4}')), DONE)),
        _events("prompt_filter_results before the choices", (_USAGE.replace(
            b'"usage":', b'"prompt_filter_results":'), *PLAIN)),
        _events("empty delta in the middle", (ROLE, WORDS[0], delta(""), *PLAIN[2:])),
        _events("an error within", (ROLE, WORDS[0], error)),
        _events("an error within, then [DONE]", (ROLE, WORDS[0], error, DONE)),
        _events("numbers written 1.50e2", (
            ROLE, delta('"content":"a"', top=',"x_time":1.50e2'), STOP, DONE), "numbers"),
    ]  # fmt: skip


def _packed() -> list[Case]:
    pressed = gzip.compress(b"".join(PLAIN), mtime=0)
    zipped = Script((pressed,), headers=(*EVENTS, (b"content-encoding", b"gzip")), framing="chunked")
    headed = Script(PLAIN, headers=(*EVENTS, (b"x-request-id", b"req_1"), *LIMITS), framing="chunked")
    refused = Script(
        (b'{"error":{"message":"m","type":"requests","param":null,"code":"slow_down"}}',),
        b"429 Too Many Requests",
        (*JSON, (b"retry-after", b"7")),
    )
    names = judge.reply_headers(b"x-request-id", *(name for name, _ in LIMITS))
    ends = Script(PLAIN, headers=EVENTS, framing="close", end="fin")
    return [
        Case("stream", "gzip", chat(STREAMED), judge.stream("encoding"), [zipped], headers=_GZIP),
        Case("stream", "headers x-request-id, x-ratelimit-…", chat(STREAMED), names, [headed]),
        Case("stream", "a 429 instead", chat(STREAMED), judge.reply(), [refused]),
        Case("stream", "retry-after of that 429", chat(STREAMED), judge.reply_headers(b"retry-after"), [refused]),
        Case("stream", "body that ends with the connection", chat(STREAMED), judge.stream(), [ends]),
    ]


def _singly(text: bytes) -> tuple[bytes, ...]:
    return tuple(text[i : i + 1] for i in range(len(text)))


def _halves(event: bytes, letter: bytes) -> tuple[bytes, ...]:
    at = event.index(letter) + 2
    return ROLE, event[:at], event[at:], STOP, DONE


REPLIES = [*_statuses(), *_bodies(), *_transport()]
STREAMS = [*_spelled(), *_said(), *_packed()]
