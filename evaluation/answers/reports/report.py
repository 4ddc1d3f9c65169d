"""Turns a run's folder into a report: verdicts, scores, costs and harmed questions, as plain values for every output.

It is computed each time, from requests and replies in the folder.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields
from typing import Any

from evaluation.answers.judges.agreement import JudgeReport, judge_report
from evaluation.answers.judges.judge_tasks import Judgement
from evaluation.answers.judges.judgement_files import judges, said_by
from evaluation.answers.question_file import are_mixed
from evaluation.answers.records import BenchError, Question, Reply, RequestKey, Variant
from evaluation.answers.run_folder import RunManifest
from evaluation.answers.scoring.costs import Costs, costs, extra
from evaluation.answers.scoring.doubts import denies, repeats_passage
from evaluation.answers.scoring.faults import MANY, Fault, counted, fault_of
from evaluation.answers.scoring.groups import groups_of
from evaluation.answers.scoring.refusals import refuses
from evaluation.answers.scoring.scored_replies import (
    JUDGED,
    ScoredReply,
    across,
    baselines,
    judged_values,
    scored,
    values_of,
    wrong_judged_values,
    wrong_preferences,
    wrong_values,
)
from evaluation.answers.scoring.verdict import Pair, ScoreComparison, Values, by_tag, compared, grouped
from evaluation.stats.significance import Difference

VERSION = 1  # of its JSON
MAIN = ("score", "correctness", "preference")  # the first of these that both variants have decides the verdict
RULES = ("score", "exact", "normalised", "f1", "reference", "numbers", "must", "must_not", "facts", "refusal")
RIGHT = 0.5  # an answer with a higher score is right
FOUND = ("context_precision", "context_recall", "ndcg", "cited", "cited_gold")


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One variant's results."""

    variant: Variant
    replies: int  # with an answer, complete or not
    asked: int  # planned requests
    missing: int  # planned requests without a reply
    faults: Mapping[Fault, int]  # failure -> count
    faulty: Sequence[str]  # questions that have one
    failures: Mapping[str, int]  # error -> how often
    declined: int  # answers that refuse in words
    acted: int  # answers that called operations
    acting: Mapping[str, int]  # operation -> how often
    thoughtful: int  # answers with thoughts, which scores ignore
    repeated: Sequence[str]  # questions whose right answer repeats a passage
    denied: Sequence[str]  # questions whose right answer has a word of denial before a fact
    statuses: Mapping[str, int]  # x-rag-status -> how often
    scores: Mapping[str, float]  # means over questions, without failures and missing scores
    costs: Costs


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variant compared with another. `main` None: no question has a score in both."""

    variant: str
    against: str
    own: bool  # the same model, raw
    main: ScoreComparison | None
    scores: Mapping[str, ScoreComparison]
    tags: Mapping[str, ScoreComparison]  # of `main`
    origins: Mapping[str, ScoreComparison]  # of `main`, over drafted and over written questions; {} for one kind
    more: Mapping[str, Difference]  # quantity -> extra cost per question

    @property
    def title(self) -> str:
        return f"{self.variant} against {self.against}"


@dataclass(frozen=True, slots=True)
class Measured:
    """A run's scores."""

    manifest: RunManifest
    questions: Mapping[str, Question]
    scored: Sequence[ScoredReply]
    values: Mapping[str, Mapping[str, Values]]  # variant -> score -> question -> mean, including judged scores
    wrong: Mapping[str, Mapping[str, Values]]  # the same with failures counted as wrong, except preferences
    judges: Sequence[str]  # models that judged; only the last one's judgements count
    groups: Mapping[str, str]  # question -> the first one in its group
    faults: Mapping[str, Mapping[Fault, int]]  # variant -> failure -> count
    missing: int  # (question, variant, repeat) without a reply: a verdict needs all of them

    def answers(self, question: str, variant: str) -> list[ScoredReply]:
        """A variant's answers to a question, by repeat."""
        found = [
            answer for answer in self.scored if (answer.reply.question, answer.reply.variant) == (question, variant)
        ]
        return sorted(found, key=lambda one: one.reply.repeat)


@dataclass(frozen=True, slots=True)
class BenchReport(Measured):
    """Everything about a run."""

    variants: Sequence[VariantReport]
    # compared with the same model raw; without a raw variant, with the first one
    leading: Sequence[Verdict]
    beside: Sequence[Verdict]  # compared with other models raw: only main score and costs
    judge: JudgeReport | None
    unasked: int  # (question, variant, repeat) without an answer or a lasting refusal

    @property
    def many_failures(self) -> bool:
        """Whether failures may hide or cause a difference that matters."""
        shares = [(sum(variant.faults.values()), variant.asked) for variant in self.variants]
        if self.judge is not None:
            shares.append((self.judge.failures, sum(self.judge.asked.values())))
        depends = any(one.main is not None and one.main.word == "depends" for one in (*self.leading, *self.beside))
        return depends or any(failed > MANY * asked for failed, asked in shares)


def measured(
    manifest: RunManifest,
    questions: Sequence[Question],
    replies: Sequence[Reply],
    attempts: Sequence[Judgement],
    *,
    judge: str | None = None,
) -> Measured:
    """A run's scores, complete or not.

    attempts: by judges. judge: the model whose judgements count (default: the latest). Raises BenchError: it has judged
    nothing.
    """
    known = {question.id: question for question in questions}
    models = judges(attempts)
    if judge is not None:
        if judge not in models:
            raise BenchError(f"{judge} has judged nothing of this run; {', '.join(models) or 'no model'} has")
        models = [*(model for model in models if model != judge), judge]
    judged = said_by(models[-1], attempts) if models else []
    found = scored(known, replies)
    faulty = {reply.asked for reply in replies if fault_of(reply) is not None}
    values = {variant.name: _values(variant.name, found, judged, faulty) for variant in manifest.variants}
    its = [attempt for attempt in attempts if models and attempt.model == models[-1]]
    wrong = {
        name: {
            score: wrong_judged_values(judged, its, name, score, faulty)
            if score in JUDGED
            else wrong_values(known, found, replies, name, score)
            for score in scores
            if score != "preference"
        }
        for name, scores in values.items()
    }
    missing = sum(_missing(variant.name, manifest, known, replies) for variant in manifest.variants)
    faults = {
        variant.name: counted(fault_of(reply) for reply in replies if reply.variant == variant.name)
        for variant in manifest.variants
    }
    return Measured(manifest, known, found, values, wrong, models, groups_of(questions), faults, missing)


def report(
    manifest: RunManifest,
    questions: Sequence[Question],
    replies: Sequence[Reply],
    attempts: Sequence[Judgement],
    *,
    judge: str | None = None,
) -> BenchReport:
    """A run's report. Arguments and errors: see `measured`."""
    of = measured(manifest, questions, replies, attempts, judge=judge)
    own, others = baselines(manifest.variants).items(), across(manifest.variants)
    leading, beside = (own, others) if own else (others, ())
    judged = said_by(of.judges[-1], attempts) if of.judges else []

    def preferences(variant: str, against: str) -> list[Pair]:
        return wrong_preferences(judged, replies, variant, against)

    return BenchReport(
        **{field.name: getattr(of, field.name) for field in fields(of)},
        variants=[_variant(variant, replies, of) for variant in manifest.variants],
        leading=[_verdict(*pair, of, preferences, own=bool(own), parts=True) for pair in leading],
        beside=[_verdict(*pair, of, preferences, own=False, parts=False) for pair in beside],
        judge=judge_report(of.judges[-1], attempts, of.scored) if of.judges else None,
        unasked=len(manifest.variants) * len(questions) * manifest.repeats - sum(reply.done for reply in replies),
    )


def as_json(result: BenchReport) -> dict[str, Any]:
    """The report as plain values, with every question's means, but without texts (which the folder has)."""
    return {
        "ragway_bench_report": VERSION,
        "run": asdict(result.manifest),
        "questions": len(result.questions),
        "groups": len(set(result.groups.values())),
        "drafted": sum(question.drafted is not None for question in result.questions.values()),
        "unasked": result.unasked,
        "complete": not result.missing,
        "many_failures": result.many_failures,
        "variants": [asdict(variant) for variant in result.variants],
        "verdicts": [
            {**asdict(one), "sentence": sentence_of(result, one)} for one in (*result.leading, *result.beside)
        ],
        "judge": asdict(result.judge) if result.judge else None,
        "by_question": result.values,
    }


def sentence_of(of: Measured, verdict: Verdict) -> str:
    """A verdict for a reader, in one or two sentences."""
    if of.missing:
        return f"No verdict: the run is not complete, {of.missing} replies are missing."
    if verdict.main is not None:
        return verdict.main.sentence(own=verdict.own)
    answered = [
        {answer.reply.question for answer in of.scored if answer.reply.variant == name and answer.fault is None}
        for name in (verdict.variant, verdict.against)
    ]
    if not answered[0] & answered[1]:
        return "No verdict: no question has an answer in both."
    if of.judges:
        return "No verdict: no question has a score by rules, a judged correctness or a preference in both."
    return "No verdict: no question has a score in both. Give questions a reference, facts or answerable."


def _missing(variant: str, manifest: RunManifest, questions: Iterable[str], replies: Iterable[Reply]) -> int:
    """How many of a variant's planned requests have no reply."""
    there = {(reply.question, reply.repeat) for reply in replies if reply.variant == variant}
    return len(set(itertools.product(questions, range(manifest.repeats))) - there)


def _values(
    variant: str, found: Sequence[ScoredReply], judged: Sequence[Judgement], faulty: Set[RequestKey]
) -> dict[str, Values]:
    """Score -> question -> mean, without scores that no question has."""
    given: dict[str, Values] = {score: values_of(found, variant, score) for score in (*RULES, *FOUND)}
    given |= {kind: judged_values(judged, variant, kind, faulty=faulty) for kind in JUDGED}
    return {score: values for score, values in given.items() if values}


def _variant(variant: Variant, replies: Sequence[Reply], of: Measured) -> VariantReport:
    its = [reply for reply in replies if reply.variant == variant.name]
    answered = [answer for answer in of.scored if answer.reply.variant == variant.name]
    asked = len(of.questions) * of.manifest.repeats
    faulty = {reply.question: None for reply in its if fault_of(reply) is not None}
    right = [one.reply for one in answered if one.fault is None and (one.scores.get("score") or 0.0) > RIGHT]
    return VariantReport(
        variant,
        len(answered),
        asked,
        _missing(variant.name, of.manifest, of.questions, replies),
        of.faults[variant.name],
        tuple(faulty),
        dict(Counter(reply.error for reply in its if reply.error is not None).most_common()),
        sum(answer.fault is None and refuses(answer.reply.said) for answer in answered),
        sum(bool(answer.reply.rag.actions) for answer in answered),
        dict(Counter(name for answer in answered for name in answer.reply.rag.actions).most_common()),
        sum(answer.reply.said != (answer.reply.answer or "") for answer in answered),
        tuple({one.question: None for one in right if repeats_passage(one.said, _texts(one))}),
        tuple({one.question: None for one in right if denies(one.said, of.questions[one.question].must)}),
        dict(Counter(reply.rag.status for reply in its if reply.error is None and reply.rag.status).most_common()),
        {
            score: statistics.fmean(grouped(values, of.groups).values())
            for score, values in of.values[variant.name].items()
        },
        costs([answer.costs for answer in answered], [answer.reply.stages_ms for answer in answered]),
    )


def _texts(reply: Reply) -> list[str]:
    """Texts of passages that the model saw."""
    return [passage.text for passage in reply.rag.passages or ()]


def _verdict(
    variant: str, against: str, of: Measured, preferences: Callable[[str, str], list[Pair]], *, own: bool, parts: bool
) -> Verdict:
    """parts: whether every score, tag and origin gets a verdict, too. preferences: with failures counted."""
    rows = {
        name: [(answer.reply.question, answer.costs) for answer in of.scored if answer.reply.variant == name]
        for name in (against, variant)
    }
    more = extra(rows[against], rows[variant], seed=of.manifest.seed, groups=of.groups)
    if of.missing:
        return Verdict(variant, against, own, None, {}, {}, {}, more)
    before, after = dict(of.values[against]), dict(of.values[variant])
    if not own:
        after.pop("preference", None)  # judged against raw answers of its own model
    if preferred := after.get("preference"):  # judged as a pair: the other side of one judgement
        before["preference"] = {question: 1 - score for question, score in preferred.items()}

    known = [score for score in (*RULES, *JUDGED) if set(before.get(score, ())) & set(after.get(score, ()))]
    main = next((score for score in MAIN if score in known), None)
    shown = known if parts else [score for score in known if score == main]
    seed, groups = of.manifest.seed, of.groups
    wrong = {
        score: preferences(variant, against)
        if score == "preference"
        else [(of.wrong[against][score], of.wrong[variant][score])]
        for score in shown
    }
    scores = {
        score: one
        for score in shown
        if (one := compared(score, before[score], after[score], seed=seed, groups=groups, wrong=wrong[score]))
    }
    tags, origins = _parts(of.questions) if parts else ({}, {})
    return Verdict(
        variant,
        against,
        own,
        scores.get(main or ""),
        scores,
        by_tag(main, before[main], after[main], tags, seed=seed, groups=groups, wrong=wrong[main]) if main else {},
        by_tag(main, before[main], after[main], origins, seed=seed, groups=groups, wrong=wrong[main]) if main else {},
        more,
    )


def _parts(questions: Mapping[str, Question]) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    """Question -> tags, and question -> origin (drafted or written) if the run has both."""
    mixed = are_mixed(questions.values())
    origins = {id: ["written" if one.drafted is None else "drafted"] for id, one in questions.items()} if mixed else {}
    return {id: one.tags for id, one in questions.items()}, origins
