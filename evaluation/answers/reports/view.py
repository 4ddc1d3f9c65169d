"""Turns a report into sentences, cards and tables that readers see, the same for HTML and Markdown."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.answers.judges.judge_tasks import asked_text
from evaluation.answers.question_file import about_drafted
from evaluation.answers.reports.report import (
    FOUND,
    RULES,
    BenchReport,
    VariantReport,
    Verdict,
    sentence_of,
)
from evaluation.answers.run.collection_checks import about_leaks
from evaluation.answers.scoring.costs import QUANTITIES, change_form
from evaluation.answers.scoring.faults import FAULT_WORDS, Fault, describe_faults
from evaluation.answers.scoring.scored_replies import JUDGED, ScoredReply
from evaluation.answers.scoring.verdict import MATTERS, SAME, ScoreComparison
from evaluation.stats.significance import FEWEST, interval
from evaluation.text_tables import first_of, number

MOST_SHOWN = 50  # changed questions per verdict with full texts
MOST_HELPED = 10
_MOST_GROUPS = 5  # groups named in a note
_MOST_ERROR_CHARS = 160
_WITHOUT_PASSAGES = ("empty", "skipped")
_MOST_SWAYED = 0.25  # share of pairs
_MOST_FAULTY = 20  # questions named in a table
_TITLES = {
    "better": ("it helps", "better"), "worse": ("it makes answers worse", "worse"),
    "no better": ("it does not help", "no better"), "undecided": ("no verdict", "no verdict"),
    "depends": ("no verdict, it depends on the failures", "no verdict"),
}  # fmt: skip
_ORIGINS = "Drafted, unchecked questions and written questions, with a verdict for each kind."
_SCORES = "Means over the questions that have the score. docs/why/verdicts.md says what each is."
_FOUND = "Means over the questions whose documents are known."
_READING = (
    "A question counts once: the score is the mean of the repeats, between 0 and 1. A question is helped or harmed if "
    f"the score moved by more than {SAME:g}. Brackets hold 95 % intervals of the mean change. Fewer than {FEWEST} "
    "questions are too few for an interval: the brackets hold bounds of a score, which hold the truth in 95 runs of "
    f"100 or more. A variant helps if the whole interval is above +{MATTERS:g}, makes answers worse if the interval is "
    f"below -{MATTERS:g}, and does not help if the interval is between both; the same with bounds. In all other cases, "
    "and if failures counted as wrong answers change the verdict, the result is no verdict. Detectable is the smallest "
    "true difference that this number of questions shows to matter in four of five runs; needed is the number of "
    "questions for a verdict. With many tags or scores, one interval in twenty misses the truth by chance. Costs of "
    f"fewer than {FEWEST} questions have neither interval nor bounds."
)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


_NOTHING = Table("", "", [], [])


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    variant: str
    scores: str
    answer: str


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question whose result changed. passages None: not known."""

    id: str
    change: str
    asked: str
    tags: str
    known: Sequence[tuple[str, str]]  # what is known about the right answer
    said: Sequence[ShownAnswer]
    passages: Sequence[Any] | None
    sources: str


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """One verdict."""

    title: str
    css: str
    sentence: str
    judged: Sequence[str]  # by the judge, which somebody paid for, a line per kind
    price: str
    main: ScoreComparison | None = None
    counts: str = ""
    worst_of: str = ""
    worst: Sequence[ChangedQuestion] = ()
    best_of: str = ""
    best: Sequence[ChangedQuestion] = ()


@dataclass(frozen=True, slots=True)
class ReportView:
    title: str
    about: str
    notes: Sequence[str]
    verdicts: Sequence[VerdictCard]
    beside: Table  # verdicts against other models
    tables: Sequence[Table]
    reading: str = _READING


def view(report: BenchReport) -> ReportView:
    """All parts of a report, in reading order."""
    manifest = report.manifest
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(manifest.created_s))
    repeats = f", each asked {manifest.repeats} times" if manifest.repeats > 1 else ""
    cards = [_card(report, verdict) for verdict in report.leading]
    title = (
        cards[0].title if len(cards) == 1 else f"{len(report.questions)} questions, {len(manifest.variants)} variants"
    )
    return ReportView(
        title=title,
        about=f"Run {manifest.id}, {day}; {len(report.questions)} questions of "
        f"{Path(manifest.questions_file).name}{repeats}; {', '.join(variant.name for variant in manifest.variants)}",
        notes=_notes(report),
        verdicts=cards,
        beside=_beside(report),
        tables=[
            table
            for table in (
                _differences(report),
                _parts("Drafted and written", _ORIGINS, [(one, one.origins) for one in report.leading]),
                _parts("By tag", "", [(one, one.tags) for one in report.leading]),
                _means(report, "Scores of each variant", _SCORES, (*RULES, *JUDGED)),
                _means(report, "What was found and cited", _FOUND, FOUND),
                _costs(report),
                _more(report),
                _stages(report),
                _failures(report),
                _judge(report),
                _agreement(report),
            )
            if table.rows
        ],
    )


def failures(report: BenchReport) -> list[str]:
    """Each variant's failures, which readers must see before any verdict."""
    lines = [leaked] if (leaked := about_leaks(report.manifest.leaked, len(report.questions))) else []
    if report.unasked > 0:
        lines.append(
            f"The run is not complete: {report.unasked} answers are missing. `ragway bench` with the same "
            "questions and --run continues the run."
        )
    for one in report.variants:
        lines += [f"{one.variant.name}: {line}" for line in _failures_of(one)]
    if (judge := report.judge) is not None and judge.swayed:
        little = "; a judge that prefers a place says little" if judge.swayed > _MOST_SWAYED * judge.swapped else ""
        lines.append(
            f"The judge {judge.model}: of {judge.swapped} pairs shown in both orders, {judge.swayed} were judged "
            f"otherwise in the other order{little}."
        )
    if judge is not None and judge.failures:
        faults = sum((Counter(found) for found in judge.faults.values()), Counter[Fault]())
        lines.append(
            f"The judge {judge.model}: {judge.failures} of {sum(judge.asked.values())} judgements have no score "
            f"({describe_faults(dict(faults))})."
        )
    return lines


def _failures_of(report: VariantReport) -> Iterator[str]:
    if failed := sum(report.faults.values()):
        most = next(iter(report.failures.items()), None)
        why = "" if most is None else f"; {most[1]} times: {most[0][:_MOST_ERROR_CHARS]}"
        yield f"{failed} of {report.asked} answers are failures ({describe_faults(report.faults)}{why})."
    if report.variant.mode == "rag" and (none := sum(report.statuses.get(status, 0) for status in _WITHOUT_PASSAGES)):
        yield f"retrieval found nothing for {none} of {report.asked} answers, which are as good as raw."
    if report.acting:
        names = ", ".join(f"{name} ({times})" for name, times in report.acting.items())
        yield f"{report.acted} of {report.asked} answers called operations of APIs: {names}."
    if report.thoughtful:
        yield (
            f"{report.thoughtful} of {report.asked} answers hold thoughts (<think> and the like): scores, refusals and "
            "judges leave the thoughts out."
        )
    for ids, what in ((report.repeated, "repeat a passage"), (report.denied, "have a word of denial before a fact")):
        if ids:
            yield (
                f"Right answers to {len(ids)} questions {what}, and may be right by the rules alone; read them: "
                f"{first_of(ids, _MOST_FAULTY)}."
            )
    if report.declined:
        yield f"{report.declined} of {report.asked} answers refuse to answer in words; refusals are scored as answers."


def _notes(report: BenchReport) -> list[str]:
    notes = failures(report)
    if about := about_drafted(report.questions.values()):
        notes.append(about)
    if report.manifest.gateway.get("operations"):
        notes.append("Every variant could call operations of APIs, raw variants, too: verdicts are about the passages.")
    if one := _one_question(report):
        notes.append(one)
    if report.judges[1:]:
        others = ", ".join(report.judges[:-1])
        notes.append(
            f"Judged scores are those of {report.judges[-1]}. {others} judged, too: `report --judge` shows it."
        )
    estimated = sum(answer.reply.usage is not None and answer.reply.usage.estimated for answer in report.scored)
    if estimated:
        notes.append(f"The upstream did not say the tokens of {estimated} answers: they are estimated.")
    notes += [f"{name} was left out: {why}" for name, why in report.manifest.left_out.items()]
    return notes


def _one_question(report: BenchReport) -> str:
    """A note about groups of questions; "" without any."""
    forms = Counter(report.groups.values())
    many = [f"{id} ({times})" for id, times in forms.most_common(_MOST_GROUPS) if times > 1]
    if not many:
        return ""
    more = " …" if sum(times > 1 for times in forms.values()) > len(many) else ""
    return (
        f"{len(report.groups)} questions count as {len(forms)}: those of one `group` or that ask the same are one "
        f"question. The largest, by their first: {', '.join(many)}{more}."
    )


def _card(report: BenchReport, verdict: Verdict) -> VerdictCard:
    about = "about " if _estimated(report, verdict) else ""
    price = "The cost is not known."
    if more := _price(verdict):
        price = f"A question costs {about}{more}.{_too_few(verdict)}"
    sentence, judged, main = sentence_of(report, verdict), _judged(report, verdict), verdict.main
    if main is None:
        return VerdictCard(verdict.title, "none", sentence, judged, price)
    return VerdictCard(
        f"{verdict.title}: {_TITLES[main.word][not verdict.own]}",
        main.word,
        f"{sentence} {_named(main.score).capitalize()} {main.before:.3f} before, {main.after:.3f} after.",
        judged,
        price,
        main,
        f"{len(main.harmed)} harmed, {len(main.unchanged)} unchanged, {len(main.helped)} helped",
        _of(main.harmed, MOST_SHOWN),
        [_change(report, verdict, id, main.changes[id]) for id in main.harmed[:MOST_SHOWN]],
        _of(main.helped, MOST_HELPED),
        [_change(report, verdict, id, main.changes[id]) for id in main.helped[:MOST_HELPED]],
    )


def _judged(report: BenchReport, verdict: Verdict) -> list[str]:
    """A verdict's judged scores, except the one that decides, a line each."""
    judge = report.judges[-1] if report.judges else ""
    return [
        f"{judge} judges {kind}: {one.before:.3f} before, {one.after:.3f} after, {interval(one.change)} over "
        f"{one.change.questions}."
        for kind in JUDGED
        if (one := verdict.scores.get(kind)) is not None and one is not verdict.main
    ]


def _estimated(report: BenchReport, verdict: Verdict) -> bool:
    """Whether any answer's tokens are an estimate."""
    variants = (verdict.variant, verdict.against)
    return any(
        reply.variant in variants and reply.usage is not None and reply.usage.estimated
        for reply in (answer.reply for answer in report.scored)
    )


def _beside(report: BenchReport) -> Table:
    rows = [
        [
            verdict.title,
            _TITLES[verdict.main.word][1],
            *_compared(verdict.main),
            *(
                number(verdict.more[name].mean if name in verdict.more else None, change_form(name))
                for name in ("first_ms", "cost_usd")
            ),
        ]
        for verdict in report.beside
        if verdict.main
    ]
    text = "Does the model with passages equal another model without passages?"
    return Table("Beside other models", text, ["compared", "verdict", *_HEAD, "first token, ms", "$ a question"], rows)


def _of(ids: Sequence[str], most: int) -> str:
    more = f"; the first {most} are shown, all are in report.json" if len(ids) > most else ""
    return f"{len(ids)} question{'s' if len(ids) != 1 else ''}, the largest change first{more}."


def _named(score: str) -> str:
    return f"judged {score}" if score in JUDGED else score.replace("_", " ")


def _price(verdict: Verdict) -> str:
    """The extra cost per question, in one line."""
    units = {
        "first_ms": "ms to the first token", "total_ms": "ms in all", "prompt": "tokens in", "completion": "tokens out",
        "cost_usd": "$",
    }  # fmt: skip
    return ", ".join(
        f"{verdict.more[name].mean:{change_form(name)}} {unit}" for name, unit in units.items() if name in verdict.more
    )


def _too_few(verdict: Verdict) -> str:
    """A warning if there are too few questions for an interval of costs; "" if there are enough."""
    questions = max((change.questions for change in verdict.more.values()), default=0)
    few = f" Too few questions to say what other questions cost: {questions} of {FEWEST}."
    return few if questions < FEWEST else ""


def _change(report: BenchReport, verdict: Verdict, id: str, change: float) -> ChangedQuestion:
    question = report.questions[id]
    before, after = report.answers(id, verdict.against), report.answers(id, verdict.variant)
    shown = next((each.reply.rag for each in after if each.reply.rag.passages), after[0].reply.rag) if after else None
    known = [
        ("reference", question.reference or ""),
        ("must say", "; ".join(question.must)),
        ("must not say", "; ".join(question.must_not)),
        ("gold", ", ".join(question.gold)),
    ]
    if question.answerable is False:
        known.append(("answerable", "no: it should be refused"))
    if question.drafted is not None:
        known.append(("drafted", "by a model, not checked by a person"))
    return ChangedQuestion(
        id=id,
        change=number(change, "+z.2f"),
        asked=asked_text(question),
        tags=", ".join(question.tags),
        known=[(name, text) for name, text in known if text],
        said=[_said(row) for rows in (before, after) for row in rows],
        passages=shown.passages if shown else None,
        sources=", ".join(shown.sources) if shown else "",
    )


def _said(answer: ScoredReply) -> ShownAnswer:
    scores = ", ".join(f"{name} {score:.2f}" for name in RULES if (score := answer.scores.get(name)) is not None)
    repeat = f" (repeat {answer.reply.repeat + 1})" if answer.reply.repeat else ""
    fault = f" ({FAULT_WORDS[answer.fault]})" if answer.fault else ""
    thoughts = " (without its thoughts)" if answer.reply.said != (answer.reply.answer or "") else ""
    return ShownAnswer(
        answer.reply.variant + repeat + fault + thoughts, scores, answer.reply.said or "(an empty answer)"
    )


def _differences(report: BenchReport) -> Table:
    rows = [
        ["" if at else verdict.title, _named(each.score), *_compared(each)]
        for verdict in report.leading
        for at, each in enumerate(verdict.scores.values())
    ]
    text = "The first score in the table decides the verdict."
    return Table("Every score", text, ["compared", "score", *_HEAD], rows)


COMPARED: Sequence[tuple[str, Callable[[ScoreComparison], str]]] = (
    ("before", lambda one: number(one.before)),
    ("after", lambda one: number(one.after)),
    ("difference [95 %]", lambda one: interval(one.change)),
    ("harmed", lambda one: str(len(one.harmed))),
    ("unchanged", lambda one: str(len(one.unchanged))),
    ("helped", lambda one: str(len(one.helped))),
    ("detectable", lambda one: number(one.detectable, ".2f")),
    ("needed", lambda one: f"{one.needed:,}"),
)
_HEAD = [name for name, _ in COMPARED]


def _compared(comparison: ScoreComparison) -> list[str]:
    return [cell(comparison) for _, cell in COMPARED]


def _parts(title: str, text: str, verdicts: Sequence[tuple[Verdict, Mapping[str, ScoreComparison]]]) -> Table:
    """A verdict for each part of the questions."""
    rows = [
        [f"{part}: {one.variant}", each.word, *_compared(each)]
        for one, parts in verdicts
        for part, each in parts.items()
    ]
    return Table(title, text, ["questions of", "verdict", *_HEAD], rows)


def _means(report: BenchReport, title: str, text: str, scores: Sequence[str]) -> Table:
    names = [name for name in scores if any(name in variant.scores for variant in report.variants)]
    rows = [
        [variant.variant.name, *(number(variant.scores.get(name)) for name in names)]
        for variant in report.variants
        if any(name in variant.scores for name in names)
    ]
    return Table(title, text, ["variant", *map(_named, names)], rows)


_SPENT = (  # column head, quantity, its statistic, format
    ("first token ms p50", "first_ms", "p50", ",.0f"), ("p95", "first_ms", "p95", ",.0f"),
    ("total ms p50", "total_ms", "p50", ",.0f"), ("p95", "total_ms", "p95", ",.0f"),
    ("tokens in", "prompt", "mean", ",.0f"), ("out", "completion", "mean", ",.0f"),
    ("injected", "injected", "mean", ",.0f"),
    ("$ an answer", "cost_usd", "mean", ".6f"), ("$ in all", "cost_usd", "total", ".4f"),
)  # fmt: skip


def _costs(report: BenchReport) -> Table:
    rows = [
        [
            one.variant.name,
            str(one.replies),
            *(number(getattr(one.costs.spent.get(name), part, None), form) for _, name, part, form in _SPENT),
        ]
        for one in report.variants
    ]
    head = ["variant", "answers", *(title for title, *_ in _SPENT)]
    return Table("Costs", "Tokens are means of an answer. The judge's cost is not among these.", head, rows)


def _more(report: BenchReport) -> Table:
    rows = [
        [
            "" if at else verdict.title,
            QUANTITIES[name],
            interval(change, change_form(name)),
            str(change.questions),
        ]
        for verdict in report.leading
        for at, (name, change) in enumerate(verdict.more.items())
    ]
    return Table("What a question costs more", "", ["compared", "of", "difference [95 %]", "questions"], rows)


def _stages(report: BenchReport) -> Table:
    longest_first = sorted((list(variant.costs.stages_ms) for variant in report.variants), key=len, reverse=True)
    names = list(dict.fromkeys(stage for stages in longest_first for stage in stages))
    rows = [
        [variant.variant.name, *(number(variant.costs.stages_ms.get(name), ",.1f") for name in names)]
        for variant in report.variants
        if variant.costs.stages_ms
    ]
    return Table("Stages", "Median milliseconds in the gateway, from Server-Timing.", ["variant", *names], rows)


def _failures(report: BenchReport) -> Table:
    rows = [
        [variant.variant.name, str(times), error[:300]]
        for variant in report.variants
        for error, times in variant.failures.items()
    ]
    rows += [
        [variant.variant.name, str(times), f"{FAULT_WORDS[fault]}; questions: {first_of(variant.faulty, _MOST_FAULTY)}"]
        for variant in report.variants
        for fault, times in variant.faults.items()
    ]
    text = (
        "Failures count in no mean. A verdict is valid only if failures counted as wrong answers give the same verdict."
    )
    return Table("Failures", text, ["variant", "times", "what"], rows)


def _judge(report: BenchReport) -> Table:
    judge = report.judge
    if judge is None:
        return _NOTHING
    text = (
        f"{judge.model}: {judge.tokens_in:,} tokens in, {judge.tokens_out:,} out, ${judge.cost_usd:.4f}"
        + (f" ({judge.cost_unknown} replies without a known price)" if judge.cost_unknown else "")
        + f". Of {judge.swapped} pairs shown in both orders, {judge.swayed} were judged otherwise in the other order."
    )
    rows = [[kind, str(asked), describe_faults(judge.faults[kind]) or "none"] for kind, asked in judge.asked.items()]
    return Table("The judge", text, ["kind", "asked", "without a score"], rows)


def _agreement(report: BenchReport) -> Table:
    rows = [
        [kind, f"{one.same} of {one.of}", number(one.tau, ".2f")]
        for kind, one in (report.judge.agreement.items() if report.judge else ())
    ]
    text = (
        "The deterministic score of the same answers beside the judged one: both above or both below one half (of "
        "preferences: the same answer preferred), and Kendall's tau-b, 1: the same order, 0: unrelated."
    )
    return Table("Does the judge agree with the rules?", text, ["kind", "same side", "tau-b"], rows)
