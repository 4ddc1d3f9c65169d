"""The events of a model's reply as values: read once, and passed on by the client's reply as they came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.dialects import sse
from proxy.dialects.provider_fields import numbered_calls
from proxy.dialects.replies import json_of

Json = dict[str, Any]
_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_DONE = b"[DONE]"
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


@dataclass(slots=True)
class Event:
    """One event of a stream: a text, a thought, pieces of calls, usage, an end, or several of these."""

    raw: bytes  # the frame as the upstream sent it, or a whole reply
    body: Json | None = None  # None: not a JSON object, such as a comment or [DONE]
    numbers: Sequence[int] = ()  # of the call of each piece
    changed: bool = False  # `raw` does not hold the body any more
    is_done: bool = False  # [DONE]
    is_comment: bool = False

    @classmethod
    def of(cls, frame: bytes) -> "Event":
        """The event of a frame."""
        data = sse.data_of(frame)
        body = json_of(data) if data is not None else None
        body = body if isinstance(body, dict) else None
        return cls(frame, body, is_done=data == _DONE, is_comment=data is None)

    @classmethod
    def of_whole(cls, reply: bytes) -> "Event":
        """The event of a whole reply."""
        body = json_of(reply)
        return cls(reply, body if isinstance(body, dict) else None)

    @property
    def delta(self) -> Json:
        """The piece of the message; the event's own dictionary."""
        return delta_of(self.body)

    @property
    def finish(self) -> Any:
        """The finish_reason; None: the reply goes on."""
        return first_choice(self.body).get("finish_reason")

    @property
    def usage(self) -> Json | None:
        """The usage, as the upstream reports it."""
        return usage_in(self.body)

    def calls(self) -> Iterator[tuple[int, Json]]:
        """The number and the piece of each call."""
        return numbered_calls(self.delta, self.numbers)

    @property
    def says(self) -> bool:
        """Whether it has a piece of an answer, of a refusal or of a thought."""
        delta = self.delta
        return any(delta.get(name) for name in _TEXTS)

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


def delta_of(body: Any) -> Json:
    """The piece of the message in an event; empty: none."""
    delta = first_choice(body).get("delta")
    return delta if isinstance(delta, dict) else {}


def usage_in(body: Any) -> Json | None:
    """The usage in an event or in a whole reply."""
    usage = body.get("usage") if isinstance(body, dict) else None
    return usage if isinstance(usage, dict) else None
