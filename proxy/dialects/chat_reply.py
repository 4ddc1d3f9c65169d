"""A chat completion's reply, read."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.replies import ReplyReader, ToolCall, error_text
from proxy.dialects.token_counts import reported_tokens


class ChatReplyReader(ReplyReader):
    """Reads the first choice of a chat completion, streamed or whole; of further choices, only whether each ended."""

    def read_event(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            self.error = error_text(event["error"])
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.usage = reported_tokens(usage) or self.usage
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._read_choice(choice)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        if "message" in choice:
            self.ended = True
        message = choice.get("delta") or choice.get("message") or {}
        if isinstance(message, dict):
            self._add(self._answer, message.get("content"))
            self._add(self._refusal, message.get("refusal"))
            for name in ("reasoning_content", "reasoning"):
                self._add(self._reasoning, message.get(name))
            calls = message.get("tool_calls")
            for place, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, dict):
                    self._read_call(call, place)
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _read_call(self, call: Mapping[str, Any], place: int) -> None:
        """A piece of a tool call; the piece that begins the call has the id and the name."""
        index = call.get("index", place)
        if not isinstance(index, int) or not 0 <= index <= len(self.tool_calls):
            return
        if index == len(self.tool_calls):
            self.tool_calls.append(ToolCall("", "", ""))
        found, function = self.tool_calls[index], call.get("function") or call.get("custom") or {}
        found.id = call.get("id") or found.id
        if isinstance(function, dict):
            found.name = function.get("name") or found.name
            found.arguments += function.get("arguments") or function.get("input") or ""
