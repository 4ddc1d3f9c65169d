"""Plans for tests: an index with the default settings, but for the embedder, on a data folder of one test."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.assembly.index import plan
from config.settings import load
from retrieval.embedding.hashing import HASH
from retrieval.ingest.splitting import Recipe
from retrieval.knowledge import Plan


def plan_for(data: Path, flags: Mapping[str, Any] | None = None, *, model: str = HASH) -> Plan:
    """The default plan on this data folder, with some settings changed. model: the embedder."""
    flags = {"data": str(data), "embedder.model": model, **(flags or {})}
    return plan(load(environ={}, flags=flags), environ={})


def recipe_for(data: Path, *, model: str = HASH, **ingest: Any) -> Recipe:
    """The default recipe on this data folder, with some settings of `ingest` changed."""
    plan = plan_for(data, model=model)
    return Recipe(replace(plan.ingest, **ingest), plan.embedding, data)


def silent(_done: int, _total: int, _chunks: int, _source: str = "") -> None:
    """A progress callback that shows nothing."""


READING = plan_for(Path("nowhere")).ingest
