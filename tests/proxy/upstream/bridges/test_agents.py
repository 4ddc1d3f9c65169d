"""Requests in the shapes of Codex and Claude Code become requests for chat completions, for models of every kind."""

import json

import pytest

from proxy.dialects.errors import ApiError
from proxy.upstream.bridges import messages_request, responses_request
from proxy.upstream.bridges.members import Json
from proxy.upstream.translated.request import parameters_of
from tests.proxy.upstream.bridges.test_conversation import check
from tests.support.agent_bodies import QUESTION, claude_code_body, codex_body

SEEDS = range(200)
MODELS = pytest.mark.parametrize("model", ["m", "openai/gpt-4o", "anthropic/claude-sonnet-4-5"])


def texts(chat: Json) -> list[str]:
    """The text parts of the messages, once the translated lane has allowed all parameters."""
    messages = parameters_of(json.dumps(chat).encode())["messages"]
    contents = [content if isinstance(content := each["content"], list) else [] for each in messages]
    whole = [each["content"] for each in messages if isinstance(each["content"], str)]
    return whole + [part["text"] for parts in contents for part in parts if part["type"] == "text"]


@MODELS
def test_claude_code(model: str) -> None:
    for seed in SEEDS:
        chat = messages_request.chat_of({**json.loads(claude_code_body(seed)), "model": model})
        assert QUESTION in "\n".join(texts(chat))
        if "claude" not in model:  # Claude models get marks of the cache, in lists of parts
            check(chat)


@MODELS
def test_codex_without_the_tools_of_openai(model: str) -> None:
    for seed in SEEDS:
        body = json.loads(codex_body(seed, model=model, own_tools=True))
        chat = responses_request.chat_of(body)
        check(chat)
        assert {QUESTION, body["input"][0]["content"][0]["text"]} <= set(texts(chat))


def test_a_tool_of_openai_is_refused_by_name() -> None:
    for seed in SEEDS:
        body = json.loads(codex_body(seed))
        if {tool["type"] for tool in body["tools"]} & {"local_shell", "web_search"}:
            with pytest.raises(ApiError, match="'(local_shell|web_search)"):
                responses_request.chat_of(body)
