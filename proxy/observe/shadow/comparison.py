"""Both answers to one chat, with and without passages, and their JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import orjson

from proxy.dialects.replies import Tokens
from retrieval.records.search import Turn

COMPARISONS = "comparisons"  # kind of record


@dataclass(frozen=True, slots=True)
class Side:
    """One reply. Times are milliseconds: for the chat since its arrival, for the raw request since it was sent."""

    status: int  # HTTP's; 0: no reply
    answer: str | None  # None: no answer, or no text
    finish_reason: str | None
    error: str | None  # None: an answer
    tokens: Tokens
    cost_usd: float | None  # None: the model's price is not known
    first_ms: float | None  # first text of answer or reasoning
    total_ms: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One chat, and the model's replies with and without passages."""

    id: str  # the chat's x-rag-id
    at_s: float
    asked: bool  # by the client; False: sampled
    key: str  # id of the caller's key; "": no keys
    model: str
    collections: Sequence[str]  # as searched
    turns: Sequence[Turn]  # the conversation that was searched for
    sources: Sequence[str]
    injected_tokens: int
    rag: Side
    raw: Side
    judged: Sequence[Mapping[str, Any]] = ()  # what models said of both, later: `evaluation.shadow.preferences`
    size_bytes: ClassVar[int] = 0  # its number is limited


def serialize_comparison(one: Comparison) -> bytes:
    """The comparison as JSON."""
    return orjson.dumps(one)


def comparison_from(content: bytes) -> Comparison:
    """Read what `serialize_comparison` wrote; unknown members are left out. Raises ValueError."""
    return msgspec.json.decode(content, type=Comparison)
