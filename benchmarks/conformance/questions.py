"""What the trial of real models asks: mock operations, and questions with what is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
STRING: Json = {"type": "string"}


@dataclass(frozen=True, slots=True)
class MockOperation:
    """An operation of a mock API. parameters: name -> description and schema; "?" ends the name of an optional one."""

    name: str
    path: str
    summary: str
    result: Any
    parameters: dict[str, tuple[str, Json]] = field(default_factory=dict)
    by: str = ""  # parameter by whose value the result is chosen; other values are a 404. "": a list is filtered
    ask: Sequence[str] = ()  # parameters that only a person knows
    method: str = "get"

    def answer(self, arguments: Mapping[str, str]) -> Any:
        """The result for the arguments; None: there is none."""
        if self.by:
            rows = {key.casefold(): row for key, row in self.result.items()}
            return rows.get(arguments.get(self.by, "").casefold())
        if not isinstance(self.result, list):
            return self.result
        given = [
            (name, text) for name, text in arguments.items() if f"{name}?" in self.parameters or self.filters(name)
        ]
        return [row for row in self.result if all(_fits(row, name, text) for name, text in given)]

    def filters(self, name: str) -> bool:
        """Whether a parameter is a member of the rows."""
        return any(isinstance(row, dict) and name in row for row in self.result)


def _fits(row: Json, name: str, text: str) -> bool:
    if name.startswith("max_"):
        prices = [value for key, value in row.items() if key.startswith(name.removeprefix("max_"))]
        return all(price <= float(text) for price in prices)
    return text.casefold() in str(row.get(name, "")).casefold()


@dataclass(frozen=True, slots=True)
class Question:
    """What a person asks, and what is right. Without calls, no call is right."""

    group: str  # a row of the table
    api: str
    turns: Sequence[str]
    calls: Sequence[tuple[str, Json]] = ()
    facts: Sequence[str] = ()  # in the last answer
    asks: str = ""  # word of the value that the first answer must ask for; "": no value is missing
    foreign: Sequence[str] = ()  # texts of people whom the question does not name, in no answer
