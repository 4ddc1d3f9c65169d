"""A collection's noise: what questions about anything find there, measured once for its size."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.records.search import ALL, Turn
from retrieval.search.ranking import UNRELATED_QUESTIONS
from retrieval.search.retriever import Retriever
from tests.retrieval.search.library import Library
from tests.support.minilm import hashing

ASKED = len(UNRELATED_QUESTIONS)


class Counting(Library):
    """Counts searches; may fail, or wait before each."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, hashing())
        self.searches, self.pause_s, self.broken = 0, 0.0, False
        search = self.store.search

        async def counted(*given: Any, **named: Any) -> Any:
            self.searches += 1
            await asyncio.sleep(self.pause_s)
            if self.broken:
                raise OSError("the disk is gone")
            return await search(*given, **named)

        self.store.search = counted  # type: ignore[method-assign]


@pytest.fixture
async def library(tmp_path: Path) -> Counting:
    made = Counting(tmp_path)
    await made.put([f"Pump {number} feeds the boiler." for number in range(20)])
    return made


async def searches(library: Counting, retriever: Retriever, question: str = "pump 7", **request: Any) -> int:
    """Ask a question; how many searches it took."""
    before = library.searches
    await retriever.retrieve(SearchRequest([Turn("user", question)], ["docs"], **request))
    return library.searches - before


async def test_it_is_measured_at_the_first_question_and_when_the_size_has_changed(library: Counting) -> None:
    retriever = library.retriever()
    assert await searches(library, retriever) == 1 + ASKED
    assert await searches(library, retriever) == 1
    await library.put(["One more."], key="small")
    retriever.collections_changed("docs")
    assert await searches(library, retriever) == 1
    await library.put(["More.", "And more.", "And again."], key="large")
    retriever.collections_changed("docs")
    assert await searches(library, retriever) == 1 + ASKED
    retriever.collections_changed()
    assert await searches(library, retriever) == 1 + ASKED


async def test_questions_at_once_share_it_and_readers_of_other_groups_do_not(library: Counting) -> None:
    retriever = library.retriever()
    library.pause_s = 0.01
    await asyncio.gather(*(searches(library, retriever) for _ in range(5)))
    assert library.searches == 5 + ASKED
    assert await searches(library, retriever, hit_options=HitOptions(min_relevance=0.5)) == 1
    assert await searches(library, retriever, hit_options=HitOptions(mode="bm25")) == 1 + ASKED
    assert await searches(library, retriever, view=ALL) == 1 + ASKED


async def test_a_chat_that_ran_out_of_time_leaves_it_to_the_next(library: Counting) -> None:
    retriever = library.retriever()
    library.pause_s = 0.02
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(searches(library, retriever), 0.1)
    await searches(library, retriever)
    assert library.searches == 1 + ASKED


async def test_after_a_failure_it_is_measured_again(library: Counting) -> None:
    retriever = library.retriever()
    library.broken = True
    with pytest.raises(OSError, match="disk"):
        await searches(library, retriever)
    library.broken = False
    assert await searches(library, retriever) == 1 + ASKED


async def test_what_is_found_for_anything_is_less_likely_to_be_an_answer(tmp_path: Path) -> None:
    """The same page, once among pumps and once among pages that answer the unrelated questions."""
    relevance = []
    for folder, texts in (("pumps", [f"Pump {n} feeds the boiler." for n in range(16)]), ("all", UNRELATED_QUESTIONS)):
        (tmp_path / folder).mkdir()
        library = Library(tmp_path / folder, hashing())
        await library.put([*texts, "The turbine stands in hall seven."])
        relevance.append((await library.ask("turbine in hall seven")).relevance)
    assert relevance[0] is not None
    assert relevance[1] is not None
    assert relevance[1] < relevance[0]
