"""Documents that say the same are shown once, in hits and in the context."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from retrieval.index.index import Index
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.records.ingest import IngestReport
from retrieval.records.search import Turn, View
from tests.support.plans import plan_for, silent

PARTS = [
    f"## Pier {name}\n\nThe pier {name} has {boats} berths. " + "Boats wait in the basin until the bridge opens. " * 30
    for name, boats in (("Nord", 12), ("Sund", 40), ("Vest", 7))
]
TEXT = "\n\n".join(["# Harbour", *PARTS])
OTHER = "# Fish\n\nThe market sells herring and cod on the pier Nord every morning from berths twelve and on."
YEAR = '{"type":"eq","key":"year","value":2020}'
QUESTION = "How many berths has the pier Nord?"


@pytest.fixture
async def index(data: Path) -> AsyncIterator[Index]:
    index = await Index.open(plan_for(data, {"retrieval.min_relevance": 0.0}), serving=False)
    try:
        yield index
    finally:
        await index.close()


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name.replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


async def ingest(index: Index, folder: Path, **files: str) -> IngestReport:
    write(folder, files)
    return await index.writing.ingest([folder], "docs", silent)


async def sources(index: Index, question: str = QUESTION, *, view: View | None = None, k: int = 20) -> list[list[str]]:
    """Sources of the hits, and of the context."""
    turns = [Turn("user", question)]
    asked = SearchRequest(turns, ["docs"], k, 100_000, view or View(None, ""), HitOptions())
    packed = SearchRequest(turns, ["docs"], k, 100_000, view or View(None, ""))
    found, context = await index.search.retrieve(asked), (await index.search.retrieve(packed)).context
    passages = [[hit.passage for hit in found.hits], context.passages]
    return [[passage.source.removeprefix("hb/") for passage in shown] for shown in passages]


async def test_a_text_in_two_formats_is_shown_once_and_counted(index: Index, tmp_path: Path) -> None:
    html = "".join(f"<h2>{part.split(chr(10))[0][3:]}</h2><p>{part.partition(chr(10))[2]}</p>" for part in PARTS)
    report = await ingest(index, tmp_path / "hb", a_md=TEXT, b_html=f"<h1>Harbour</h1>{html}", c_md=OTHER)
    assert report.repeated == 1
    hits, context = await sources(index)
    assert len(hits) > 3
    for shown in (hits, context):
        assert "c.md" in shown
        assert len(set(shown)) == 2


async def test_without_the_first_the_second_is_shown(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "hb"
    await ingest(index, folder, a_md=TEXT, b_md=TEXT)
    (first,) = set((await sources(index))[0])
    (folder / first).unlink()
    report = await ingest(index, folder)
    assert (report.removed, report.repeated) == (1, 0)
    assert set((await sources(index))[0]) == {"a.md", "b.md"} - {first}


async def test_a_changed_document_is_shown_beside_the_other(index: Index, tmp_path: Path) -> None:
    await ingest(index, tmp_path / "hb", a_md=TEXT, b_md=TEXT)
    report = await ingest(index, tmp_path / "hb", b_md=TEXT.replace("has 12", "has 13"))
    assert report.repeated == 0
    assert {"a.md", "b.md"} <= set((await sources(index))[0])


async def test_who_may_read_one_of_two_gets_that_one(index: Index, tmp_path: Path) -> None:
    await ingest(index, tmp_path / "hb", a_md=f"---\ngroups: [board]\n---\n{TEXT}", b_md=TEXT)
    await ingest(index, tmp_path / "hb", c_md=f"---\nyear: 2020\n---\n{TEXT}")
    assert "a.md" not in (await sources(index, view=View((), "")))[0]
    for shown in await sources(index, view=View((), YEAR)):
        assert set(shown) == {"c.md"}


async def test_a_word_of_the_question_in_the_source_counts(index: Index, tmp_path: Path) -> None:
    await ingest(index, tmp_path / "hb", a_md=TEXT, **{"v2/a_md": TEXT})
    assert "v2/a.md" in (await sources(index, "berths of the pier Nord in v2"))[0]


async def test_hits_left_out_make_room_for_others(index: Index, tmp_path: Path) -> None:
    copies = {f"copy{number}_md": TEXT for number in range(9)}
    report = await ingest(index, tmp_path / "hb", **copies, c_md=OTHER)
    assert report.repeated == 8
    hits, context = await sources(index, k=4)
    assert len(hits) == 4
    assert "c.md" in hits
    assert "c.md" in context


async def test_a_whole_collection_has_each_text_once(data: Path, tmp_path: Path) -> None:
    index = await Index.open(plan_for(data, {"retrieval.mode": "whole"}), serving=False)
    try:
        await ingest(index, tmp_path / "hb", a_md=TEXT, b_md=TEXT, c_md=OTHER)
        packed = SearchRequest([Turn("user", QUESTION)], ["docs"], 5, 100_000, View(None, ""))
        context = (await index.search.retrieve(packed)).context
    finally:
        await index.close()
    assert {passage.source for passage in context.passages} == {"hb/a.md", "hb/c.md"}
