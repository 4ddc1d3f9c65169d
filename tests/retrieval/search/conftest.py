"""A library for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.retrieval.search.library import Library
from tests.support.minilm import hashing


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Library]:
    opened = Library(tmp_path, hashing())
    yield opened
    await opened.store.close()
    opened.catalog.close()
