"""A curve without labels: sentences of the documents against unrelated texts, placed by their medians."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import RetrievalError
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.records.search import Turn
from retrieval.search.calibration import (
    LEAST_SENTENCES,
    MOST_SENTENCES,
    UNRELATED,
    Evidence,
    area,
    evidence_of,
    fitted,
    sentences,
)
from retrieval.search.ranking import CURVES, Curve, curves_of
from tests.retrieval.search.library import Library
from tests.support.minilm import hashing

numbers = st.floats(-50, 50)


def chance(curve: Curve, evidence: float) -> float:
    return 1 / (1 + math.exp(-(curve.slope * evidence + curve.offset)))


@given(low=numbers, gap=st.floats(2, 30))
def test_a_curve_follows_its_embedders_units(low: float, gap: float) -> None:
    """The probabilities at the medians do not depend on where the evidence lies, or how far apart."""
    curve, unit = (fitted([Evidence([at + far] * 3, [at] * 3)], CURVES["both"]) for at, far in ((low, gap), (0.0, 5.0)))
    assert chance(curve, low) == pytest.approx(chance(unit, 0.0), abs=0.02)
    assert chance(curve, low + gap) == pytest.approx(chance(unit, 5.0), abs=0.02)
    assert chance(curve, low) < 0.05
    assert chance(curve, low + gap) > 0.95


def test_each_collection_weighs_the_same_and_outliers_do_not() -> None:
    one, other = Evidence([6.0] * 90 + [-9.0] * 10, [0.0]), Evidence([8.0], [2.0, 2.0, 30.0])
    assert fitted([one, other], CURVES["both"]) == fitted([Evidence([7.0], [1.0])], CURVES["both"])


def test_a_question_stays_as_asked_at_the_same_probability() -> None:
    base = CURVES["both"]
    assert chance(fitted([Evidence([20.0], [3.0])], base), fitted([Evidence([20.0], [3.0])], base).sure) == (
        pytest.approx(chance(base, base.sure), abs=0.01)
    )


@given(st.lists(numbers, min_size=1), st.lists(numbers, min_size=1))
def test_the_area_is_that_of_the_other_order_turned_round(some: Sequence[float], others: Sequence[float]) -> None:
    assert area([Evidence(some, others)]) == pytest.approx(1 - area([Evidence(others, some)]))


def test_near_medians_make_no_step() -> None:
    near, apart = (fitted([Evidence([high], [0.0])], CURVES["both"]) for high in (0.6, 2.0))
    assert near == apart


def test_kinds_that_are_alike_give_no_curve() -> None:
    with pytest.raises(RetrievalError, match=r"hardly more than texts about anything \(AUC 0.50\)"):
        fitted([Evidence([1.0, 2.0], [1.0, 2.0])], CURVES["both"])


def test_an_embedder_has_its_measured_curves_or_the_defaults() -> None:
    assert curves_of("any other") is curves_of("all-MiniLM-L6-v2") is CURVES
    measured = curves_of("multilingual")
    assert measured["bm25"] == CURVES["bm25"]
    for arms in ("both", "dense"):
        known, base = measured[arms], CURVES[arms]
        assert known != base
        assert chance(known, known.sure) > 0.9


async def test_a_sentence_is_asked_without_its_own_chunk(tmp_path: Path) -> None:
    library = Library(tmp_path, hashing())
    await library.put([f"The {word} pump feeds the boiler at night." for word in ("red", "blue", "green")])
    await library.put(["A menu"], key="short")
    retriever = library.retriever()
    made = await sentences(library.catalog, library.store, library.collection)
    assert {text for text, _ in made} == {
        f"The {word} pump feeds the boiler at night." for word in ("red", "blue", "green")
    }
    text, id = made[0]
    whole = await retriever.evidence(text, "docs")
    assert await retriever.evidence(text, "docs", without=id) < whole
    asked: list[None] = []
    found = await evidence_of(retriever, "docs", made, lambda: asked.append(None))
    assert (len(found.answered), len(found.unrelated), len(asked)) == (3, len(UNRELATED), 3 + len(UNRELATED))
    assert found.answered[0] < whole


async def test_sentences_are_of_other_chunks_each_and_the_same_each_time(tmp_path: Path) -> None:
    library = Library(tmp_path, hashing())
    draw = random.Random(1)
    for page in range(3):
        lines = [f"Pump {draw.random()} feeds the boiler of house {n}." for n in range(MOST_SENTENCES)]
        await library.put(lines, key=f"page{page}")
    made = await sentences(library.catalog, library.store, library.collection)
    assert LEAST_SENTENCES < len({id for _, id in made}) == len(made) <= MOST_SENTENCES
    assert made == await sentences(library.catalog, library.store, library.collection)
    await library.put(["One line only, without any other."], key="page0")
    assert len({text for text, _ in await sentences(library.catalog, library.store, library.collection)}) > 1


async def test_a_retriever_uses_its_curves_in_every_mode(tmp_path: Path) -> None:
    library = Library(tmp_path, hashing())
    await library.put([f"Pump {n} feeds the boiler." for n in range(20)])
    retriever = library.retriever()
    before = (await library.ask("pump 7 boiler")).relevance
    retriever.use_curves({**CURVES, "both": replace(CURVES["both"], offset=-99.0)})
    for hit_options in (None, HitOptions(), HitOptions(candidates=9)):
        request = SearchRequest([Turn("user", "pump 7 boiler")], ["docs"], hit_options=hit_options)
        found = await retriever.retrieve(request)
        assert found.relevance is not None
        assert before is not None
        assert found.relevance < 1e-9 < before
