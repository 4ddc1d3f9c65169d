"""Word statistics are a collection's own: how rare a word is elsewhere changes no score."""

from pathlib import Path

import pytest

from retrieval.index.index import Index
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.records.documents import Document
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent

WORDS, BOTH = HitOptions("bm25"), HitOptions("hybrid")


def page(number: int, text: str) -> Document:
    return Document(f"{number}.md", f"Page {number}", text, "markdown", 1.0)


async def scores(index: Index, hit_options: HitOptions) -> list[tuple[str, float, object]]:
    """What a search in `docs` finds, with each arm's own score."""
    turns = [Turn("user", "Which valve does Oskar oil?")]
    found = await index.search.retrieve(SearchRequest(turns, ["docs"], k=9, hit_options=hit_options))
    return [(hit.passage.text, hit.score, dict(hit.scores)) for hit in found.hits]


@pytest.mark.parametrize("lexical", ["bm25", "okapi"])
async def test_scores_do_not_move_with_documents_of_another_collection(data: Path, lexical: str) -> None:
    flags = {"retrieval.lexical": lexical, "retrieval.min_relevance": 0.0}
    index = await Index.open(plan_for(data, flags), serving=False)
    ours = ["Oskar oils the red valve.", "The blue valve leaks.", "Wilma paints the hose.", "Oskar sleeps."]
    await index.writing.learn([page(i, text) for i, text in enumerate(ours)], "docs", silent)
    before = {asked: await scores(index, asked) for asked in (WORDS, BOTH)}
    assert {text for text, *_ in before[WORDS]} >= {ours[0], ours[1], ours[3]}
    await index.writing.learn([page(i, f"Oskar oils valve {i}, and again Oskar.") for i in range(60)], "other", silent)
    assert {asked: await scores(index, asked) for asked in (WORDS, BOTH)} == before
    await index.writing.delete_collection("other")
    assert {asked: await scores(index, asked) for asked in (WORDS, BOTH)} == before
    await index.writing.learn([page(i, f"Oskar oils valve {i}.") for i in range(9)], "other", silent)
    assert await scores(index, WORDS) == before[WORDS]
    await index.writing.delete_document((await index.library.documents("docs", after="", limit=1))[0].id)
    assert await scores(index, WORDS) != before[WORDS], "but with its own they do"
    await index.close()
