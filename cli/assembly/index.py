"""From settings to the index: what its process is told."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from config.sections import Settings
from config.settings import PROMPTS, SettingsError, check_address
from proxy.server.index_process import IndexProcess
from retrieval.knowledge import EmbedderOptions, Enrichment, Plan, SearchOptions


def index_process(settings: Settings) -> IndexProcess:
    """The index process, not started yet."""
    return IndexProcess(plan(settings), start_s=settings.retrieval.start_s, hang_s=settings.retrieval.hang_s)


def plan(settings: Settings, environ: Mapping[str, str] = os.environ) -> Plan:
    """Settings for the index."""
    return Plan(
        data=str(Path(settings.data).absolute()),
        catalog_url=settings.catalog.url,
        ingest=settings.ingest,
        max_file_bytes=settings.ingest.max_file_mb * 2**20,
        qdrant=settings.qdrant,
        qdrant_api_key=environ.get(settings.qdrant.api_key_env, ""),
        enrichments=enrichments(settings),
        search=SearchOptions(**asdict(settings.retrieval), budget_tokens=settings.inject.budget_tokens),
        embedding=_embedding(settings, environ),
    )


def enrichments(settings: Settings) -> tuple[Enrichment, ...]:
    """Texts that a model writes for each chunk, with their prompts. Raises SettingsError."""
    folder = Path(settings.ingest.context_prompts) if settings.ingest.context_prompts else PROMPTS
    found = []
    for kind in dict.fromkeys(settings.ingest.context):
        file = folder / f"{kind}.txt"
        try:
            prompt = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise SettingsError(f"ingest.context_prompts: cannot read {file}: {error}") from error
        if "{passage}" not in prompt:
            raise SettingsError(f"ingest.context_prompts: {file} must have {{passage}} where the chunk belongs")
        found.append(Enrichment(kind, settings.ingest.context_model, prompt))
    return tuple(found)


def _embedding(settings: Settings, environ: Mapping[str, str]) -> EmbedderOptions:
    """How to run the embedder. Raises SettingsError."""
    embedder = settings.embedder
    check_address(embedder.api_base or None, "embedder.api_base")
    if embedder.api_key_env and not environ.get(embedder.api_key_env):
        raise SettingsError(
            f"embedder.api_key_env names the environment variable {embedder.api_key_env}, which is not set"
        )
    api_key = environ.get(embedder.api_key_env, "")
    return EmbedderOptions(**{**asdict(embedder), "api_base": embedder.api_base.rstrip("/")}, api_key=api_key)
