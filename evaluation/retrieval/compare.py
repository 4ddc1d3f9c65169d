"""Compares two runs question by question: the current one with an earlier one from a file, or two embedders."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.retrieval.results import VERSION, SetResult
from evaluation.stats.significance import Difference, difference
from retrieval.errors import RetrievalError

Scores = Mapping[str, Mapping[str, float]]  # metric -> question -> score
Run = Mapping[tuple[str, str, str], Scores]  # set, embedder, rung -> scores

METRICS = ("ndcg@10", "recall@10")


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric of one rung in both runs, over common questions."""

    set: str
    rung: str
    metric: str
    before: float
    after: float
    better: int  # questions
    worse: int
    change: Difference


def earlier(file: Path) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    """Read a run from a --json or --per-query file. Raises RetrievalError."""
    try:
        text = file.read_text("utf-8")
        rows = [json.loads(line) for line in text.splitlines() if line.strip()] if _lines(text) else [json.loads(text)]
        return _of_json(rows[0]) if "ragway_eval" in rows[0] else _of_rows(rows)
    except (OSError, UnicodeDecodeError) as error:
        raise RetrievalError(f"{file} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RetrievalError(f"{file} is not a file of `ragway eval` --json or --per-query ({error!r})") from error


def run_of(sets: Sequence[SetResult]) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    """A finished run's scores."""
    return {
        (result_set.name, result_set.embedder, rung.name): {metric: rung.values(metric) for metric in METRICS}
        for result_set in sets
        for rung in result_set.rungs
    }


def against(before: Run, after: Run, *, seed: int) -> list[MetricChange]:
    """Compare sets and rungs that both runs have, with the same embedder, in the later run's order."""
    return [row for key in after if key in before for row in _rows(key, before[key], after[key], seed=seed)]


def between(first: Sequence[SetResult], second: Sequence[SetResult], *, seed: int) -> list[MetricChange]:
    """Compare two embedders over the same sets, for rungs that use vectors."""
    before = {(set, "", rung): scores for (set, _, rung), scores in run_of(first).items()}
    after = {(set, "", rung): scores for (set, _, rung), scores in run_of(second).items()}
    return [row for row in against(before, after, seed=seed) if row.rung not in ("rank-bm25", "bm25")]


def _rows(key: tuple[str, str, str], before: Scores, after: Scores, *, seed: int) -> Iterable[MetricChange]:
    for metric in METRICS:
        old, new = before.get(metric, {}), after.get(metric, {})
        both = [id for id in new if id in old]
        if both:
            pairs = [(old[id], new[id]) for id in both]
            yield MetricChange(
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
    """Whether a text is JSON Lines: indented JSON's first line is only a bracket."""
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
