"""Clients of each dialect for chats with actions, by the official SDKs: one test asks in every dialect.

chat = client.chat(team.served.url)
reply = chat.ask("Who?", stream=True)
chat.results((reply.calls[0].id, "sunny"))
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anthropic
import openai
import pytest

Json = dict[str, Any]
HTTP: Json = {"max_retries": 0, "timeout": 60, "api_key": "placeholder"}
WEATHER = "weather"  # the client's own tool


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, as the client got the call."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class SdkReply:
    """A reply, as the SDK read the reply."""

    id: str
    text: str
    calls: tuple[Call, ...]
    tokens: tuple[int, int]  # of the prompt and of the answer
    headers: Any
    events: tuple[Any, ...] = ()  # of a stream


@dataclass(slots=True)
class SdkChat(ABC):
    """A conversation of one client, which sends the whole history with each request."""

    url: str
    model: str = "rage/atlas/gpt-x"
    said: list[Any] = field(default_factory=list)
    fields: Json = field(default_factory=dict)  # of each request, beyond the history
    tools: bool = False  # the client sends a tool of the client's
    key: str = "placeholder"

    path: ClassVar[str]
    history: ClassVar[str]  # the member of a request with the history
    tool: ClassVar[Json]
    needed: ClassVar[Json] = {}  # further members of each request

    @property
    def http(self) -> Json:
        """Of each SDK's client."""
        return {**HTTP, "api_key": self.key}

    def ask(self, question: str, *, stream: bool = False, **fields: Any) -> SdkReply:
        """The reply to a question."""
        self.said.append({"role": "user", "content": question})
        return self._sent(stream, fields)

    def results(self, *results: tuple[str, str], stream: bool = False) -> SdkReply:
        """The reply to results of the client's tool: id of each call, and text."""
        self.said += self._items(results)
        return self._sent(stream, {})

    def body(self, question: str, **fields: Any) -> Json:
        """The JSON body of a request, for a client without an SDK."""
        said = [*self.said, {"role": "user", "content": question}] if question else self.said
        tools = {"tools": [self.tool]} if self.tools else {}
        return {"model": self.model, self.history: said, **self.needed, **tools, **self.fields, **fields}

    @abstractmethod
    def events(self, question: str) -> Iterator[Any]:
        """The events of a streamed reply, as they come; closing the iterator leaves."""

    @abstractmethod
    def _items(self, results: Sequence[tuple[str, str]]) -> list[Json]:
        """The items of the history with results."""

    @abstractmethod
    def _sent(self, stream: bool, fields: Json) -> SdkReply:
        """The reply to the history."""


class CompletionsChat(SdkChat):
    """A client of chat completions."""

    path = "/v1/chat/completions"
    history = "messages"
    tool: ClassVar[Json] = {
        "type": "function",
        "function": {"name": WEATHER, "parameters": {"type": "object", "properties": {}}},
    }

    def _items(self, results: Sequence[tuple[str, str]]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]

    def events(self, question: str) -> Iterator[Any]:
        with openai.OpenAI(base_url=self.url + "/v1", **self.http) as client:
            yield from client.chat.completions.create(**self.body(question), stream=True)

    def _sent(self, stream: bool, fields: Json) -> SdkReply:
        with openai.OpenAI(base_url=self.url + "/v1", **self.http) as client:
            asking, events, headers = self.body("", **fields), [], None
            if stream:
                with client.chat.completions.stream(**asking, stream_options={"include_usage": True}) as chunks:
                    headers = chunks._response.headers
                    events = [event.chunk for event in chunks if event.type == "chunk"]
                    whole: Any = chunks.get_final_completion()
            else:
                raw = client.chat.completions.with_raw_response.create(**asking)
                whole, headers = raw.parse(), raw.headers
        message = whole.choices[0].message
        self.said.append(message.to_dict(exclude_none=True))
        calls = [
            Call(one.id, one.function.name, json.loads(one.function.arguments)) for one in message.tool_calls or ()
        ]
        tokens = whole.usage.prompt_tokens, whole.usage.completion_tokens
        return SdkReply(whole.id, message.content or "", tuple(calls), tokens, headers, tuple(events))


class ResponsesChat(SdkChat):
    """A client of responses."""

    path = "/v1/responses"
    history = "input"
    tool: ClassVar[Json] = {"type": "function", "name": WEATHER, "parameters": {"type": "object", "properties": {}}}

    def _items(self, results: Sequence[tuple[str, str]]) -> list[Json]:
        return [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results]

    def events(self, question: str) -> Iterator[Any]:
        with openai.OpenAI(base_url=self.url + "/v1", **self.http) as client:
            yield from client.responses.create(**self.body(question), stream=True)

    def _sent(self, stream: bool, fields: Json) -> SdkReply:
        with openai.OpenAI(base_url=self.url + "/v1", **self.http) as client:
            asking, events, headers = self.body("", **fields), [], None
            if stream:
                with client.responses.stream(**asking) as arriving:
                    headers = arriving._response.headers
                    events = list(arriving)
                    whole: Any = arriving.get_final_response()
            else:
                raw = client.responses.with_raw_response.create(**asking)
                whole, headers = raw.parse(), raw.headers
        self._remember(whole)
        found = [one for one in whole.output if one.type == "function_call"]
        calls = [Call(one.call_id, one.name, json.loads(one.arguments)) for one in found]
        tokens = whole.usage.input_tokens, whole.usage.output_tokens
        return SdkReply(whole.id, whole.output_text, tuple(calls), tokens, headers, tuple(events))

    def _remember(self, whole: Any) -> None:
        self.said += [item.to_dict(exclude_none=True) for item in whole.output]


class StoredResponsesChat(ResponsesChat):
    """A client of responses that continues each response by the id, without the history."""

    def _remember(self, whole: Any) -> None:
        self.said, self.fields = [], {**self.fields, "previous_response_id": whole.id}


class ReferringResponsesChat(ResponsesChat):
    """A client of responses that names stored items in place of the text, as Vercel's AI SDK does."""

    def _remember(self, whole: Any) -> None:
        self.said += [{"type": "item_reference", "id": item.id} for item in whole.output]


class MessagesChat(SdkChat):
    """A client of Anthropic's messages."""

    path = "/v1/messages"
    history = "messages"
    tool: ClassVar[Json] = {"name": WEATHER, "input_schema": {"type": "object"}}
    needed: ClassVar[Json] = {"max_tokens": 99}

    def _items(self, results: Sequence[tuple[str, str]]) -> list[Json]:
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
        return [{"role": "user", "content": blocks}]

    def events(self, question: str) -> Iterator[Any]:
        with anthropic.Anthropic(base_url=self.url, **self.http) as client:
            yield from client.messages.create(**self.body(question), stream=True)

    def _sent(self, stream: bool, fields: Json) -> SdkReply:
        with anthropic.Anthropic(base_url=self.url, **self.http) as client:
            asking, events, headers = self.body("", **fields), [], None
            if stream:
                with client.messages.stream(**asking) as arriving:
                    headers = arriving.response.headers
                    events = list(arriving)
                    whole: Any = arriving.get_final_message()
            else:
                raw = client.messages.with_raw_response.create(**asking)
                whole, headers = raw.parse(), raw.headers
        self.said.append(
            {"role": "assistant", "content": [block.to_dict(exclude_none=True) for block in whole.content]}
        )
        calls = [Call(one.id, one.name, one.input) for one in whole.content if one.type == "tool_use"]
        text = "".join(one.text for one in whole.content if one.type == "text")
        tokens = whole.usage.input_tokens, whole.usage.output_tokens
        return SdkReply(whole.id, text, tuple(calls), tokens, headers, tuple(events))


CHATS = (CompletionsChat, ResponsesChat, StoredResponsesChat, MessagesChat)
BY_CHAT = pytest.mark.parametrize("kind", CHATS, ids=["chat", "responses", "responses-by-id", "messages"])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
