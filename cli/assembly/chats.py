"""From settings to chats that get passages: texts around passages, rewriting, shadow comparisons."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cli.assembly.models import Upstreams, upstreams
from cli.assembly.stores import record_store
from config.sections import Settings
from config.settings import PROMPTS, SMALL_TALK, UTILITY_REQUESTS, SettingsError
from proxy.access.ledger import Ledger
from proxy.augment.history import Histories
from proxy.augment.middleware import Augment, Passages
from proxy.augment.rewrite import Prompt, Rewriter
from proxy.augment.skipped import PromptsError, SmallTalk, UtilityPrompts
from proxy.caller import EVERYTHING
from proxy.dialects.errors import ApiError
from proxy.dialects.quoting import Template, TemplateError
from proxy.model_calls import ModelCalls
from proxy.observe.metrics import Metrics
from proxy.observe.receipts.receipt import Receipts, Versions, sha256_of
from proxy.observe.shadow.comparison import COMPARISONS, serialize_comparison
from proxy.observe.shadow.middleware import ShadowComparison
from proxy.upstream.routes import Routes
from runtime.write_behind import WriteBehindQueue

# Settings in a receipt: those that decide about passages, without paths, names and addresses.
_RECEIPT_SETTINGS = {
    "retrieval": (
        "mode", "lexical", "rewrite", "candidates", "rrf_k", "min_relevance", "k", "rerank_candidates",
        "recency_half_life_days", "merge_neighbours", "neighbours", "whole_document_tokens",
    ),
    "inject": ("budget_tokens", "window_share", "order"),
}  # fmt: skip


def versions(settings: Settings) -> Versions:
    """Versions of everything that decides about the injected text. Raises SettingsError."""
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


def augment(
    settings: Settings,
    ways: Upstreams,
    routes: Routes,
    passages: Passages,
    receipts: Receipts,
    histories: Histories,
    shadow: ShadowComparison,
) -> Augment:
    """The route for chats that get passages, without actions. Raises SettingsError."""
    bench = settings.bench
    return Augment(
        upstream=ways.app,
        resolve=routes.resolve,
        passages=passages,
        max_body_bytes=settings.server.max_body_bytes,
        utility_prompts=utility_prompts(settings),
        small_talk=SmallTalk.read(SMALL_TALK) if settings.retrieval.skip_housekeeping else SmallTalk(),
        keep_receipt=receipts.keep if settings.receipts.keep_hours else None,
        histories=histories if settings.history.keep_hours else None,
        draws=bench.shadow > 0,
        compared=shadow.middleware if bench.shadow > 0 or bench.compare != "off" else None,
    )


def template(settings: Settings) -> Template:
    """The text around passages. Raises SettingsError."""
    file = Path(settings.inject.template) if settings.inject.template else PROMPTS / "answer.txt"
    with _setting("inject.template"):
        return Template.read(file)


def utility_prompts(settings: Settings) -> UtilityPrompts:
    """Prompts of chat programs' utility requests. Raises SettingsError."""
    if not settings.retrieval.skip_housekeeping:
        return UtilityPrompts()
    own = settings.retrieval.utility_requests
    with _setting("retrieval.utility_requests"):
        return UtilityPrompts.read(UTILITY_REQUESTS, *([Path(own)] if own else []))


def rewriter(settings: Settings, models: ModelCalls, routes: Routes) -> Rewriter | None:
    """Rewrites questions; None: no model does. Raises SettingsError."""
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
    with _setting("retrieval.rewrite_model"):
        target = routes.resolve(retrieval.rewrite_model, EVERYTHING)
    if target.lane == "echo":
        raise SettingsError(
            f"retrieval.rewrite_model: {retrieval.rewrite_model!r} is the built-in echo, which rewrites nothing: "
            "name another of `models`"
        )
    return Rewriter(models, target, rewrite_prompt(settings), retrieval)


def rewrite_prompt(settings: Settings) -> Prompt:
    """Raises SettingsError."""
    name = settings.retrieval.rewrite_prompt
    with _setting("retrieval.rewrite_prompt"):
        return Prompt.read(Path(name) if name else PROMPTS / "rewrite.txt")


@contextlib.contextmanager
def _setting(name: str) -> Iterator[None]:
    """Name the setting that caused an error. Raises SettingsError."""
    try:
        yield
    except (TemplateError, PromptsError, ApiError) as error:
        raise SettingsError(f"{name}: {error}") from error


def shadow_comparison(
    settings: Settings, ledger: Ledger, metrics: Metrics, environ: Mapping[str, str]
) -> ShadowComparison:
    """The shadow comparison, which deletes old comparisons even if no new ones are made."""
    bench = settings.bench
    # It has its own connections: no chat waits for one that a comparison uses.
    ways, _ = upstreams(replace(settings, upstream=replace(settings.upstream, max_connections=bench.at_once)), environ)
    return ShadowComparison(
        ModelCalls(ways.app, ledger, settings.usage.record),
        ways.close,
        WriteBehindQueue(record_store(settings, COMPARISONS), serialize_comparison, metrics.comparisons),
        metrics,
        bench,
    )
