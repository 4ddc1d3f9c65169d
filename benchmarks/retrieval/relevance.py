"""The cost of each `retrieval.min_relevance`: answerable questions without context, and unanswerable questions caught.

    python benchmarks/retrieval/relevance.py DIR [DIR…] [--data DIR] [--cache DIR] [--limit N] [--foreign N]
        [--alike A,B…]

Each DIR is a judged set in BEIR's form, as for `ragway eval`, and becomes a collection. The questions for a collection
are the set's own questions (should find something), `unanswerable.jsonl` and the questions of other sets (should find
nothing), and small talk in many languages (small_talk.txt; should find nothing). Sets with similar subjects (named by
--alike) do not get each other's questions. Every set has the same weight. All this is asked in the modes hybrid, dense
and bm25, each of which has its own curve.

The page goes to standard output as Markdown. ECE is the expected calibration error of a curve fitted on the other sets.
The last lines are the constants of retrieval/search/ranking.py, fitted on all sets and on all sets but one, to show the
influence of a single set.
"""

import asyncio
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from retrieval.search.ranking import CURVES
from retrieval.search.retriever import Retriever

SMALL_TALK = Path(__file__).with_name("small_talk.txt")
_THRESHOLDS = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)
OWN, NONE, FOREIGN, TALK = "own", "unanswerable", "foreign", "small talk"
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for a collection: the kind, and the estimated probability of relevance."""

    collection: str
    kind: str
    relevance: float


@dataclass(frozen=True, slots=True)
class Asking:
    """The questions: at most `limit` of a set's own, `foreign` of each other set."""

    limit: int
    foreign: int
    alike: frozenset[str]


async def ask_all(sets: Sequence[JudgedSet], how: Asking, base: Plan, cache: Path) -> Mapping[Arms, Sequence[Asked]]:
    """Ingest every set as a collection of a temporary index, and ask each collection all questions, in each mode."""
    with tempfile.TemporaryDirectory(prefix="ragway-relevance-") as folder:
        index = await Index.open(scratch_plan(base, Path(folder)), serving=False, scratch=cache)
        try:
            for one in sets:
                found = corpus(one, max_bytes=base.max_file_bytes)
                say(f"{one.name}: {len(found.documents)} documents")
                await index.writing.learn(found.documents, one.name, lambda *_: None)
            asked: dict[Arms, Sequence[Asked]] = {}
            for arms in CURVES:
                options = replace(base.search, min_relevance=0.0, mode="hybrid", arms=arms)
                retriever = index.retriever_with(options, questions=cache)
                asked[arms] = [answer for one in sets for answer in await _ask(one, sets, how, retriever)]
            return asked
        finally:
            await index.close()


async def _ask(one: JudgedSet, sets: Sequence[JudgedSet], how: Asking, retriever: Retriever) -> list[Asked]:
    say(f"{one.name}: ask")
    asked = []
    for kind, turns in _questions(one, sets, how):
        found = await retriever.retrieve(SearchRequest(turns, [one.name], k=1))
        asked.append(Asked(one.name, kind, found.relevance or 0.0))
    return asked


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


def page(asked: Sequence[Asked], arms: Arms, least: float) -> str:
    """The trade-off, the sets one by one, and the fitted constants. least: the configured `min_relevance`."""
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
    without = {name: fitted([one for one in asked if one.collection != name] or asked, arms) for name in collections}
    errors = []
    for name in collections:
        own = of[OWN][name]
        areas = [_area(own, of[kind][name]) if name in of[kind] else "" for kind in (FOREIGN, TALK, NONE)]
        others = [*of[FOREIGN].get(name, ()), *of[TALK].get(name, ())]
        curved = [_curved([_evidence(one, arms) for one in some], *without[name]) for some in (own, others)]
        error = calibration_error(*curved)
        errors += [error] if error is not None else []
        left = _percent(_empty({name: of[FOREIGN].get(name, [0.0])}, least).values())
        lines.append(f"| {name} | {len(own)} | {left} | {' | '.join(areas)} | {number(error)} |")
    slope, offset = fitted(asked, arms)
    if errors:
        lines += ["", f"ECE: mean {sum(errors) / len(errors):.3f}, worst {max(errors):.3f}."]
    lines += ["", f"Fitted on all: slope {slope:.2f}, offset {offset:.2f}."]
    if len(collections) > 2:
        spans = [f"{min(values):.2f} to {max(values):.2f}" for values in zip(*without.values(), strict=True)]
        lines.append(f"With one set left out: slope {spans[0]}, offset {spans[1]}.")
    return "\n".join(lines)


def fitted(asked: Sequence[Asked], arms: Arms) -> tuple[float, float]:
    """Slope and offset of the logistic curve over the evidence, fitted on own questions against other questions.

    Each set weighs 1: a half for own questions, a third for foreign questions, a sixth for small talk.
    """
    of, share = _of(asked), {OWN: 1 / 2, FOREIGN: 1 / 3, TALK: 1 / 6}
    rows = [
        (_evidence(relevance, arms), float(kind == OWN), share[kind] / len(values))
        for kind in share
        for values in of[kind].values()
        for relevance in values
    ]
    x, y, weights = (np.asarray(column) for column in zip(*rows, strict=True))
    design, beta = np.stack([x, np.ones_like(x)], 1), np.zeros(2)
    for _ in range(50):  # Newton's method; converges in about ten steps
        chance = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (weights * (chance - y)) + 1e-4 * beta
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + 1e-4 * np.eye(2)
        beta -= np.linalg.solve(curvature, gradient)
    return float(beta[0]), float(beta[1])


def _evidence(relevance: float, arms: Arms) -> float:
    """What the product's curve made this probability of, the noise subtracted."""
    chance = min(max(relevance, 1e-12), 1 - 1e-12)
    return (math.log(chance / (1 - chance)) - CURVES[arms].offset) / CURVES[arms].slope


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
    given = parser.parse_args()
    sets = [read(folder) for folder in given.folders]
    how = Asking(given.limit, given.foreign, frozenset(given.alike.split(",")))
    base = plan(load(flags={"data": str(given.data)}))
    for arms, asked in asyncio.run(ask_all(sets, how, base, given.cache.absolute())).items():
        print(page(asked, arms, base.search.min_relevance), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
