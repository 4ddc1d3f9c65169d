"""A library for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retrieval.embedding.export import open_embedder
from tests.retrieval.search.library import Library


@pytest.fixture
async def library(tiny_model: Path, tmp_path: Path) -> AsyncIterator[Library]:
    embedder = open_embedder(str(tiny_model), backend="auto", threads=1, cache=tiny_model.parent / "models")
    opened = Library(tmp_path, embedder)
    yield opened
    await opened.store.close()
    opened.catalog.close()
