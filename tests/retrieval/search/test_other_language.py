"""A chat's question in another language than the documents, with an embedder that knows English: said, logged once."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrieval.embedding.embed import Matrix
from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.lexical.terms import NONE, in_other_language
from retrieval.records.search import Retrieved, Turn
from retrieval.search.ranking import Curve
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


async def test_vectors_alone_find_what_has_no_word_in_common(tmp_path: Path) -> None:
    """With an embedder that may know the question's language, BM25's silence is no evidence."""
    library = Library(tmp_path, Translating())
    await library.put([f"Pump {n} feeds the boiler." for n in range(20)])
    retriever = library.retriever(min_relevance=0.5)
    retriever.use_curves({**retriever.curves, "both": Curve(1.0, -99.0, 99.0)})
    assert (await asked(retriever, GERMAN)).hits
    assert not (await asked(retriever, ENGLISH)).hits
    assert not (await asked(library.retriever(min_relevance=0.5, arms="bm25"), GERMAN)).hits


async def asked(retriever: Retriever, question: str) -> Retrieved:
    return await retriever.retrieve(SearchRequest([Turn("user", question)], ["docs"]))


class Translating:
    """The embedder `hash`, for which the German question is the English one."""

    def __init__(self) -> None:
        inner = self._inner = hashing()
        self.name, self.dimension, self.max_tokens = "translating", inner.dimension, inner.max_tokens
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_query(["pump feeds the boiler" if text == GERMAN else text for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_documents(texts)
