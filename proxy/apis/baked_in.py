"""Baked-in operations: a setting names the operations that each chat with the set is offered, without a search."""

from collections.abc import Mapping
from typing import NamedTuple

from config.sections import ActionsApi
from proxy.apis.openapi.operation import Operation
from proxy.apis.store import ActionStore


class BakedInFault(NamedTuple):
    """A baked-in operation that no chat is offered."""

    set: str
    operation: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"actions.{self.set}.always: {self.operation} {self.problem}; {self.advice}"


def baked_in(
    store: ActionStore, sets: Mapping[str, ActionsApi]
) -> tuple[dict[str, list[Operation]], list[BakedInFault]]:
    """The baked-in operations of each set, in the order of the setting, and the names that cannot be offered.

    Raises RetrievalError.
    """
    always = {name: row.always or () for name, row in sets.items()}
    found = store.found((name, each) for name, wanted in always.items() for each in wanted)
    operations: dict[str, list[Operation]] = {}
    faults = []
    for name, wanted in always.items():
        for each in dict.fromkeys(wanted):
            operation = found.get((name, each))
            if operation is None:
                advice = f"`ragway actions show {name}` lists the operations"
                faults.append(BakedInFault(name, each, "is not an operation of the set", advice))
            elif operation.why_not_called:
                faults.append(BakedInFault(name, each, "could change something", "name operations that only read"))
            else:
                operations.setdefault(name, []).append(operation)
    return operations, faults
