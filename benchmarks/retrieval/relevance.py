"""The cost of each `retrieval.min_relevance`: answerable questions without context, and unanswerable questions caught.

    python benchmarks/retrieval/relevance.py DIR [DIR…] [--data DIR] [--cache DIR] [--limit N] [--foreign N]
        [--alike A,B…] [--half A,B…] [--embedder MODEL] [--arms both|dense|bm25] [--instead NAME=VALUE]

Each DIR is a judged set in BEIR's form, as for `ragway eval`, and becomes a collection. The questions for a collection
are the set's own questions (should find something), `unanswerable.jsonl` and the questions of other sets (should find
nothing), and small talk in many languages (small_talk.txt; should find nothing). Sets with similar subjects (named by
--alike) do not get each other's questions. Every set has the same weight; in fits, those named by --half have half of
it. All this is asked in the modes hybrid, dense and bm25, each of which has its own curve. --instead replaces a
constant (retrieval.search.ranking.NOISE_SHARE=0.0) in this run.

The page goes to standard output as Markdown. ECE is the expected calibration error of a curve fitted on the other sets.
"Curves" compares, over all sets, the curve in use, one fitted on the judged questions of the other sets, and what
`ragway calibrate` fits without any: to the set alone, and to all sets. The last lines are the constants of
retrieval/search/ranking.py, fitted on all sets and on all sets but one, to show the influence of a single set.
"""

import asyncio
import math
import random
import sys
import tempfile
from ast import literal_eval
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import parser_of
from benchmarks.common.output import say
from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.judged import JudgedSet, corpus, read
from evaluation.retrieval.metrics import calibration_error
from evaluation.retrieval.subjects import scratch_plan
from evaluation.text_tables import number
from retrieval.index.index import Index
from retrieval.knowledge import Arms, Plan, SearchRequest
from retrieval.records.search import Turn
from retrieval.search.calibration import Evidence, evidence_of
from retrieval.search.calibration import fitted as calibrated
from retrieval.search.ranking import CURVES, Curve
from retrieval.search.retriever import Retriever

SMALL_TALK = Path(__file__).with_name("small_talk.txt")
_THRESHOLDS = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)
OWN, NONE, FOREIGN, TALK = "own", "unanswerable", "foreign", "small talk"
Line = tuple[float, float]  # slope and offset
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for a collection: the kind, and the estimated probability of relevance."""

    collection: str
    kind: str
    relevance: float
    evidence: float  # the noise subtracted


@dataclass(frozen=True, slots=True)
class Asking:
    """The questions: at most `limit` of a set's own, `foreign` of each other set."""

    limit: int
    foreign: int
    alike: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answers:
    """What all questions found in one mode, and what the questions of `ragway calibrate` found, by collection."""

    curve: Curve
    asked: Sequence[Asked]
    made: Mapping[str, Evidence]  # of no collection if only words are searched


async def ask_all(
    sets: Sequence[JudgedSet], how: Asking, base: Plan, cache: Path, modes: Collection[Arms] = tuple(CURVES)
) -> Mapping[Arms, Answers]:
    """Ingest every set as a collection of a temporary index, and ask each collection all questions, in each mode."""
    with tempfile.TemporaryDirectory(prefix="ragway-relevance-") as folder:
        index = await Index.open(scratch_plan(base, Path(folder)), serving=False, scratch=cache)
        try:
            for one in sets:
                found = corpus(one, max_bytes=base.max_file_bytes)
                say(f"{one.name}: {len(found.documents)} documents")
                await index.writing.learn(found.documents, one.name, lambda *_: None)
            answers: dict[Arms, Answers] = {}
            for arms in modes:
                options = replace(base.search, min_relevance=0.0, mode="hybrid", arms=arms)
                retriever = index.retriever_with(options, questions=cache)
                curve = retriever.curves[arms]
                asked = [answer for one in sets for answer in await _ask(one, sets, how, retriever, curve)]
                names = [one.name for one in sets] if arms != "bm25" else []
                made = {name: await evidence_of(retriever, name, await index.sentences(name), int) for name in names}
                answers[arms] = Answers(curve, asked, made)
            return answers
        finally:
            await index.close()


async def _ask(
    one: JudgedSet, sets: Sequence[JudgedSet], how: Asking, retriever: Retriever, curve: Curve
) -> list[Asked]:
    say(f"{one.name}: ask")
    asked = []
    for kind, turns in _questions(one, sets, how):
        found = await retriever.retrieve(SearchRequest(turns, [one.name], k=1))
        asked.append(asked_of(one.name, kind, found.relevance or 0.0, curve))
    return asked


def asked_of(collection: str, kind: str, relevance: float, curve: Curve) -> Asked:
    """With the evidence of which the curve made this probability."""
    chance = min(max(relevance, 1e-12), 1 - 1e-12)
    return Asked(collection, kind, relevance, (math.log(chance / (1 - chance)) - curve.offset) / curve.slope)


def _questions(one: JudgedSet, sets: Sequence[JudgedSet], how: Asking) -> Iterator[tuple[str, Sequence[Turn]]]:
    draw = random.Random(one.name)
    own = list(one.questions)
    for question in draw.sample(own, min(how.limit, len(own))):
        yield OWN, question.turns
    for question in one.unanswerable:
        yield NONE, question.turns
    for other in sets:
        if other is one or {one.name, other.name} <= how.alike:
            continue
        theirs = list(other.questions)
        for question in draw.sample(theirs, min(how.foreign, len(theirs))):
            yield FOREIGN, question.turns
    for line in small_talk():
        yield TALK, (Turn("user", line),)


def small_talk() -> list[str]:
    """Greetings, thanks and similar phrases, one per line."""
    return SMALL_TALK.read_text("utf-8").splitlines()


def page(answers: Answers, arms: Arms, least: float, half: Collection[str] = ()) -> str:
    """The trade-off, the sets one by one, the curves, the constants. least: the configured `min_relevance`."""
    asked = answers.asked
    of = _of(asked)
    collections = sorted({one.collection for one in asked})
    lines = [
        f"## Arms: {arms}",
        "",
        "| `min_relevance` | answerable, left empty | worst set | other collections' questions, empty "
        "| small talk, empty | unanswerable, empty |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for threshold in _THRESHOLDS:
        empty = {kind: _empty(of[kind], threshold) for kind in (OWN, FOREIGN, TALK, NONE)}
        worst = max(empty[OWN].values())
        means = [_percent(empty[kind].values()) for kind in (FOREIGN, TALK, NONE)]
        lines.append(f"| {threshold:g} | {_percent(empty[OWN].values())} | {worst:.1%} | {' | '.join(means)} |")
    lines += [
        "",
        f"| set | questions | others', empty at {least:g} | AUC, others' | AUC, small talk | AUC, unanswerable | ECE |",
        "| --- " * 7 + "|",
    ]
    without = {name: fitted([one for one in asked if one.collection != name] or asked, half) for name in collections}
    errors = []
    for name in collections:
        own = of[OWN][name]
        areas = [_area(own, of[kind][name]) if name in of[kind] else "" for kind in (FOREIGN, TALK, NONE)]
        error = _error(asked, name, without[name])
        errors += [error] if error is not None else []
        left = _percent(_empty({name: of[FOREIGN].get(name, [0.0])}, least).values())
        lines.append(f"| {name} | {len(own)} | {left} | {' | '.join(areas)} | {number(error)} |")
    slope, offset = fitted(asked, half)
    lines += _curve_lines(answers, without, least)
    if errors:
        lines += ["", f"ECE: mean {sum(errors) / len(errors):.3f}, worst {max(errors):.3f}."]
    if of[FOREIGN]:
        foreign = _empty(of[FOREIGN], _losing(of[OWN], 0.01)).values()
        span = f"{min(foreign):.1%} to {max(foreign):.1%}"
        lines += ["", f"With 1 % of the answerable left empty: others' questions, empty {_percent(foreign)} ({span})."]
    lines += ["", f"Fitted on all: slope {slope:.2f}, offset {offset:.2f}."]
    if len(collections) > 2:
        spans = [f"{min(values):.2f} to {max(values):.2f}" for values in zip(*without.values(), strict=True)]
        lines.append(f"With one set left out: slope {spans[0]}, offset {spans[1]}.")
    return "\n".join(lines)


def _curve_lines(answers: Answers, judged: Mapping[str, Line], least: float) -> list[str]:
    """The table of curves; [] if nothing was made without labels."""
    if not answers.made:
        return []
    base = answers.curve
    used = dict.fromkeys(judged, (base.slope, base.offset))
    alone = {name: _line(calibrated([found], base)) for name, found in answers.made.items()}
    everything = dict.fromkeys(judged, _line(calibrated(list(answers.made.values()), base)))
    lines = [
        "",
        f"| curve, at {least:g} | answerable, empty | worst set | others', empty | talk, empty | ECE | worst set |",
        "| --- " * 7 + "|",
    ]
    for label, by_set in (
        ("in use", used),
        ("judged questions of the other sets", judged),
        ("`ragway calibrate`, the set alone", alone),
        ("`ragway calibrate`, all sets", everything),
    ):
        curved = [
            replace(one, relevance=chance)
            for one in answers.asked
            for chance in _curved([one.evidence], *by_set[one.collection])
        ]
        empty = {kind: _empty(of_kind, least) for kind, of_kind in _of(curved).items()}
        errors = [error for name in by_set if (error := _error(answers.asked, name, by_set[name])) is not None]
        worst = f"{max(empty[OWN].values()):.1%}"
        cells = [_percent(empty[OWN].values()), worst, *(_percent(empty[kind].values()) for kind in (FOREIGN, TALK))]
        cells += [f"{sum(errors) / len(errors):.3f}", f"{max(errors):.3f}"] if errors else ["", ""]
        lines.append(f"| {' | '.join([label, *cells])} |")
    slope, offset = everything[next(iter(everything))]
    return [*lines, "", f"`ragway calibrate` on all: slope {slope:.2f}, offset {offset:.2f}."]


def _line(curve: Curve) -> Line:
    return curve.slope, curve.offset


def _error(asked: Sequence[Asked], name: str, line: Line) -> float | None:
    """One set's calibration error with a curve."""
    kinds = ([OWN], [FOREIGN, TALK])
    some = [[one.evidence for one in asked if one.collection == name and one.kind in kind] for kind in kinds]
    own, others = (_curved(evidence, *line) for evidence in some)
    return calibration_error(own, others)


def fitted(asked: Sequence[Asked], half: Collection[str] = ()) -> Line:
    """Slope and offset of the logistic curve over the evidence, fitted on own questions against other questions.

    Each set weighs 1: a half for own questions, a third for foreign questions, a sixth for small talk.
    """
    of, share = _of(asked), {OWN: 1 / 2, FOREIGN: 1 / 3, TALK: 1 / 6}
    rows = [
        (
            one.evidence,
            float(one.kind == OWN),
            share[one.kind] / len(of[one.kind][one.collection]) / (2 if one.collection in half else 1),
        )
        for one in asked
        if one.kind in share
    ]
    x, y, weights = (np.asarray(column) for column in zip(*rows, strict=True))
    design, beta = np.stack([x, np.ones_like(x)], 1), np.zeros(2)
    for _ in range(50):  # Newton's method; converges in about ten steps
        chance = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (weights * (chance - y)) + 1e-4 * beta
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + 1e-4 * np.eye(2)
        beta -= np.linalg.solve(curvature, gradient)
    return float(beta[0]), float(beta[1])


def _curved(evidence: Sequence[float], slope: float, offset: float) -> list[float]:
    return [1 / (1 + math.exp(-(slope * one + offset))) for one in evidence]


def _of(asked: Sequence[Asked]) -> Mapping[str, Mapping[str, list[float]]]:
    """Kind -> collection -> relevance of each question."""
    of: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in (OWN, FOREIGN, TALK, NONE)}
    for one in asked:
        of[one.kind][one.collection].append(one.relevance)
    return of


def _empty(of: Mapping[str, Sequence[float]], least: float) -> dict[str, float]:
    return {name: sum(value < least for value in values) / len(values) for name, values in of.items()}


def _losing(own: Mapping[str, Sequence[float]], share: float) -> float:
    """The largest threshold that leaves at most so many of the own questions empty."""
    thresholds = sorted({value for values in own.values() for value in values}, reverse=True)
    return next(one for one in thresholds if sum(_empty(own, one).values()) <= share * len(own))


def _percent(shares: Iterable[float]) -> str:
    numbers = list(shares)
    return f"{sum(numbers) / len(numbers):.1%}" if numbers else ""


def _area(own: Sequence[float], others: Sequence[float]) -> str:
    """Area under the ROC curve: how often a value of `own` exceeds a value of `others`; ties count half."""
    a, b = np.asarray(own)[:, None], np.asarray(others)[None, :]
    return f"{float(((a > b) + 0.5 * (a == b)).mean()):.3f}"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--limit", type=int, default=100, help="own questions asked of each set")
    parser.add_argument("--foreign", type=int, default=15, help="questions of each other set")
    parser.add_argument("--alike", default="", help="sets about the same things, by name, between commas")
    parser.add_argument("--half", default="", help="sets that weigh half in fits, by name, between commas")
    parser.add_argument("--embedder", help="default: embedder.model")
    parser.add_argument("--arms", choices=CURVES, help="one mode (default: each)")
    parser.add_argument("--instead", default="", metavar="NAME=VALUE", help="another value of a constant")
    given = parser.parse_args()
    sets = [read(folder) for folder in given.folders]
    how = Asking(given.limit, given.foreign, frozenset(given.alike.split(",")))
    base = plan(load(flags={"data": str(given.data), "embedder.model": given.embedder}))
    name, _, value = given.instead.partition("=")
    modes = [given.arms] if given.arms else list(CURVES)
    with patch(name, literal_eval(value)) if name else nullcontext():
        found = asyncio.run(ask_all(sets, how, base, given.cache.absolute(), modes))
    for arms, answers in found.items():
        print(page(answers, arms, base.search.min_relevance, given.half.split(",")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
