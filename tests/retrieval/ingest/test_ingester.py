"""Learning, from files on disk to what is found: with the real engine."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.errors import DataInUse, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.index.index import Index
from retrieval.ingest.prepare import ChunkVectors, Preparation
from retrieval.ingest.splitting import SourceFile, SplitDocument
from retrieval.knowledge import Plan, SearchRequest
from retrieval.records.documents import Document
from retrieval.records.ingest import IngestReport
from retrieval.records.search import Retrieved, Turn, View
from tests.support.plans import plan_for, silent


@asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[Index]:
    index = await Index.open(plan, serving=False)
    try:
        yield index
    finally:
        await index.close()


async def ask(index: Index, question: str, collection: str = "docs") -> Retrieved:
    return await index.search.retrieve(SearchRequest([Turn("user", question)], [collection], k=None))


async def sources(index: Index, question: str, collection: str = "docs") -> list[str]:
    return [hit.passage.source for hit in (await ask(index, question, collection)).hits]


async def test_finds_the_page_that_answers(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        report = await index.writing.ingest([corpus], "docs", silent)
        assert (report.added, report.failures) == (5, ())
        found = await ask(index, "how do I encrypt the connection?")
    best = found.hits[0].passage
    assert best.source == "handbook/connect.md"
    assert "tls=True" in best.text
    assert best.text in found.context.passages[0].text
    assert 0 < found.context.tokens <= 3200


async def test_finds_an_error_code_by_its_letters(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        assert (await sources(index, "EADDRNOTAVAIL (99)"))[0] == "handbook/errors.txt"


@pytest.mark.parametrize("lexical", ["bm25", "okapi"])
async def test_a_file_is_found_by_its_folder_and_name(data: Path, tmp_path: Path, lexical: Any) -> None:
    for name in ("kotlin/insert.md", "java/insert.md", "java/insert-many.md"):
        page = tmp_path / "drivers" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("# Write\n\nCall the method of a collection.\n")
    plan = plan_for(data)
    async with opened(
        replace(plan, search=replace(plan.search, mode="bm25", lexical=lexical, min_relevance=0))
    ) as index:
        await index.writing.ingest([tmp_path / "drivers"], "docs", silent)
        assert await sources(index, "kotlin") == ["drivers/kotlin/insert.md"]
        assert (await sources(index, "insert-many.md"))[0] == "drivers/java/insert-many.md"


async def test_nothing_relevant_is_an_empty_context(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        found = await ask(index, "zzzz qqqq xxyyzz")
    assert found.hits == ()
    assert found.context.passages == ()


async def test_unchanged_files_are_not_embedded_again(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        report = await index.writing.ingest([corpus], "docs", silent)
    assert (report.added, report.changed, report.unchanged, report.chunks) == (0, 0, 5, 0)


async def test_a_changed_file_replaces_its_old_text(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        (corpus / "pets.html").write_text("<h1>Pets</h1><p>The office cat is called Minerva.</p>")
        report = await index.writing.ingest([corpus], "docs", silent)
        assert (report.changed, report.unchanged) == (1, 4)
        found = await ask(index, "what is the office dog or cat called?")
    texts = " ".join(hit.passage.text for hit in found.hits)
    assert "Minerva" in texts
    assert "Bruno" not in texts


async def test_a_removed_file_goes(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        (corpus / "errors.txt").unlink()
        report = await index.writing.ingest([corpus], "docs", silent)
        assert report.removed == 1
        assert "handbook/errors.txt" not in await sources(index, "EADDRNOTAVAIL (99)")
        assert [row.documents for row in await index.library.collections()] == [4]


async def test_a_folder_ingested_beside_another_removes_nothing_of_it(data: Path, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "handbook2"
    other.mkdir()
    (other / "new.md").write_text("# New\n\nSomething else.")
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        report = await index.writing.ingest([other], "docs", silent)
    assert (report.added, report.removed) == (1, 0)


async def test_one_bad_file_is_named_and_stops_nothing(data: Path, corpus: Path) -> None:
    (corpus / "binary.md").write_bytes(b"\x00\x01\x02" * 100)
    (corpus / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (corpus / "empty.md").write_text("")
    (corpus / "picture.gif").write_bytes(b"\x89PNG")
    async with opened(plan_for(data)) as index:
        report = await index.writing.ingest([corpus], "docs", silent)
    assert report.added == 6
    assert sorted(Path(failure.path).name for failure in report.failures) == ["binary.md", "empty.md"]
    assert [note.source for note in report.notes] == ["handbook/latin.txt"]
    assert sum(report.skipped.values()) == 1


async def test_a_file_that_became_unreadable_keeps_its_old_text(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        (corpus / "pets.html").write_bytes(b"\x00\x00\x00")
        report = await index.writing.ingest([corpus], "docs", silent)
        assert (report.removed, len(report.failures)) == (0, 1)
        assert "handbook/pets.html" in await sources(index, "what is the office dog called?")


async def test_a_file_whose_rights_became_unreadable_is_taken_away(data: Path, corpus: Path) -> None:
    pay = corpus / "pay.md"
    pay.write_text("---\ngroups: [hr, legal]\n---\nThe pay scales are secret.")
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        pay.write_text("---\ntitle: Pay: 2026\ngroups: [hr]\n---\nThe pay scales are secret.")
        for removed in (1, 0):
            report = await index.writing.ingest([corpus], "docs", silent)
            assert (report.removed, [failure.path for failure in report.failures]) == (removed, [str(pay)])
            assert "line 2" in report.failures[0].reason
            assert "handbook/pay.md" not in await sources(index, "which pay scales are secret?")
        pay.write_text('---\ntitle: "Pay: 2026"\ngroups: [hr]\n---\nThe pay scales are secret.')
        assert (await index.writing.ingest([corpus], "docs", silent)).added == 1
        found = await index.search.retrieve(
            SearchRequest([Turn("user", "pay scales?")], ["docs"], k=None, view=View(("hr",)))
        )
    assert found.hits[0].passage.groups == ("hr",)


async def test_what_came_by_a_link_goes_once_links_are_not_followed(data: Path, corpus: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("one.md", "two.md"):
        (outside / name).write_text(f"The {name} is secret.")
    (corpus / "users.md").symlink_to(outside / "one.md")
    (corpus / "shared").symlink_to(outside)
    async with opened(plan_for(data, {"ingest.follow_links": True})) as index:
        assert (await index.writing.ingest([corpus], "docs", silent)).added == 7
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([outside / "two.md"], "others", silent)
        report = await index.writing.ingest([corpus], "docs", silent)
        assert (report.removed, report.unchanged, report.failures) == (2, 5, ())
        assert report.left_out == (f"handbook/shared -> {outside}", f"handbook/users.md -> {outside / 'one.md'}")
        await index.writing.ingest([outside / "two.md"], "docs", silent)
        assert (await index.writing.ingest([corpus], "docs", silent)).removed == 0


async def test_two_collections_do_not_see_each_other(data: Path, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "dog.md").write_text("# Dogs\n\nThe office dog of the other team is called Rex.")
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        await index.writing.ingest([other], "other", silent)
        assert await sources(index, "what is the office dog called?", "other") == ["other/dog.md"]
        assert "other/dog.md" not in await sources(index, "what is the office dog called?")


async def test_the_same_question_finds_the_same_again(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        first, second = await ask(index, "add the driver"), await ask(index, "add the driver")
    assert first.context == second.context
    assert first.hits == second.hits


async def test_a_follow_up_brings_the_pages_it_means(data: Path, corpus: Path) -> None:
    turns = [
        Turn("user", "How do I add the Zephyr driver in Kotlin?"),
        Turn("assistant", "Add zephyr-driver-kotlin-coroutine to Gradle."),
        Turn("user", "can I do the same in Java?"),
    ]
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        found = await index.search.retrieve(SearchRequest(turns, ["docs"], k=None))
    assert found.hits[0].passage.source == "handbook/java.md"
    assert "can I do the same in Java?" in found.query.text


async def test_the_index_is_rebuilt_from_the_catalog_alone(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        before = await ask(index, "how do I encrypt the connection?")
    shutil.rmtree(data / "index")
    shutil.rmtree(corpus)
    async with opened(plan_for(data)) as index:
        with pytest.raises(RetrievalError, match="ragway rebuild docs"):
            await ask(index, "how do I encrypt the connection?")
        assert await index.writing.rebuild("docs", silent) > 0
        after = await ask(index, "how do I encrypt the connection?")
    assert [hit.passage.text for hit in after.hits] == [hit.passage.text for hit in before.hits]
    assert [hit.score for hit in after.hits] == [hit.score for hit in before.hits]


async def test_ingest_mends_a_lost_index(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
    shutil.rmtree(data / "index")
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        assert "handbook/pets.html" in await sources(index, "what is the office dog called?")


async def test_another_chunk_size_writes_the_documents_again(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
    async with opened(plan_for(data, {"ingest.chunk_tokens": 64, "ingest.context_tokens": 32})) as index:
        report = await index.writing.ingest([corpus], "docs", silent)
    assert (report.changed, report.unchanged) == (5, 0)


async def test_progress_names_the_document_that_is_read(data: Path, corpus: Path) -> None:
    named = list[str]()
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", lambda _done, _total, _chunks, source: named.append(source))
        files = {row.source for row in await index.library.documents("docs", after="", limit=100)}
    assert files <= set(named)


async def test_documents_are_read_while_others_are_embedded(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(f"# Page {number}\n\n" + "The north ferry sails at noon today. " * 2_500)
    split, vectors, others_read = Preparation.split, Preparation.vectors, asyncio.Event()
    read = list[str]()

    async def noted(self: Preparation, item: SourceFile | Document, **options: Any) -> SplitDocument:
        found = await split(self, item, **options)
        read.append(found.document.source)
        if len(set(read)) == 3:
            others_read.set()
        return found

    async def waiting(self: Preparation, *given: Any, **options: Any) -> ChunkVectors:
        await asyncio.wait_for(others_read.wait(), 60)
        return await vectors(self, *given, **options)

    monkeypatch.setattr(Preparation, "split", noted)
    monkeypatch.setattr(Preparation, "vectors", waiting)
    async with opened(plan_for(data, {"ingest.language": "en"})) as index:
        report = await index.writing.ingest([tmp_path], "docs", silent)
    assert (report.added, report.failures) == (3, ())


async def test_an_interrupted_ingest_leaves_whole_documents_and_goes_on(data: Path, corpus: Path) -> None:
    for i in range(24):
        (corpus / f"page{i:02}.md").write_text(f"# Page {i}\n\n" + f"Number {i} of the Zephyr pages. " * 100)
    written = asyncio.Event()

    def progress(_done: int, _total: int, chunks: int, _source: str) -> None:
        if chunks:
            written.set()

    async with opened(plan_for(data)) as index:
        ingest = asyncio.create_task(index.writing.ingest([corpus], "docs", progress))
        await written.wait()
        ingest.cancel()
        await asyncio.wait({ingest})
    async with opened(plan_for(data)) as index:
        report: IngestReport = await index.writing.ingest([corpus], "docs", silent)
        (row,) = await index.library.collections()
        assert report.failures == ()
        assert row.documents == 29
        assert len(await sources(index, "Number 7 of the Zephyr pages")) > 0


async def test_the_okapi_arm_answers_too(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data, {"retrieval.lexical": "okapi"})) as index:
        await index.writing.ingest([corpus], "docs", silent)
        assert (await sources(index, "EADDRNOTAVAIL (99)"))[0] == "handbook/errors.txt"


async def test_an_unknown_collection_names_the_known_ones(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
        with pytest.raises(UnknownCollection, match="docs"):
            await ask(index, "anything", "nope")


async def test_a_data_folder_has_one_holder(data: Path) -> None:
    async with opened(plan_for(data)):
        with pytest.raises(DataInUse, match=str(os.getpid())):
            await Index.open(plan_for(data), serving=False)
    async with opened(plan_for(data)):
        pass


async def test_a_collection_of_another_embedder_is_not_searched(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        await index.writing.ingest([corpus], "docs", silent)
    async with opened(plan_for(data, {"embedder.document_prompt": "page: "})) as index:
        with pytest.raises(WrongEmbedder, match="ragway reindex docs"):
            await ask(index, "what is the office dog called?")
        with pytest.raises(WrongEmbedder, match="ragway reindex docs"):
            await index.writing.ingest([corpus], "docs", silent)
        await index.writing.rebuild("docs", silent)
        await ask(index, "what is the office dog called?")


@pytest.fixture
def latin_1(corpus: Path) -> None:
    """One more page, whose name is of another encoding."""
    Path(os.fsdecode(os.fsencode(corpus) + b"/caf\xe9.md")).write_text("# Coffee\n\nIt is hot.\n", "utf-8")


@pytest.mark.usefixtures("latin_1")
async def test_a_name_that_is_not_utf_8_is_named_at_the_end_and_stops_nothing(data: Path, corpus: Path) -> None:
    async with opened(plan_for(data)) as index:
        report = await index.writing.ingest([corpus], "docs", silent)
    assert report.added == 5
    ((path, reason),) = [(failure.path, failure.reason) for failure in report.failures]
    assert path.endswith("caf\ufffd.md")
    assert "not UTF-8" in reason


async def test_attributes_and_groups_go_where_the_text_goes(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pay"
    folder.mkdir()
    file = folder / "scales.md"
    body = "# Pay scales\n\nThe scales of pay are agreed on each spring."

    async def known(index: Index) -> tuple[object, ...]:
        (info,) = await index.library.documents("docs", after="", limit=9, groups=None)
        turns = [Turn("user", "When are the scales of pay agreed on?")]
        (hit,) = (await index.search.retrieve(SearchRequest(turns, ["docs"], k=None, view=View(info.groups)))).hits
        return info.attributes, info.groups, hit.passage.attributes

    async with opened(plan_for(data)) as index:
        for year, group in ((2023, "hr"), (2024, "legal")):
            file.write_text(f"---\nyear: {year}\ngroups: [{group}]\n---\n{body}")
            report = await index.writing.ingest([folder], "docs", silent)
            assert report.added + report.changed == 1
            assert await known(index) == ({"year": year}, (group,), {"year": year})
        assert (await index.writing.ingest([folder], "docs", silent)).unchanged == 1
        await index.writing.rebuild("docs", silent)
        assert await known(index) == ({"year": 2024}, ("legal",), {"year": 2024})


async def test_a_passage_names_its_page_also_after_a_rebuild(data: Path) -> None:
    pages = ["Ferries sail at noon. ", "Buses leave at midnight. "]
    places = ((0, "page 1"), (len(pages[0] * 40), "page 2"))
    document = Document("times.pdf", "Times", pages[0] * 40 + pages[1] * 40, "markdown", 1.0, places=places)
    async with opened(plan_for(data)) as index:
        await index.writing.learn([document], "docs", silent)
        for _ in range(2):
            (best, *_) = (await ask(index, "When do buses leave?")).hits
            assert best.passage.cited == "times.pdf, page 2"
            await index.writing.rebuild("docs", silent)


@pytest.mark.parametrize(
    ("text", "told"), [("Der Drucker hält die Verbindung offen.", 1), ("The printer waits for it.", 0)]
)
async def test_a_new_collection_that_is_not_english_is_told_of_the_multilingual_embedder(
    data_with_model: Path, tmp_path: Path, text: str, told: int
) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "one.md").write_text(text, "utf-8")
    async with opened(plan_for(data_with_model, model=DEFAULT_MODEL)) as index:
        first = await index.writing.ingest([folder], "pages", silent)
        (folder / "two.md").write_text(text + " " + text, "utf-8")
        second = await index.writing.ingest([folder], "pages", silent)
    assert [(note.source, "`embedder.model: multilingual`" in note.text) for note in first.notes] == [
        ("pages", True)
    ] * told
    assert second.added == 1
    assert second.notes == ()
