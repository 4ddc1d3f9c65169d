"""Settings to objects: the composition root."""

import asyncio
import functools
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.settings import (
    MASTER_KEY,
    PROMPTS,
    SMALL_TALK,
    UTILITY_REQUESTS,
    Model,
    Settings,
    SettingsError,
    check_address,
)
from proxy.access.admin import Admin
from proxy.access.key_credentials import KeyCredentials
from proxy.access.keys import Keyring
from proxy.access.ledger import Ledger
from proxy.access.limits import Limits
from proxy.access.rights import EVERYTHING
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.api.count_tokens import CountTokens
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.knowledge.searches import SearchSettings
from proxy.api.mcp import Mcp
from proxy.api.passthrough import Passthrough
from proxy.api.tools import Tools
from proxy.app import Parts, application
from proxy.asgi import App
from proxy.augment.history import Histories
from proxy.augment.inject import Template, TemplateError
from proxy.augment.middleware import Augment, AugmentOptions, Shadow, already
from proxy.augment.rewrite import Prompt, PromptError, Rewriter
from proxy.augment.small_talk import SmallTalk
from proxy.augment.utility_requests import PromptsError, UtilityPrompts
from proxy.dialects.base import Position
from proxy.dialects.errors import ApiError
from proxy.exchange import Lane, Target
from proxy.model_calls import ModelCalls
from proxy.observe.metrics import Metrics
from proxy.observe.receipts.receipt import Receipts, Versions, sha256_of
from proxy.observe.shadow.comparison import serialize_comparison
from proxy.observe.shadow.middleware import ShadowComparison, ShadowOptions
from proxy.upstream.bridges.bridge import Bridge
from proxy.upstream.bridges.missing_paths import BridgedRelay
from proxy.upstream.client import Client, host_of
from proxy.upstream.echo import Echo
from proxy.upstream.relay import Relay
from proxy.upstream.routes import Routes, Upstream
from retrieval.knowledge import EmbedderOptions, Enrichment, Knowledge, Plan, ReadingLimits, SearchOptions
from runtime.record_store import RecordStore, What
from runtime.sealing import MasterKey
from runtime.write_behind import WriteBehindQueue

if TYPE_CHECKING:
    from proxy.actions.actions import Actions
    from proxy.upstream.translated.lane import Translated

OPENAI_BASE_URL = "https://api.openai.com/v1"
# litellm's prefixes of providers with another dialect than OpenAI's: `auto` translates their models.
_FOREIGN = (
    "anthropic", "azure", "azure_ai", "bedrock", "cohere", "cohere_chat", "gemini", "replicate", "sagemaker",
    "vertex_ai", "watsonx",
)  # fmt: skip


# Beginnings of the variables in which litellm finds a provider's key, where they differ from the provider's name; and
# providers whose credentials are more than a key.
_KEY_FAMILIES = {"cohere": ("CO", "COHERE"), "cohere_chat": ("CO", "COHERE"), "gemini": ("GEMINI", "GOOGLE")}
_WITHOUT_ONE_KEY = ("bedrock", "sagemaker", "vertex_ai", "watsonx")


@dataclass(frozen=True, slots=True)
class Gateway:
    """The application, with the parts to start before and to close after."""

    app: App
    client: Client
    translated: "Translated | None"  # None: no model needs litellm
    routes: Routes
    keyring: Keyring
    mcp: Mcp
    ledger: Ledger
    receipts: Receipts
    histories: Histories
    shadow: ShadowComparison
    actions: "Actions | None"  # None: no API is configured


@dataclass(frozen=True, slots=True)
class Upstreams:
    """The way to every configured model, without any middleware."""

    app: Upstream
    client: Client
    translated: "Translated | None"

    async def close(self) -> None:
        self.client.close()
        if self.translated is not None:
            await self.translated.close()


@asynccontextmanager
async def model_calls(settings: Settings) -> AsyncIterator[tuple[ModelCalls, Routes]]:
    """Model calls of a command line, and the routes of the configured models. Raises SettingsError.

    At the end the usage of the calls is written to the accounts.
    """
    ways, routes = upstreams(settings)
    ledger = _ledger(settings, accounts(settings), Metrics())
    keeping = asyncio.create_task(ledger.run())
    try:
        yield ModelCalls(ways.app, ledger, settings.usage.record), routes
    finally:
        ledger.stop()
        await keeping
        await ways.close()


def upstreams(settings: Settings, environ: Mapping[str, str] | None = None) -> tuple[Upstreams, Routes]:
    """The ways to the configured models, and the routes of the models' names. Raises SettingsError."""
    up, rows = settings.upstream, targets(settings, os.environ if environ is None else environ)
    client = Client(
        connect_timeout_s=up.connect_timeout_s,
        first_byte_timeout_s=up.first_byte_timeout_s,
        idle_timeout_s=up.idle_timeout_s,
        keepalive_s=up.keepalive_s,
        max_connections=up.max_connections,
    )
    relay = Relay(client)
    lanes: dict[Lane, App] = {"relay": relay, "echo": Echo()}
    bridges: dict[Lane, App] = {"relay": BridgedRelay(relay, relearn_after_s=up.relearn_after_s)}
    translated = None
    if any(row.lane == "translated" for row in rows.values()):
        # Imported on use: the module imports httpx and, on first use, litellm (seconds, 170 MB).
        from proxy.upstream.translated.lane import Translated

        translated = Translated(
            connect_timeout_s=up.connect_timeout_s,
            first_byte_timeout_s=up.first_byte_timeout_s,
            idle_timeout_s=up.idle_timeout_s,
        )
        lanes["translated"], bridges["translated"] = translated, Bridge(translated, relearn_after_s=up.relearn_after_s)
    return Upstreams(Upstream(lanes, bridges), client, translated), Routes(rows)


def gateway(
    settings: Settings,
    knowledge: Knowledge,
    *,
    ready: Callable[[], str],
    warnings: Callable[[], Sequence[str]] = tuple,
    begun: Callable[[], Awaitable[None]] = already,
    metrics: Metrics | None = None,
    environ: Mapping[str, str] | None = None,
) -> Gateway:
    """The gateway for these settings.

    begun: awaited before a search. metrics: shared with other workers.

    Raises SettingsError; RetrievalError where the keys cannot be read.
    """
    up, bench = settings.upstream, settings.bench
    ways, routes = upstreams(settings, environ)
    metrics, keys = metrics or metrics_of(settings, environ), accounts(settings)
    keyring = Keyring(keys, required=settings.auth.required)
    ledger = _ledger(settings, keys, metrics)
    receipts = Receipts(receipt_store(settings), versions(settings), metrics)
    histories = Histories(history_store(settings), metrics.histories)
    shadow = _shadow(settings, ways.app, ledger, metrics, environ)
    actions, sets = None, None
    if settings.actions and settings.retrieval.enabled:
        from cli.apis import action_sets, chat_actions  # 25 MB and 0.3 s, for a gateway with APIs alone

        actions = chat_actions(settings, knowledge, metrics, environ)
        sets = action_sets(settings, actions)

    def forget(key: str, id: str) -> None:
        histories.forget(key, id)
        if actions is not None:
            actions.forget(key, id)

    translated = ways.translated
    max_body_bytes = settings.server.max_body_mb * 2**20
    mcp = Mcp(
        Tools(knowledge, collections=settings.retrieval.collections, k=settings.retrieval.k),
        enabled=settings.retrieval.enabled,
        deadline_s=settings.retrieval.deadline_s,
        max_body_bytes=max_body_bytes,
    )
    options = AugmentOptions(
        enabled=settings.retrieval.enabled,
        collections=settings.retrieval.collections,
        deadline_s=settings.retrieval.deadline_s,
        require_context=settings.retrieval.require_context,
        max_body_bytes=max_body_bytes,
        utility_prompts=utility_prompts(settings),
        small_talk=SmallTalk.read(SMALL_TALK) if settings.retrieval.skip_housekeeping else SmallTalk(),
        budget_tokens=settings.inject.budget_tokens,
        window_share=settings.inject.window_share,
        order=settings.inject.order,
        receipts=receipts if settings.receipts.keep_hours else None,
        histories=histories if settings.history.keep_hours else None,
        shadow=Shadow(shadow, bench.shadow) if bench.shadow > 0 or bench.compare != "off" else None,
        action_sets=actions is not None,
        actions=actions,
        begun=begun,
    )
    augment = functools.partial(
        Augment,
        ways.app,
        knowledge=knowledge,
        resolve=routes.resolve,
        template=template(settings),
        translated_window=translated.window_tokens if translated is not None else None,
        rewriter=rewriter(settings, ModelCalls(ways.app, ledger, settings.usage.record), routes),
    )
    count_enabled = settings.retrieval.enabled and settings.inject.augment_count
    count_options = replace(options, enabled=count_enabled, receipts=None, shadow=None, actions=None)
    parts = Parts(
        chat=augment(options=options),
        count=CountTokens(augment(options=count_options), with_passages=settings.inject.augment_count),
        knowledge=KnowledgeApi(
            knowledge,
            enabled=settings.retrieval.enabled,
            searches=SearchSettings(
                settings.retrieval.collections, settings.retrieval.k, bool(settings.retrieval.rerank_model)
            ),
            deadline_s=settings.retrieval.deadline_s,
            max_body_bytes=max_body_bytes,
            uploads=UploadOptions(
                Path(settings.data), settings.ingest.max_file_mb * 2**20, settings.server.max_upload_mb * 2**20
            ),
            receipts=receipts,
        ),
        check_sets=None if actions is None else actions.sets_of,
        mcp=mcp,
        admin=Admin(keys, keyring, key_credentials(keys, environ), max_body_bytes=max_body_bytes),
        passthrough=Passthrough(
            ways.app,
            routes=routes,
            paths=up.paths,
            max_body_bytes=max_body_bytes,
            action_sets=actions is not None,
            forget=forget if settings.history.keep_hours else None,
        ),
        upstream=ways.app,
        routes=routes,
        ready=lambda: ready() or _unusable(keyring.trouble or ledger.trouble),
        warnings=lambda: [*warnings(), *(one.trouble for one in (receipts, histories) if one.trouble)],
        begun=begun,
        metrics=metrics,
        keyring=keyring,
        ledger=ledger,
        record=settings.usage.record,
        open=settings.auth.open,
        cors_origins=settings.server.cors_origins,
        any_type_paths=tuple(up.paths),
        actions=sets,
    )
    return Gateway(
        application(parts), ways.client, translated, routes, keyring, mcp, ledger, receipts, histories, shadow, actions
    )


def _unusable(trouble: str) -> str:
    return trouble and f"the accounts cannot be used: {trouble}"


def metrics_of(
    settings: Settings, environ: Mapping[str, str] | None = None, folder: Path | None = None, worker: int = 0
) -> Metrics:
    """The counters. folder, worker: as in `Metrics`."""
    upstreams = _upstreams_of(targets(settings, os.environ if environ is None else environ))
    return Metrics(folder, worker, sets=tuple(settings.actions), upstreams=upstreams, data=Path(settings.data))


def _ledger(settings: Settings, keys: SqlAccounts, metrics: Metrics) -> Ledger:
    return Ledger(SqlUsageStore(keys, keep_days=settings.usage.keep_days), metrics=metrics)


def _shadow(
    settings: Settings, upstream: App, ledger: Ledger, metrics: Metrics, environ: Mapping[str, str] | None
) -> ShadowComparison:
    """The shadow comparison, which also deletes old comparisons where no new comparisons are made."""
    bench = settings.bench
    # Connections of their own: a chat never waits for a connection that a comparison uses.
    ways, _ = upstreams(replace(settings, upstream=replace(settings.upstream, max_connections=bench.at_once)), environ)
    limits = Limits(tokens_per_day=bench.tokens_per_day, usd_per_day=bench.usd_per_day)
    return ShadowComparison(
        upstream,
        ModelCalls(ways.app, ledger, settings.usage.record),
        ways.close,
        WriteBehindQueue(comparison_store(settings), serialize_comparison, metrics.comparisons),
        metrics,
        ShadowOptions(bench.compare, limits, bench.at_once),
    )


def comparison_store(settings: Settings) -> RecordStore:
    """The stored shadow comparisons."""
    keep_s, max_bytes = settings.bench.keep_days * 86_400.0, settings.bench.max_mb * 2**20
    return RecordStore(
        Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes, what="comparisons"
    )


def accounts(settings: Settings) -> SqlAccounts:
    """The stored keys, limits and usage."""
    return SqlAccounts(Path(settings.data), settings.catalog.url)


def key_credentials(accounts: SqlAccounts, environ: Mapping[str, str] | None = None) -> KeyCredentials:
    """The credentials of keys, sealed by the master key of the environment."""
    environ = os.environ if environ is None else environ
    return KeyCredentials(accounts, MasterKey(environ.get(MASTER_KEY, ""), MASTER_KEY))


def receipt_store(settings: Settings) -> RecordStore:
    """The stored receipts."""
    keep_s, max_bytes = settings.receipts.keep_hours * 3600, settings.receipts.max_mb * 2**20
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes)


def history_store(settings: Settings, what: What = "histories") -> RecordStore:
    """The stored histories of conversations, or the stored rounds or results of actions."""
    keep_s, max_bytes = settings.history.keep_hours * 3600, settings.history.max_mb * 2**20
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes, what=what)


# The settings in a receipt: those that decide about the passages, without paths, names and addresses.
_RECEIPT_SETTINGS = {
    "retrieval": (
        "mode", "lexical", "rewrite", "candidates", "rrf_k", "min_relevance", "k", "rerank_candidates",
        "recency_half_life_days", "merge_neighbours", "neighbours", "whole_document_tokens",
    ),
    "inject": ("budget_tokens", "window_share", "order"),
}  # fmt: skip


def versions(settings: Settings) -> Versions:
    """The versions of all parts that decide about the injected text. Raises SettingsError."""
    values: dict[str, Any] = {
        f"{section}.{name}": getattr(getattr(settings, section), name)
        for section, names in _RECEIPT_SETTINGS.items()
        for name in names
    }
    values["retrieval.rerank_model"] = Path(settings.retrieval.rerank_model).name
    if settings.retrieval.rewrite == "llm":
        values["retrieval.rewrite_model"] = settings.retrieval.rewrite_model
        values["retrieval.rewrite_prompt"] = sha256_of(rewrite_prompt(settings).text)
    return Versions(version("ragway"), sha256_of(template(settings).text), settings.inject.order, values)


def template(settings: Settings) -> Template:
    """The text around the passages. Raises SettingsError."""
    file = Path(settings.inject.template) if settings.inject.template else PROMPTS / "answer.txt"
    try:
        return Template.read(file)
    except TemplateError as error:
        raise SettingsError(f"inject.template: {error}") from error


def utility_prompts(settings: Settings) -> UtilityPrompts:
    """The prompts of chat programs' utility requests. Raises SettingsError."""
    if not settings.retrieval.skip_housekeeping:
        return UtilityPrompts()
    own = settings.retrieval.utility_requests
    try:
        return UtilityPrompts.read(UTILITY_REQUESTS, *([Path(own)] if own else []))
    except PromptsError as error:
        raise SettingsError(f"retrieval.utility_requests: {error}") from error


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


def rewriter(settings: Settings, models: ModelCalls, routes: Routes) -> Rewriter | None:
    """The rewriter of questions; None: no model rewrites. Raises SettingsError."""
    retrieval = settings.retrieval
    if retrieval.rewrite != "llm" or not retrieval.enabled:
        return None
    if not retrieval.rewrite_model:
        raise SettingsError("retrieval.rewrite is llm: name one of `models` in retrieval.rewrite_model")
    if retrieval.rewrite_deadline_s >= retrieval.deadline_s:
        raise SettingsError(
            f"retrieval.rewrite_deadline_s must be below retrieval.deadline_s ({retrieval.deadline_s:g}), "
            f"got {retrieval.rewrite_deadline_s:g}"
        )
    try:
        target = routes.resolve(retrieval.rewrite_model, EVERYTHING)
    except ApiError as error:
        raise SettingsError(f"retrieval.rewrite_model: {error}") from error
    if target.lane == "echo":
        raise SettingsError(
            f"retrieval.rewrite_model: {retrieval.rewrite_model!r} is the built-in echo, which rewrites nothing: "
            "name another of `models`"
        )
    return Rewriter(
        models,
        retrieval.rewrite_model,
        target,
        rewrite_prompt(settings),
        retrieval.rewrite_deadline_s,
        retrieval.deadline_s,
    )


def rewrite_prompt(settings: Settings) -> Prompt:
    """Raises SettingsError."""
    name = settings.retrieval.rewrite_prompt
    try:
        return Prompt.read(Path(name) if name else PROMPTS / "rewrite.txt")
    except PromptError as error:
        raise SettingsError(f"retrieval.rewrite_prompt: {error}") from error


def targets(settings: Settings, environ: Mapping[str, str]) -> dict[str, Target]:
    """Every row of `models`, resolved; without rows: OpenAI by the usual variables, else echo."""
    base, key = environ.get("OPENAI_BASE_URL", ""), environ.get("OPENAI_API_KEY", "")
    if not settings.models:
        if base or key:
            passed = settings.auth.pass_client_key and not key
            base = _openai_base(environ)
            return {"*": Target("", "relay", base, key, passed, settings.inject.position, row="*")}
        return {"*": Target("", "echo", "", "", position=settings.inject.position, row="*")}
    passing = settings.auth.pass_client_key
    rows = {name: _target(name, row, environ, settings.inject.position) for name, row in settings.models.items()}
    return {name: replace(row, key_of_client=passing and _keyless(name, row, environ)) for name, row in rows.items()}


def _keyless(name: str, row: Target, environ: Mapping[str, str]) -> bool:
    """Whether the upstream of a row takes a key, and the gateway has no key."""
    if row.api_key or row.lane == "echo":
        return False
    if row.lane == "relay" or row.api_base:
        return True
    # litellm would take the key of the provider's usual variable, e.g. ANTHROPIC_API_KEY.
    provider, slash, _ = (row.model or name).partition("/")
    families = _KEY_FAMILIES.get(provider, (provider.upper() if slash else "OPENAI",))
    usual = re.compile(rf"({'|'.join(map(re.escape, families))})_(.*_)?(KEY|TOKEN)")
    return provider not in _WITHOUT_ONE_KEY and not any(value and usual.fullmatch(v) for v, value in environ.items())


def _openai_base(environ: Mapping[str, str]) -> str:
    base = environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL
    check_address(base, "OPENAI_BASE_URL")
    return base.rstrip("/")


def _target(name: str, row: Model, environ: Mapping[str, str], position: Position) -> Target:
    model = row.model or ""
    lane = _lane(name, row, environ)
    base = (row.api_base or "").rstrip("/")
    key_env = row.api_key_env
    if lane == "relay" and not base:
        base = _openai_base(environ)
        key_env = key_env or ("OPENAI_API_KEY" if environ.get("OPENAI_API_KEY") else None)
        if not model and not name.endswith("*"):
            model = name
        model = model.removeprefix("openai/")
    if key_env and not environ.get(key_env):
        raise SettingsError(f"models.{name}.api_key_env names the environment variable {key_env}, which is not set")
    if lane == "translated" and "?" in base:
        raise SettingsError(
            f"models.{name}.api_base has a query, which the translated lane cannot keep: leave it out (litellm takes "
            "Azure's version from AZURE_API_VERSION), or use lane: relay"
        )
    key = environ[key_env] if key_env else ""
    return Target(
        model,
        lane,
        base,
        key,
        position=row.position or position,
        window_tokens=row.window_tokens or 0,
        dialects=row.dialects,
        tools=row.tools,
        row=name,
    )


def _upstreams_of(targets: Mapping[str, Target]) -> dict[str, str]:
    """The upstream of each row, for the metrics: the host, or litellm's name of the provider."""
    return {name: _upstream_of(target) for name, target in targets.items() if target.lane != "echo"}


def _upstream_of(target: Target) -> str:
    return host_of(target.api_base) if target.api_base else target.model.partition("/")[0]


def _lane(name: str, row: Model, environ: Mapping[str, str]) -> Lane:
    """The lane of `auto`: relay for an OpenAI-dialect address, translated for another provider."""
    if row.lane != "auto":
        return row.lane
    provider, slash, _ = (row.model or name).partition("/")
    if not slash or provider == "openai":
        return "relay"
    addressed = row.api_base or environ.get("OPENAI_BASE_URL")
    return "translated" if provider in _FOREIGN or not addressed else "relay"


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
