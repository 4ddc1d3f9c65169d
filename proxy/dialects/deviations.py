"""How upstreams deviate from the standard: fields beyond it in a model's message, and features that they lack.

Provider fields are everything beyond a message's text and the id, name and arguments of each call.

Providers put thoughts and signatures into members of their own, and want them back with a round's calls:
`thinking_blocks` (Claude, through litellm), `extra_content` in a call (Gemini), `reasoning_content` (DeepSeek, Kimi,
GLM, Qwen), `reasoning` (vLLM, Groq, Cerebras), `reasoning_details` (MiniMax, OpenRouter). Without them, DeepSeek,
Gemini 3 and Anthropic answer 400, and other models answer worse. So each member goes back exactly as the model sent it,
even an empty text: DeepSeek refuses a call without `reasoning_content`. Some servers refuse what they sent themselves
(Groq, `reasoning`): `strip_provider_fields` is for them.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.dialects.target import Target
from runtime.logs import host_of, truncate

# Left out: members that we write, and members that requests do not have. `function_call` repeats a call; OpenAI takes
# only an id for `audio`; the others (`executed_tools` is Groq's) are for people to read.
_NOT_SENT = {"role", "content", "refusal", "tool_calls"} | {
    "function_call", "audio", "annotations", "citations", "images", "executed_tools",
}  # fmt: skip
_NOT_SENT_OF_CALL = {"index", "id", "type"}
_NOT_SENT_OF_FUNCTION = {"name", "arguments", "input"}
# Texts that stream: two equal pieces are two pieces. Any other text that comes again unchanged counts once.
_STREAMED = {"reasoning_content", "reasoning", "thinking", "text", "summary"}
_ENDS = {"signature", "data"}  # these end an item: a further piece begins the next
_MOST_LEVELS = 50  # of nesting; orjson writes 254

Json = dict[str, Any]


@dataclass(slots=True)
class ProviderFields:
    """Collects one message's provider fields, from stream pieces or from the whole message."""

    _message: Json = field(default_factory=dict, init=False)
    _calls: dict[int, Json] = field(default_factory=dict, init=False)

    def read(self, message: Mapping[str, Any], numbers: Sequence[int]) -> None:
        """Read a piece of the message. numbers: which call each piece in `tool_calls` belongs to; -1: none."""
        _add_members(self._message, _without(message, _NOT_SENT), 0)
        for number, call in numbered_calls(message, numbers):
            fields = _without(call, _NOT_SENT_OF_CALL)
            for name in ("function", "custom"):
                inner = fields.pop(name, None)
                if isinstance(inner, dict) and (more := _without(inner, _NOT_SENT_OF_FUNCTION)):
                    fields["function"] = more
            _add_members(self._calls.setdefault(number, {}), fields, 0)

    @property
    def message(self) -> Json:
        members: Json = _joined(self._message)
        return members

    def call(self, number: int) -> Json:
        """A call's provider fields; those of its function are in `function`."""
        members: Json = _joined(self._calls.get(number, {}))
        return members


def numbered_calls(message: Mapping[str, Any], numbers: Sequence[int]) -> Iterator[tuple[int, Json]]:
    """Number and piece of each call in a message piece. numbers: as the reader counts; -1: none."""
    calls = message.get("tool_calls")
    pieces = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return zip(numbers, pieces, strict=False)


def provider_field_names(message: Mapping[str, Any]) -> set[str]:
    """Names of the provider fields in a message and its calls."""
    calls = message.get("tool_calls") or ()
    inner = (one for call in calls for name in ("function", "custom") for one in call.get(name, ()))
    names = {*message, *(name for call in calls for name in call), *inner}
    return names - _NOT_SENT - _NOT_SENT_OF_CALL - _NOT_SENT_OF_FUNCTION - {"function", "custom", "tool_call_id"}


def strip_provider_fields(message: Mapping[str, Any]) -> Json:
    """The message with nothing but its text and calls."""
    names = provider_field_names(message)
    kept = {name: value for name, value in message.items() if name not in names}
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            {
                name: _without(value, names) if isinstance(value, dict) else value
                for name, value in call.items()
                if name not in names
            }
            for call in kept["tool_calls"]
        ]
    return kept


class _Text(list[str]):
    """A text in pieces."""


def _without(members: Mapping[str, Any], names: set[str]) -> Json:
    return {name: value for name, value in members.items() if name not in names and value is not None}


def _add_members(known: Json, piece: Mapping[str, Any], level: int) -> None:
    for name, value in piece.items():
        if value is not None and level < _MOST_LEVELS:
            known[name] = _added(known.get(name), value, level + 1, streamed=name in _STREAMED)


def _added(known: Any, piece: Any, level: int, *, streamed: bool = False) -> Any:
    """Add a piece to the value so far. A piece of another type replaces it."""
    if isinstance(piece, str):
        if not isinstance(known, _Text):
            return _Text([piece])
        if streamed or known != [piece]:
            known.append(piece)
        return known
    if isinstance(piece, dict):
        members = known if isinstance(known, dict) else {}
        _add_members(members, piece, level)
        return members
    if isinstance(piece, list):
        items = known if isinstance(known, list) and not isinstance(known, _Text) else []
        _add_items(items, piece, level)
        return items
    return piece


def _add_items(known: list[Any], pieces: Sequence[Any], level: int) -> None:
    """Add list items: a piece with an item's `index`, `type` and `id` continues it.

    Without an index, the first piece continues the last item, if that is an open text of the same type.
    """
    count = len(known)
    for number, piece in enumerate(pieces):
        item = None
        if isinstance(piece, dict) and isinstance(piece.get("index"), int):
            same = (known[at] for at in reversed(range(count)) if _same(known[at], piece, ("index", "type", "id")))
            item = next(same, None)
        elif isinstance(piece, dict) and number == 0 and count and _is_open(known[count - 1]):
            item = known[count - 1] if _same(known[count - 1], piece, ("type", "id")) else None
        if item is not None:
            _add_members(item, piece, level)
        elif level < _MOST_LEVELS:
            known.append(_added(None, piece, level + 1))


def _is_open(item: Any) -> bool:
    """Whether an item is a text that nothing has ended."""
    return isinstance(item, dict) and bool(item.keys() & _STREAMED) and not any(_joined(item.get(one)) for one in _ENDS)


def _same(item: Any, piece: Json, names: Sequence[str]) -> bool:
    """Whether members that both have are equal."""
    if not isinstance(item, dict):
        return False
    shared = [name for name in names if item.get(name) is not None and piece.get(name) is not None]
    return all(_joined(item[name]) == piece[name] for name in shared)


def _joined(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _joined(one) for name, one in value.items()}
    return [_joined(one) for one in value] if isinstance(value, list) else value


# --- what upstreams lack ----------------------------------------------------------------------------------------------


log = logging.getLogger("ragway")

_MOST = 1000  # entries: clients may name models without end


class UnsupportedFeatures:
    """What one process knows."""

    def __init__(self, relearn_after_s: float) -> None:
        self._relearn_after_s = relearn_after_s
        self._until: dict[tuple[str, str, str], float] = {}  # (address, model, name) -> monotonic time

    def knows(self, target: Target, name: str, *, model: str = "") -> bool:
        """Whether the upstream lacks a path or a member. model: only for a member."""
        return self._until.get((target.api_base, model, name), 0.0) > time.monotonic()

    def known(self, target: Target, *, model: str = "") -> list[str]:
        """Everything that the upstream lacks now. model: as in `knows`."""
        now, place = time.monotonic(), (target.api_base, model)
        return [name for (*at, name), until in self._until.items() if until > now and place == (*at,)]

    def names(self) -> list[tuple[str, str]]:
        """Model and name of everything unsupported now."""
        now = time.monotonic()
        return sorted({(model, name) for (_, model, name), until in self._until.items() if until > now})

    def learn(self, target: Target, name: str, instead: str, *, model: str = "") -> None:
        """Remember, and log it. instead: what ragway does."""
        if len(self._until) >= _MOST:
            self._until.clear()
        self._until[target.api_base, model, name] = time.monotonic() + self._relearn_after_s
        upstream = host_of(target.api_base) if target.api_base else "litellm's provider"
        of_model = f"model {truncate(model)!r} of {upstream}" if model else f"upstream {upstream}"
        log.warning("%s has no %s: for %g s %s", of_model, name, self._relearn_after_s, instead)
