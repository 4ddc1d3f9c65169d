"""Documents that commands read."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def documents(learned: Callable[[], Path]) -> Path:
    """A data folder that holds the corpus; read only."""
    return learned()
