"""Scores of two variants to a verdict: does the one answer better than the other, and could that have been seen?

A question counts once, however often it was asked: its score is the mean of its repeats. Differences are paired, after
- before, over the questions that both variants answered. What is said follows from the interval alone:

    better     the whole interval lies above 0
    worse      it lies below 0
    no better  it holds 0, and nothing as large as MATTERS above it; or no question came out otherwise: it does not help
    undecided  it holds 0 and a help that would matter: there is no verdict, and `detectable` says what one needs
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from retrieval.evaluate.significance import Difference, detectable, interval, of_few

Word = Literal["better", "worse", "no better", "undecided"]
Values = Mapping[str, float]  # question -> its score, repeats averaged

SAME = 0.05  # a question whose score moved by no more is unchanged: token F1 moves so for the order of a few words
MATTERS = 0.05  # a mean difference below it is not worth a gateway
# Of the same model raw, and of another one.
_SAID: Mapping[Word, tuple[str, str]] = {
    "better": ("It helps", "It is better"), "worse": ("It makes the answers worse", "It is worse"),
    "no better": ("It does not help", "It is no better"), "undecided": ("No verdict, and no help shown", "No verdict"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """One score of two variants over the questions that both have. helped … harmed: ids, the largest change first."""

    score: str
    before: float
    after: float
    change: Difference
    detectable: float  # the smallest true difference that so many questions show in four runs of five
    word: Word
    changes: Mapping[str, float]  # question -> after - before
    helped: tuple[str, ...]
    unchanged: tuple[str, ...]
    harmed: tuple[str, ...]

    def sentence(self, *, own: bool = True) -> str:
        """What a reader is told, in words and numbers. own: it is the same model raw that it is compared with."""
        found = interval(self.change)
        over = f"over {self.change.questions} question{'s' if self.change.questions != 1 else ''}"
        said = _SAID[self.word][not own]
        if self.word == "no better":
            why = f"a gain of {MATTERS:g} or more is ruled out" if self.change.high < MATTERS else "no question changed"
            return f"{said}: {found} {over}; {why}."
        if self.word == "undecided":
            could = f"So many questions could have shown a difference of {self.detectable:.2f}."
            return f"{said}: {found} {over}, which holds 0. {could}"
        return f"{said}: {found} {over}."


def means(rows: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """(question, score) of each repeat -> the question's mean; without those that have no score at all."""
    given: dict[str, list[float]] = {}
    for question, score in rows:
        if score is not None:
            given.setdefault(question, []).append(score)
    return {question: statistics.fmean(scores) for question, scores in given.items()}


def compared(score: str, before: Values, after: Values, *, seed: int) -> Compared | None:
    """The verdict on `after`; None where no question has a score in both."""
    both = sorted(id for id in after if id in before)
    if not both:
        return None
    changes = {id: after[id] - before[id] for id in both}
    change = of_few(list(changes.values()), seed=seed)
    rising = sorted(both, key=lambda id: changes[id])
    return Compared(
        score=score, before=statistics.fmean(before[id] for id in both),
        after=statistics.fmean(after[id] for id in both),
        change=change, detectable=detectable(list(changes.values())),
        word=word_for(change, changed=any(abs(each) > SAME for each in changes.values())), changes=changes,
        helped=tuple(id for id in reversed(rising) if changes[id] > SAME),
        unchanged=tuple(id for id in both if abs(changes[id]) <= SAME),
        harmed=tuple(id for id in rising if changes[id] < -SAME),
    )  # fmt: skip


def by_tag(
    score: str, before: Values, after: Values, tags: Mapping[str, Sequence[str]], *, seed: int
) -> dict[str, Compared]:
    """Tag -> the verdict over its questions; tags: of each question. Many tags make some verdicts wrong by chance."""
    questions: dict[str, list[str]] = {}
    for question, its in tags.items():
        for tag in its:
            questions.setdefault(tag, []).append(question)
    found = {
        tag: compared(score, {id: before[id] for id in ids if id in before}, after, seed=seed)
        for tag, ids in sorted(questions.items())
    }
    return {tag: one for tag, one in found.items() if one is not None}


def word_for(change: Difference, *, changed: bool) -> Word:
    """What an interval allows to say; changed: whether any question came out otherwise."""
    if change.low > 0:
        return "better"
    if change.high < 0:
        return "worse"
    return "no better" if change.high < MATTERS or not changed else "undecided"
