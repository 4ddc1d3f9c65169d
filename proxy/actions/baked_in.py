"""Baked-in operations: a setting names the operations that each chat with the set is offered, without a search."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from proxy.actions.openapi.operation import Operation
from proxy.actions.store import ActionStore


class BakedInFault(NamedTuple):
    """A baked-in operation that no chat is offered."""

    set: str
    operation: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"actions.{self.set}.always: {self.operation} {self.problem}; {self.advice}"


def baked_in(store: ActionStore, always: Mapping[str, Sequence[str]]) -> dict[str, list[Operation]]:
    """The baked-in operations of each set, in the order of the setting. Raises RetrievalError."""
    operations = {name: store.operations(name, dict.fromkeys(wanted)) for name, wanted in always.items() if wanted}
    return {name: [one for one in found if one.reads] for name, found in operations.items()}


def baked_in_faults(store: ActionStore, always: Mapping[str, Sequence[str]]) -> Iterator[BakedInFault]:
    """The names of the setting without an operation that can be offered. Raises RetrievalError."""
    for name, wanted in always.items():
        found = {one.name: one for one in store.operations(name, wanted)} if wanted else {}
        for each in wanted:
            if each not in found:
                advice = f"`ragway actions show {name}` lists the operations"
                yield BakedInFault(name, each, "is no operation of the set", advice)
            elif not found[each].reads:
                yield BakedInFault(name, each, "could change something", "name operations that only read")
