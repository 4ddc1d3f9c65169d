"""A judge's preferences for shadow comparisons, stored and deleted with them.

A judgement is written as soon as the judge replies, so no request is repeated. A ceiling covers one command: earlier
commands do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from evaluation.answers.client.budget import NO_COST
from evaluation.answers.client.sender import Outcome
from evaluation.answers.judges.judge_runner import JudgeRunner, left_of
from evaluation.answers.judges.judge_tasks import Judgement, JudgePrompts, JudgeTask, tasks
from evaluation.shadow.summary import RAG, RAW, pair_of
from proxy.observe.shadow.comparison import Comparison, comparison_from, serialize_comparison
from runtime.record_store import RecordStore


def tasks_of(found: Iterable[Comparison], prompts: JudgePrompts) -> list[JudgeTask]:
    """Two tasks (both orders) for each comparison with two answers."""
    pairs = [pair_of(comparison) for comparison in found]
    questions = {question.id: question for question, _, _ in pairs}
    replies = [reply for _, *both in pairs for reply in both]
    return list(tasks(questions, replies, {RAG: RAW}, prompts, kinds=["preference"]))


def judgements(comparison: Comparison) -> list[Judgement]:
    """A comparison's judgements so far. Raises msgspec.ValidationError if a row is not one."""
    return msgspec.convert(comparison.judged, list[Judgement])


async def judge_comparisons(runner: JudgeRunner, store: RecordStore, left: Sequence[JudgeTask]) -> Outcome:
    """Judge comparisons until all are judged or the runner stops. Raises RetrievalError."""
    return await runner.send_all(left, total=len(left), used=NO_COST, before=_Nowhere(), after=_Kept(store))


def left(found: Sequence[Comparison], every: Sequence[JudgeTask], model: str) -> list[JudgeTask]:
    """Tasks that this judge has not judged with the current prompt."""
    return left_of(every, [judgement for comparison in found for judgement in judgements(comparison)], model)


class _Kept:
    """Writes judgements into comparisons; failed requests are ignored."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def append(self, row: Mapping[str, Any]) -> None:
        said = msgspec.convert(row, Judgement)
        if said.error is None:
            self._store.change(said.question, lambda content: _with(content, said))


class _Nowhere:
    """A log that discards rows. Shadow judgements do not count costs across commands."""

    def append(self, row: object) -> None:
        pass


def _with(content: bytes, said: Judgement) -> bytes:
    """The comparison with a new judgement, which replaces the same model's earlier one for that task."""
    comparison = comparison_from(content)
    others = [
        judgement for judgement in judgements(comparison) if (judgement.key, judgement.model) != (said.key, said.model)
    ]
    return serialize_comparison(replace(comparison, judged=[asdict(each) for each in (*others, said)]))
