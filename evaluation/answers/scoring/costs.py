"""What replies cost: each variant's time, tokens and money, and its extra cost.

A quantity is None if a reply lacks it (no known price, no usage). Such a reply is left out of the mean and counted,
never taken as 0.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.answers.records import Reply
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


def change_form(name: str, digits: int = 0) -> str:
    """The format for a quantity's difference. digits: after the point, for times and tokens."""
    return "+z.6f" if name == "cost_usd" else f"+z,.{digits}f"


@dataclass(frozen=True, slots=True)
class QuantityStats:
    """One quantity, over a variant's replies."""

    known: int  # replies that have it
    unknown: int
    total: float
    mean: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What a variant's answers cost."""

    replies: int
    spent: Mapping[str, QuantityStats]  # quantities that at least one reply has
    stages_ms: Mapping[str, float]  # stage -> median over replies that have it


def quantities(reply: Reply) -> Quantities:
    """One reply's quantities."""
    tokens = {name: getattr(reply.usage, name, None) for name in ("prompt", "completion", "cached", "reasoning")}
    return {
        "first_ms": reply.first_ms,
        "total_ms": reply.total_ms,
        **tokens,
        "injected": 0 if reply.rag.status == "off" else reply.rag.injected_tokens,
        "cost_usd": reply.cost_usd,
    }


def costs(replies: Sequence[Quantities], stages_ms: Sequence[Mapping[str, float]]) -> Costs:
    """Sums and percentiles over replies, in any order."""
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
    """Quantity -> extra cost per question in the second variant. before, after: (question, quantities).

    groups: see `groups_of`.
    """
    found = {}
    for name in COMPARED:
        old, new = (means((id, row.get(name)) for id, row in rows) for rows in (before, after))
        changes = {id: new[id] - old[id] for id in sorted(new) if id in old}
        if changes:
            found[name] = of_few(list(grouped(changes, groups).values()), seed=seed, most=None)
    return found


def _spent(values: Sequence[float | None]) -> QuantityStats | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95 = (float(np.percentile(known, percent)) for percent in (50, 95))
    return QuantityStats(len(known), len(values) - len(known), sum(known), statistics.fmean(known), p50, p95)
