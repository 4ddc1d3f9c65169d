"""Conversations as the index understands them: what leans, what changes the subject, what is two questions."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.search import Retrieved, Turn
from tests.support.plans import plan_for, silent

pytestmark = pytest.mark.models

KOTLIN = "How do I use Zephyr from a Kotlin application?"
ANSWER = "Add the Zephyr coroutine driver to your build and open a connection."


@pytest.fixture
async def index(data_with_model: Path, corpus: Path) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(data_with_model, model=DEFAULT_MODEL), serving=False)
    await opened.writing.ingest([corpus], "docs", silent)
    yield opened
    await opened.close()


async def asked(index: Index, question: str) -> Retrieved:
    turns = [Turn("user", KOTLIN), Turn("assistant", ANSWER), Turn("user", question)]
    return await index.search.retrieve(SearchRequest(turns, ["docs"], k=None))


async def test_a_conversation_decides_what_its_questions_lean_on(index: Index) -> None:
    for question in ("And in Java?", "Which version?", "Und mit Java?", "Java は？"):
        found = await asked(index, question)
        assert found.query.reason == "leans on the conversation"
        assert found.query.text == f"{question} (after: {KOTLIN})"
    for question in (
        "What should I plant in a small garden in spring so that it attracts bees and butterflies?",
        "Wie lange muss ein weiches Ei kochen, wenn es direkt aus dem Kühlschrank kommt?",
    ):
        found = await asked(index, question)
        assert (found.query.text, found.query.reason) == (question, "stands alone")
    close = "Is the driver that I add to my build the newest one there is, or must I look for it?"
    assert (await asked(index, close)).query.reason == "leans on the conversation"


async def test_a_question_that_surely_finds_what_it_asks_for_is_searched_as_it_was_asked(index: Index) -> None:
    said = {
        "Can I do the same in Java?": f"Can I do the same in Java? (after: {KOTLIN})",
        "And what about the errors of Zephyr?": "And what about the errors of Zephyr?",
    }
    for question, text in said.items():
        alone = await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=None))
        found = await asked(index, question)
        assert (found.query.text, found.query.reason) == (text, "found as asked")
        assert found.query.vectors == found.query.terms == ((question, 1.0),)
        assert [hit.id for hit in found.hits] == [hit.id for hit in alone.hits]


async def test_a_whole_collection_needs_no_question(data_with_model: Path, corpus: Path) -> None:
    plan = plan_for(data_with_model, model=DEFAULT_MODEL)
    opened = await Index.open(replace(plan, search=replace(plan.search, mode="whole")), serving=False)
    await opened.writing.ingest([corpus], "docs", silent)
    found = await asked(opened, "And in Java?")
    await opened.close()
    assert (found.query.text, found.query.reason) == ("And in Java?", "whole collection")
    assert set(found.timings_ms) <= {"pack"}


async def test_two_questions_in_one_message_are_both_searched_for(index: Index) -> None:
    kotlin, java = "How do I use Zephyr from Kotlin?", "Which driver does Zephyr have for Java?"
    both = await index.search.retrieve(SearchRequest([Turn("user", f"{kotlin} {java}")], ["docs"], k=None))
    assert both.query.parts == (kotlin, java)
    found = {hit.passage.document for hit in both.hits[:4]}
    for question in (kotlin, java):
        one = await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=None))
        assert one.query.parts == ()
        assert one.hits[0].passage.document in found
