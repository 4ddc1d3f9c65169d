"""Scores of two variants to a verdict: does the one answer better than the other, and could that have been seen?

A question counts once, however often it was asked: its score is the mean of its repeats, and that of questions that are
one (`groups`) is the mean of theirs. Differences are paired, after
- before, over the questions that both variants answered. What is said follows from the interval alone:

    better     the whole interval lies above +MATTERS
    worse      it lies below -MATTERS
    no better  it lies between the two: whatever the difference is, it does not matter
    undecided  it reaches across one of them: there is no verdict, and `needed` says how many questions give one
    depends    it says one thing where failures are left out and another where they count as wrong: there is no verdict
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from evaluation.stats.significance import Difference, detectable, interval, needed, of_few

Word = Literal["better", "worse", "no better", "undecided", "depends"]
Values = Mapping[str, float]  # question -> its score, repeats averaged
NO_GROUPS: Mapping[str, str] = MappingProxyType({})

SAME = 0.05  # a question whose score moved by no more is unchanged: token F1 moves so for the order of a few words
MATTERS = 0.05  # a mean difference up to it is not worth a gateway, and no harm to speak of
# Of the same model raw, and of another one.
_SAID: Mapping[Word, tuple[str, str]] = {
    "better": ("It helps", "It is better"), "worse": ("It makes the answers worse", "It is worse"),
    "no better": ("It does not help", "It is no better"), "undecided": ("No verdict", "No verdict"),
    "depends": ("No verdict", "No verdict"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """One score of two variants over the questions that both have. helped … harmed: ids, the largest change first.

    change.questions: groups of questions that count as one; questions that stand alone are such, too. All but
    `with_failures` leaves failures out.
    """

    score: str
    before: float
    after: float
    change: Difference
    detectable: float  # the smallest true difference that so many questions show to matter in four runs of five
    needed: int  # questions that tell in four runs of five whether the difference matters
    word: Word
    changes: Mapping[str, float]  # question -> after - before
    helped: tuple[str, ...]
    unchanged: tuple[str, ...]
    harmed: tuple[str, ...]
    with_failures: tuple[Difference, ...] = ()  # the change where failures count as wrong; () where there are none

    def sentence(self, *, own: bool = True) -> str:
        """What a reader is told, in words and numbers. own: it is the same model raw that it is compared with."""
        found = interval(self.change)
        over = f"over {self.change.questions} question{'s' if self.change.questions != 1 else ''}"
        if len(self.changes) > self.change.questions:
            over = f"over {self.change.questions} groups of {len(self.changes)} questions"
        said = _SAID[self.word][not own]
        if self.word == "depends":
            return f"{said}: it depends on the failures. Left out: {found} {over}; {self._wrong()}."
        also = f" The verdict is the same with the failures ({self._wrong()})." if self.with_failures else ""
        if self.word == "undecided":
            return f"{said}: {found} {over}, which reaches across {self._crossed()}. {self._more()}{also}"
        shown = "ruled out" if self.word == "no better" else "shown"
        return f"{said}: {found} {over}; a difference of {MATTERS:g} or more is {shown}.{also}"

    def _wrong(self) -> str:
        """What comes of it with the failures."""
        found = " or ".join(f"{interval(one)} over {one.questions}" for one in self.with_failures)
        return f"counted as wrong: {found}"

    def _crossed(self) -> str:
        """The ends of what matters that lie in the interval."""
        ends = [f"{end:+g}" for end in (-MATTERS, MATTERS) if self.change.low <= end <= self.change.high]
        return " and ".join(ends)

    def _more(self) -> str:
        """How many questions would tell."""
        if self.needed > self.change.questions:
            return f"Too few questions: about {self.needed:,} such as these tell."
        return f"The difference is about {MATTERS:g} itself: more questions may not tell."


def means(rows: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """(question, score) of each repeat -> the question's mean; without those that have no score at all."""
    given: dict[str, list[float]] = {}
    for question, score in rows:
        if score is not None:
            given.setdefault(question, []).append(score)
    return {question: statistics.fmean(scores) for question, scores in given.items()}


def grouped(values: Values, groups: Mapping[str, str]) -> dict[str, float]:
    """Group -> the mean of its questions; a question that is in none is a group of its own."""
    return means((groups.get(question, question), score) for question, score in values.items())


Pair = tuple[Values, Values]  # before, after


def compared(
    score: str,
    before: Values,
    after: Values,
    *,
    seed: int,
    groups: Mapping[str, str] = NO_GROUPS,
    wrong: Iterable[Pair] = (),
) -> Compared | None:
    """The verdict on `after`; None where no question has a score in both. groups: as of `groups_of`.

    before, after: without failures. wrong: the same with failures counted as wrong answers, in each way to do so. The
    verdict holds only where all of these agree.
    """
    both = sorted(id for id in after if id in before)
    if not both:
        return None
    changes = {id: after[id] - before[id] for id in both}
    each = list(grouped(changes, groups).values())
    change = of_few(each, seed=seed)
    others = tuple(_change(*pair, seed=seed, groups=groups) for pair in wrong if pair != (before, after))
    word = word_for(change)
    rising = sorted(both, key=lambda id: changes[id])
    return Compared(
        score=score,
        before=statistics.fmean(grouped({id: before[id] for id in both}, groups).values()),
        after=statistics.fmean(grouped({id: after[id] for id in both}, groups).values()),
        change=change,
        detectable=detectable(each, beyond=MATTERS),
        needed=needed(each, margin=MATTERS),
        word=word if {word_for(one) for one in others} <= {word} else "depends",
        changes=changes,
        helped=tuple(id for id in reversed(rising) if changes[id] > SAME),
        unchanged=tuple(id for id in both if abs(changes[id]) <= SAME),
        harmed=tuple(id for id in rising if changes[id] < -SAME),
        with_failures=others,
    )


def by_tag(
    score: str,
    before: Values,
    after: Values,
    tags: Mapping[str, Sequence[str]],
    *,
    seed: int,
    groups: Mapping[str, str] = NO_GROUPS,
    wrong: Sequence[Pair] = (),
) -> dict[str, Compared]:
    """Tag -> the verdict over its questions; tags: of each question. Many tags make some verdicts wrong by chance.

    The rest as of `compared`.
    """
    questions: dict[str, list[str]] = {}
    for question, its in tags.items():
        for tag in its:
            questions.setdefault(tag, []).append(question)
    found = {
        tag: compared(
            score,
            _only(before, ids),
            _only(after, ids),
            seed=seed,
            groups=groups,
            wrong=[(_only(old, ids), _only(new, ids)) for old, new in wrong],
        )
        for tag, ids in sorted(questions.items())
    }
    return {tag: one for tag, one in found.items() if one is not None}


def _only(values: Values, ids: Iterable[str]) -> Values:
    return {id: values[id] for id in ids if id in values}


def _change(before: Values, after: Values, *, seed: int, groups: Mapping[str, str]) -> Difference:
    """The mean change over the questions that both have, at least one."""
    changes = {id: after[id] - before[id] for id in sorted(after) if id in before}
    return of_few(list(grouped(changes, groups).values()), seed=seed)


def word_for(change: Difference) -> Word:
    """What an interval allows to say."""
    if change.low > MATTERS:
        return "better"
    if change.high < -MATTERS:
        return "worse"
    return "no better" if change.low > -MATTERS and change.high < MATTERS else "undecided"
