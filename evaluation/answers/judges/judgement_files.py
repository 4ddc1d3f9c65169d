"""The files with judgements in a run's folder.

    judge_asked.jsonl  a line before each request to a judge, with the maximum cost of the request
    judgements.jsonl   a line for each finished request, with the request and the judgement

The last line without an error counts, if a judge has several lines for the same task.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from evaluation.answers.judges.judge_tasks import Judgement, Key
from evaluation.answers.records import BenchError, MaxCost
from evaluation.answers.run_folder import rows_of
from proxy.dialects.token_counts import Tokens

_HASH_BYTES = 8


def asked_file(folder: Path) -> Path:
    return folder / "judge_asked.jsonl"


def file(folder: Path) -> Path:
    return folder / "judgements.jsonl"


def attempts(folder: Path) -> Iterator[Judgement]:
    """Every row of judgements.jsonl, in the order written. Raises BenchError where a row is none."""
    for row in rows_of(file(folder)):
        try:
            yield judgement_from(row)
        except (TypeError, KeyError) as error:
            raise BenchError(f"{file(folder)} has a row that is not a judgement ({error}): delete the row") from error


def said_by(model: str, attempts: Iterable[Judgement]) -> list[Judgement]:
    """The valid judgements of one judge."""
    return list(
        {attempt.key: attempt for attempt in attempts if attempt.model == model and attempt.error is None}.values()
    )


def judges(attempts: Iterable[Judgement]) -> list[str]:
    """The models with at least one judgement; the latest judge comes last."""
    return list(dict.fromkeys(reversed([attempt.model for attempt in attempts if attempt.error is None])))[::-1]


def sent_requests(folder: Path) -> Iterator[tuple[Key, str, float, MaxCost]]:
    """Every row of judge_asked.jsonl: the task, the model, the time in seconds since the epoch, the maximum cost."""
    for row in rows_of(asked_file(folder)):
        max_cost = MaxCost(row["prompt_tokens"], row["answer_tokens"], row["usd"])
        key = row["question"], row["variant"], row["against"], row["repeat"], row["kind"], row["order"]
        yield key, row["model"], row["at_s"], max_cost


def prompt_hash(prompt: str) -> str:
    """A hash that shows whether a judge saw the current prompt."""
    return hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=_HASH_BYTES).hexdigest()


def judgement_from(row: Mapping[str, Any]) -> Judgement:
    """The judgement of a row. Raises TypeError where a member is missing."""
    usage = row.get("usage")
    names = {field_.name for field_ in fields(Judgement)}
    tokens = {field_.name for field_ in fields(Tokens)}
    usage_tokens = None if usage is None else Tokens(**{name: value for name, value in usage.items() if name in tokens})
    return Judgement(**{name: value for name, value in row.items() if name in names} | {"usage": usage_tokens})
