"""Writes the bench's requests in each dialect, from conversations in chat completion form.

Other dialects take its roles and texts, and images as far as they have the same kind; a message with tool calls is
refused.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from evaluation.answers.records import BenchError, DialectName
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES

Json = dict[str, Any]
_INSTRUCTIONS = ("system", "developer")


class RequestBodies(ABC):
    """Writes request bodies in one dialect."""

    dialect: ClassVar[Dialect]
    conversation: ClassVar[Sequence[str]]  # members that hold the conversation
    headers: ClassVar[Mapping[str, str]] = {}
    required: ClassVar[Mapping[str, Any]] = {}  # members that the API requires, with our values

    @abstractmethod
    def body(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], *, usage: bool) -> Json:
        """A streamed request, without its model. settings: more members. usage: ask for token usage.

        Raises BenchError: the dialect has no form for a message.
        """

    def prompt_of(self, body: Mapping[str, Any]) -> Any:
        """A body's conversation, for counting tokens."""
        found = [body[name] for name in self.conversation if name in body]
        return found[0] if len(found) == 1 else found


class ChatBodies(RequestBodies):
    """Chat completions: the conversation as written."""

    dialect = CHAT
    conversation = ("messages",)

    def body(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], *, usage: bool) -> Json:
        options = {"stream_options": {"include_usage": True}} if usage else {}
        return {"messages": list(messages), **settings, "stream": True, **options}


class ResponsesBodies(RequestBodies):
    """OpenAI's Responses API: each message is an item. Nothing is stored by the provider."""

    dialect = RESPONSES
    conversation = ("input",)

    def body(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], *, usage: bool) -> Json:
        items = [{"role": role, "content": self._content(role, content)} for role, content in _plain(messages)]
        return {"input": items, "store": False, **settings, "stream": True}

    def _content(self, role: str, content: Any) -> Any:
        kind = "output_text" if role == "assistant" else "input_text"
        return [self._part(part, kind) for part in content] if isinstance(content, list) else content

    def _part(self, part: Mapping[str, Any], kind: str) -> Json:
        if part.get("type") == "image_url":
            image = part["image_url"]
            return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
        return {"type": kind, "text": _text_of(part)}


class MessagesBodies(RequestBodies):
    """Anthropic's Messages API: instructions go into `system`, and a limit for the answer is required."""

    dialect = MESSAGES
    conversation = ("system", "messages")
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    required: ClassVar[Mapping[str, Any]] = {"max_tokens": 4096}

    def body(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], *, usage: bool) -> Json:
        plain = _plain(messages)
        system = [
            {"type": "text", "text": text}
            for role, content in plain
            if role in _INSTRUCTIONS
            for text in (map(_text_of, content) if isinstance(content, list) else (content,))
        ]
        rows = [
            {"role": role, "content": [self._part(part) for part in content] if isinstance(content, list) else content}
            for role, content in plain
            if role not in _INSTRUCTIONS
        ]
        shown = {"system": system} if system else {}
        return {**shown, "messages": rows, **settings, "stream": True}

    def _part(self, part: Mapping[str, Any]) -> Json:
        if part.get("type") != "image_url":
            return {"type": "text", "text": _text_of(part)}
        url = part["image_url"]["url"]
        media, comma, data = url.removeprefix("data:").partition(";base64,")
        source = {"type": "base64", "media_type": media, "data": data} if comma else {"type": "url", "url": url}
        return {"type": "image", "source": source}


def _plain(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Role and content of each message. Raises BenchError: a message with tool calls or a tool result."""
    for message in messages:
        if message.get("tool_calls") or message["role"] in ("tool", "function"):
            raise BenchError(
                f"a message with the role {message['role']!r} has a tool call or the result of a tool, which only "
                "chat completions can repeat: leave --dialect out"
            )
    return [(message["role"], message["content"]) for message in messages]


def _text_of(part: Mapping[str, Any]) -> str:
    """A content part's text. Raises BenchError: it is of another kind."""
    if not isinstance(text := part.get("text"), str):
        kind = part.get("type")
        raise BenchError(f"a content part of type {kind!r} has only chat completions: leave --dialect out")
    return text


BODIES: Mapping[DialectName, RequestBodies] = {
    "chat": ChatBodies(),
    "responses": ResponsesBodies(),
    "messages": MessagesBodies(),
}
