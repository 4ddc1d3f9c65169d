"""Live comparisons to a judge's preferences, which are kept with them, and end with them.

What a judge said is written as soon as it is there, so nothing is asked twice. A ceiling is that of one command: what
earlier ones cost is told by the comparisons, and does not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from evaluation.answers.client.budget import NOTHING, Purse
from evaluation.answers.client.gateway_client import Gateway
from evaluation.answers.client.sender import Outcome, Progress, Sender, Sent
from evaluation.answers.judges.judge_runner import Judge, judgement_of, left_of
from evaluation.answers.judges.judge_tasks import Judgement, Prompts, Task, tasks
from evaluation.answers.judges.judgement_files import judgement_from
from evaluation.answers.records import Reply
from evaluation.shadow.summary import RAG, RAW, pair_of
from proxy.observe.receipts.shelf import Shelf
from proxy.observe.shadow.comparison import Comparison, comparison_from, kept


def tasks_of(found: Iterable[Comparison], prompts: Prompts) -> list[Task]:
    """Both orders of each comparison whose replies both brought an answer."""
    pairs = [pair_of(one) for one in found]
    questions = {question.id: question for question, _, _ in pairs}
    replies = [reply for _, *both in pairs for reply in both]
    return list(tasks(questions, replies, {RAG: RAW}, prompts, kinds=["preference"]))


def judgements(one: Comparison) -> list[Judgement]:
    """What judges said of a comparison so far. Raises TypeError where that is no judgement."""
    return [judgement_from(row) for row in one.judged]


class LiveJudging(Sender[Task]):
    """Asks a judge what it has not said yet of comparisons."""

    def __init__(self, shelf: Shelf, judge: Judge, gateway: Gateway, purse: Purse, *, progress: Progress) -> None:
        super().__init__(gateway, purse, concurrency=judge.concurrency, retries=judge.retries, progress=progress)
        self._shelf = shelf
        self._judge = judge

    async def go(self, left: Sequence[Task]) -> Outcome:
        """Ask it all, or until something stops it. Raises RetrievalError."""
        kept_with = _Kept(self._shelf)
        return await self._all(left, total=len(left), used=NOTHING, before=_Nowhere(), after=kept_with)

    def _sent(self, one: Task) -> Sent:
        return self._judge.sent(one, usage=self._judge.variant.model not in self._without_usage)

    def _row(self, one: Task, reply: Reply) -> Judgement:
        return judgement_of(one, reply, self._judge.variant.model)

    def _ended(self, reply: Reply) -> bool:
        return reply.error is None


def left(found: Sequence[Comparison], every: Sequence[Task], model: str) -> list[Task]:
    """What this judge has not said yet of these prompts."""
    return left_of(every, [each for one in found for each in judgements(one)], model)


class _Kept:
    """Judgements go to their comparisons; one that failed says nothing."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def append(self, row: Judgement) -> None:
        if row.error is None:
            self._shelf.change(row.question, lambda content: _with(content, row))


class _Nowhere:
    """Where nothing goes on after a crash, nothing needs to be known of what it cut off."""

    def append(self, row: object) -> None:
        pass


def _with(content: bytes, said: Judgement) -> bytes:
    """The comparison with one judgement more, in place of an earlier one of the same model about the same."""
    one = comparison_from(content)
    others = [each for each in judgements(one) if (each.key, each.model) != (said.key, said.model)]
    return kept(replace(one, judged=[asdict(each) for each in (*others, said)]))
