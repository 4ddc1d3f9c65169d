"""Newer documents before older ones of equal fit: scores decay by half-life, within a bound.

A score is multiplied by 1 - SHARE * (1 - 0.5 ** (age / half_life)): a new document keeps its whole score; after one
half-life it has lost half of SHARE, and it never loses more than SHARE. Under reciprocal rank fusion a quarter is the
distance from first to about twentieth rank, so a new document never overtakes a much better fit. Only relevant
candidates decay, so recency lifts no irrelevant one above a threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from retrieval.records.search import Candidate, Hit

SHARE = 0.25
_DAY_S = 86_400.0
_Scored = TypeVar("_Scored", Candidate, Hit)


def recent_first(
    ranked: Sequence[_Scored], modified_s: Mapping[str, float], *, now_s: float, half_life_days: float
) -> list[_Scored]:
    """Candidates or hits by decayed score, best first; ties keep their order.

    modified_s: id -> seconds since the epoch. A missing time (or 0: unknown) counts as an age of one half-life; a
    future time counts as now. Scores must not be negative.
    """
    aged = [
        replace(
            item,
            score=item.score * recency_weight(modified_s.get(item.id, 0.0), now_s=now_s, half_life_days=half_life_days),
        )
        for item in ranked
    ]
    return sorted(aged, key=lambda item: -item.score)


def recency_weight(modified_s: float, *, now_s: float, half_life_days: float) -> float:
    """Factor for a document's score: from 1 (modified now) down to 1 - SHARE."""
    if modified_s <= 0:
        return 1 - SHARE / 2
    age_days = max(0.0, now_s - modified_s) / _DAY_S
    return float(1 - SHARE * (1 - 0.5 ** (age_days / half_life_days)))
