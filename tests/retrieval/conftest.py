"""Catalogs in SQLite and in PostgreSQL: the same promises hold for both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.catalog import Catalog


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where an SQLite catalog may be made."""
    return tmp_path / "catalog.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def reopened(request: pytest.FixtureRequest, file: Path) -> Callable[[], Catalog]:
    """Opens the same catalog each time."""
    if request.param == "sqlite":
        return lambda: Catalog.open(file)
    url = request.getfixturevalue("postgres").database()
    return lambda: Catalog.connect(url)
