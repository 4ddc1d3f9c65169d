"""The files with judgements in a run's folder.

    judge_asked.jsonl  a line before each request to a judge, with the maximum cost of the request
    judgements.jsonl   a line for each finished request, with the request and the judgement

The last line without an error counts, if a judge has several lines for the same task.
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
    """Every row of judgements.jsonl, in the order written. Raises BenchError where a row is none."""
    for row in rows_of(file(folder)):
        try:
            yield msgspec.convert(row, Judgement)
        except msgspec.ValidationError as error:
            raise BenchError(f"{file(folder)} has a row that is not a judgement ({error}): delete the row") from error


def said_by(model: str, attempts: Iterable[Judgement]) -> list[Judgement]:
    """The valid judgements of one judge."""
    return list(
        {attempt.key: attempt for attempt in attempts if attempt.model == model and attempt.error is None}.values()
    )


def judges(attempts: Iterable[Judgement]) -> list[str]:
    """The models with at least one judgement; the latest judge comes last."""
    return list(dict.fromkeys(reversed([attempt.model for attempt in attempts if attempt.error is None])))[::-1]


def sent_requests(folder: Path) -> Iterator[tuple[JudgementKey, str, float, MaxCost]]:
    """Every row of judge_asked.jsonl: the task, the model, the time in seconds since the epoch, the maximum cost."""
    for row in rows_of(asked_file(folder)):
        max_cost = MaxCost(row["prompt_tokens"], row["answer_tokens"], row["usd"])
        yield JudgementKey(*(row[name] for name in JudgementKey._fields)), row["model"], row["at_s"], max_cost


def prompt_hash(prompt: str) -> str:
    """A hash that shows whether a judge saw the current prompt."""
    return hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=_HASH_BYTES).hexdigest()
