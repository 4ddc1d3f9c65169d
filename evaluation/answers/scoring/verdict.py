"""From two variants' scores to a verdict: is one better than the other, and are there enough questions to tell?

A question counts once, with the mean of its repeats. A group of questions (`groups`) counts once, with the mean of its
questions. Differences are paired, after - before, over questions that both variants answered. The verdict follows from
their interval alone:

    better     the whole interval is above +MATTERS
    worse      the whole interval is below -MATTERS
    no better  the whole interval is between -MATTERS and +MATTERS: the difference does not matter
    undecided  the interval contains -MATTERS or +MATTERS; `needed` questions would give a verdict
    depends    without failures, the verdict differs from that with failures as wrong answers
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from evaluation.stats.significance import Difference, detectable, interval, needed, of_few

Word = Literal["better", "worse", "no better", "undecided", "depends"]
Values = Mapping[str, float]  # question -> mean score over its repeats
NO_GROUPS: Mapping[str, str] = MappingProxyType({})

# a question whose score changes less counts as unchanged: the order of a few words changes token F1 by as much
SAME = 0.05
MATTERS = 0.05  # a smaller mean difference neither justifies a gateway nor does real harm
# For the same model raw, and for another model.
_SAID: Mapping[Word, tuple[str, str]] = {
    "better": ("It helps", "It is better"), "worse": ("It makes the answers worse", "It is worse"),
    "no better": ("It does not help", "It is no better"), "undecided": ("No verdict", "No verdict"),
    "depends": ("No verdict", "No verdict"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """One score of two variants over common questions. helped, harmed: ids, largest change first.

    change.questions: how many groups; a single question is one, too. Only `with_failures` includes failures.
    """

    score: str
    before: float
    after: float
    change: Difference
    # the smallest true difference that so many questions show to matter, in four of five runs
    detectable: float
    needed: int  # for a verdict in four of five runs
    word: Word
    changes: Mapping[str, float]  # question -> after - before
    helped: tuple[str, ...]
    unchanged: tuple[str, ...]
    harmed: tuple[str, ...]
    with_failures: tuple[Difference, ...] = ()  # the change with failures as wrong answers; () without any

    def sentence(self, *, own: bool = True) -> str:
        """The verdict for readers, in words and numbers. own: the other variant is the same model, raw."""
        found = interval(self.change)
        over = f"over {self.change.questions} question{'s' if self.change.questions != 1 else ''}"
        if len(self.changes) > self.change.questions:
            groups = "groups" if self.change.questions > 1 else "group"
            over = f"over {self.change.questions} {groups} of {len(self.changes)} questions"
        said = _SAID[self.word][not own]
        if self.word == "depends":
            return f"{said}: it depends on the failures. Left out: {found} {over}; {self._wrong()}."
        also = f" The verdict is the same with the failures ({self._wrong()})." if self.with_failures else ""
        if self.word == "undecided":
            return f"{said}: {found} {over}, which reaches across {self._crossed()}. {self._more()}{also}"
        shown = "ruled out" if self.word == "no better" else "shown"
        return f"{said}: {found} {over}; a difference of {MATTERS:g} or more is {shown}.{also}"

    def _wrong(self) -> str:
        """The result with failures as wrong answers."""
        found = " or ".join(f"{interval(change)} over {change.questions}" for change in self.with_failures)
        return f"counted as wrong: {found}"

    def _crossed(self) -> str:
        """Thresholds inside the interval."""
        ends = [f"{end:+g}" for end in (-MATTERS, MATTERS) if self.change.low <= end <= self.change.high]
        return " and ".join(ends)

    def _more(self) -> str:
        """How many questions would tell."""
        if self.needed > self.change.questions:
            return f"Too few questions: about {self.needed:,} such as these tell."
        return f"The difference is about {MATTERS:g} itself: more questions may not tell."


def means(rows: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """(question, score) of each repeat -> each question's mean; questions without any score are left out."""
    given: dict[str, list[float]] = {}
    for question, score in rows:
        if score is not None:
            given.setdefault(question, []).append(score)
    return {question: statistics.fmean(scores) for question, scores in given.items()}


def grouped(values: Values, groups: Mapping[str, str]) -> dict[str, float]:
    """Group -> its questions' mean; a question without a group is one."""
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
) -> ScoreComparison | None:
    """The verdict on `after`; None if no question has a score in both. groups: see `groups_of`.

    before, after: without failures. wrong: the same with failures as wrong answers, for each way to count. The verdict
    is valid only if all agree.
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
    return ScoreComparison(
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
) -> dict[str, ScoreComparison]:
    """Tag -> verdict over questions that have it. With many tags, some verdicts are wrong by chance.

    tags: question -> tags. Other arguments: see `compared`.
    """
    questions: dict[str, list[str]] = {}
    for question, its in tags.items():
        for tag in its:
            questions.setdefault(tag, []).append(question)
    found = {
        tag: compared(
            score,
            only(before, ids),
            only(after, ids),
            seed=seed,
            groups=groups,
            wrong=[(only(old, ids), only(new, ids)) for old, new in wrong],
        )
        for tag, ids in sorted(questions.items())
    }
    return {tag: one for tag, one in found.items() if one is not None}


def only(values: Values, ids: Iterable[str]) -> Values:
    """Some questions' values."""
    return {id: values[id] for id in ids if id in values}


def _change(before: Values, after: Values, *, seed: int, groups: Mapping[str, str]) -> Difference:
    """The mean change over common questions, at least one."""
    changes = {id: after[id] - before[id] for id in sorted(after) if id in before}
    return of_few(list(grouped(changes, groups).values()), seed=seed)


def word_for(change: Difference) -> Word:
    """The verdict that an interval allows."""
    if change.low > MATTERS:
        return "better"
    if change.high < -MATTERS:
        return "worse"
    return "no better" if change.low > -MATTERS and change.high < MATTERS else "undecided"
