"""A judge's preferences for shadow comparisons, stored and deleted together with the comparisons.

A judgement is written as soon as the judge replies, so no request is repeated. A ceiling covers one command: the
judgements of earlier commands do not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from evaluation.answers.client.budget import NO_COST, Budget
from evaluation.answers.client.gateway_client import BenchRequest, GatewayClient
from evaluation.answers.client.sender import Outcome, Progress, Sender
from evaluation.answers.judges.judge_runner import Judge, judgement_of, left_of
from evaluation.answers.judges.judge_tasks import Judgement, JudgePrompts, JudgeTask, tasks
from evaluation.answers.judges.judgement_files import judgement_from
from evaluation.answers.records import Reply
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
    """The judgements of a comparison so far. Raises TypeError if a row is not a judgement."""
    return [judgement_from(row) for row in comparison.judged]


class ShadowJudgeRunner(Sender[JudgeTask]):
    """Sends the remaining tasks of comparisons to a judge."""

    def __init__(
        self, store: RecordStore, judge: Judge, gateway: GatewayClient, budget: Budget, *, progress: Progress
    ) -> None:
        super().__init__(gateway, budget, concurrency=judge.concurrency, retries=judge.retries, progress=progress)
        self._store = store
        self._judge = judge

    async def go(self, left: Sequence[JudgeTask]) -> Outcome:
        """Send all tasks until all are judged or the runner stops. Raises RetrievalError."""
        kept_with = _Kept(self._store)
        return await self._send_all(left, total=len(left), used=NO_COST, before=_Nowhere(), after=kept_with)

    def _request(self, task: JudgeTask) -> BenchRequest:
        return self._judge.request(task, usage=self._judge.variant.model not in self._without_usage)

    def _row(self, task: JudgeTask, reply: Reply) -> Judgement:
        return judgement_of(task, reply, self._judge.variant.model)

    def _is_final(self, reply: Reply) -> bool:
        return reply.error is None


def left(found: Sequence[Comparison], every: Sequence[JudgeTask], model: str) -> list[JudgeTask]:
    """The tasks without a judgement of this judge for the current prompt."""
    return left_of(every, [judgement for comparison in found for judgement in judgements(comparison)], model)


class _Kept:
    """Writes judgements into comparisons; failed requests are ignored."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def append(self, row: Judgement) -> None:
        if row.error is None:
            self._store.change(row.question, lambda content: _with(content, row))


class _Nowhere:
    """A log that discards rows. Shadow judgements do not count costs across commands."""

    def append(self, row: object) -> None:
        pass


def _with(content: bytes, said: Judgement) -> bytes:
    """The comparison with a new judgement, which replaces the same model's earlier judgement of the same task."""
    comparison = comparison_from(content)
    others = [
        judgement for judgement in judgements(comparison) if (judgement.key, judgement.model) != (said.key, said.model)
    ]
    return serialize_comparison(replace(comparison, judged=[asdict(each) for each in (*others, said)]))
