"""Searches of which the hits are shown: what each asks for is its own."""

from collections.abc import Sequence

from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.records.search import Hit, Surrounding, Turn
from retrieval.search.expand import WHOLE_CHARS
from tests.retrieval.search.library import Backwards, Library, texts_of


async def test_each_hit_has_its_neighbours_as_one_text(library: Library) -> None:
    lines = [f"page {word} here" for word in ("tls", "java", "kotlin", "driver", "session", "dog", "tls")]
    await library.put(lines)
    assert [hit.surrounding for hit in await library.look_up("tls", HitOptions("bm25"))] == [None, None]
    hits = await library.look_up("tls", HitOptions("bm25", neighbours=1), neighbours=3, whole_document_tokens=99)
    assert texts_of(hits) == ["page tls here"] * 2
    assert {spanned(hit, lines) for hit in hits} == {"\n".join(lines[:2]), "\n".join(lines[-2:])}
    wide = await library.look_up("tls kotlin", HitOptions("bm25", neighbours=5))
    assert sorted(spanned(hit, lines).count("\n") for hit in wide) == [5, 5, 6], "also where they are others' too"


def spanned(hit: Hit, lines: Sequence[str]) -> str:
    """What is shown around a hit that is a part of the document of these lines."""
    shown = hit.surrounding
    assert shown is not None
    assert not shown.whole
    assert "\n".join(lines)[shown.start : shown.end] == shown.text
    assert shown.start <= hit.passage.start < hit.passage.end <= shown.end
    return shown.text


async def test_a_hit_has_its_whole_document_unless_that_is_long(library: Library) -> None:
    await library.put(["use tls in java", "open a session", "the office dog"], key="small")
    lines = ["what page", "use tls in kotlin", *["dog " * (WHOLE_CHARS // 4)] * 2]
    await library.put(lines, key="large")
    hits = await library.look_up("tls", HitOptions("bm25", whole=True, neighbours=1))
    large, small = sorted(hits, key=lambda hit: hit.passage.source)
    text = "use tls in java\nopen a session\nthe office dog"
    assert (small.passage.source, small.surrounding) == ("small.md", Surrounding(0, len(text), text, whole=True))
    assert spanned(large, lines) == "\n".join(lines[:3])
    (alone,) = await library.look_up("kotlin", HitOptions("bm25", whole=True))
    assert spanned(alone, lines) == "use tls in kotlin"


async def test_a_lookup_has_hits_where_a_chat_has_a_whole_collection(library: Library) -> None:
    await library.put(["use tls in java", "open a session"])
    hybrid = await library.look_up("tls", HitOptions("hybrid"))
    assert len(hybrid) == 2
    for mode in ("whole", "auto", "hybrid"):
        assert await library.look_up("tls", HitOptions(), mode=mode) == hybrid
    assert texts_of(await library.look_up("tls", HitOptions("bm25"), mode="whole")) == ["use tls in java"]


async def test_a_lookup_may_do_without_the_reranker(library: Library) -> None:
    await library.put(["use tls in java", "tls"])
    retriever = library.retriever(reranker=Backwards(), rerank_model="x")
    for hit_options in (
        HitOptions(),
        HitOptions(rerank=False),
        HitOptions("dense"),
        HitOptions("dense", rerank=False),
    ) * 2:
        hits = (
            await retriever.retrieve(SearchRequest([Turn("user", "tls")], ["docs"], k=None, hit_options=hit_options))
        ).hits
        arms = {"dense", "bm25"} if hit_options.mode is None else {"dense"}
        assert {arm for hit in hits for arm in hit.scores} == arms | ({"rerank"} if hit_options.rerank else set())
