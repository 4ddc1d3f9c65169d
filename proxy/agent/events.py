"""The events of a model's reply as values: read once, and passed on by the client's reply as they came."""

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
    """One event of a stream: a text, a thought, pieces of calls, usage, an end, or several of these."""

    __slots__ = ("body", "changed", "choice", "delta", "is_comment", "is_done", "numbers", "raw")

    def __init__(self, raw: bytes, body: Any = None, *, changed: bool = False) -> None:
        """raw: the frame as the upstream sent it, or a whole reply. body: its JSON. changed: `raw` does not hold it."""
        self.raw = raw
        self.body: Json | None = body if isinstance(body, dict) else None  # None: such as a comment or [DONE]
        self.changed = changed
        self.choice = first_choice(body)
        delta = self.choice.get("delta")
        self.delta: Json = delta if isinstance(delta, dict) else {}  # the piece of the message
        self.numbers: Sequence[int] = ()  # of the call of each piece
        self.is_done = self.is_comment = False  # [DONE]; a comment

    @classmethod
    def of(cls, frame: bytes) -> "Event":
        """The event of a frame."""
        data = sse.data_of(frame)
        event = cls(frame, json_of(data) if data is not None else None)
        event.is_done, event.is_comment = data == _DONE, data is None
        return event

    @property
    def finish(self) -> Any:
        """The finish_reason; None: the reply goes on."""
        return self.choice.get("finish_reason")

    @property
    def usage(self) -> Json | None:
        """The usage, as the upstream reports it."""
        usage = self.body.get("usage") if self.body is not None else None
        return usage if isinstance(usage, dict) else None

    def calls(self) -> Iterator[tuple[int, Json]]:
        """The number and the piece of each call."""
        return numbered_calls(self.delta, self.numbers)

    @property
    def says(self) -> bool:
        """Whether it has a piece of an answer, of a refusal or of a thought."""
        return any(self.delta.get(name) for name in _TEXTS)

    @property
    def is_prelude(self) -> bool:
        """Whether it has a choice with the role alone: no text, no thought, no call and no end."""
        if self.body is None or not self.body.get("choices") or self.finish is not None:
            return False
        return not any(value for name, value in self.delta.items() if name != "role")


class Envelope:
    """The id, the model and other members that all events of a reply share: of the newest event that has some.

    Empty values do not count: Azure's first event, with the results of filters, has no others.
    """

    def __init__(self, members: Json) -> None:
        self.members = members

    def see(self, body: Mapping[str, Any]) -> None:
        """Note an event or a whole reply, also one that the client does not get."""
        self.members = {name: body[name] for name in _ENVELOPE if body.get(name)} or self.members


def first_choice(body: Any) -> Json:
    """The first choice of an event or of a whole reply; empty: none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}
