"""A client and an upstream of each dialect: one test asks, answers and reads in every dialect.

@BY_DIALECT
def test_a_promise(client: DialectClient) -> None:
    upstream.answer = answering(client.whole("Yes.", Tokens(100, 20)))
    reply = client.post(url, client.body("gpt-x", "Hi", stream=True))
    assert client.answer_of(reply) == "Yes."

The replies are written out by hand from the providers' references, so that no fault of the gateway's own writers hides
a fault of the readers.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx
import orjson
import pytest

from evaluation.answers.records import DialectName
from proxy.dialects.base import Dialect
from proxy.dialects.paths import BY_PATH
from proxy.dialects.replies import ReplyReader, Tokens
from tests.support.upstream_servers import chunked, head, reply

Json = dict[str, Any]
Turn = tuple[str, str]  # role and text
PATIENCE_S = 100.0
_JSON, _EVENTS = b"content-type: application/json", b"content-type: text/event-stream"


class DialectClient(ABC):
    """Writes the requests and the upstream's replies of a dialect, and reads the replies and the errors."""

    path: ClassVar[str]
    name: ClassVar[DialectName]  # of `ragway bench --dialect`
    length: ClassVar[str]  # the member for the longest answer

    def __str__(self) -> str:
        return self.path

    @property
    def dialect(self) -> Dialect:
        return BY_PATH[self.path]

    @abstractmethod
    def body(self, model: str, question: str, *earlier: Turn, **fields: object) -> Json:
        """A request with a question after an earlier conversation."""

    @abstractmethod
    def whole(self, text: str, tokens: Tokens | None) -> bytes:
        """The body of a whole reply; tokens: None for a reply without usage."""

    @abstractmethod
    def events(self, *texts: str, tokens: Tokens | None, ends: bool = True) -> bytes:
        """The body of a streamed reply, a piece of text per event. ends: False for a reply that breaks off."""

    @abstractmethod
    def error_of(self, body: bytes) -> tuple[str, str]:
        """The type and the message of an error body, which must have exactly the dialect's form."""

    def reply(self, text: str, tokens: Tokens | None = None) -> bytes:
        """A whole reply with the HTTP head."""
        return reply(self.whole(text, tokens), _JSON)

    def stream(self, *texts: str, tokens: Tokens | None = None, ends: bool = True) -> bytes:
        """A streamed reply with the HTTP head."""
        sent = chunked([self.events(*texts, tokens=tokens, ends=ends)])
        return head(_EVENTS, b"transfer-encoding: chunked") + b"".join(sent)

    def post(
        self, url: str, body: Mapping[str, object], secret: str = "", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a request to a gateway, over a new connection."""
        sent = {**({"authorization": f"Bearer {secret}"} if secret else {}), **(headers or {})}
        return httpx.post(url + self.path, json=body, headers=sent, timeout=PATIENCE_S)

    def read(self, body: bytes, *, streamed: bool = False) -> ReplyReader:
        """The reply, read."""
        reader = self.dialect.reader(streamed=streamed)
        reader.feed(body)
        reader.close()
        return reader

    def answer_of(self, response: httpx.Response) -> str:
        """The text of a reply, whole or streamed."""
        streamed = response.headers["content-type"].startswith("text/event-stream")
        return self.read(response.content, streamed=streamed).answer or ""

    def prompt_of(self, body: bytes) -> str:
        """All texts that the model reads, of a request that an upstream received."""
        return "\n".join(message.text for message in self.dialect.parse(body).messages())


class ChatClient(DialectClient):
    """Chat completions."""

    path = "/v1/chat/completions"
    name = "chat"
    length = "max_tokens"

    def body(self, model: str, question: str, *earlier: Turn, **fields: object) -> Json:
        turns = [*earlier, ("user", question)]
        return {"model": model, "messages": [{"role": role, "content": text} for role, text in turns], **fields}

    def whole(self, text: str, tokens: Tokens | None) -> bytes:
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {} if tokens is None else {"usage": _openai_usage("prompt", "completion", tokens)}
        return json.dumps({"id": "c", "object": "chat.completion", "created": 1, "choices": choices, **usage}).encode()

    def events(self, *texts: str, tokens: Tokens | None, ends: bool = True) -> bytes:
        deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": text} for text in texts)]
        rows: list[Json] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        if ends:
            rows.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if ends and tokens is not None:
            rows.append({"choices": [], "usage": _openai_usage("prompt", "completion", tokens)})
        frames = [b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows]
        return b"".join([*frames, b"data: [DONE]\n\n"] if ends else frames)

    def error_of(self, body: bytes) -> tuple[str, str]:
        return _openai_error(body)


class ResponsesClient(DialectClient):
    """OpenAI's Responses API."""

    path = "/v1/responses"
    name = "responses"
    length = "max_output_tokens"

    def body(self, model: str, question: str, *earlier: Turn, **fields: object) -> Json:
        items = [{"role": role, "content": text} for role, text in (*earlier, ("user", question))]
        return {"model": model, "input": items if earlier else question, "store": False, **fields}

    def whole(self, text: str, tokens: Tokens | None) -> bytes:
        return json.dumps(self._response("completed", text, tokens)).encode()

    def events(self, *texts: str, tokens: Tokens | None, ends: bool = True) -> bytes:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        rows: list[Json] = [
            {"type": "response.created", "response": self._response("in_progress", "", None)},
            {"type": "response.output_item.added", "output_index": 0, "item": _message("", "in_progress")},
            {"type": "response.content_part.added", **place, "part": _part("")},
        ]
        rows += [{"type": "response.output_text.delta", **place, "delta": text} for text in texts]
        if ends:
            text = "".join(texts)
            rows.append({"type": "response.output_text.done", **place, "text": text})
            rows.append({"type": "response.content_part.done", **place, "part": _part(text)})
            rows.append({"type": "response.output_item.done", "output_index": 0, "item": _message(text, "completed")})
            rows.append({"type": "response.completed", "response": self._response("completed", text, tokens)})
        return b"".join(_named({**row, "sequence_number": number}) for number, row in enumerate(rows))

    def error_of(self, body: bytes) -> tuple[str, str]:
        return _openai_error(body)

    def _response(self, status: str, text: str, tokens: Tokens | None) -> Json:
        output = [_message(text, status)] if status == "completed" else []
        usage = None if tokens is None else _openai_usage("input", "output", tokens)
        head = {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": None}
        return {**head, "model": "m", "output": output, "usage": usage}


class MessagesClient(DialectClient):
    """Anthropic's Messages API."""

    path = "/v1/messages"
    name = "messages"
    length = "max_tokens"

    def body(self, model: str, question: str, *earlier: Turn, **fields: object) -> Json:
        turns = [*earlier, ("user", question)]
        messages = [{"role": role, "content": text} for role, text in turns if role != "system"]
        system = [{"type": "text", "text": text} for role, text in turns if role == "system"]
        shown = {"system": system} if system else {}
        return {"model": model, "max_tokens": 100, **shown, "messages": messages, **fields}

    def whole(self, text: str, tokens: Tokens | None) -> bytes:
        content = [{"type": "text", "text": text}]
        usage = {} if tokens is None else {"usage": _anthropic_usage(tokens)}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        return json.dumps({**self._head(), "content": content, **end, **usage}).encode()

    def events(self, *texts: str, tokens: Tokens | None, ends: bool = True) -> bytes:
        begun = {} if tokens is None else {"usage": {**_anthropic_usage(tokens), "output_tokens": 1}}
        message = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None, **begun}
        rows: list[Json] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
        ]
        deltas = [{"type": "text_delta", "text": text} for text in texts]
        rows += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
        if ends:
            used = {} if tokens is None else {"usage": {"output_tokens": tokens.completion}}
            end = {"stop_reason": "end_turn", "stop_sequence": None}
            rows.append({"type": "content_block_stop", "index": 0})
            rows.append({"type": "message_delta", "delta": end, **used})
            rows.append({"type": "message_stop"})
        return b"".join(map(_named, rows))

    def error_of(self, body: bytes) -> tuple[str, str]:
        row = orjson.loads(body)
        assert (set(row), row["type"]) == ({"type", "error", "request_id"}, "error"), body
        assert set(row["error"]) == {"type", "message"}, body
        return row["error"]["type"], row["error"]["message"]

    def _head(self) -> Json:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}


def _openai_usage(prompt: str, completion: str, tokens: Tokens) -> Json:
    return {
        f"{prompt}_tokens": tokens.prompt,
        f"{prompt}_tokens_details": {"cached_tokens": tokens.cached},
        f"{completion}_tokens": tokens.completion,
        f"{completion}_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def _anthropic_usage(tokens: Tokens) -> Json:
    """Anthropic counts the cached tokens beside the tokens of the input."""
    return {
        "input_tokens": tokens.prompt - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.completion,
    }


def _openai_error(body: bytes) -> tuple[str, str]:
    row = orjson.loads(body)
    assert set(row) == {"error"}, body
    assert set(row["error"]) == {"message", "type", "param", "code"}, body
    return row["error"]["type"], row["error"]["message"]


def _message(text: str, status: str) -> Json:
    content = [_part(text)] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _named(row: Json) -> bytes:
    return f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode()


_ALL: Sequence[DialectClient] = (ChatClient(), ResponsesClient(), MessagesClient())
CLIENTS: Mapping[str, DialectClient] = {client.path: client for client in _ALL}
CHAT_CLIENT = CLIENTS[ChatClient.path]
BY_DIALECT = pytest.mark.parametrize("client", CLIENTS.values(), ids=str)
