"""Newer documents before older ones that fit as well: a decay of the score, by half-life and within a bound.

The score is multiplied by 1 - SHARE * (1 - 0.5 ** (age / half_life)): a document of now keeps all of it, one a
half-life old loses half of SHARE, an old one all of SHARE and no more. Under reciprocal rank fusion a quarter is what
lies between the first rank and about the twentieth, so a new document can overtake no better fit than that. It is
applied to what was found relevant, so it lifts nothing irrelevant above a threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from retrieval.records.search import Candidate, Hit

SHARE = 0.25
_DAY_S = 86_400.0
Found = TypeVar("Found", Candidate, Hit)


def recent_first(
    found: Sequence[Found], modified_s: Mapping[str, float], *, now_s: float, half_life_days: float
) -> list[Found]:
    """`found` by decayed score, best first; what has the same score keeps its order.

    modified_s: id -> seconds since the epoch. Of one that is not there (or 0: unknown) the age is taken to be a
    half-life; a time to come counts as now. Scores must not be negative.
    """
    aged = [
        replace(one, score=one.score * weight(modified_s.get(one.id, 0.0), now_s=now_s, half_life_days=half_life_days))
        for one in found
    ]
    return sorted(aged, key=lambda one: -one.score)


def weight(modified_s: float, *, now_s: float, half_life_days: float) -> float:
    """What a document's score is multiplied by: from 1 (of now) down to 1 - SHARE."""
    if modified_s <= 0:
        return 1 - SHARE / 2
    age_days = max(0.0, now_s - modified_s) / _DAY_S
    return float(1 - SHARE * (1 - 0.5 ** (age_days / half_life_days)))
