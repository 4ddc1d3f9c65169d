"""The trace of a search: every candidate is in it, with what became of it, and the context holds those kept."""

from typing import Any

from retrieval.index.vector_spaces import merged
from retrieval.knowledge import SearchRequest
from retrieval.records.search import Retrieved, Turn
from retrieval.records.traces import Trace
from tests.retrieval.search.library import Library

TWINS = "use tls to connect the client to the server with the certificate of the authority and the key of the client"


async def traced(library: Library, question: str, **changes: Any) -> tuple[Retrieved, Trace]:
    retriever = library.retriever(**changes)
    found = await retriever.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=None, traced=True))
    assert found.trace is not None
    return found, found.trace


def of_fate(trace: Trace, fate: str) -> list[str]:
    return [id for id, found in zip(trace.ids, trace.fates, strict=True) if found == fate]


async def test_no_trace_where_none_is_wanted(library: Library) -> None:
    await library.put(["use tls"])
    assert (await library.ask("tls")).trace is None


async def test_every_candidate_is_told_by_rank_and_score_of_each_arm(library: Library) -> None:
    await library.put([f"use tls version {i}, the {word}" for i, word in enumerate("a b c d e f".split())])
    found, trace = await traced(library, "tls")
    (searched,) = trace.searched
    assert (searched.name, searched.generation) == ("docs", 1)
    assert len(set(trace.ids)) == len(trace.ids) == len(trace.scores) == 6
    for arm in ("dense", "bm25"):
        assert sorted(rank for rank in trace.ranks[arm] if rank is not None) == [1, 2, 3, 4, 5, 6]
    for hit in found.hits:
        at = trace.ids.index(hit.id)
        assert {arm: trace.ranks[arm][at] for arm in hit.ranks} == hit.ranks
        assert {arm: trace.arm_scores[arm][at] for arm in hit.scores} == hit.scores


async def test_fates_say_why(library: Library) -> None:
    await library.put([TWINS, TWINS.upper(), "tls in java", "tls in kotlin", "tls in python", "tls in go"])
    found, trace = await traced(library, "tls", k=3)
    assert len(of_fate(trace, "kept")) == len(found.context.passages) == 3
    assert len(of_fate(trace, "duplicate")) + len(of_fate(trace, "surplus")) == 3
    _, all_of_them = await traced(library, "tls", k=6)
    assert len(of_fate(all_of_them, "duplicate")) == 1
    _, tight = await traced(library, "tls", k=6, budget_tokens=25)
    assert len(of_fate(tight, "kept")) == 2
    assert len(of_fate(tight, "budget")) >= 1
    _, strict = await traced(library, "tls", min_relevance=1.0)
    assert of_fate(strict, "irrelevant") == list(strict.ids)


async def test_what_is_replaced_meanwhile_is_gone(library: Library) -> None:
    await library.put(["use tls in java"])
    await library.put(["use tls in kotlin"], key="draft", published=False)
    _, trace = await traced(library, "tls")
    assert (len(of_fate(trace, "kept")), len(of_fate(trace, "gone"))) == (1, 1)


async def test_what_a_longer_passage_holds_is_kept(library: Library) -> None:
    await library.put([f"tls line {i}" for i in range(4)])
    found, trace = await traced(library, "tls", mode="auto", merge_neighbours=True, k=2)
    assert found.query.reason.endswith("whole collection")
    assert len(of_fate(trace, "kept")) >= 2
    found, trace = await traced(library, "tls", mode="whole")
    assert (trace.ids, trace.searched[0].name) == ((), "docs")
    assert found.context.passages


async def test_traces_of_several_searches_are_put_together(library: Library) -> None:
    await library.put(["use tls in java", "use tls in kotlin"])
    one, first = await traced(library, "tls in java")
    two, second = await traced(library, "tls in kotlin", arms="bm25")
    both = merged([one, two], k=1, budget_tokens=1000)
    assert both.trace is not None
    assert sorted(both.trace.ids) == sorted([*first.ids, *second.ids])
    assert list(both.trace.scores) == sorted([*first.scores, *second.scores], reverse=True)
    assert all(
        len(column) == len(both.trace.ids) for column in (*both.trace.ranks.values(), *both.trace.arm_scores.values())
    )
    assert set(of_fate(both.trace, "kept")) == {hit.id for hit in one.hits if hit.passage in both.context.passages}
