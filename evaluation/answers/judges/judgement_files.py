"""Files with judgements, in a run's folder.

    judge_asked.jsonl  a line before each request to a judge, with its maximum cost
    judgements.jsonl   a line for each finished request, and its judgement

If a judge has several lines for one task, the last one without an error counts.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from evaluation.answers.judges.judge_tasks import Judgement, JudgementKey
from evaluation.answers.records import BenchError, MaxCost
from evaluation.answers.run_folder import rows_of

_HASH_BYTES = 8


def asked_file(folder: Path) -> Path:
    return folder / "judge_asked.jsonl"


def file(folder: Path) -> Path:
    return folder / "judgements.jsonl"


def attempts(folder: Path) -> Iterator[Judgement]:
    """Every row in judgements.jsonl, as written. Raises BenchError if one is not a judgement."""
    for row in rows_of(file(folder)):
        try:
            yield msgspec.convert(row, Judgement)
        except msgspec.ValidationError as error:
            raise BenchError(f"{file(folder)} has a row that is not a judgement ({error}): delete the row") from error


def said_by(model: str, attempts: Iterable[Judgement]) -> list[Judgement]:
    """One judge's valid judgements."""
    return list(
        {attempt.key: attempt for attempt in attempts if attempt.model == model and attempt.error is None}.values()
    )


def judges(attempts: Iterable[Judgement]) -> list[str]:
    """Models with at least one judgement; the latest judge comes last."""
    return list(dict.fromkeys(reversed([attempt.model for attempt in attempts if attempt.error is None])))[::-1]


def sent_requests(folder: Path) -> Iterator[tuple[JudgementKey, str, float, MaxCost]]:
    """Every row in judge_asked.jsonl: task, model, time in seconds since the epoch, maximum cost."""
    for row in rows_of(asked_file(folder)):
        max_cost = MaxCost(row["prompt_tokens"], row["answer_tokens"], row["usd"])
        yield JudgementKey(*(row[name] for name in JudgementKey._fields)), row["model"], row["at_s"], max_cost


def prompt_hash(prompt: str) -> str:
    """A hash that shows whether a judge saw the current prompt."""
    return hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=_HASH_BYTES).hexdigest()
