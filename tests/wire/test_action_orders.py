"""Chats with actions whose upstream writes some rounds whole and some as a stream, for clients of every dialect."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from proxy.dialects.chat import CHAT
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES
from tests.support.action_clients import CompletionsChat, MessagesChat, ResponsesChat, SdkChat
from tests.support.action_team import ANSWER, ORGS, QUESTION, Team, action_team
from tests.support.scripted_model import USAGE, Json, calls, says
from tests.support.upstream_servers import Received, Wire, reply

DIALECTS: dict[type[SdkChat], Any] = {CompletionsChat: CHAT, ResponsesChat: RESPONSES, MessagesChat: MESSAGES}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("orders")) as team:
        yield team


FORMS = {"json": b"application/json", "stream": b"text/event-stream"}
ORDERS = [order for n in (1, 2, 3) for order in itertools.product(FORMS, repeat=n)]


def round_of(form: str, said: Json) -> bytes:
    """A reply of the model: a call of an operation, an answer, or both."""
    called = [{"index": 0, **one} for one in said.get("tool_calls", ())]
    message = {**said, "tool_calls": called} if called else said
    finish = "tool_calls" if called else "stop"
    head = {"id": "c1", "created": 1700000000, "model": "m"}
    if form == "json":
        whole = {
            **head,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        return json.dumps({**whole, "usage": USAGE}, indent=1).encode()
    deltas = [(message, None), ({}, finish)]
    events = [
        {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": one, "finish_reason": end}]}
        for one, end in deltas
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("kind", [CompletionsChat, ResponsesChat, MessagesChat])
@pytest.mark.parametrize("end", ["answer", "error", "error with status 200"])
@pytest.mark.parametrize("words", [None, "Let me look."], ids=["calls alone", "words and calls"])
@pytest.mark.parametrize("order", ORDERS, ids=" then ".join)
def test_the_client_gets_one_reply_however_the_upstream_writes_each_round(
    team: Team, kind: type[SdkChat], order: tuple[str, ...], words: str | None, end: str
) -> None:
    """Some upstreams answer one round of a streamed chat with a whole reply, and the next with a stream."""
    called = calls(ORGS, text=words)
    turns = [(200, form, round_of(form, called)) for form in order[:-1]]
    failed = b'{"error": {"message": "overloaded", "type": "server_error"}}'
    if end == "answer":
        turns.append((200, order[-1], round_of(order[-1], says(ANSWER))))
    elif end == "error":
        turns.append((429, "json", failed))
    else:
        body = failed if order[-1] == "json" else b"data: %b\n\n" % failed
        turns.append((200, order[-1], body))

    async def answer(wire: Wire, _received: Received) -> None:
        status, form, body = turns.pop(0)
        await wire.send(
            reply(body, b"content-type: " + FORMS[form], status=b"200 OK" if status == 200 else b"429 Many")
        )

    team.answered_by(answer)
    asked = kind(team.served.url).body(QUESTION, stream=True)
    content = bytearray()
    sending = httpx.stream("POST", team.served.url + kind.path, json=asked, timeout=60)
    with (
        sending as got,
        contextlib.suppress(httpx.RemoteProtocolError),
    ):  # after an error, a bridge closes the connection
        for piece in got.iter_bytes():
            content += piece
    assert turns == []
    if end != "answer":
        assert b"overloaded" in content
        return
    assert got.status_code == 200
    whole = got.headers["content-type"].startswith("application/json")
    if kind is CompletionsChat:
        assert whole == (order[-1] == "json" and (words is None or "stream" not in order))
    reader = DIALECTS[kind].reader(streamed=not whole)
    reader.feed(bytes(content))
    reader.close()
    texts = [words] * (len(order) - 1) if words else []
    assert reader.answer == "\n\n".join([*texts, ANSWER])
    assert (reader.whole, reader.error) == (True, "")
