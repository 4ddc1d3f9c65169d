"""Plans for tests: an index as the default settings make it, on a data folder of the test's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.build import plan
from config.settings import load
from retrieval.knowledge import Plan


def plan_for(data: Path, **changes: Any) -> Plan:
    """The default plan on this data folder, with some fields changed."""
    return replace(plan(load(environ={}, flags={"data": str(data)}), environ={}), **changes)


def silent(_done: int, _total: int, _chunks: int) -> None:
    """A progress callback that shows nothing."""
