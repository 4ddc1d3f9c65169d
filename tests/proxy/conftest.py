"""Accounts in each database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.accounts.sql import SqlAccounts


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog_url(request: pytest.FixtureRequest) -> str:
    """The setting `catalog.url` of each database."""
    url: str = request.getfixturevalue("postgres").database() if request.param == "postgresql" else ""
    return url


@pytest.fixture
def opened(catalog_url: str, tmp_path: Path) -> Iterator[Callable[[], SqlAccounts]]:
    """Opens the same accounts each time."""
    made: list[SqlAccounts] = []

    def another() -> SqlAccounts:
        made.append(SqlAccounts(tmp_path, catalog_url))
        return made[-1]

    yield another
    for accounts in made:
        accounts.close()
