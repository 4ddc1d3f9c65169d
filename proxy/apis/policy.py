"""What an API's settings say about its operations: which calls change something, and how they are made."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from proxy.apis.openapi.operation import Effect, Operation

# How a call that changes something is made: never, when a person has confirmed it, or at once. The strictest first.
Mode = Literal["refuse", "confirm", "auto"]
_MODES: Sequence[Mode] = ("refuse", "confirm", "auto")


class Granted(Protocol):
    """What a caller may call (`proxy.caller.Rights`)."""

    def mode_of(self, set_name: str, names: Collection[str], effect: Effect) -> Mode:
        """How the caller may call an operation with these names; "refuse": not at all."""
        ...


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """An API's settings for calls that change something. Operations have the names that documents give them."""

    writes: Mode = "refuse"
    reads: Collection[str] = ()  # operations that only read, whatever their method and their words say
    confirm: Collection[str] = ()  # operations that a person confirms, also if they only read
    auto: Collection[str] = ()  # operations that are called at once, although others are confirmed
    four_eyes: Collection[str] = ()  # operations that another person confirms than the one who asked
    idempotency_header: str = ""  # for calls that change something, with a value of the gateway; "" = of the document
    allowed: Mapping[str, Collection[str]] = field(default_factory=dict)  # argument -> the values that may be sent
    calls_per_hour: Mapping[str, int] = field(default_factory=dict)  # operation -> calls of one key

    def effect_of(self, operation: Operation) -> Effect:
        """What a call does. An operation that a person confirms counts as one that changes something."""
        if operation.confirm or operation.takes_method or _named(operation, self.confirm):
            return "changes"
        return "reads" if _named(operation, self.reads) else operation.effect

    def mode_of(self, operation: Operation) -> Mode:
        """How an operation is called. The document's x-ragway-confirm is never loosened by a setting."""
        if self.effect_of(operation) == "reads":
            return "auto"
        if self.writes == "refuse":
            return "refuse"
        if operation.confirm or _named(operation, self.confirm) or self.needs_four_eyes(operation):
            return "confirm"
        return "auto" if _named(operation, self.auto) else self.writes

    def needs_four_eyes(self, operation: Operation) -> bool:
        """Whether another person confirms a call than the one who asked for it."""
        return _named(operation, self.four_eyes)

    def most_calls_an_hour(self, operation: Operation) -> int | None:
        """How often one key may call an operation in an hour; None: no limit."""
        return min((most for name, most in self.calls_per_hour.items() if name in operation.names), default=None)


NO_WRITES = CallPolicy()


def strictest(*modes: Mode) -> Mode:
    """The mode that lets the fewest calls pass."""
    return min(modes, key=_MODES.index)


def _named(operation: Operation, names: Collection[str]) -> bool:
    return bool(names) and not set(operation.names).isdisjoint(names)
