"""What a search did, as a trace: every candidate of it, and why it is in the context or is not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from retrieval.records.search import Candidate, Context, Hit, Retrieved
from retrieval.search.relevance import Judged
from retrieval.traces import Fate, Searched, Trace

_T = TypeVar("_T")


def explained(
    searched: tuple[Searched, ...],
    found: Judged,
    read: Sequence[Candidate],
    hits: Sequence[Hit],
    fates: Mapping[str, Fate],
    context: Context,
) -> Trace:
    """The trace of one search. read: the candidates of which the passages were wanted; hits: those that were there.

    fates: of the hits, as they were packed; context: what became of that.
    """
    worth, there = {one.id for one in found.candidates}, {hit.id for hit in hits}
    settled: dict[str, Fate] = {one.id: "gone" for one in read if one.id not in there}
    settled.update(_settled(hits, fates, context))
    ids = [one.id for one in found.all]
    ranks, scores = [one.ranks for one in found.all], [one.scores for one in found.all]
    arms = sorted(set[str]().union(*ranks))
    return Trace(
        searched,
        ids,
        [one.score for one in found.all],
        {arm: [of.get(arm) for of in ranks] for arm in arms},
        {arm: [of.get(arm) for of in scores] for arm in arms},
        [settled.get(id) or ("surplus" if id in worth else "irrelevant") for id in ids],
    )


def explained_together(parts: Sequence[Retrieved], context: Context) -> Trace | None:
    """The traces of several searches as one, once their contexts became this one; None where there are none."""
    traces = [part.trace for part in parts if part.trace is not None]
    if not traces:
        return None
    fates = {id: fate for trace in traces for id, fate in zip(trace.ids, trace.fates, strict=True)}
    for part in parts:
        fates.update(_settled(part.hits, fates, context))
    scores = [score for trace in traces for score in trace.scores]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])

    def column(lists: Iterable[Sequence[_T]]) -> list[_T]:
        joined = [value for values in lists for value in values]
        return [joined[at] for at in order]

    def ranks(trace: Trace, arm: str) -> Sequence[int | None]:
        return trace.ranks.get(arm) or [None] * len(trace.ids)

    def arm_scores(trace: Trace, arm: str) -> Sequence[float | None]:
        return trace.arm_scores.get(arm) or [None] * len(trace.ids)

    arms, ids = sorted({arm for trace in traces for arm in trace.ranks}), column(trace.ids for trace in traces)
    return Trace(
        tuple(one for trace in traces for one in trace.searched),
        ids,
        column(trace.scores for trace in traces),
        {arm: column(ranks(trace, arm) for trace in traces) for arm in arms},
        {arm: column(arm_scores(trace, arm) for trace in traces) for arm in arms},
        [fates[id] for id in ids],
    )


def _settled(hits: Sequence[Hit], fates: Mapping[str, Fate], context: Context) -> dict[str, Fate]:
    """The fates of hits once the context is what is shown: it may have grown around them, or been cut."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for passage in context.passages:
        spans.setdefault((passage.document, passage.revision), []).append((passage.start, passage.end))
    settled: dict[str, Fate] = {}
    for hit in hits:
        one = hit.passage
        near = spans.get((one.document, one.revision), ())
        if any(start <= one.start and one.end <= end for start, end in near):
            settled[hit.id] = "kept"
        elif (fate := fates.get(hit.id)) is not None:
            settled[hit.id] = "budget" if fate == "kept" else fate
    return settled
