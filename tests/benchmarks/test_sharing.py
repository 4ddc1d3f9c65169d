"""The sharing benchmark's shelves are what an ingest would have made, and its questions are all different."""

import asyncio
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import sharing
from benchmarks.scale.grown import Bases
from benchmarks.scale.shelves import name_of, shelf
from cli.assembly.index import plan
from config.settings import load
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.search import Turn


@pytest.fixture
def base() -> Bases:
    rows = np.random.default_rng(1).standard_normal((40, 384), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = [f"Sentence {i} says one thing. Another of {i}; and more." for i in range(40)]
    return Bases(texts, rows, ["What is said?", "And what more?"], rows[:2])


async def test_a_shelf_is_an_index_like_any_other(base: Bases, tmp_path: Path, models: Path) -> None:
    data = await asyncio.to_thread(shelf, tmp_path, base, 300, 3, models)
    flags = {"data": str(data), "retrieval.min_relevance": 0.0}
    index = await Index.open(plan(load(environ={}, flags=flags)), serving=False)
    try:
        rows = await index.library.collections()
        assert [(row.name, row.documents, row.chunks) for row in rows] == [(name_of(i), 2, 100) for i in range(3)]
        found = await index.search.retrieve(SearchRequest([Turn("user", "sentence 7")], [name_of(1)], k=5))
        ours = {row.id for row in await index.library.documents(name_of(1), after="", limit=10)}
        assert {hit.passage.document for hit in found.hits} <= ours
        for hit in found.hits:
            whole = await index.library.document(hit.passage.document)
            assert whole.text[hit.passage.start : hit.passage.end] == hit.passage.text
    finally:
        await index.close()


def test_no_question_is_asked_twice(base: Bases) -> None:
    some = list(islice(sharing.asked(base), 500))
    assert len(set(some)) == 500
