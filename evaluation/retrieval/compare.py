"""Two runs question by question: today's and an earlier one read from its file, or one embedder's and another's."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.retrieval.results import VERSION, SetResult
from evaluation.stats.significance import Difference, difference
from retrieval.errors import RetrievalError

Scores = Mapping[str, Mapping[str, float]]  # metric -> question -> score
Run = Mapping[tuple[str, str, str], Scores]  # set, embedder, rung -> its scores

METRICS = ("ndcg@10", "recall@10")


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of one rung in both runs, over the questions that both have."""

    set: str
    rung: str
    metric: str
    before: float
    after: float
    better: int  # questions
    worse: int
    change: Difference


def earlier(file: Path) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    """A run out of what --json or --per-query wrote. Raises RetrievalError."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RetrievalError(f"{file} cannot be read: {error}") from error
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()] if _lines(text) else [json.loads(text)]
        return _of_json(rows[0]) if "ragway_eval" in rows[0] else _of_rows(rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RetrievalError(f"{file} is not what --json or --per-query of `ragway eval` writes ({error!r})") from error


def run_of(sets: Sequence[SetResult]) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    """A run that was just made."""
    return {
        (one.name, one.embedder, rung.name): {metric: rung.values(metric) for metric in METRICS}
        for one in sets
        for rung in one.rungs
    }


def against(before: Run, after: Run, *, seed: int) -> list[Compared]:
    """What both runs have: the same set and rung, with the same embedder. In the order of the later one."""
    return [row for key in after if key in before for row in _rows(key, before[key], after[key], seed=seed)]


def between(first: Sequence[SetResult], second: Sequence[SetResult], *, seed: int) -> list[Compared]:
    """Two embedders over the same sets: the rungs that ask vectors, the first one's beside the second one's."""
    before = {(set, "", rung): scores for (set, _, rung), scores in run_of(first).items()}
    after = {(set, "", rung): scores for (set, _, rung), scores in run_of(second).items()}
    return [row for row in against(before, after, seed=seed) if row.rung not in ("rank-bm25", "bm25")]


def _rows(key: tuple[str, str, str], before: Scores, after: Scores, *, seed: int) -> Iterable[Compared]:
    for metric in METRICS:
        old, new = before.get(metric, {}), after.get(metric, {})
        both = [id for id in new if id in old]
        if both:
            pairs = [(old[id], new[id]) for id in both]
            yield Compared(
                set=key[0],
                rung=key[2],
                metric=metric,
                before=sum(a for a, _ in pairs) / len(pairs),
                after=sum(b for _, b in pairs) / len(pairs),
                better=sum(b > a for a, b in pairs),
                worse=sum(b < a for a, b in pairs),
                change=difference([a for a, _ in pairs], [b for _, b in pairs], seed=seed),
            )


def _lines(text: str) -> bool:
    """Whether it is JSON Lines: a line that is a whole object, where indented JSON begins with a bracket alone."""
    return len(text.lstrip().partition("\n")[0].strip()) > 1


def _of_json(document: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    if document["ragway_eval"] != VERSION:
        raise ValueError(f"version {document['ragway_eval']}, expected {VERSION}")
    return {
        (one["name"], one["embedder"], rung["name"]): {
            metric: {id: scores[metric] for id, scores in rung["scores"].items()} for metric in METRICS
        }
        for one in document["sets"]
        for rung in one["rungs"]
    }


def _of_rows(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    run: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        scores = run.setdefault((row["set"], row["embedder"], row["rung"]), {metric: {} for metric in METRICS})
        if row["answerable"]:
            for metric in METRICS:
                scores[metric][row["id"]] = float(row["scores"][metric])
    return run
