"""Reading what was found: as little as fills the context, as much as it takes, and nothing that is not current."""

from time import time

import pytest

from retrieval.knowledge import SearchRequest
from retrieval.records.search import Turn
from tests.retrieval.search.library import OPTIONS, Backwards, Library, texts, texts_of

LOOKED_FOR = 1  # points, before a collection is searched for the first time: the last of its document


async def test_reads_no_more_passages_than_the_context_takes(library: Library) -> None:
    await library.put([f"use tls with driver number{i} of page{i} and session{i}" for i in range(40)])
    found = await library.ask("how do we use tls here")
    assert (len(found.context.passages), len(found.hits), found.context.dropped) == (3, 3, 37)
    assert library.store.count_read == 3 + LOOKED_FOR


async def test_what_was_looked_for_is_looked_for_again_only_where_something_changed(library: Library) -> None:
    await library.put(["use tls with the java driver"])
    retriever, question = library.retriever(), [Turn("user", "use tls with the java driver")]

    async def read_for(collection: str | None) -> int:
        before = library.store.count_read
        retriever.collections_changed(collection)
        await retriever.retrieve(SearchRequest(question, ["docs"], k=None))
        return library.store.count_read - before

    assert [await read_for(name) for name in (None, "other", "docs", None)] == [2, 1, 2, 2]


async def test_reads_on_where_the_first_say_the_same(library: Library) -> None:
    await library.put(["use tls with the java driver"] * 20 + ["open a session in kotlin", "the office dog is called"])
    found = await library.ask("use tls with the java driver")
    assert sorted(texts(found)) == [
        "open a session in kotlin",
        "the office dog is called",
        "use tls with the java driver",
    ]
    assert found.context.dropped == 22 - 3
    assert library.store.count_read == 22 + LOOKED_FOR


async def test_reads_on_where_the_first_do_not_fit(library: Library) -> None:
    await library.put([f"use tls with java driver page{i}" for i in range(5)], key="long", tokens=999)
    await library.put(["open a session"], key="short", tokens=1)
    found = await library.ask("use tls with java driver page1")
    assert "open a session" in texts(found)
    assert (len(found.context.passages), found.context.tokens) == (2, 1000)


async def test_points_of_a_revision_being_written_take_no_place(library: Library) -> None:
    await library.put(["open a session", "close a session", "the office dog"], key="page")
    await library.put([f"use tls now {i}" for i in range(10)], key="page", published=False)
    await library.put([f"use tls now {i}" for i in range(10)], key="new", published=False)
    found = await library.ask("use tls now")
    assert sorted(texts(found)) == ["close a session", "open a session", "the office dog"]
    assert len(found.hits) == 3


async def test_a_document_written_again_is_found_as_it_is_now(library: Library) -> None:
    await library.put(["use tls in java"])
    assert texts(await library.ask("tls")) == ["use tls in java"]
    await library.put(["use tls in kotlin"])
    assert texts(await library.ask("tls")) == ["use tls in kotlin"]


async def test_k_may_be_more_than_there_are(library: Library) -> None:
    await library.put(["use tls", "open a session"])
    found = await library.ask("tls", k=50)
    assert len(found.hits) == len(found.context.passages) == 2
    assert found.context.dropped == 0


async def test_an_empty_collection_has_nothing_to_read(library: Library) -> None:
    found = await library.ask("tls")
    assert (found.hits, found.context.passages, found.context.dropped) == ((), (), 0)
    assert library.store.count_read == 0


# Modes


async def test_a_single_arm_finds_by_that_arm_alone(library: Library) -> None:
    await library.put(["use tls in java", "open a session", "the office dog"])
    by_words = await library.ask("tls", mode="bm25")
    assert [(hit.passage.text, set(hit.scores)) for hit in by_words.hits] == [("use tls in java", {"bm25"})]
    by_meaning = await library.ask("tls", mode="dense")
    assert len(by_meaning.hits) == 3
    assert all(set(hit.scores) == {"dense"} for hit in by_meaning.hits)


async def test_sequential_takes_what_the_words_find_in_the_order_of_the_vectors(library: Library) -> None:
    await library.put(["use tls in java", "open a tls session in kotlin now", "the office dog", "tls tls tls"])
    every = {hit.passage.text: hit.scores["dense"] for hit in (await library.ask("use tls", mode="dense", k=9)).hits}
    found = (await library.ask("use tls", mode="sequential", k=9)).hits
    assert "the office dog" not in texts_of(found)
    assert len(found) == 3
    assert texts_of(found) == sorted(texts_of(found), key=lambda text: -every[text])
    assert [hit.score for hit in found] == pytest.approx([every[hit.passage.text] for hit in found], abs=1e-5)


async def test_sequential_finds_nothing_where_no_word_matches(library: Library) -> None:
    await library.put(["use tls in java"])
    assert (await library.ask("kotlin", mode="sequential")).hits == ()


async def test_a_whole_collection_comes_without_a_search_and_always_alike(library: Library) -> None:
    await library.put(["use tls in java", "open a session"], key="b")
    await library.put(["the office dog"], key="a")
    found = await library.ask("kotlin", mode="whole", merge_neighbours=True, budget_tokens=30)
    assert texts(found) == ["the office dog", "use tls in java\nopen a session"]
    assert (found.query.reason, found.hits, found.context.dropped) == ("whole collection", (), 0)
    assert found.context.tokens <= 30
    assert (await library.ask("tls", mode="whole", merge_neighbours=True)).context == found.context


async def test_a_collection_that_does_not_fit_is_searched(library: Library) -> None:
    await library.put(["use tls in java", "open a session", "the office dog"])
    found = await library.ask("use tls in java", mode="whole", budget_tokens=15)
    assert texts(found) == ["use tls in java"]
    assert "whole" not in found.query.reason


async def test_a_whole_collection_is_what_is_current(library: Library) -> None:
    retriever = library.retriever(mode="whole")
    turns = [Turn("user", "tls")]
    await library.put(["use tls in java"], key="a")
    assert texts(await retriever.retrieve(SearchRequest(turns, ["docs"], k=None))) == ["use tls in java"]
    await library.put(["use tls in kotlin"], key="a")
    assert texts(await retriever.retrieve(SearchRequest(turns, ["docs"], k=None))) == ["use tls in kotlin"]
    await library.put(["open a session"], key="b")
    retriever.collections_changed()
    assert texts(await retriever.retrieve(SearchRequest(turns, ["docs"], k=None))) == [
        "use tls in kotlin",
        "open a session",
    ]


async def test_auto_gives_the_whole_collection_once_something_in_it_is_found(library: Library) -> None:
    await library.put(["use tls in java", "open a session", "the office dog"])
    found = await library.ask("tls", mode="auto", arms="bm25")
    assert texts(found) == ["use tls in java\nopen a session\nthe office dog"]
    assert texts_of(found.hits) == ["use tls in java"]
    assert found.query.reason.endswith(", whole collection")
    nothing = await library.ask("kotlin", mode="auto", arms="bm25")
    assert (texts(nothing), nothing.hits) == ([], ())


# What the context becomes


async def test_hits_that_follow_one_another_become_one_passage(library: Library) -> None:
    await library.put(["use tls in java", "open a tls session", "the office dog", "tls again on wire"])
    found = await library.ask("tls", arms="bm25", merge_neighbours=True)
    assert sorted(texts(found)) == ["tls again on wire", "use tls in java\nopen a tls session"]
    assert len(found.hits) == 3
    assert found.context.tokens < 30


async def test_neighbours_are_added_where_the_budget_has_room(library: Library) -> None:
    await library.put([f"page {word} here" for word in ("one", "java", "kotlin", "tls", "driver", "session", "dog")])
    alone = await library.ask("tls", arms="bm25", merge_neighbours=True)
    assert texts(alone) == ["page tls here"]
    wider = await library.ask("tls", arms="bm25", merge_neighbours=True, neighbours=1)
    assert texts(wider) == ["page kotlin here\npage tls here\npage driver here"]
    assert len(wider.hits) == 1
    widest = await library.ask("tls", arms="bm25", merge_neighbours=True, neighbours=9)
    assert texts(widest)[0].count("\n") == 6
    tight = await library.ask("tls", arms="bm25", merge_neighbours=True, neighbours=9, budget_tokens=18)
    assert texts(tight) == ["page kotlin here\npage tls here"]
    assert tight.context.tokens <= 18


async def test_neighbours_stay_apart_where_joining_is_off(library: Library) -> None:
    await library.put([f"page {word} here" for word in ("kotlin", "tls", "driver")])
    found = await library.ask("tls", arms="bm25", neighbours=1)
    assert texts(found) == ["page kotlin here", "page tls here", "page driver here"]
    assert found.context.tokens == 30


async def test_neighbours_are_found_in_each_of_several_collections(library: Library) -> None:
    await library.put(["page kotlin here", "page tls here"])
    other = library.catalog.create("more", embedder=library.collection.embedder, probes=library.collection.probes)
    library.collection = other
    await library.put(["use tls too", "open a session"], key="other")
    turns = [Turn("user", "tls")]
    retriever = library.retriever(arms="bm25", merge_neighbours=True, neighbours=1)
    found = await retriever.retrieve(SearchRequest(turns, ["docs", "more"], k=None))
    assert sorted(texts(found)) == ["page kotlin here\npage tls here", "use tls too\nopen a session"]


async def test_a_small_document_comes_whole_and_a_large_one_does_not(library: Library) -> None:
    await library.put(["use tls in java", "open a session", "the office dog"], key="small")
    await library.put(["use tls in kotlin", *(f"what page {i}" for i in range(60))], key="large")
    found = await library.ask("tls", arms="bm25", merge_neighbours=True, whole_document_tokens=60)
    assert sorted(texts(found)) == ["use tls in java\nopen a session\nthe office dog", "use tls in kotlin"]
    assert found.context.tokens <= 1000
    tight = await library.ask("tls", arms="bm25", merge_neighbours=True, whole_document_tokens=60, budget_tokens=25)
    assert sorted(texts(tight)) == ["use tls in java", "use tls in kotlin"]


async def test_the_budget_may_be_said_with_the_question(library: Library) -> None:
    await library.put(["use tls in java", "tls in kotlin too", "open a tls session"])
    retriever = library.retriever()
    found = await retriever.retrieve(SearchRequest([Turn("user", "tls")], ["docs"], k=None, budget_tokens=20))
    assert (len(found.context.passages), found.context.tokens) == (2, 20)
    assert (await retriever.retrieve(SearchRequest([Turn("user", "tls")], ["docs"], k=None))).context.tokens == 30


# Orders


async def test_the_reranker_orders_the_first_candidates(library: Library) -> None:
    await library.put(["use tls in java with the driver", "tls", "use tls now in kotlin", "the office dog"])
    reranker = Backwards()
    found = await library.ask("use tls in java", reranker=reranker, rerank_model="x", k=4)
    assert texts_of(found.hits) == sorted(texts_of(found.hits), key=len)
    assert reranker.asked == [("use tls in java", 4)]
    assert texts(found) == texts_of(found.hits)
    assert "rerank" in found.timings_ms
    few = await library.ask("use tls in java", reranker=reranker, rerank_model="x", rerank_candidates=2, k=4)
    assert reranker.asked[-1] == ("use tls in java", 2)
    plain = await library.ask("use tls in java", k=4)
    assert texts_of(few.hits)[2:] == texts_of(plain.hits)[2:]


async def test_past_the_deadline_the_fused_order_stands_and_is_told(library: Library) -> None:
    await library.put(["use tls in java with the driver", "tls", "use tls now in kotlin"])
    found = await library.ask("use tls in java", reranker=Backwards(late=True), rerank_model="x")
    plain = await library.ask("use tls in java")
    assert found.hits == plain.hits
    assert found.query.reason == f"{plain.query.reason}, rerank took too long"


async def test_a_reranker_that_no_setting_names_is_not_asked(library: Library) -> None:
    await library.put(["use tls in java", "tls"])
    reranker = Backwards()
    with_one = library.retriever(reranker=reranker, rerank_model="x")
    without = with_one.with_options(OPTIONS)
    assert "rerank" not in (await without.retrieve(SearchRequest([Turn("user", "tls")], ["docs"], k=None))).timings_ms
    assert reranker.asked == []


async def test_the_newer_of_two_that_fit_alike_comes_first(library: Library) -> None:
    await library.put(["use tls in java today"], key="a", modified_s=time() - 900 * 86_400)
    await library.put(["use tls in kotlin today"], key="b", modified_s=time())
    for question, best in (("use tls in java", "a.md"), ("use tls in kotlin", "b.md")):
        plain = await library.ask(question, arms="bm25")
        assert plain.hits[0].passage.source == best
        recent = await library.ask(question, arms="bm25", recency_half_life_days=30.0)
        assert recent.hits[0].passage.source == "b.md"
        assert {hit.id for hit in recent.hits} == {hit.id for hit in plain.hits}
