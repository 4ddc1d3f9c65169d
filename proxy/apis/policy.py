"""What an API's settings say about its operations: which calls change something, and how they are made."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
    confirm: Collection[str] = ()  # operations that a person confirms, also if they only read
    auto: Collection[str] = ()  # operations that are called at once, although others are confirmed

    def effect_of(self, operation: Operation) -> Effect:
        """What a call does. An operation that a person confirms counts as one that changes something."""
        return "changes" if _named(operation, self.confirm) else operation.effect

    def mode_of(self, operation: Operation) -> Mode:
        """How an operation is called. The document's x-ragway-confirm is never loosened by a setting."""
        if self.effect_of(operation) == "reads":
            return "auto"
        if self.writes == "refuse":
            return "refuse"
        if operation.confirm or _named(operation, self.confirm):
            return "confirm"
        return "auto" if _named(operation, self.auto) else self.writes


NO_WRITES = CallPolicy()


def strictest(*modes: Mode) -> Mode:
    """The mode that lets the fewest calls pass."""
    return min(modes, key=_MODES.index)


def _named(operation: Operation, names: Collection[str]) -> bool:
    return bool(names) and not set(operation.names).isdisjoint(names)
