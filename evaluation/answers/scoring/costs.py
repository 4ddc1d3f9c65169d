"""What replies cost: time, tokens and money of each variant, and what one variant costs more than another.

A quantity is None where a reply does not tell it (no price known, no usage said): it is left out and counted, never
taken for 0.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.answers.scoring.verdict import NO_GROUPS, grouped, means
from evaluation.stats.significance import Difference, of_few

Quantities = Mapping[str, float | None]

# Quantity -> its name for readers.
QUANTITIES = {
    "first_ms": "time to first token, ms", "total_ms": "total time, ms", "prompt": "tokens in",
    "completion": "tokens out", "cached": "of those in, cached", "reasoning": "of those out, reasoning",
    "injected": "injected tokens", "cost_usd": "money, $",
}  # fmt: skip
COMPARED = ("first_ms", "total_ms", "prompt", "completion", "injected", "cost_usd")


@dataclass(frozen=True, slots=True)
class Spent:
    """One quantity over the replies of a variant."""

    known: int  # replies that tell it
    unknown: int
    total: float
    mean: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What a variant's replies cost: only of those that brought an answer."""

    replies: int
    spent: Mapping[str, Spent]  # without quantities that no reply tells
    stages_ms: Mapping[str, float]  # stage -> median over the replies that name it


def costs(replies: Sequence[Quantities], stages_ms: Sequence[Mapping[str, float]]) -> Costs:
    """The sums and percentiles of replies, in any order."""
    spent = {name: found for name in QUANTITIES if (found := _spent([row.get(name) for row in replies]))}
    stages: dict[str, list[float]] = {}
    for row in stages_ms:
        for stage, ms in row.items():
            stages.setdefault(stage, []).append(ms)
    return Costs(len(replies), spent, {stage: statistics.median(all_ms) for stage, all_ms in stages.items()})


def extra(
    before: Sequence[tuple[str, Quantities]],
    after: Sequence[tuple[str, Quantities]],
    *,
    seed: int,
    groups: Mapping[str, str] = NO_GROUPS,
) -> dict[str, Difference]:
    """Quantity -> how much more a question costs in the second variant. before, after: (question, its quantities).

    groups: as of `groups_of`.
    """
    found = {}
    for name in COMPARED:
        old, new = (means((id, row.get(name)) for id, row in rows) for rows in (before, after))
        changes = {id: new[id] - old[id] for id in sorted(new) if id in old}
        if changes:
            found[name] = of_few(list(grouped(changes, groups).values()), seed=seed, most=None)
    return found


def _spent(values: Sequence[float | None]) -> Spent | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95 = (float(np.percentile(known, percent)) for percent in (50, 95))
    return Spent(len(known), len(values) - len(known), sum(known), statistics.fmean(known), p50, p95)
