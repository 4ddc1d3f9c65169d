"""Vectors that lean on their neighbours: the arithmetic for any vectors, and what an ingest writes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from retrieval.embedding.embed import Matrix
from retrieval.index.index import Index
from retrieval.ingest.smoothing import smoothed
from retrieval.records.points import Vector
from retrieval.stores.edge import EdgeStore
from tests.support.plans import plan_for, silent


def units(rows: NDArray[np.floating]) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


numbers = st.floats(-1, 1, width=32)
matrices = st.integers(2, 9).flatmap(lambda n: arrays(np.float32, (n, 4), elements=numbers))
vectors = matrices.map(lambda rows: units(rows + 1.1))  # never of length 0


@given(vectors, st.floats(0, 1))
def test_each_is_of_unit_length_and_nearer_to_its_neighbours_than_before(rows: Matrix, weight: float) -> None:
    found = smoothed(rows, weight)
    assert found.shape == rows.shape
    assert found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    if len(rows) == 2:  # of three, the third may pull the other way
        assert np.sum(found[0] * rows[1]) >= np.sum(rows[0] * rows[1]) - 1e-5


@given(vectors, st.floats(0, 1))
def test_the_order_of_a_document_turned_round_changes_nothing(rows: Matrix, weight: float) -> None:
    assert np.allclose(smoothed(rows[::-1], weight)[::-1], smoothed(rows, weight), atol=1e-6)


@given(vectors)
def test_without_weight_all_stay_as_they_are(rows: Matrix) -> None:
    assert np.allclose(smoothed(rows, 0.0), rows, atol=1e-6)


def test_a_neighbour_counts_by_its_cosine_and_the_one_behind_it_half() -> None:
    a, b, c = units(np.array([[1, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6]], np.float32))
    first = a + 0.5 * 0.6 * b + 0.25 * 0.8 * c
    assert np.allclose(smoothed(np.stack([a, b, c]), 0.5)[0], first / np.linalg.norm(first), atol=1e-6)


def test_what_is_unrelated_or_three_chunks_away_does_not_count() -> None:
    rows = np.eye(4, dtype=np.float32)
    assert np.array_equal(smoothed(rows, 1.0), rows)
    alike = np.stack([rows[0], rows[1], rows[2], rows[0]])
    assert np.array_equal(smoothed(alike, 1.0), alike)
    opposed = np.stack([rows[0], -rows[0]])
    assert np.array_equal(smoothed(opposed, 1.0), opposed)


@pytest.mark.parametrize("name", ["pets.txt", "pets.csv"])
async def test_an_ingest_leans_within_documents_but_not_in_tables(data: Path, tmp_path: Path, name: str) -> None:
    folder, source = tmp_path / "folder", f"folder/{name}"
    folder.mkdir()
    lines = [f"The {animal} eats grass on the meadow. " * 2 for animal in ("cow", "horse", "sheep", "goat")]
    (folder / name).write_text("\n".join(["animals", *lines]))
    (folder / "cars.txt").write_text("Cars stand in the garage and need oil.")
    own, leaning = [await vectors_of(data, folder, weight) for weight in (0.0, 0.5)]
    assert len(own[source]) > 2
    due = own[source] if name.endswith("csv") else smoothed(own[source], 0.5)
    assert np.allclose(leaning[source], due, atol=1e-5)
    assert np.allclose(own["folder/cars.txt"], leaning["folder/cars.txt"], atol=1e-6)


async def vectors_of(data: Path, folder: Path, weight: float) -> dict[str, Matrix]:
    """Source -> the vectors of its chunks in order, as an ingest with this weight has written them."""
    name = f"by-{weight}"
    flags = {"ingest.chunk_tokens": 32, "ingest.context_tokens": 16, "ingest.neighbour_weight": weight}
    index = await Index.open(plan_for(data, flags), serving=False)
    await index.writing.ingest([folder], name, silent)
    await index.close()
    store = EdgeStore.open(data / "index" / "hash-256", vectors={"dense": 256})
    passages = sorted(await store.passages(f"{name}@1"), key=lambda found: found[1].ordinal)
    vectors = await store.vectors([id for id, _ in passages])
    await store.close()
    found: dict[str, list[Vector]] = {}
    for id, passage in passages:
        found.setdefault(passage.source, []).append(vectors[id])
    return {source: np.stack(rows) for source, rows in found.items()}
