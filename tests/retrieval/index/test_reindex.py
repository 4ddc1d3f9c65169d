"""Another embedder for a collection: searches find all the time, an interruption costs nothing, nothing is mixed up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.errors import RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.index.index import Index
from retrieval.index.vector_spaces import as_text, choice_of, chosen, from_text
from retrieval.knowledge import EmbedderChoice, Plan, SearchRequest
from retrieval.records.search import Retrieved, Turn
from tests.support.plans import plan_for, silent
from tests.support.tiny_model import make_tiny_model

QUESTION = "how do I encrypt the connection with TLS?"


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same dimension that makes other vectors."""
    return make_tiny_model(tmp_path_factory.mktemp("other") / "model", seed=1)


@pytest.fixture
def plan(tmp_path: Path, tiny_model: Path) -> Plan:
    return plan_for(tmp_path / "data", model=str(tiny_model))


def with_model(plan: Plan, model: Path) -> EmbedderChoice:
    return choice_of(chosen(plan, EmbedderChoice(str(model), "auto", "auto", None, None, "", 0)))


@contextlib.asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[Index]:
    index = await Index.open(plan, serving=False)
    try:
        yield index
    finally:
        await index.close()


async def ask(index: Index, *collections: str) -> Retrieved:
    return await index.search.retrieve(SearchRequest([Turn("user", QUESTION)], collections or ["docs"], k=None))


def passages(found: Retrieved) -> set[str]:
    return {hit.passage.text for hit in found.hits}


def embedders(plan: Plan) -> dict[str, str]:
    catalog = Catalog.open(Path(plan.data) / "catalog.sqlite")
    names = {row.name: row.embedder for row in catalog.collections()}
    catalog.close()
    return names


async def test_every_search_finds_before_during_and_after(plan: Plan, corpus: Path, other_model: Path) -> None:
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        expected = passages(await ask(index))
        assert expected
        done, during = asyncio.Event(), 0

        async def stream() -> None:
            nonlocal during
            while not done.is_set():
                assert passages(await ask(index)) == expected
                during += 1
                await asyncio.sleep(0.01)  # three that never rest leave the threads few turns at the interpreter

        searching = [asyncio.create_task(stream()) for _ in range(3)]
        steps: list[tuple[int, int, int, str]] = []
        chunks = await index.writing.rebuild(
            "docs", lambda *step: steps.append(step), embedder=with_model(plan, other_model)
        )
        done.set()
        await asyncio.gather(*searching)
        assert passages(await ask(index)) == expected
        assert during > 3
        assert steps[-1][:3] == (5, 5, chunks)
    assert embedders(plan) == {"docs": str(other_model)}


async def test_the_collection_keeps_to_its_embedder_after_a_restart(
    plan: Plan, corpus: Path, other_model: Path
) -> None:
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        await index.writing.rebuild("docs", silent, embedder=with_model(plan, other_model))
        before = await ask(index)
    async with opened(plan) as index:
        assert passages(await ask(index)) == passages(before)
        (corpus / "new.md").write_text("# Encryption\n\nEncrypt the connection with TLS twice.\n")
        report = await index.writing.ingest([corpus], "docs", silent)
        assert (report.added, report.unchanged) == (1, 5)
        assert any("twice" in text for text in passages(await ask(index)))
        await index.search.check()
        await index.writing.rebuild("docs", silent, embedder=choice_of(plan))  # back to the configured one
        assert any("twice" in text for text in passages(await ask(index)))
    assert embedders(plan) == {"docs": plan.embedding.model}
    async with opened(plan) as index:
        assert any("twice" in text for text in passages(await ask(index)))


async def test_collections_of_two_embedders_are_searched_together(
    plan: Plan, corpus: Path, other_model: Path, tmp_path: Path
) -> None:
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / "page.md").write_text("# TLS\n\nThe wiki says: encrypt the connection with TLS.\n")
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        await index.writing.ingest([wiki], "wiki", silent)
        await index.writing.rebuild("docs", silent, embedder=with_model(plan, other_model))
        found = await ask(index, "docs", "wiki")
    sources = {passage.source for passage in found.context.passages}
    assert {"wiki/page.md", "handbook/connect.md"} <= sources
    assert found.context.tokens <= plan.search.budget_tokens
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


async def test_an_interrupted_build_goes_on_where_it_was(plan: Plan, corpus: Path, other_model: Path) -> None:
    for i in range(120):  # more than are embedded at a time
        (corpus / f"page{i}.md").write_text(f"# Page {i}\n\nPage number {i} of the database.\n")
    choice = with_model(plan, other_model)

    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        begun = asyncio.Event()

        def tell(done: int, _total: int, _chunks: int, _source: str) -> None:
            if done:
                begun.set()

        building = asyncio.create_task(index.writing.rebuild("docs", tell, embedder=choice))
        await begun.wait()
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert passages(await ask(index))  # the old one answers as ever
        assert index.choice("docs") == choice
    (corpus / "page0.md").write_text("# Page 0\n\nIt changed after the interruption: TLS.\n")
    (corpus / "page1.md").unlink()
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        steps: list[tuple[int, int, int, str]] = []
        await index.writing.rebuild("docs", lambda *step: steps.append(step), embedder=choice)
        assert steps[0][0] > 80  # ready before it went on
        assert steps[-1][:2] == (124, 124)
        changed = await index.search.retrieve(
            SearchRequest([Turn("user", "what changed after the interruption?")], ["docs"], k=None)
        )
        assert any("after the interruption" in text for text in passages(changed))
        info = (await index.library.collections())[0]
        assert (info.documents, info.embedder) == (124, str(other_model))
        assert index.choice("docs") == choice
        await index.writing.rebuild("docs", silent)
        assert index.choice("docs") is None


async def test_a_build_with_other_settings_begins_anew(plan: Plan, corpus: Path, other_model: Path) -> None:
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
    catalog = Catalog.open(Path(plan.data) / "catalog.sqlite")
    docs, builds = catalog.collection("docs"), Builds(catalog)
    assert builds.begin(docs, embedder="", made_with="these") == {}
    key, known = next(iter(catalog.current_revisions("docs").items()))
    document = catalog.document(known.document, known.revision)
    staged = catalog.stage(docs, key, document, content_hash="1", recipe="1", chunks=1, generation=2)
    builds.ready([staged])
    assert list(builds.begin(docs, embedder="", made_with="these")) == [key]
    assert catalog.leftovers() == []
    assert builds.begin(docs, embedder="", made_with="others") == {}
    assert [one.revision for one in catalog.leftovers()] == [staged.revision]
    assert builds.unfinished() == {"docs": ""}
    catalog.close()


async def test_a_changed_document_prompt_is_noticed(plan: Plan, corpus: Path) -> None:
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        built = await ask(index)
    choice = choice_of(plan)
    prompted = chosen(plan, EmbedderChoice(choice.model, "auto", "auto", None, "the ", "", 0))
    async with opened(prompted) as index:
        with pytest.raises(WrongEmbedder, match="ragway reindex docs"):
            await ask(index)
        await index.writing.rebuild("docs", silent)
        assert passages(await ask(index)) == passages(built)
    asked = chosen(plan, EmbedderChoice(choice.model, "auto", "auto", "how ", "the ", "", 0))
    async with opened(asked) as index:  # the questions' own prompt changes no vector that is kept
        assert (await ask(index)).hits


async def test_an_embedder_that_cannot_be_had_changes_nothing(plan: Plan, corpus: Path, tmp_path: Path) -> None:
    async with opened(plan) as index:
        await index.writing.ingest([corpus], "docs", silent)
        before = await ask(index)
        with pytest.raises(RetrievalError, match="there is no folder"):
            await index.writing.rebuild("docs", silent, embedder=with_model(plan, tmp_path / "nowhere"))
        with pytest.raises(UnknownCollection):
            await index.writing.rebuild("nothing", silent, embedder=with_model(plan, tmp_path / "nowhere"))
        assert passages(await ask(index)) == passages(before)


def test_a_choice_survives_the_catalog(plan: Plan) -> None:
    for choice in (choice_of(plan), EmbedderChoice("openai/x", "remote", "fp32", "", "a\n'\"", "http://h/v1", 256)):
        assert from_text(as_text(choice)) == choice
        assert choice_of(chosen(plan, choice)) == choice


def test_a_key_is_not_sent_to_another_address(plan: Plan) -> None:
    ours = EmbedderChoice("openai/x", "remote", "auto", None, None, "http://one/v1", 0)
    with_key = replace(plan, embedding=replace(plan.embedding, api_base="http://one/v1", api_key="secret"))
    assert chosen(with_key, ours).embedding.api_key == "secret"
    assert chosen(with_key, replace(ours, api_base="http://two/v1")).embedding.api_key == ""
    assert chosen(with_key, replace(ours, api_base="")).embedding.api_key == ""
