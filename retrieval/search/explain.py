"""The trace of a search: each candidate, and why it is or is not in the context."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from retrieval.records.search import Candidate, Context, Hit, Retrieved
from retrieval.records.traces import Fate, SearchedCollection, Trace
from retrieval.search.ranking import RelevantCandidates

_T = TypeVar("_T")


def explain(
    searched: tuple[SearchedCollection, ...],
    relevant: RelevantCandidates,
    requested: Sequence[Candidate],
    hits: Sequence[Hit],
    fates: Mapping[str, Fate],
    context: Context,
) -> Trace:
    """The trace of one search.

    requested: candidates whose passages were requested; hits: those that still exist; fates: of hits after packing;
    context: after expansion.
    """
    used, existing = {candidate.id for candidate in relevant.candidates}, {hit.id for hit in hits}
    final: dict[str, Fate] = {candidate.id: "gone" for candidate in requested if candidate.id not in existing}
    final.update(_final_fates(hits, fates, context))
    ids = [candidate.id for candidate in relevant.all]
    ranks, scores = [candidate.ranks for candidate in relevant.all], [candidate.scores for candidate in relevant.all]
    arms = sorted(set[str]().union(*ranks))
    return Trace(
        searched,
        ids,
        [candidate.score for candidate in relevant.all],
        {arm: [by_arm.get(arm) for by_arm in ranks] for arm in arms},
        {arm: [by_arm.get(arm) for by_arm in scores] for arm in arms},
        [final.get(id) or ("surplus" if id in used else "irrelevant") for id in ids],
    )


def merge_traces(parts: Sequence[Retrieved], context: Context) -> Trace | None:
    """Several searches' traces as one, after their contexts were merged into `context`; None without traces."""
    traces = [part.trace for part in parts if part.trace is not None]
    if not traces:
        return None
    fates = {id: fate for trace in traces for id, fate in zip(trace.ids, trace.fates, strict=True)}
    for part in parts:
        fates.update(_final_fates(part.hits, fates, context))
    scores = [score for trace in traces for score in trace.scores]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])

    def column(lists: Iterable[Sequence[_T]]) -> list[_T]:
        joined = [value for values in lists for value in values]
        return [joined[index] for index in order]

    def by_arm(columns: Sequence[Mapping[str, Sequence[_T | None]]]) -> dict[str, list[_T | None]]:
        none = [[None] * len(trace.ids) for trace in traces]
        return {arm: column(by.get(arm) or no for by, no in zip(columns, none, strict=True)) for arm in arms}

    arms, ids = sorted({arm for trace in traces for arm in trace.ranks}), column(trace.ids for trace in traces)
    return Trace(
        tuple(collection for trace in traces for collection in trace.searched),
        ids,
        column(trace.scores for trace in traces),
        by_arm([trace.ranks for trace in traces]),
        by_arm([trace.arm_scores for trace in traces]),
        [fates[id] for id in ids],
    )


def _final_fates(hits: Sequence[Hit], fates: Mapping[str, Fate], context: Context) -> dict[str, Fate]:
    """Fates of hits in the final context: expansion may have added text around them, or the budget cut them."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for passage in context.passages:
        spans.setdefault((passage.document, passage.revision), []).append((passage.start, passage.end))
    final: dict[str, Fate] = {}
    for hit in hits:
        passage = hit.passage
        shown = spans.get((passage.document, passage.revision), ())
        if any(start <= passage.start and passage.end <= end for start, end in shown):
            final[hit.id] = "kept"
        elif (fate := fates.get(hit.id)) is not None:
            final[hit.id] = "budget" if fate == "kept" else fate
    return final
