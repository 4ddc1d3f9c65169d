"""Trace: searched collections, and every candidate with its fate.

Stored by columns: a question has a hundred candidates, and a trace requested for one question in a thousand must not
slow the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# A candidate's fate: kept in the context; duplicate of an earlier hit; over budget; gone because its document was
# replaced or deleted meanwhile; irrelevant because too improbable. Surplus ones came after the `k` wanted hits, or
# after a full budget.
Fate = Literal["kept", "duplicate", "budget", "gone", "irrelevant", "surplus"]


@dataclass(frozen=True, slots=True)
class SearchedCollection:
    """A collection as it was searched."""

    name: str
    generation: int
    embedder: str
    language: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Searched collections, and candidates as columns: the best first, as fused."""

    searched: tuple[SearchedCollection, ...] = ()
    ids: Sequence[str] = ()  # of points
    scores: Sequence[float] = ()  # of fusion
    # arm -> rank from 1; None: not found by the arm
    ranks: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    arm_scores: Mapping[str, Sequence[float | None]] = field(default_factory=dict)  # arm -> the arm's own score
    fates: Sequence[Fate] = ()
