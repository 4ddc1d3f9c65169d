"""A chat's question in another language than the documents, with an embedder that knows English: said, logged once."""

import logging
from pathlib import Path

import pytest

from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.lexical.terms import NONE, in_other_language
from retrieval.records.search import Turn
from retrieval.search.retriever import Retriever
from tests.retrieval.search.library import Library
from tests.support.minilm import hashing

NOTE = "not in the documents' language"
GERMAN = "Wie kann ich die Pumpe wieder mit dem Kessel verbinden?"
ENGLISH = "How can I connect the pump to the boiler again?"


@pytest.fixture
async def retriever(tmp_path: Path) -> Retriever:
    embedder = hashing()
    embedder.name = DEFAULT_MODEL
    library = Library(tmp_path, embedder)
    await library.put([f"Pump {n} feeds the boiler." for n in range(20)])
    return library.retriever()


async def note(retriever: Retriever, question: str, hit_options: HitOptions | None = None) -> str:
    request = SearchRequest([Turn("user", question)], ["docs"], hit_options=hit_options)
    return (await retriever.retrieve(request)).note


async def test_it_is_said_of_each_question_and_logged_once(
    retriever: Retriever, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert [await note(retriever, question) for question in (ENGLISH, GERMAN, GERMAN)] == ["", NOTE, NOTE]
    (record,) = caplog.records
    assert "a question for docs is in another language" in record.message
    assert "`embedder.model: multilingual`" in record.message
    assert "Pumpe" not in record.message


async def test_nothing_is_said_of_hits_or_with_another_embedder(retriever: Retriever) -> None:
    assert await note(retriever, GERMAN, HitOptions()) == ""
    retriever._embedder.name = "multilingual"
    assert await note(retriever, GERMAN) == ""


async def test_nothing_is_said_of_a_question_that_surely_finds_its_passage(retriever: Retriever) -> None:
    retriever.use_curves(
        {arms: type(curve)(curve.slope, curve.offset, -99.0) for arms, curve in retriever.curves.items()}
    )
    assert await note(retriever, GERMAN) == ""


@pytest.mark.parametrize(
    ("text", "languages", "other"),
    [
        (GERMAN, {"en"}, True),
        (GERMAN, {"en", "de"}, False),
        (GERMAN, {NONE}, False),
        (ENGLISH, {"en"}, False),
        (ENGLISH, {"de"}, True),
        (ENGLISH, {"zh"}, True),
        ("如何重新连接水泵？", {"en"}, True),
        ("如何重新连接水泵？", {"zh"}, False),
        ("Pumpe Kessel", {"en"}, False),  # no stop word tells the language
        ("👍", {"en"}, False),
        ("", {"en"}, False),
    ],
)
def test_a_language_counts_only_if_it_is_recognised(text: str, languages: set[str], other: bool) -> None:
    assert in_other_language(text, languages) == other
