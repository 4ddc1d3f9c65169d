"""The rows of the page of the bridges: members of requests for responses and messages, and replies to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES

Json = dict[str, Any]
QUESTION = "Which port?"
_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Row(NamedTuple):
    """A request: the plain request of the dialect with further members."""

    name: str  # Markdown
    fields: Json


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A reply of the upstream to a chat completion: whole, and the same in chunks."""

    name: str
    message: Json  # of the whole completion
    finish: str = "stop"
    more: Json = field(default_factory=dict)  # further members of the choice
    usage: Json | None = field(default_factory=lambda: dict(_USAGE))
    end: Literal["whole", "cut", "error", "429"] = "whole"


PLAIN: dict[str, Json] = {
    RESPONSES.path: {"model": "m", "input": [{"role": "user", "content": QUESTION}]},
    MESSAGES.path: {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]},
}
_SCHEMA = {"type": "object", "properties": {}}
_CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
_RESULT = {"type": "function_call_output", "call_id": "c", "output": "4"}
_USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
_TOOL = {"type": "function", "name": "f", "parameters": _SCHEMA}
_OWN = {"name": "f", "input_schema": _SCHEMA}


def _said(*parts: Json) -> Json:
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}, *parts]}]}


def _then(*items: Json) -> Json:
    return {"input": [{"role": "user", "content": QUESTION}, *items]}


def _blocks(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}, *blocks]}]}


def _turns(*turns: tuple[str, Sequence[Json]]) -> Json:
    rows = [{"role": role, "content": list(blocks)} for role, blocks in turns]
    return {"messages": [{"role": "user", "content": QUESTION}, *rows]}


OF_RESPONSES: Sequence[Row] = [
    Row("`instructions`", {"instructions": "Be brief."}),
    Row("`input` as a text", {"input": QUESTION}),
    Row("a developer item", {"input": [{"role": "developer", "content": "Be brief."}, *_then()["input"]]}),
    Row("an image by address", _said({"type": "input_image", "image_url": "https://example.com/a.png"})),
    Row("an image as `data:`", _said({"type": "input_image", "image_url": "data:image/png;base64,AA=="})),
    Row("an image by `file_id`", _said({"type": "input_image", "file_id": "file-1"})),
    Row(
        "a PDF as `file_data`",
        _said({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}),
    ),
    Row("a file by `file_url`", _said({"type": "input_file", "file_url": "https://example.com/a.pdf"})),
    Row("sound", _said({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}})),
    Row(
        "an earlier answer with annotations",
        _then(
            {
                "role": "assistant",
                "content": [{"type": "output_text", "text": "80.", "annotations": [{"type": "url_citation"}]}],
            }
        ),
    ),
    Row("an earlier refusal", _then({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})),
    Row(
        "two calls and two results",
        {**_then(_CALL, {**_CALL, "call_id": "d"}, _RESULT, {**_RESULT, "call_id": "d"}), "tools": [_TOOL]},
    ),
    Row(
        "a result with an image",
        {
            **_then(_CALL, {**_RESULT, "output": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}),
            "tools": [_TOOL],
        },
    ),
    Row(
        "a reasoning item of OpenAI",
        _then({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
    ),
    Row("`item_reference`", _then({"type": "item_reference", "id": "msg_1"})),
    Row("an item of `web_search`", _then({"type": "web_search_call", "id": "ws_1", "status": "completed"})),
    Row("`max_output_tokens`", {"max_output_tokens": 50}),
    Row("`temperature`, `top_p`", {"temperature": 0.5, "top_p": 0.9}),
    Row("`reasoning.effort`", {"reasoning": {"effort": "low"}}),
    Row("`reasoning.summary`", {"reasoning": {"summary": "auto"}}),
    Row(
        "`text.format` with `json_schema`",
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": _SCHEMA}}},
    ),
    Row("`text.format` with `json_object`", {"text": {"format": {"type": "json_object"}}}),
    Row("`text.verbosity`", {"text": {"verbosity": "low"}}),
    Row("a function", {"tools": [_TOOL]}),
    Row("a custom tool", {"tools": [{"type": "custom", "name": "g"}]}),
    Row("a tool of a namespace", {"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": [_TOOL]}]}),
    Row("`web_search`", {"tools": [{"type": "web_search"}]}),
    Row("`mcp`", {"tools": [{"type": "mcp", "server_label": "s", "server_url": "https://example.com"}]}),
    Row("`tool_choice` of a function", {"tools": [_TOOL], "tool_choice": {"type": "function", "name": "f"}}),
    Row(
        "`tool_choice` with `allowed_tools`",
        {
            "tools": [_TOOL, {**_TOOL, "name": "g"}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        },
    ),
    Row("`parallel_tool_calls: false`", {"tools": [_TOOL], "parallel_tool_calls": False}),
    Row("`max_tool_calls`", {"max_tool_calls": 3}),
    Row("`stream_options`", {"stream_options": {"include_obfuscation": False}}),
    Row("`store`", {"store": True}),
    Row("`metadata`", {"metadata": {"a": "b"}}),
    Row("`client_metadata`", {"client_metadata": {"a": "b"}}),
    Row("`truncation`", {"truncation": "auto"}),
    Row("`include` of encrypted reasoning", {"include": ["reasoning.encrypted_content"]}),
    Row("`include` of logprobs", {"include": ["message.output_text.logprobs"]}),
    Row("`top_logprobs`", {"top_logprobs": 2}),
    Row("`user`", {"user": "u"}),
    Row("`service_tier`", {"service_tier": "auto"}),
    Row("`prompt_cache_key`", {"prompt_cache_key": "k"}),
    Row("`safety_identifier`", {"safety_identifier": "s"}),
    Row("`previous_response_id`", {"previous_response_id": "resp_1"}),
    Row("`conversation`", {"conversation": "conv_1"}),
    Row("`prompt`", {"prompt": {"id": "pmpt_1"}}),
    Row("`background`", {"background": True}),
    Row("`context_management`", {"context_management": [{"type": "compaction"}]}),
    Row("an unknown member", {"x_unknown": 1}),
]
OF_MESSAGES: Sequence[Row] = [
    Row("`system` as a text", {"system": "Be brief."}),
    Row(
        "`system` with `cache_control`",
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
    ),
    Row(
        "an image as base64",
        _blocks({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
    ),
    Row(
        "an image by address", _blocks({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})
    ),
    Row("an image by `file_id`", _blocks({"type": "image", "source": {"type": "file", "file_id": "file_1"}})),
    Row(
        "a PDF as base64",
        _blocks({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}),
    ),
    Row(
        "a PDF by address", _blocks({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}})
    ),
    Row(
        "a plain text document",
        _blocks(
            {
                "type": "document",
                "title": "N",
                "source": {"type": "text", "media_type": "text/plain", "data": "A note."},
            }
        ),
    ),
    Row(
        "a document with citations",
        _blocks(
            {
                "type": "document",
                "citations": {"enabled": True},
                "source": {"type": "text", "media_type": "text/plain", "data": "A note."},
            }
        ),
    ),
    Row("`search_result`", _blocks({"type": "search_result", "source": "s", "title": "t", "content": []})),
    Row(
        "a call and a result",
        {
            **_turns(("assistant", [_USE]), ("user", [{"type": "tool_result", "tool_use_id": "c", "content": "4"}])),
            "tools": [_OWN],
        },
    ),
    Row(
        "a result with `is_error`",
        {
            **_turns(
                ("assistant", [_USE]),
                ("user", [{"type": "tool_result", "tool_use_id": "c", "content": "No.", "is_error": True}]),
            ),
            "tools": [_OWN],
        },
    ),
    Row(
        "signed thinking",
        _turns(
            ("assistant", [{"type": "thinking", "thinking": "So.", "signature": "s"}, {"type": "text", "text": "80."}]),
            ("user", [{"type": "text", "text": "Sure?"}]),
        ),
    ),
    Row(
        "a beginning of the answer",
        {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "{"}]},
    ),
    Row("`stop_sequences`", {"stop_sequences": ["x"]}),
    Row("`temperature`, `top_p`", {"temperature": 0.5, "top_p": 0.9}),
    Row("`top_k`", {"top_k": 5}),
    Row("`metadata.user_id`", {"metadata": {"user_id": "u"}}),
    Row("`thinking`", {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
    Row("`output_config.effort`", {"output_config": {"effort": "low"}}),
    Row("`output_config.format`", {"output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}}),
    Row("a tool", {"tools": [_OWN]}),
    Row("a tool with `cache_control`", {"tools": [{**_OWN, "cache_control": {"type": "ephemeral"}}]}),
    Row("`bash_20250124`", {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
    Row("`web_search_20250305`", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    Row("`tool_choice` of a tool", {"tools": [_OWN], "tool_choice": {"type": "tool", "name": "f"}}),
    Row("`tool_choice` with `any`", {"tools": [_OWN], "tool_choice": {"type": "any"}}),
    Row(
        "`disable_parallel_tool_use`",
        {"tools": [_OWN], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    Row("`service_tier`", {"service_tier": "standard_only"}),
    Row("`context_management`", {"context_management": {"edits": []}}),
    Row("`container`", {"container": "c"}),
    Row("`mcp_servers`", {"mcp_servers": [{"type": "url", "url": "https://example.com", "name": "s"}]}),
    Row("an unknown member", {"x_unknown": 1}),
]
_CALLS = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ("c", "d")]
REPLIES: Sequence[ReplyRow] = [
    ReplyRow("a text", {"content": "80."}),
    ReplyRow("a refusal", {"content": None, "refusal": "No."}),
    ReplyRow("`reasoning_content`", {"reasoning_content": "So.", "content": "80."}),
    ReplyRow(
        "signed thinking",
        {
            "reasoning_content": "So.",
            "content": "80.",
            "thinking_blocks": [{"type": "thinking", "thinking": "So.", "signature": "s"}],
        },
    ),
    ReplyRow("two calls", {"content": None, "tool_calls": _CALLS}, "tool_calls"),
    ReplyRow("a text and a call", {"content": "80.", "tool_calls": _CALLS[:1]}, "tool_calls"),
    ReplyRow("a call that finishes with `stop`", {"content": None, "tool_calls": _CALLS[:1]}),
    ReplyRow(
        "a call with arguments that are no JSON",
        {
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "'}}],
        },
        "length",
    ),
    ReplyRow("finish `length`", {"content": "80"}, "length"),
    ReplyRow("finish `content_filter`", {"content": ""}, "content_filter"),
    ReplyRow("an unknown finish", {"content": "80."}, "odd"),
    ReplyRow("`logprobs`", {"content": "80."}, more={"logprobs": {"content": [{"token": "80.", "logprob": -1}]}}),
    ReplyRow(
        "citations (`annotations`)",
        {"content": "80.", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.com"}}]},
    ),
    ReplyRow("an unknown member of the message", {"content": "80.", "x_unknown": 1}),
    ReplyRow(
        "tokens of the cache", {"content": "80."}, usage={**_USAGE, "prompt_tokens_details": {"cached_tokens": 8}}
    ),
    ReplyRow(
        "tokens of reasoning",
        {"content": "80."},
        usage={**_USAGE, "completion_tokens_details": {"reasoning_tokens": 3}},
    ),
    ReplyRow("no usage", {"content": "80."}, usage=None),
    ReplyRow("an answer that breaks off", {"content": "80."}, end="cut"),
    ReplyRow("an error within the answer", {"content": "80."}, end="error"),
    ReplyRow("a status of 429", {"content": "80."}, end="429"),
]
