"""Requests as the coding agents Codex and Claude Code write requests, by their public sources and documentation.

Codex: codex-rs/core/src/client.rs and codex-rs/codex-api/src/common.rs of openai/codex. Claude Code: requests that were
published by users. A seed decides the history, the tools and the options of a request.
"""

import json
import random
from typing import Any
from uuid import UUID

Json = dict[str, Any]
MODEL = "gpt-x"
QUESTION = "How do I use Zephyr from Kotlin?"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_WORDS = "apply the patch, then run – carefully – `cargo test`; “quotes” \\back\\ \x07 tab\t émojis 😀.".split(" ")
_COMMANDS = (["bash", "-lc", "rg -n 'fn main' | head"], ["git", "status", "--short"], ["cat", "src/größe.rs"])
_WEB_SEARCH = {"type": "web_search", "external_web_access": False}
_LARK = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\nend_patch: "*** End Patch" LF?\n'


_AGENTS: Json = {
    "type": "namespace",
    "name": "multi_agent_v1",
    "description": "Tools for other agents.",
    "tools": [
        {
            "type": "function",
            "name": name,
            "description": f"{name}: {description}.",
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {"message": {"type": "string"}},
                "additionalProperties": False,
            },
        }
        for name, description in (("spawn_agent", "begin a task"), ("wait_agent", "wait for a task"))
    ],
}


def codex_body(seed: int, *, model: str = MODEL, own_tools: bool = False) -> bytes:
    """A request of Codex for a streamed response. own_tools: without `local_shell` and the provider's web search."""
    draw = random.Random(seed)
    kinds = ["function", "custom", "namespace"] + ([] if own_tools else ["local_shell", "web_search"])
    body: Json = {
        "model": model,
        "input": _codex_input(draw, kinds),
        "tools": _codex_tools(draw, kinds),
        "tool_choice": "auto",
        "parallel_tool_calls": draw.random() < 0.5,
        "reasoning": draw.choice([None, {"effort": "medium", "summary": "auto"}, {"effort": "high"}]),
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": _uuid(draw),
        "client_metadata": {"x-codex-installation-id": _uuid(draw), "x-codex-window-id": f"{_uuid(draw)}:0"},
    }
    if draw.random() < 0.5:
        body["text"] = {"verbosity": draw.choice(["low", "medium", "high"])}
    return _compact(body)


def codex_headers(seed: int) -> dict[str, str]:
    """The headers of the request."""
    session = _uuid(random.Random(seed))
    return {
        "accept": "text/event-stream",
        "user-agent": "codex_cli_rs/0.169.0 (Debian 12.0.0; x86_64) xterm-256color",
        "originator": "codex_cli_rs",
        "version": "0.169.0",
        "openai-beta": "responses=experimental",
        "session-id": session,
        "x-codex-window-id": f"{session}:0",
        "authorization": "Bearer any",
    }


def _codex_input(draw: random.Random, kinds: list[str]) -> list[Json]:
    context = "<environment_context>\n  <cwd>/home/me/code</cwd>\n  <shell>bash</shell>\n</environment_context>"
    items = [
        _codex_message("developer", _prose(draw, 20_000)),  # the base instructions
        _codex_message("developer", "<permissions instructions>\nYou may read files.\n</permissions instructions>"),
        _codex_message("user", f"# AGENTS.md instructions for /home/me/code\n\n{_prose(draw, 500)}"),
        _codex_message("user", context),
    ]
    for _ in range(draw.randrange(3)):
        items += [_codex_message("user", _prose(draw, 60)), *_codex_round(draw, kinds), _codex_answer(draw)]
    question = _codex_message("user", QUESTION)
    if draw.random() < 0.3:
        question["content"].append({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"})
    items.append(question)
    for _ in range(draw.randrange(3)):
        items += _codex_round(draw, kinds)
    return items


def _codex_message(role: str, text: str) -> Json:
    content = [{"type": "input_text", "text": text}]
    kinds = {"content_item_kinds": ["text"]}
    return {
        "type": "message",
        "role": role,
        "content": content,
        "internal_chat_message_metadata_passthrough": kinds,
    }


def _codex_answer(draw: random.Random) -> Json:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": _prose(draw, 200)}],
    }


def _codex_round(draw: random.Random, kinds: list[str]) -> list[Json]:
    """Reasoning, a call, and the result of the call."""
    call_id = f"call_{draw.getrandbits(64):016x}"
    summary = [{"type": "summary_text", "text": f"**{_prose(draw, 40)}**"}]
    sealed = f"gAAAAAB{draw.getrandbits(256):064x}=="
    reasoning = {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": sealed}
    kind = draw.choice(kinds)
    result: Json = {"type": "function_call_output", "call_id": call_id, "output": _prose(draw, 800)}
    if kind == "function":
        arguments = _compact({"command": draw.choice(_COMMANDS), "workdir": "/home/me/code"}).decode()
        call: Json = {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": call_id}
    elif kind == "namespace":
        call = {
            "type": "function_call",
            "name": "spawn_agent",
            "namespace": _AGENTS["name"],
            "arguments": _compact({"message": _prose(draw, 40)}).decode(),
            "call_id": call_id,
        }
    elif kind == "custom":
        patch = (
            f"*** Begin Patch\n*** Update File: src/a.rs\n@@\n-{_prose(draw, 30)}\n+{_prose(draw, 30)}\n*** End Patch"
        )
        call = {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": call_id,
            "name": "apply_patch",
            "input": patch,
        }
        output = _compact({"output": "Success.", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}).decode()
        result = {"type": "custom_tool_call_output", "call_id": call_id, "output": output}
    elif kind == "local_shell":
        action = {
            "type": "exec",
            "command": draw.choice(_COMMANDS),
            "timeout_ms": 10000,
            "working_directory": None,
            "env": None,
            "user": None,
        }
        call = {"type": "local_shell_call", "call_id": call_id, "status": "completed", "action": action}
    else:
        action = {"type": "search", "query": _prose(draw, 30)}
        return [reasoning, {"type": "web_search_call", "status": "completed", "action": action}]
    return [reasoning, call, result]


def _codex_tools(draw: random.Random, kinds: list[str]) -> list[Json]:
    shell = {
        "type": "function",
        "name": "shell",
        "description": _prose(draw, 200),
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "array", "items": {"type": "string"}, "description": "The command to execute"},
                "timeout_ms": {"type": "number", "description": "The timeout in milliseconds"},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    }
    grammar = {"type": "grammar", "syntax": "lark", "definition": _LARK}
    patch = {"type": "custom", "name": "apply_patch", "description": _prose(draw, 100), "format": grammar}
    tools: dict[str, Json] = {
        "function": shell,
        "custom": patch,
        "namespace": _AGENTS,
        "local_shell": {"type": "local_shell"},
        "web_search": _WEB_SEARCH,
    }
    return [tools[kind] for kind in draw.sample(kinds, draw.randint(1, len(kinds)))]


def claude_code_body(seed: int, *, model: str = MODEL) -> bytes:
    """A request of Claude Code for a streamed message."""
    draw = random.Random(seed)
    body: Json = {
        "model": model,
        "messages": _claude_messages(draw),
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.69; cch={draw.getrandbits(20):05x};"},
            {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude.", **_cached()},
            {"type": "text", "text": _prose(draw, 15_000), **_cached()},
        ],
        "tools": [
            {"name": name, "description": _prose(draw, 300), "input_schema": _INPUT_SCHEMA}
            for name in draw.sample(["Bash", "Read", "Edit", "Grep", "Task", "mcp__jira__search"], draw.randint(2, 6))
        ],
        "metadata": {"user_id": f"user_{draw.getrandbits(256):064x}_account_{_uuid(draw)}_session_{_uuid(draw)}"},
        "max_tokens": 32000,
    }
    if draw.random() < 0.7:
        body["thinking"] = draw.choice([{"type": "adaptive"}, {"type": "enabled", "budget_tokens": 31999}])
        body["context_management"] = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        body["output_config"] = {"effort": "medium"}
    else:
        body["temperature"] = 1
    return _compact({**body, "stream": True})


_INPUT_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
    "required": ["command"],
    "additionalProperties": False,
}


def claude_code_headers() -> dict[str, str]:
    """The headers of the request."""
    return {
        "accept": "application/json",
        "user-agent": "claude-cli/2.1.69 (external, cli)",
        "x-app": "cli",
        "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
        "x-stainless-lang": "js",
        "x-stainless-helper-method": "stream",
        "x-stainless-timeout": "600",
        "sec-fetch-mode": "cors",
        "x-api-key": "any",
    }


def _cached() -> Json:
    return {"cache_control": {"type": "ephemeral"}}


def _claude_messages(draw: random.Random) -> list[Json]:
    reminder = f"<system-reminder>\nAs you answer, you can use this context:\n{_prose(draw, 400)}\n</system-reminder>\n"
    blocks: list[Json] = [{"type": "text", "text": reminder}, {"type": "text", "text": QUESTION}]
    if draw.random() < 0.3:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        blocks.insert(1, {"type": "image", "source": source})
    messages: list[Json] = [{"role": "user", "content": blocks}]
    if draw.random() < 0.5:
        earlier: list[Json] = [{"role": "user", "content": _prose(draw, 80)}]
        for _ in range(draw.randrange(3)):
            earlier += _claude_round(draw)
        earlier.append({"role": "assistant", "content": [{"type": "text", "text": _prose(draw, 200)}]})
        messages = [*earlier, *messages]
    for _ in range(draw.randrange(3)):
        messages += _claude_round(draw)
    for message in [message for message in messages if message["role"] == "user"][-2:]:  # the third and fourth mark
        if isinstance(message["content"], list):
            message["content"][-1].update(_cached())
    return messages


def _claude_round(draw: random.Random) -> list[Json]:
    """Thinking and calls, and the message with the results; often a reminder of the program follows the results."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{draw.getrandbits(96):024x}", "name": "Bash", "input": {"command": "ls -l"}}
        for _ in range(draw.randint(1, 2))
    ]
    thinking = {"type": "thinking", "thinking": _prose(draw, 100), "signature": f"EqQB{draw.getrandbits(256):064x}=="}
    results: list[Json] = [
        {"tool_use_id": call["id"], "type": "tool_result", "content": _prose(draw, 300), "is_error": False}
        for call in calls
    ]
    if draw.random() < 0.5:
        reminder = "<system-reminder>\nThe TodoWrite tool hasn't been used recently. Ignore if not applicable.\n"
        results.append({"type": "text", "text": f"{reminder}</system-reminder>"})
    said = [thinking, *calls] if draw.random() < 0.7 else calls
    return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]


def _prose(draw: random.Random, length: int) -> str:
    """About so many characters of text."""
    words = draw.choices(_WORDS, k=max(1, length // 7))
    return " ".join(words) + ("\n" if length > 100 else "")


def _uuid(draw: random.Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
