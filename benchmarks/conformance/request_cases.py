"""The cases about the request: which parts of a client's request reach the upstream."""

import json
from dataclasses import replace

from benchmarks.conformance import judge
from benchmarks.conformance.case import COMPLETION, KEY, QUESTION, TRAP, Case, chat
from benchmarks.conformance.judge import Judge
from benchmarks.conformance.wire import Pairs, Script

_CALL = '{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\\"port\\": 443.0}"}}'
_TOOL = '{"type":"function","function":{"name":"look","strict":true,"parameters":{"type":"object","properties":{}}}}'
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
_USER = json.dumps({"role": "user", "content": QUESTION}, separators=(",", ":"))

WANTED: Pairs = (
    (b"idempotency-key", b"k-1"), (b"openai-beta", b"assistants=v2"), (b"traceparent", b"00-1-2-01"),
    (b"x-client-request-id", b"c-1"), (b"x-stainless-lang", b"python"), (b"user-agent", b"case/1"),
)  # fmt: skip
UNWANTED: Pairs = (
    (b"cookie", b"session=1"), (b"x-forwarded-for", b"10.0.0.1"), (b"x-real-ip", b"10.0.0.1"), (b"forwarded", b"for=_"),
    (b"x-internal-user", b"ada"), (b"openai-organization", b"org-client"), (b"x-rag-collection", b"docs"),
    (b"proxy-authorization", b"Basic Zm9v"), (b"referer", b"http://127.0.0.1/"), (b"x_forwarded_for", b"10.0.0.2"),
)  # fmt: skip
CLIENT_KEYS: Pairs = ((b"authorization", b"Bearer sk-of-the-client"), (b"api-key", b"sk-of-the-client"))


def _parts(*parts: str) -> bytes:
    text = f'{{"type":"text","text":{json.dumps(QUESTION)}}}'
    return chat("", messages=f'[{{"role":"user","content":[{",".join([text, *parts])}]}}]')


def _case(name: str, body: bytes, check: Judge | None = None, headers: Pairs = (), *scripts: Script) -> Case:
    found = scripts or (Script((COMPLETION,)),)
    return Case("request", name, body, check or judge.request(), found, headers=headers, rag=True)


def _spelling() -> list[Case]:
    deep = "{" + '"properties":{"a":{' * 60 + '"type":"string"' + "}}" * 60 + "}"
    tool = f'[{{"type":"function","function":{{"name":"deep","parameters":{deep}}}}}]'
    twice = '[{"type":"function","function":{"name":"f","parameters":{"type":"object","x":1,"x":2}}}]'
    return [
        _case("plain, without white space", chat("")),
        _case("white space and line breaks", _spaced(), judge.request("space")),
        _case("order of keys", _turned(), judge.request("order")),
        _case("whole number of 2^63", chat('"seed":9223372036854775808'), judge.request("numbers")),
        _case("number written 1e-7", chat('"temperature":1e-7'), judge.request("numbers")),
        _case("numbers written 1.0, -0.0, 1E+0", chat(
            '"temperature":1.0,"presence_penalty":-0.0,"top_p":1E+0'), judge.request("numbers")),
        _case("number of 20 digits", chat('"top_p":0.10000000000000000555'), judge.request("numbers")),
        _case("escapes: é, \\/, a surrogate pair", _said(QUESTION[:-1] + "\\u00e9 \\/ \\ud83d\\ude00?"),
              judge.request("escapes")),
        _case("half a surrogate pair", _said(QUESTION[:-1] + " \\ud83d?")),
        _case("raw Unicode: emoji, U+2028, combining marks", _said(QUESTION[:-1] + " 😀 \u2028 e\u0301 漢字?"),
              judge.request("escapes")),
        _case("an escaped NUL", _said(QUESTION[:-1] + " \\u0000?")),
        _case("nested key given twice", chat(f'"tools":{twice}'), judge.request("duplicates")),
        _case("objects nested 120 deep", chat(f'"tools":{tool}')),
        _case("null, empty text and empty list", chat('"stop":null,"user":"","logit_bias":{},"metadata":null')),
        _case("unknown parameters (vLLM's, llama.cpp's)", chat(
            '"min_p":0.05,"guided_json":{"type":"object"},"chat_template_kwargs":{"enable_thinking":false},"mirostat":2')),
        _case("unknown fields in a message", chat(
            "", messages=f'[{_USER[:-1]},"name":"ada","cache_control":{{"type":"ephemeral"}},"x_trace":[1]}}]')),
    ]  # fmt: skip


def _contents() -> list[Case]:
    many = '{"role":"user","content":"Next."},{"role":"assistant","content":"Ok."},' * 200
    return [
        _case("content as a list of text parts", _parts('{"type":"text","text":"Be short."}')),
        _case("picture as data, with detail", _parts(
            f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{_PNG}","detail":"low"}}}}')),
        _case("picture by address", _parts('{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}')),
        _case("audio", _parts('{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}')),
        _case("file", _parts(
            '{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}}')),
        _case("a part of an unknown type", _parts('{"type":"video_url","video_url":{"url":"https://a.example/a"}}')),
        _case("developer message", chat("", messages=f'[{{"role":"developer","content":"Be short."}},{_USER}]')),
        _case("system message of the client's", chat("", messages=(
            f'[{{"role":"system","content":"Be kind."}},{_USER}]'))),
        _case("system message later on", chat("", messages=(
            f'[{_USER},{{"role":"assistant","content":"?"}},{{"role":"system","content":"Now."}},{_USER}]'))),
        _case("begun answer (prefill)", chat(
            "", messages=f'[{_USER},{{"role":"assistant","content":"Use `","prefix":true}}]')),
        _case("refusal and audio of an earlier answer", chat("", messages=(
            f'[{_USER},{{"role":"assistant","content":null,"refusal":"No."}},'
            f'{{"role":"assistant","audio":{{"id":"audio_1"}}}},{_USER}]'))),
        _case("reasoning of an earlier answer", chat("", messages=(
            f'[{_USER},{{"role":"assistant","content":"Yes.","reasoning_content":"Hm."}},{_USER}]'))),
        _case("conversation of 401 messages", chat("", messages=f"[{many}{_USER}]")),
        _case("body of 5 MB", _parts(
            f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{"A" * 5_000_000}"}}}}')),
    ]  # fmt: skip


def _tools() -> list[Case]:
    answered = '{"role":"tool","tool_call_id":"call_1","content":"{\\"up\\": true}"}'
    asked = f'{{"role":"assistant","content":null,"tool_calls":[{_CALL}]}}'
    two = f'{{"role":"assistant","tool_calls":[{_CALL},{_CALL.replace("call_1", "call_2")}]}}'
    schema = '{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","required":[]}}}'
    return [
        _case("tools with a strict schema", chat(f'"tools":[{_TOOL}]')),
        _case("tool_choice and parallel_tool_calls", chat(
            f'"tools":[{_TOOL}],"tool_choice":{{"type":"function","function":{{"name":"look"}}}},"parallel_tool_calls":false')),
        _case("tool call and its result", chat(f'"tools":[{_TOOL}]', messages=f"[{_USER},{asked},{answered}]")),
        _case("two calls at once, no content", chat(
            f'"tools":[{_TOOL}]', messages=f"[{_USER},{two},{answered},{answered.replace('call_1', 'call_2')}]")),
        _case("tool result as a list of parts", chat(f'"tools":[{_TOOL}]', messages=(
            f'[{_USER},{asked},{{"role":"tool","tool_call_id":"call_1","content":[{{"type":"text","text":"up"}}]}}]'))),
        _case("custom tool with a grammar", chat(
            '"tools":[{"type":"custom","custom":{"name":"sql","format":{"type":"text"}}}]')),
        _case("tool of a type nobody knows", chat('"tools":[{"type":"retriever","retriever":{"name":"r"}}]')),
        _case("functions and function_call (deprecated)", chat(
            '"functions":[{"name":"look","parameters":{"type":"object","properties":{}}}],"function_call":"auto"')),
        _case("response_format: json_object", chat('"response_format":{"type":"json_object"}')),
        _case("response_format: json_schema", chat(f'"response_format":{schema}')),
    ]  # fmt: skip


def _parameters() -> list[Case]:
    asked = {
        "n": '"n":3', "logprobs and top_logprobs": '"logprobs":true,"top_logprobs":5', "seed": '"seed":-7',
        "stop, penalties, logit_bias": '"stop":["\\n","END"],"presence_penalty":0.5,"frequency_penalty":-0.5,'
        '"logit_bias":{"50256":-100}',
        "max_completion_tokens": '"max_completion_tokens":64', "max_tokens": '"max_tokens":64',
        "user, store, service_tier": '"user":"u-1","store":true,"service_tier":"flex"',
        "metadata": '"metadata":{"team":"a"}',
        "prompt_cache_key, safety_identifier": '"prompt_cache_key":"p-1","safety_identifier":"s-1"',
        "modalities and audio": '"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}',
        "prediction": '"prediction":{"type":"content","content":"Use TLS."}',
        "web_search_options": '"web_search_options":{"search_context_size":"low"}',
    }  # fmt: skip
    events = Script((_STREAM,), headers=((b"content-type", b"text/event-stream"),), framing="chunked")
    streamed = {
        "stream with include_usage": '"stream":true,"stream_options":{"include_usage":true}',
        "stream without stream_options": '"stream":true',
        "stream with include_obfuscation": '"stream":true,"stream_options":{"include_obfuscation":false}',
    }
    return [
        *(_case(name, chat(extra)) for name, extra in asked.items()),
        _case("reasoning_effort and verbosity", chat('"reasoning_effort":"low","verbosity":"low"', model="gpt-5")),
        *(_case(name, chat(extra), None, (), events) for name, extra in streamed.items()),
    ]


def _around() -> list[Case]:
    plain, alias = chat(""), chat("", model="alias")
    rag_first, rag_last = chat("", first='"rag":{"enabled":true},'), chat('"rag":{"collections":["docs"]}')
    turned = judge.request(expect=plain)
    busy = Script((b'{"error":{"message":"m","type":"t","param":null,"code":null}}',), b"500 Internal Server Error")
    late = Script(busy.pieces, b"429 Too Many Requests", (*busy.headers, (b"retry-after", b"1")))
    down = Script(busy.pieces, b"503 Service Unavailable", (*busy.headers, (b"retry-after", b"1")))
    trapped = chat(f'"api_base":"http://127.0.0.1:{TRAP}/v1","base_url":"http://127.0.0.1:{TRAP}/v1"')
    reused = (Script((COMPLETION,)), Script(headless=True, end="fin"))
    return [
        _case("alias of a model: its value and nothing else", alias, turned),
        replace(_case("`rag` removed, first in the body", rag_first, turned), of_ours=True),
        replace(_case("`rag` removed, last in the body", rag_last, turned), of_ours=True),
        _case("headers that steer the upstream", plain, judge.travels(*(name for name, _ in WANTED)), WANTED),
        _case("headers of this side: cookies, X-Forwarded-…", plain, judge.stays(
            *(name for name, _ in UNWANTED)), UNWANTED),
        _case("the client's keys", plain, judge.keyed(KEY), CLIENT_KEYS),
        _case("body that names another api_base", trapped, judge.untrapped(judge.request())),
        replace(_case("query of the address", plain, judge.target(_QUERIED)), target=_QUERIED),
        _case("one request upstream: it answers 500", plain, judge.once, (), busy),
        _case("one request upstream: it answers 429", plain, judge.once, (), late),
        _case("one request upstream: it answers 503", plain, judge.once, (), down),
        _case("one request upstream: it hangs up", plain, judge.once, (), Script(headless=True, end="fin")),
        replace(
            _case("one request upstream: it hangs up on the second of a connection", plain, judge.once, (), *reused),
            only_last=True,
        ),
    ]  # fmt: skip


def _spaced() -> bytes:
    return (
        b'{\n  "model" : "gpt-4o" ,\r\n\t"messages": [ {"role" : "user", "content":\t"%b"} ]\n}\n' % QUESTION.encode()
    )


def _turned() -> bytes:
    return b'{"temperature":0.5,"messages":[{"content":"%b","role":"user"}],"model":"gpt-4o"}' % QUESTION.encode()


def _said(text: str) -> bytes:
    return chat("", messages=f'[{{"role":"user","content":"{text}"}}]')


_QUERIED = b"/v1/chat/completions?api-version=1"
_STREAM = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-2024-08-06","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
REQUESTS = [*_spelling(), *_contents(), *_tools(), *_parameters(), *_around()]
