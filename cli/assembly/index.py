"""Settings to the index: what the index process is told."""

import os
from collections.abc import Mapping
from pathlib import Path

from config.settings import PROMPTS, Settings, SettingsError, check_address
from retrieval.knowledge import EmbedderOptions, Enrichment, Plan, ReadingLimits, SearchOptions


def reading_limits(settings: Settings) -> ReadingLimits:
    """The limits for reading one document."""
    row = settings.ingest
    return ReadingLimits(row.max_read_s, row.max_read_mb, row.max_chunks)


def plan(settings: Settings, environ: Mapping[str, str] | None = None) -> Plan:
    """The settings of the index, as plain values."""
    environ = os.environ if environ is None else environ
    retrieval, qdrant = settings.retrieval, settings.qdrant
    return Plan(
        data=str(Path(settings.data).absolute()),
        catalog_url=settings.catalog.url,
        model=settings.embedder.model,
        backend=settings.embedder.backend,
        threads=settings.embedder.threads,
        chunk_tokens=settings.ingest.chunk_tokens,
        overlap_tokens=settings.ingest.overlap_tokens,
        chunking=settings.ingest.chunking,
        neighbour_weight=settings.ingest.neighbour_weight,
        max_file_bytes=settings.ingest.max_file_mb * 2**20,
        follow_links=settings.ingest.follow_links,
        reading=reading_limits(settings),
        language=settings.ingest.language,
        languages=settings.ingest.languages,
        enrichments=enrichments(settings),
        context_tokens=settings.ingest.context_tokens,
        qdrant_urls=qdrant.url,
        qdrant_api_key=environ.get(qdrant.api_key_env, ""),
        qdrant_ca_file=qdrant.ca_file,
        qdrant_collection=qdrant.collection,
        qdrant_timeout_s=qdrant.timeout_s,
        qdrant_shards=qdrant.shards,
        qdrant_replicas=qdrant.replicas,
        qdrant_quantisation=qdrant.quantisation,
        lexical=retrieval.lexical,
        search=SearchOptions(
            rewrite=retrieval.rewrite != "off",
            candidates=retrieval.candidates,
            rrf_k=retrieval.rrf_k,
            min_relevance=retrieval.min_relevance,
            k=retrieval.k,
            budget_tokens=settings.inject.budget_tokens,
            mode=retrieval.mode,
            rerank_model=retrieval.rerank_model,
            rerank_candidates=retrieval.rerank_candidates,
            rerank_deadline_s=retrieval.rerank_deadline_s,
            recency_half_life_days=retrieval.recency_half_life_days,
            merge_neighbours=retrieval.merge_neighbours,
            neighbours=retrieval.neighbours,
            whole_document_tokens=retrieval.whole_document_tokens,
        ),
        embedding=_embedding(settings, environ),
    )


def enrichments(settings: Settings) -> tuple[Enrichment, ...]:
    """The texts that a model writes for each chunk, with the prompts. Raises SettingsError."""
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
    return EmbedderOptions(
        precision=embedder.precision,
        query_prompt=embedder.query_prompt,
        document_prompt=embedder.document_prompt,
        api_base=embedder.api_base.rstrip("/"),
        api_key=environ.get(embedder.api_key_env, ""),
        dimensions=embedder.dimensions,
        batch_texts=embedder.batch_texts,
        timeout_s=embedder.timeout_s,
        retries=embedder.retries,
    )
