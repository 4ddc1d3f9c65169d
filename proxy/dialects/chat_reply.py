"""A chat completion's reply, read."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.replies import ReplyReader, ToolCallPieces, error_text
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
        """A tool call of a whole reply, or a piece of a call: only the first piece has the id and the name."""
        index, called = call.get("index", place), call.get("function") or call.get("custom")
        if not isinstance(index, int) or not 0 <= index <= len(self._calls) or not isinstance(called, dict):
            return
        if index == len(self._calls):
            self._calls.append(ToolCallPieces())
        arguments = called.get("arguments") or called.get("input")
        self._calls[index].add(id=call.get("id"), name=called.get("name"), arguments=arguments)
