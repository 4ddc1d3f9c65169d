"""A run's folder to its report: verdicts, scores, costs, what changed for the worse; as plain values for every form.

Everything is computed anew from the requests and replies that the folder keeps.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from proxy.bench.agreement import JudgeReport, judge_report
from proxy.bench.costs import Costs, costs, extra
from proxy.bench.judge import Judgement
from proxy.bench.judgements import judges, said_by
from proxy.bench.questions import are_mixed
from proxy.bench.records import BenchError, Question, Reply, Variant
from proxy.bench.runs import Head
from proxy.bench.scored import JUDGED, Scored, across, baselines, judged_values, scored, values_of
from proxy.bench.verdict import Compared, Values, by_tag, compared
from retrieval.evaluate.significance import Difference

VERSION = 1  # of the JSON
MAIN = ("score", "correctness", "preference")  # a verdict is made of the first of these that both variants have
RULES = ("score", "exact", "normalised", "f1", "reference", "numbers", "must", "must_not", "facts", "refusal")
FOUND = ("context_precision", "context_recall", "ndcg", "cited", "cited_gold")


@dataclass(frozen=True, slots=True)
class VariantReport:
    """What one variant did."""

    variant: Variant
    replies: int  # that brought an answer
    failures: Mapping[str, int]  # error -> how often
    statuses: Mapping[str, int]  # x-rag-status -> how often
    scores: Mapping[str, float]  # means over questions; without those that no question has
    costs: Costs


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variant beside another. `main` None: no question has a score in both."""

    variant: str
    against: str
    own: bool  # the same model, raw
    main: Compared | None
    scores: Mapping[str, Compared]
    tags: Mapping[str, Compared]  # of `main`
    origins: Mapping[str, Compared]  # of `main`, over drafted and over written questions; {} where all are of one kind
    more: Mapping[str, Difference]  # quantity -> what a question costs more


@dataclass(frozen=True, slots=True)
class Report:
    """All of a run."""

    head: Head
    questions: Mapping[str, Question]
    scored: Sequence[Scored]
    values: Mapping[str, Mapping[str, Values]]  # variant -> score -> question -> its mean; judged ones, too
    variants: Sequence[VariantReport]
    verdicts: Sequence[Verdict]
    judge: JudgeReport | None
    judges: Sequence[str]  # models whose judgements the folder has; the last one's are counted
    unasked: int  # (question, variant, repeat) without an answer or a lasting refusal

    @property
    def leading(self) -> Sequence[Verdict]:
        """The verdicts beside the same model raw; where nothing was asked raw, all."""
        return [one for one in self.verdicts if one.own] or self.verdicts

    @property
    def beside(self) -> Sequence[Verdict]:
        """The others: beside another model raw."""
        leading = self.leading
        return [one for one in self.verdicts if one not in leading]

    def answers(self, question: str, variant: str) -> list[Scored]:
        """The answers of a variant to a question, by repeat."""
        found = [one for one in self.scored if (one.reply.question, one.reply.variant) == (question, variant)]
        return sorted(found, key=lambda one: one.reply.repeat)


def report(
    head: Head, questions: Sequence[Question], replies: Sequence[Reply], attempts: Sequence[Judgement],
    *, judge: str | None = None,
) -> Report:  # fmt: skip
    """The report of what a run's folder holds, whole or not.

    attempts: to judge. judge: the model whose judgements count (default: the one that judged last). Raises BenchError:
    that one judged nothing.
    """
    known = {question.id: question for question in questions}
    models = judges(attempts)
    if judge is not None:
        if judge not in models:
            raise BenchError(f"{judge} has judged nothing of this run; {', '.join(models) or 'no model'} has")
        models = [*(one for one in models if one != judge), judge]
    judged = said_by(models[-1], attempts) if models else []
    found = scored(known, replies)
    values = {one.name: _values(one.name, found, judged) for one in head.variants}
    own = baselines(head.variants)
    pairs = [(variant, against, True) for variant, against in own.items()]
    pairs += [(variant, against, False) for variant, against in across(head.variants)]
    return Report(
        head, known, found, values,
        [_variant(one, replies, found, values[one.name]) for one in head.variants],
        [_verdict(*pair, known, found, values, seed=head.seed) for pair in pairs],
        judge_report(models[-1], attempts, found) if models else None, models,
        len(head.variants) * len(questions) * head.repeats - sum(reply.done for reply in replies),
    )  # fmt: skip


def as_json(made: Report) -> dict[str, Any]:
    """The report as plain values, with every question's means, without the texts (which the folder has)."""
    return {
        "ragway_bench_report": VERSION,
        "run": asdict(made.head),
        "questions": len(made.questions),
        "drafted": sum(one.drafted is not None for one in made.questions.values()),
        "unasked": made.unasked,
        "variants": [asdict(one) for one in made.variants],
        "verdicts": [
            {
                **asdict(one),
                "sentence": one.main.sentence(own=one.own)
                if one.main
                else "No verdict: no question has a score in both.",
            }
            for one in made.verdicts
        ],
        "judge": asdict(made.judge) if made.judge else None,
        "by_question": made.values,
    }


def _values(variant: str, found: Sequence[Scored], judged: Sequence[Judgement]) -> dict[str, Values]:
    """Score -> question -> its mean, without scores that no question has."""
    given: dict[str, Values] = {score: values_of(found, variant, score) for score in (*RULES, *FOUND)}
    given |= {kind: judged_values(judged, variant, kind) for kind in JUDGED}
    return {score: values for score, values in given.items() if values}


def _variant(
    variant: Variant, replies: Sequence[Reply], found: Sequence[Scored], values: Mapping[str, Values]
) -> VariantReport:
    its = [reply for reply in replies if reply.variant == variant.name]
    answered = [one for one in found if one.reply.variant == variant.name]
    return VariantReport(
        variant, len(answered),
        dict(Counter(reply.error for reply in its if reply.error is not None).most_common()),
        dict(Counter(reply.rag.status for reply in its if reply.error is None and reply.rag.status).most_common()),
        {score: sum(its.values()) / len(its) for score, its in values.items()},
        costs([one.costs for one in answered], [one.reply.stages_ms for one in answered]),
    )  # fmt: skip


def _verdict(
    variant: str, against: str, own: bool, questions: Mapping[str, Question], found: Sequence[Scored],
    values: Mapping[str, Mapping[str, Values]], *, seed: int,
) -> Verdict:  # fmt: skip
    before, after = dict(values[against]), dict(values[variant])
    if not own:
        after.pop("preference", None)  # of the variant over its own model's raw one
    if preferred := after.get("preference"):  # judged of the pair: the other side of the same judgement
        before["preference"] = {question: 1 - score for question, score in preferred.items()}
    scores = {
        score: one
        for score in (*RULES, *JUDGED)
        if score in before and score in after
        and (one := compared(score, before[score], after[score], seed=seed)) is not None
    }  # fmt: skip
    main = next((score for score in MAIN if score in scores), None)
    tags = {question.id: question.tags for question in questions.values()}
    mixed = are_mixed(questions.values())
    origins = {id: ["written" if one.drafted is None else "drafted"] for id, one in questions.items()} if mixed else {}
    rows = {name: [(one.reply.question, one.costs) for one in found if one.reply.variant == name]
            for name in (against, variant)}  # fmt: skip
    return Verdict(
        variant, against, own, scores.get(main or ""), scores,
        by_tag(main, before[main], after[main], tags, seed=seed) if main else {},
        by_tag(main, before[main], after[main], origins, seed=seed) if main else {},
        extra(rows[against], rows[variant], seed=seed),
    )  # fmt: skip
