"""judgements.jsonl of a run's folder: what a judge said, a row a judgement, appended as they come."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from proxy.bench.judge import Judgement
from proxy.bench.records import BenchError
from proxy.bench.runs import rows_of
from proxy.exchange import Tokens

FILE = "judgements.jsonl"


def judgements_of(folder: Path) -> list[Judgement]:
    """Every judgement of a run, each once: the last row stands. Raises BenchError where a row is none."""
    found = {}
    for row in rows_of(folder / FILE):
        try:
            one = _judgement(row)
        except (TypeError, KeyError) as error:
            raise BenchError(f"{folder / FILE} has a row that is no judgement ({error}): take it out") from error
        found[one.key] = one
    return list(found.values())


def _judgement(row: Mapping[str, Any]) -> Judgement:
    usage = row.get("usage")
    names = {one.name for one in fields(Judgement)}
    tokens = {one.name for one in fields(Tokens)}
    told = None if usage is None else Tokens(**{name: value for name, value in usage.items() if name in tokens})
    return Judgement(**{name: value for name, value in row.items() if name in names} | {"usage": told})
