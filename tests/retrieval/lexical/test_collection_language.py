"""A collection's language: told from its documents when it is made, kept with it, changed by a rebuild."""

from pathlib import Path

import pytest

from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent

PAGES = {
    "bauen.md": "# Gebäude\n\nDie Häuser stehen seit dem Sommer leer, und niemand hat einen Schlüssel zu ihnen.",
    "hund.md": "# Tiere\n\nDer Hund wartet vor der Tür, bis er mit dem Kind in den Garten gehen darf.",
    "api.md": "# API\n\nconnect() close() retry()",
}


async def by_words(index: Index, question: str) -> list[str]:
    """Sources of the passages that hold a word of the question."""
    found = await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=3))
    return [hit.passage.source.rpartition("/")[2] for hit in found.hits if "bm25" in hit.scores]


@pytest.mark.parametrize("lexical", ["bm25", "okapi"])
async def test_it_is_told_kept_and_changed_by_a_rebuild(lexical: str, tmp_path: Path) -> None:
    folder, data = tmp_path / "pages", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, "utf-8")
    settings = {"retrieval.lexical": lexical, "retrieval.min_relevance": 0}
    index = await Index.open(plan_for(data, settings), serving=False)
    await index.writing.ingest([folder], "docs", silent)
    assert [row.language for row in await index.library.collections()] == ["de"]
    assert await by_words(index, "Haus") == ["bauen.md"]  # an umlaut and an ending apart
    assert await by_words(index, "der und bis") == []  # stop words
    await index.close()

    index = await Index.open(
        plan_for(data, {**settings, "ingest.languages": {"docs": "none"}}),
        serving=False,
    )
    await index.writing.ingest([folder], "docs", silent)
    assert [row.language for row in await index.library.collections()] == ["de"]
    assert await by_words(index, "Haus") == ["bauen.md"]
    await index.writing.rebuild("docs", silent)
    assert [row.language for row in await index.library.collections()] == ["none"]
    assert await by_words(index, "Haus") == []
    assert await by_words(index, "Häuser") == ["bauen.md"]
    await index.close()
