"""Trace: how a search came to what it found: what was searched, every candidate, and what became of each.

By columns: a question has a hundred candidates, and whoever asks for the trace of one in a thousand pays for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# What became of a candidate: it is in the context; it says what one before it says; it did not fit the budget; its
# document was replaced or deleted meanwhile; it is too unlikely to be about the question. All others stood behind the
# k that were wanted, or behind a full budget.
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
    """What was searched, and the candidates: of each list the first entry is that of the best of them, as fused."""

    searched: tuple[SearchedCollection, ...] = ()
    ids: Sequence[str] = ()  # of points
    scores: Sequence[float] = ()  # of the fusion
    ranks: Mapping[str, Sequence[int | None]] = field(default_factory=dict)  # arm -> rank from 1; None: not found by it
    arm_scores: Mapping[str, Sequence[float | None]] = field(default_factory=dict)  # arm -> its own score
    fates: Sequence[Fate] = ()
