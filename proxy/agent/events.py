"""A model reply's events as values: read once, and passed on as they came."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.dialects import sse
from proxy.dialects.provider_fields import numbered_calls
from proxy.dialects.replies import json_of

Json = dict[str, Any]
_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_DONE = b"[DONE]"
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class Event:
    """One stream event: text, a thought, pieces of calls, usage, an end, or several of these."""

    __slots__ = ("body", "changed", "choice", "delta", "is_comment", "is_done", "numbers", "raw")

    def __init__(self, raw: bytes, body: Any = None, *, changed: bool = False) -> None:
        """raw: a frame as the upstream sent it, or a whole reply. body: its JSON. changed: `raw` no longer matches
        `body`.
        """
        self.raw = raw
        self.body: Json | None = body if isinstance(body, dict) else None  # None: such as a comment or [DONE]
        self.changed = changed
        self.choice = first_choice(body)
        delta = self.choice.get("delta")
        self.delta: Json = delta if isinstance(delta, dict) else {}  # a piece of the message
        self.numbers: Sequence[int] = ()  # call number of each piece
        self.is_done = self.is_comment = False  # [DONE]; a comment

    @classmethod
    def of(cls, frame: bytes) -> "Event":
        """A frame's event."""
        data = sse.data_of(frame)
        event = cls(frame, json_of(data) if data is not None else None)
        event.is_done, event.is_comment = data == _DONE, data is None
        return event

    @property
    def finish(self) -> Any:
        """Its finish_reason; None: the reply goes on."""
        return self.choice.get("finish_reason")

    @property
    def usage(self) -> Json | None:
        """Usage as the upstream reports it."""
        usage = self.body.get("usage") if self.body is not None else None
        return usage if isinstance(usage, dict) else None

    def calls(self) -> Iterator[tuple[int, Json]]:
        """Each call's number and piece."""
        return numbered_calls(self.delta, self.numbers)

    @property
    def says(self) -> bool:
        """Whether it has a piece of an answer, refusal or thought."""
        return any(self.delta.get(name) for name in _TEXTS)

    @property
    def is_prelude(self) -> bool:
        """Whether its choice has a role alone: no text, thought, call or end."""
        if self.body is None or not self.body.get("choices") or self.finish is not None:
            return False
        return not any(value for name, value in self.delta.items() if name != "role")


class Envelope:
    """The id, model and other members that a reply's events share, from the newest event that has any.

    Empty values do not count: Azure's first event, with filter results, has no others.
    """

    def __init__(self, members: Json) -> None:
        self.members = members

    def see(self, body: Mapping[str, Any]) -> None:
        """Note an event or a whole reply, even one that the client does not get."""
        self.members = {name: body[name] for name in _ENVELOPE if body.get(name)} or self.members


def first_choice(body: Any) -> Json:
    """The first choice in an event or whole reply; empty: none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}
