"""Records of a query: what it may cost, and what it returns."""

from typing import Any, Literal

import msgspec

FailureKind = Literal["error", "timeout", "memory", "too_expensive"]


class QueryLimits(msgspec.Struct, frozen=True):
    """What one query may use."""

    max_rows: int
    max_seconds: float
    memory_mb: int  # of this machine; a database server has limits of its own
    result_bytes: int  # of the rows as JSON
    max_cost: float = 0.0  # by PostgreSQL's planner, in its units; 0: any


class QueryResult(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    rows: list[list[Any]]  # JSON values; exact decimals that a float cannot hold are texts
    cut: bool  # there are more rows than the limits allow
    ms: float


class QueryFailed(Exception):
    """A query without a result; the text tells the model why, without values of rows."""

    def __init__(self, text: str, kind: FailureKind = "error") -> None:
        super().__init__(text)
        self.kind: FailureKind = kind
