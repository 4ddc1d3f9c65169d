"""The two answers to one chat, with passages and raw, and the JSON that is kept of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import orjson

from proxy.dialects.token_counts import Tokens
from retrieval.records.search import Turn


@dataclass(frozen=True, slots=True)
class Side:
    """One reply. Times are milliseconds: of the chat from its arrival, of the raw request from its sending."""

    status: int  # HTTP's; 0: there was no reply
    answer: str | None  # None: there was none, or no text in it
    finish_reason: str | None
    error: str | None  # None: it is an answer
    tokens: Tokens
    cost_usd: float | None  # None: the model's price is not known
    first_ms: float | None  # the first text of the answer or of its reasoning
    total_ms: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One chat, and what its model said with passages and raw."""

    id: str  # of the chat: its x-rag-id
    at_s: float
    asked: bool  # by the client; else it is of the share
    key: str  # id of the one that asked; "" while there are none
    model: str
    collections: Sequence[str]  # that were searched together
    turns: Sequence[Turn]  # the conversation as it was searched with
    sources: Sequence[str]
    injected_tokens: int
    rag: Side
    raw: Side
    judged: Sequence[Mapping[str, Any]] = ()  # what models said of both, later: `evaluation.shadow.preferences`


def kept(one: Comparison) -> bytes:
    """As JSON."""
    return orjson.dumps(one)


def comparison_from(content: bytes) -> Comparison:
    """What `kept` was given; what a later version added is left out. Raises ValueError, TypeError."""
    row = orjson.loads(content)
    made = {
        "turns": [Turn(**_known(Turn, turn)) for turn in row["turns"]],
        "rag": _side(row["rag"]),
        "raw": _side(row["raw"]),
    }
    return Comparison(**(_known(Comparison, row) | made))


def _side(row: Mapping[str, Any]) -> Side:
    return Side(**(_known(Side, row) | {"tokens": Tokens(**_known(Tokens, row["tokens"]))}))


def _known(kind: type, row: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in row.items() if name in names}
