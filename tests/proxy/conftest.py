"""Accounts in each database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.accounts import SqlAccounts


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], SqlAccounts]]:
    """Opens the same accounts each time."""
    url = request.getfixturevalue("postgres").database() if request.param == "postgresql" else ""
    made: list[SqlAccounts] = []

    def another() -> SqlAccounts:
        made.append(SqlAccounts(tmp_path, url))
        return made[-1]

    yield another
    for accounts in made:
        accounts.close()
