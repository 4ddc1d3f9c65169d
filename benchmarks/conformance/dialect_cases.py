"""The cases of the dialects: the same question about a request, a reply, a stream or a fault, put in each dialect.

A row has a case per dialect; a dialect without the feature has no case. All cases run in the relay lane. The bodies are
written from the references of the providers; every row about requests has passages, unless the row says otherwise.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.conformance import judge
from benchmarks.conformance.case import COMPLETION, FIRST_WORD, KEY, QUESTION, Case, Leave, chat, choice, completion
from benchmarks.conformance.judge import Judge
from benchmarks.conformance.reply_cases import DONE, ROLE, STOP, WORDS, delta
from benchmarks.conformance.wire import EVENTS, JSON, Pairs, Script

CHAT, RESPONSES, MESSAGES = PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
Part = Literal["request", "reply", "stream", "fault"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a case per dialect."""

    part: Part
    name: str
    cases: Mapping[str, Case]  # path -> case

    @property
    def title(self) -> str:
        """Part and name: unique."""
        return f"{self.part}: {self.name}"


Bodies = tuple[bytes | None, bytes | None, bytes | None]  # of chat completions, responses and messages; None: no case


def _row(part: Part, name: str, bodies: Bodies, judges: Sequence[Judge], scripts: Sequence[Script], **more: Any) -> Row:
    """judges, scripts: of each dialect. times: how often the exchange is made; other options: of the case."""
    times = more.pop("times", 1)
    cases = {
        path: Case("dialect", name, body, check, [script] * times, target=path.encode(), **more)
        for path, body, check, script in zip(PATHS, bodies, judges, scripts, strict=True)
        if body is not None
    }
    return Row(part, name, cases)


# --- Requests and replies in the words of each dialect

_QUESTION = json.dumps(QUESTION)
_USER = f'{{"role":"user","content":{_QUESTION}}}'
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
_SCHEMA = '{"type":"object","properties":{"port":{"type":"number"}},"required":["port"]}'


def _response(extra: str = "", *, given: str = _QUESTION, first: str = "", model: str = "gpt-4o") -> bytes:
    """A request for a response; given: the JSON of `input`; extra: more members, without a leading comma."""
    more = f",{extra}" if extra else ""
    return f'{{{first}"model":"{model}","input":{given}{more}}}'.encode()


def _message(
    extra: str = "", *, messages: str = f"[{_USER}]", first: str = "", model: str = "gpt-4o", limit: str = "64"
) -> bytes:
    """A request for a message; messages: JSON."""
    more = f",{extra}" if extra else ""
    return f'{{{first}"model":"{model}","max_tokens":{limit},"messages":{messages}{more}}}'.encode()


def _parts(chats: str | None, response: str | None, message: str | None) -> Bodies:
    """The question with a further content part in each dialect."""
    begin = '[{"role":"user","content":[{"type":"%s","text":' + f"{_QUESTION}}},"
    return (
        chat("", messages=begin % "text" + f"{chats}]}}]") if chats else None,
        _response(given=begin % "input_text" + f"{response}]}}]") if response else None,
        _message(messages=begin % "text" + f"{message}]}}]") if message else None,
    )


def _said(text: str) -> Bodies:
    """The question in a spelling of JSON."""
    return (
        chat("", messages=f'[{{"role":"user","content":"{text}"}}]'),
        _response(given=f'"{text}"'),
        _message(messages=f'[{{"role":"user","content":"{text}"}}]'),
    )


def _with(extra: str) -> Bodies:
    """A plain request with the same further members in each dialect."""
    return chat(extra), _response(extra), _message(extra)


_ITEM = '{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[%s]}'
_TEXT = '{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]%s}'


_REPEATED = (
    '"error":null,"instructions":null,"tools":[],"parallel_tool_calls":true,"metadata":{},"tool_choice":"auto",'
    '"temperature":1.0,"top_p":1.0'
)
_DETAILS = (
    '"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0}'
)


def _answer(output: str, more: str = "", *, status: str = "completed", usage: str = "") -> bytes:
    """A response; output: the items, more: further members with a leading comma."""
    used = f'"usage":{{"input_tokens":9,{usage or _DETAILS},"output_tokens":2,"total_tokens":11}}'
    head = f'"id":"resp_1","object":"response","created_at":1700000000,"status":"{status}","model":"gpt-4o-2024-08-06"'
    details = "" if "incomplete_details" in more else '"incomplete_details":null,'
    return f'{{{head},{_REPEATED},{details}"output":[{output}],{used}{more}}}'.encode()


def _whole_message(content: str, more: str = "", *, stop: str = "end_turn", usage: str = "") -> bytes:
    """A message; content: the blocks, more: further members with a leading comma."""
    used = f'"usage":{{"input_tokens":9,"output_tokens":2{usage}}}'
    head = '"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929"'
    return f'{{{head},"content":[{content}],"stop_reason":"{stop}","stop_sequence":null,{used}{more}}}'.encode()


RESPONSE = _answer(_ITEM % _TEXT % "")
MESSAGE = _whole_message('{"type":"text","text":"Yes."}')
_PLAIN: Bodies = (chat(""), _response(), _message())
_WHOLE = [Script((body,)) for body in (COMPLETION, RESPONSE, MESSAGE)]


def _event(kind: str, members: str = "") -> bytes:
    """An event with a name."""
    more = f",{members}" if members else ""
    return f'event: {kind}\ndata: {{"type":"{kind}"{more}}}\n\n'.encode()


def _piece(text: str) -> bytes:
    """A piece of the text of a response."""
    place = '"item_id":"msg_1","output_index":0,"content_index":0'
    return _event("response.output_text.delta", f'{place},"delta":{json.dumps(text)},"logprobs":[]')


def _block(text: str, kind: str = "text") -> bytes:
    """A piece of the first block of a message."""
    return _event("content_block_delta", f'"index":0,"delta":{{"type":"{kind}_delta","{kind}":{json.dumps(text)}}}')


def _numbered(*events: bytes) -> tuple[bytes, ...]:
    """The events of a response, with their numbers."""
    return tuple(event.replace(b'",', b'","sequence_number":%d,' % i, 1) for i, event in enumerate(events))


_WORDS = [FIRST_WORD.decode(), "beta", "gamma"]
_RESPONSE_BEGIN = (
    _event("response.created", f'"response":{_answer("", status="in_progress").decode()}'),
    _event("response.output_item.added", f'"output_index":0,"item":{_ITEM % ""}'),
)
_RESPONSE_END = (_event("response.completed", f'"response":{RESPONSE.decode()}'),)
_MESSAGE_BEGIN = (
    _event("message_start", f'"message":{_whole_message("").decode()}'),
    _event("content_block_start", '"index":0,"content_block":{"type":"text","text":""}'),
)
_MESSAGE_END = (
    _event("content_block_stop", '"index":0'),
    _event("message_delta", '"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}'),
    _event("message_stop"),
)
_CHAT_STREAM = (ROLE, *WORDS, STOP, DONE)
_RESPONSE_STREAM = _numbered(*_RESPONSE_BEGIN, *map(_piece, _WORDS), *_RESPONSE_END)
_MESSAGE_STREAM = (*_MESSAGE_BEGIN, *map(_block, _WORDS), *_MESSAGE_END)
_STREAMS = (_CHAT_STREAM, _RESPONSE_STREAM, _MESSAGE_STREAM)
_STREAMED = _with('"stream":true')


def _error(kind: str, code: str) -> Sequence[bytes]:
    """A provider's error in each dialect. The message names the model: a 404 without a model is about the path."""
    message = "What the upstream says about the model."
    openai = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    anthropic = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return [json.dumps(row).encode() for row in (openai, openai, anthropic)]


# --- The rows


def _request(name: str, bodies: Bodies, *about: str, **more: Any) -> Row:
    judges = [judge.request(*about, path=path) for path in PATHS]
    return _row("request", name, bodies, judges, _WHOLE, **{"rag": True, **more})


def _spelling() -> list[Row]:
    spaced: Bodies = (_spaced("messages"), _spaced("input"), _spaced("messages", ' , "max_tokens" : 64'))
    turned: Bodies = (_turned("messages"), _turned("input"), _turned("messages", '"max_tokens":64,'))
    twice = '"metadata":{"a":"1","a":"2"}'
    odd = f'{_USER[:-1]},"x_trace":[1]}}'
    return [
        _request("plain", _PLAIN),
        _request("white space and line breaks", spaced, "space"),
        _request("order of keys", turned, "order"),
        _request("numbers written 1.0, 1E+0, 1e-7, 2^63", _with('"temperature":1.0,"top_p":1E+0,"x_a":1e-7,'
                 '"x_b":9223372036854775808'), "numbers"),
        _request("escapes and raw Unicode", _said(QUESTION[:-1] + " \\u00e9 \\/ \\ud83d\\ude00 😀 \u2028?"), "escapes"),
        _request("half a surrogate pair", _said(QUESTION[:-1] + " \\ud83d?")),
        _request("nested key given twice", _with(twice), "duplicates"),
        _request("unknown members of the body", _with('"x_guided":{"a":[1]},"x_none":null,"x_list":[]')),
        _request("unknown members of a message", (
            chat("", messages=f"[{odd}]"), _response(given=f"[{odd}]"), _message(messages=f"[{odd}]"))),
        _request("a message, an item or a block of an unknown type", (
            chat("", messages=f'[{{"role":"critic","content":"Hm."}},{_USER}]'),
            _response(given=f'[{{"type":"item_of_tomorrow","x":1e-7}},{_USER}]'),
            _parts(None, None, '{"type":"block_of_tomorrow","x":1e-7}')[2])),
        _request("body of 5 MB", _with(f'"x_large":"{"A" * 5_000_000}"')),
    ]  # fmt: skip


def _spaced(name: str, more: str = "") -> bytes:
    said = f'[ {{"role" : "user", "content":\t{_QUESTION}}} ]'
    return f'{{\n "model" : "gpt-4o" ,\r\n\t"{name}" : {said}{more}\n}}\n'.encode()


def _turned(name: str, more: str = "") -> bytes:
    said = f'[{{"content":{_QUESTION},"role":"user"}}]'
    return f'{{"temperature":0.5,{more}"{name}":{said},"model":"gpt-4o"}}'.encode()


def _contents() -> list[Row]:
    turns = f'{_USER},{{"role":"assistant","content":"Yes."}},{_USER}'
    cached = '[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral","ttl":"1h"}}]'
    developer = '{"type":"message","role":"developer","content":[{"type":"input_text","text":"Be kind."}]}'
    return [
        _request("instructions as a text", (
            chat("", messages=f'[{{"role":"system","content":"Be kind."}},{_USER}]'),
            _response('"instructions":"Be \\"kind\\"."'), _message('"system":"Be \\"kind\\"."'))),
        _request("instructions as parts, with cache_control", (
            chat("", messages=f'[{{"role":"developer","content":{cached}}},{_USER}]'),
            _response(given=f"[{developer},{_USER}]"), _message(f'"system":{cached}'))),
        _request("conversation of three turns", (
            chat("", messages=f"[{turns}]"), _response(given=f"[{turns}]"), _message(messages=f"[{turns}]"))),
        _request("image as data", _parts(
            f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{_PNG}","detail":"low"}}}}',
            f'{{"type":"input_image","image_url":"data:image/png;base64,{_PNG}","detail":"low"}}',
            f'{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{_PNG}"}}}}')),
        _request("image by address", _parts(
            '{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}',
            '{"type":"input_image","image_url":"https://example.com/a.png","detail":"auto"}',
            '{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}')),
        _request("file or document", _parts(
            '{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}}',
            '{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}',
            '{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="},'
            '"title":"A","citations":{"enabled":true},"cache_control":{"type":"ephemeral"}}')),
        _request("sound", _parts(
            '{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}', None, None)),
    ]  # fmt: skip


def _tools() -> list[Row]:
    tool = f'"name":"look","description":"d","strict":true,"parameters":{_SCHEMA}'
    tools = (
        f'"tools":[{{"type":"function","function":{{{tool}}}}}]',
        f'"tools":[{{"type":"function",{tool}}}]',
        f'"tools":[{{"name":"look","description":"d","input_schema":{_SCHEMA},"cache_control":{{"type":"ephemeral"}}}}]',
    )
    call = '{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\\"port\\": 443.0}"}}'
    rounds = (
        f'[{_USER},{{"role":"assistant","content":null,"tool_calls":[{call}]}},'
        '{"role":"tool","tool_call_id":"call_1","content":"{\\"up\\": true}"}]',
        f'[{_USER},{{"type":"function_call","call_id":"call_1","name":"look","arguments":"{{\\"port\\": 443.0}}"}},'
        '{"type":"function_call_output","call_id":"call_1","output":"{\\"up\\": true}"}]',
        f'[{_USER},{{"role":"assistant","content":[{{"type":"tool_use","id":"call_1","name":"look","input":{{"port":443.0}}'
        '}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"up"}],'
        '"is_error":false}]}]',
    )
    thought = (
        '{"type":"thinking","thinking":"Hm.","signature":"EqQBCgIYAhIM"},{"type":"redacted_thinking","data":"EmwKAhgB"}'
    )
    reasoning = (
        '{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA="}'
    )
    return [
        _request("tools and tool_choice", (
            chat(f'{tools[0]},"tool_choice":{{"type":"function","function":{{"name":"look"}}}},"parallel_tool_calls":false'),
            _response(f'{tools[1]},"tool_choice":{{"type":"function","name":"look"}},"parallel_tool_calls":false'),
            _message(f'{tools[2]},"tool_choice":{{"type":"tool","name":"look","disable_parallel_tool_use":true}}'))),
        _request("tool call and its result", (
            chat(tools[0], messages=rounds[0]), _response(tools[1], given=rounds[1]),
            _message(tools[2], messages=rounds[2]))),
        _request("tools that the provider runs", (
            chat('"web_search_options":{"search_context_size":"low"}'),
            _response('"tools":[{"type":"web_search","filters":{"allowed_domains":["example.com"]}},{"type":"file_search",'
                      '"vector_store_ids":["vs_1"]},{"type":"mcp","server_label":"s","server_url":"https://example.com/mcp",'
                      '"require_approval":"never"},{"type":"computer_use_preview","display_width":1,"display_height":1,'
                      '"environment":"browser"},{"type":"code_interpreter","container":{"type":"auto"}}]'),
            _message('"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5},{"type":"computer_20250124",'
                     '"name":"computer","display_width_px":1,"display_height_px":1}],"mcp_servers":[{"type":"url",'
                     '"url":"https://example.com/mcp","name":"s"}]'))),
        _request("results of such tools", (
            None,
            _response(given=f'[{_USER},{{"type":"web_search_call","id":"ws_1","status":"completed",'
                      '"action":{"type":"search","query":"q"}},{"type":"mcp_call",'
                      '"id":"m","server_label":"s","name":"n","arguments":"{}","output":"o"},{"type":"computer_call_output",'
                      '"call_id":"c","output":{"type":"computer_screenshot","file_id":"f"}},'
                      f'{{"type":"item_reference","id":"msg_0"}},{_USER}]'),
            _message(messages=f'[{_USER},{{"role":"assistant","content":[{{"type":"server_tool_use","id":"s","name":"web_search",'
                     '"input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":'
                     '"web_search_result","url":"https://example.com","title":"t","encrypted_content":"Eq"}]},{"type":"text",'
                     f'"text":"Yes.","citations":[{{"type":"char_location","cited_text":"c"}}]}}]}},{_USER}]'))),
        _request("reasoning of an earlier answer", (
            chat("", messages=f'[{_USER},{{"role":"assistant","content":"Yes.","reasoning_content":"Hm."}},{_USER}]'),
            _response('"include":["reasoning.encrypted_content"]', given=f'[{_USER},{reasoning},{_USER}]'),
            _message('"thinking":{"type":"enabled","budget_tokens":1024}', limit="2048", messages=(
                f'[{_USER},{{"role":"assistant","content":[{thought},{{"type":"text","text":"Yes."}}]}},{_USER}]')))),
        _request("form of the answer as a JSON schema", (
            chat(f'"response_format":{{"type":"json_schema","json_schema":{{"name":"a","strict":true,"schema":{_SCHEMA}}}}}'),
            _response(f'"text":{{"format":{{"type":"json_schema","name":"a","strict":true,"schema":{_SCHEMA}}}}}'),
            _message(f'"output_config":{{"format":{{"type":"json_schema","schema":{_SCHEMA}}}}}'))),
    ]  # fmt: skip


# The members of each request that no other row sends, as the providers' references list the members.
_MEMBERS = (
    '"frequency_penalty":0.5,"logit_bias":{"50256":-100},"logprobs":true,"top_logprobs":5,"max_completion_tokens":64,'
    '"metadata":{"team":"a"},"modalities":["text"],"moderation":{"model":"m"},"n":1,"prediction":{"type":"content","content":"x"},'
    '"presence_penalty":-0.5,"prompt_cache_key":"p-1","prompt_cache_options":{"mode":"implicit"},'
    '"prompt_cache_retention":"24h","reasoning_effort":"low","safety_identifier":"s-1","seed":-7,"service_tier":"flex",'
    '"stop":["END"],"store":true,"temperature":0.5,"top_p":0.9,"user":"u-1","verbosity":"low",'
    '"audio":{"voice":"alloy","format":"wav"},"function_call":"auto","functions":[{"name":"f","parameters":{}}]',
    '"background":true,"context_management":[{"type":"compaction","compact_threshold":1000}],"conversation":{"id":"conv_1"},'
    '"max_output_tokens":64,"max_tool_calls":3,"metadata":{"team":"a"},"moderation":{"model":"m"},'
    '"prompt_cache_key":"p-1","prompt_cache_options":{"mode":"implicit"},"prompt_cache_retention":"24h",'
    '"reasoning":{"effort":"low","summary":"auto"},"safety_identifier":"s-1","service_tier":"flex","store":true,'
    '"stream_options":{"include_obfuscation":false},"temperature":0.5,"top_logprobs":5,"top_p":0.9,"truncation":"auto","user":"u-1"',
    '"container":{"id":"c_1","skills":[]},"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},'
    '"inference_geo":"us","metadata":{"user_id":"u-1"},"output_config":{"effort":"low"},"service_tier":"auto","speed":"fast",'
    '"stop_sequences":["END"],"temperature":0.5,"thinking":{"type":"adaptive"},"top_k":5,"top_p":0.9',
)  # fmt: skip
_STEERING: Mapping[str, Pairs] = {
    CHAT: ((b"idempotency-key", b"k-1"), (b"openai-beta", b"assistants=v2"), (b"x-client-request-id", b"c-1")),
    RESPONSES: ((b"idempotency-key", b"k-1"), (b"openai-beta", b"responses=v1"), (b"x-client-request-id", b"c-1")),
    MESSAGES: ((b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"context-1m-2025-08-07")),
}


def _around() -> list[Row]:
    chats, response, message = _MEMBERS
    alias = (chat("", model="alias"), _response(model="alias"), _message(model="alias"))
    ragged = (chat("", first='"rag":{"k":2},'), _response(first='"rag":{"k":2},'), _message(first='"rag":{"k":2},'))
    plain = [judge.request(path=path, expect=body) for path, body in zip(PATHS, _PLAIN, strict=True)]
    busy = [Script((body,), b"500 Internal Server Error") for body in _error("api_error", "internal")]
    key: Pairs = ((b"authorization", b"Bearer sk-of-the-client"),)
    stored = '"previous_response_id":"resp_0","prompt":{"id":"pmpt_1","version":"2"}'
    count = Case(
        "dialect",
        "",
        _message(),
        judge.request(path=MESSAGES, block=False),
        [Script((b'{"input_tokens":9}',))],
        target=b"/v1/messages/count_tokens",
    )
    steering = [
        Case("dialect", "", body, judge.travels(*(name for name, _ in _STEERING[path])), [script],
             headers=_STEERING[path], target=path.encode())
        for path, body, script in zip(PATHS, _PLAIN, _WHOLE, strict=True) if body is not None
    ]  # fmt: skip
    return [
        _request("all other members of the reference", (chat(chats), _response(response), _message(message))),
        _request("an earlier response and a stored prompt", (
            None, _response(f'{stored},"instructions":"Be kind."'), None)),
        _request("without passages", _PLAIN, rag=False),
        _row("request", "alias of a model: its value and nothing else", alias, plain, _WHOLE, rag=True),
        _row("request", "`rag` removed", ragged, plain, _WHOLE, rag=True),
        Row("request", "headers that steer the upstream", dict(zip(PATHS, steering, strict=True))),
        _row("request", "the client's keys, if a key is configured", _PLAIN, [judge.keyed(KEY)] * 3, _WHOLE,
             headers=key),
        _row("request", "one request upstream: it answers 500", _PLAIN, [judge.once] * 3, busy),
        Row("request", "count of tokens", {MESSAGES: count}),
    ]  # fmt: skip


def _reply(name: str, bodies: Sequence[bytes | None], *about: str, asked: Bodies = _PLAIN) -> Row:
    sent = (body if reply is not None else None for body, reply in zip(asked, bodies, strict=True))
    scripts = [Script((reply or b"",)) for reply in bodies]
    chats, response, message = sent
    return _row("reply", name, (chats, response, message), [judge.reply(*about)] * 3, scripts)


def _replies() -> list[Row]:
    said = choice('"content":"Yes.","refusal":null')
    text = '{"type":"text","text":"Yes."%s}'
    cited = '"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":3,"title":"t","url":"https://a"}}]'
    call = '{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\\"a\\": 1.0}"}}'
    called = (
        '{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":"{\\"a\\": 1.0}",'
        '"status":"completed"}'
    )
    reasoning = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA="},'
    thinking = '{"type":"thinking","thinking":"Hm.","signature":"EqQB"},{"type":"redacted_thinking","data":"Em"},'
    searched = '{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},'
    server = '{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},'
    refusal = '{"type":"refusal","refusal":"I will not."}'
    usage = '"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}'
    unknown = '"x_trace":{"a":[1]}'
    return [
        _reply("plain", (COMPLETION, RESPONSE, MESSAGE)),
        _reply("white space and number spellings", (
            completion(said, ',\n "x_odd" : 1.50e2'), _answer(_ITEM % _TEXT % "", ',\n "x_odd" : 1.50e2'),
            _whole_message(text % "", ',\n "x_odd" : 1.50e2')), "space", "numbers"),
        _reply("escapes and raw Unicode", tuple(body.replace(b"Yes.", "\\u00e9 😀 \u2028 \\/".encode()) for body in (
            completion(said), RESPONSE, MESSAGE)), "escapes"),
        _reply("unknown members", (
            completion(said, f",{unknown}"), _answer(_ITEM % _TEXT % f",{unknown}", f",{unknown}"),
            _whole_message(text % f",{unknown}", f",{unknown}"))),
        _reply("tool call", (
            completion(choice(f'"content":null,"refusal":null,"tool_calls":[{call}]', "tool_calls")), _answer(called),
            _whole_message('{"type":"tool_use","id":"call_1","name":"look","input":{"a":1.0}}', stop="tool_use"))),
        _reply("reasoning", (
            completion(choice('"content":"Yes.","reasoning_content":"Hm."')), _answer(reasoning + _ITEM % _TEXT % ""),
            _whole_message(thinking + text % ""))),
        _reply("citations", (
            completion(choice(f'"content":"Yes.",{cited}')),
            _answer(_ITEM % '{"type":"output_text","text":"Yes.","logprobs":[],"annotations":[{"type":"url_citation",'
                    '"start_index":0,"end_index":3,"title":"t","url":"https://a"}]}'),
            _whole_message(text % ',"citations":[{"type":"char_location","cited_text":"c","document_index":0}]'))),
        _reply("calls of tools that the provider runs", (
            None, _answer(searched + _ITEM % _TEXT % ""), _whole_message(server + text % ""))),
        _reply("refusal", (
            completion(choice('"content":null,"refusal":"I will not."')), _answer(_ITEM % refusal),
            _whole_message(text % "", stop="refusal"))),
        _reply("answer cut by the limit", (
            completion(choice('"content":"Yes."', "length")),
            _answer(_ITEM % _TEXT % "", ',"incomplete_details":{"reason":"max_output_tokens"}', status="incomplete"),
            _whole_message(text % "", stop="max_tokens"))),
        _reply("usage with details", (
            completion(said, f",{usage}"),
            _answer(_ITEM % _TEXT % "", usage=_DETAILS.replace(":0", ":1")),
            _whole_message(text % "", usage=',"cache_read_input_tokens":4,"cache_creation":{"ephemeral_1h":2}'))),
        *_statuses(),
        *_transport(),
    ]  # fmt: skip


def _statuses() -> list[Row]:
    statuses = {
        b"400 Bad Request": "invalid_request_error", b"401 Unauthorized": "authentication_error",
        b"403 Forbidden": "permission_error", b"404 Not Found": "not_found_error",
        b"429 Too Many Requests": "rate_limit_error", b"500 Internal Server Error": "api_error",
        b"529 Site Is Overloaded": "overloaded_error",
    }  # fmt: skip
    return [
        _row("reply", f"status {status.decode()}", _PLAIN, [judge.reply()] * 3, [
            Script((body,), status) for body in _error(kind, "code")])
        for status, kind in statuses.items()
    ]  # fmt: skip


def _transport() -> list[Row]:
    openais: Pairs = (
        (b"x-request-id", b"req_1"),
        (b"x-ratelimit-remaining-tokens", b"9"),
        (b"openai-processing-ms", b"12"),
    )
    anthropics: Pairs = ((b"request-id", b"req_1"), (b"anthropic-ratelimit-tokens-remaining", b"9"),
                         (b"anthropic-organization-id", b"o"))  # fmt: skip
    headers = (openais, openais, anthropics)
    names = [judge.reply_headers(*(name for name, _ in pairs)) for pairs in headers]
    headed = [Script(whole.pieces, headers=(*JSON, *pairs)) for whole, pairs in zip(_WHOLE, headers, strict=True)]
    late = [
        Script((body,), b"429 Too Many Requests", (*JSON, (b"retry-after", b"7")))
        for body in _error("rate_limit_error", "c")
    ]
    zipped = [
        Script((gzip.compress(each.body, mtime=0),), headers=(*JSON, (b"content-encoding", b"gzip"))) for each in _WHOLE
    ]
    single = [Script(tuple(each.body[i : i + 1] for i in range(len(each.body))), framing="chunked") for each in _WHOLE]
    return [
        _row("reply", "headers of the provider", _PLAIN, names, headed),
        _row("reply", "header retry-after of a 429", _PLAIN, [judge.reply_headers(b"retry-after")] * 3, late),
        _row("reply", "gzip", _PLAIN, [judge.reply("encoding")] * 3, zipped, headers=((b"accept-encoding", b"gzip"),)),
        _row("reply", "body in chunks of one byte", _PLAIN, [judge.reply()] * 3, single),
    ]


def _stream(name: str, streams: Sequence[Sequence[bytes] | None], *about: str, marked: bool = False) -> Row:
    """marked: each piece must reach the client before the upstream sends the next piece."""
    asked: Any = tuple(body if pieces is not None else None for body, pieces in zip(_STREAMED, streams, strict=True))
    scripts = [
        Script(tuple(pieces or ()), headers=EVENTS, framing="chunked", marks=_marks(pieces or ()) if marked else ())
        for pieces in streams
    ]
    return _row("stream", name, asked, [judge.stream(*about)] * 3, scripts)


def _marks(pieces: Sequence[bytes]) -> tuple[bytes, ...]:
    """The word in each piece that carries a word."""
    return tuple(next((word.encode() for word in _WORDS if word.encode() in piece), b"") for piece in pieces)


def _streams() -> list[Row]:
    whole = [b"".join(pieces) for pieces in _STREAMS]
    comments = [(pieces[0], b": keep-alive\n\n", *pieces[1:]) for pieces in _STREAMS]
    call = '"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}}]'
    called = (
        '"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":""}'
    )
    used = '"index":0,"content_block":{"type":"tool_use","id":"call_1","name":"look","input":{}}'
    pings = (*_MESSAGE_STREAM[:2], _event("ping"), b": keep-alive\n\n", *_MESSAGE_STREAM[2:])
    error = '"error":{"message":"Out of memory.","type":"server_error","param":null,"code":null}'
    broken = '"error":{"type":"overloaded_error","message":"Overloaded"}'
    failed = '"code":"server_error","message":"Out of memory.","param":null'
    return [
        _stream("plain", _STREAMS),
        _stream("each event passed on before the next comes", _STREAMS, marked=True),
        _stream("writes of one byte", [tuple(each[i : i + 1] for i in range(len(each))) for each in whole]),
        _stream("comments, keep-alives, pings", (*comments[:2], pings), "comments"),
        _stream("line ends CRLF", [(each.replace(b"\n", b"\r\n"),) for each in whole], "lines"),
        _stream("numbers written 1.50e2", [
            (each.replace(b'"created":1700000000', b'"created":1.50e2').replace(b'_tokens":9', b'_tokens":1.50e2'),)
            for each in whole], "numbers"),
        _stream("tool call in pieces", (
            (delta(f'"role":"assistant","content":null,{call}'), delta("", finish='"tool_calls"'), DONE),
            _numbered(_RESPONSE_BEGIN[0], _event("response.output_item.added", called), _event(
                "response.function_call_arguments.delta", '"item_id":"fc_1","output_index":0,"delta":"{\\"a\\":"'),
             *_RESPONSE_END),
            (_MESSAGE_BEGIN[0], _event("content_block_start", used), _event(
                "content_block_delta", '"index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":"}'),
             *_MESSAGE_END))),
        _stream("reasoning", (
            (ROLE, delta('"reasoning_content":"Hm."'), STOP, DONE),
            _numbered(_RESPONSE_BEGIN[0], _event("response.reasoning_summary_text.delta", '"item_id":"rs_1",'
                      '"output_index":0,"summary_index":0,"delta":"Hm."'), *_RESPONSE_END),
            (_MESSAGE_BEGIN[0], _block("Hm.", "thinking"), _event("content_block_delta", '"index":0,"delta":{"type":'
             '"signature_delta","signature":"EqQB"}'), *_MESSAGE_END))),
        _stream("an event of an unknown type", (
            (ROLE, b'data: {"object":"chunk.of.tomorrow","x":1.50e2}\n\n', STOP, DONE),
            _numbered(*_RESPONSE_BEGIN, _event("response.of_tomorrow", '"x":1.50e2'), *_RESPONSE_END),
            (*_MESSAGE_BEGIN, _event("event_of_tomorrow", '"x":1.50e2'), *_MESSAGE_END))),
        _stream("an error within", (
            (ROLE, WORDS[0], f"data: {{{error}}}\n\n".encode()),
            _numbered(*_RESPONSE_BEGIN, _piece(_WORDS[0]), _event("error", failed)),
            (*_MESSAGE_STREAM[:3], _event("error", broken)))),
        _row("stream", "a 429 instead", _STREAMED, [judge.reply()] * 3, [
            Script((body,), b"429 Too Many Requests") for body in _error("rate_limit_error", "slow_down")]),
    ]  # fmt: skip


def _fault(name: str, bodies: Bodies, script: Script | Sequence[Script], *statuses: int, leave: Leave = "") -> Row:
    scripts = [script] * 3 if isinstance(script, Script) else script
    judges = [judge.refuses(path, *statuses) for path in PATHS]
    return _row("fault", name, bodies, judges, scripts, leave=leave)


def _faults() -> list[Row]:
    down = (chat("", model="down"), _response(model="down"), _message(model="down"))
    lost = (chat("", model="nowhere"), _response(model="nowhere"), _message(model="nowhere"))
    wrong = (chat("", messages="5"), _response(given="5"), _message(messages="5"))
    twice = (chat('"model":"x"'), _response('"model":"x"'), _message('"model":"x"'))
    silent, gone = Script(headless=True, end="silent"), Script(headless=True, end="fin")
    cut = [
        Script(pieces[:4], headers=EVENTS, framing="chunked", end="fin", marks=_marks(pieces[:4]))
        for pieces in _STREAMS
    ]
    open_end = [Script(each.pieces, headers=EVENTS, framing="close", end="fin", marks=each.marks) for each in cut]
    short = [
        Script((each.body[:40],), headers=(*JSON, (b"content-length", b"%d" % len(each.body))), end="fin")
        for each in _WHOLE
    ]
    begun = [Script(pieces[:3], headers=EVENTS, framing="chunked", end="silent") for pieces in _STREAMS]
    cuts = [judge.cut(path) for path in PATHS]
    closes = [judge.closes_upstream] * 3
    return [
        _fault("body that is no JSON", (b"{", b"{", b"{"), _WHOLE, 400),
        _fault("conversation that is a number", wrong, _WHOLE, 400),
        _fault("`model` given twice", twice, _WHOLE, 400),
        _fault("model that the gateway does not know", lost, _WHOLE, 404),
        _fault("nobody listens", down, Script(), 502),
        _fault("silence before the head", _PLAIN, silent, 504),
        _fault("closed before the head, stream", _STREAMED, gone, 502),
        _row("fault", "closed within a stream", _STREAMED, cuts, cut),
        _row("fault", "closed within a stream, close-delimited", _STREAMED, cuts, open_end),
        _row("fault", "whole answer shorter than its content-length", _PLAIN, cuts, short),
        _row("fault", "client leaves before a whole answer", _PLAIN, closes, [silent] * 3, times=5,
             leave="before the first byte"),
        _row("fault", "client leaves within a stream", _STREAMED, closes, begun, times=5, leave="within the stream"),
    ]  # fmt: skip


ROWS: Sequence[Row] = [*_spelling(), *_contents(), *_tools(), *_around(), *_replies(), *_streams(), *_faults()]
