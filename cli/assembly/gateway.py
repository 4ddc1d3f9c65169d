"""From settings to the gateway: all parts together."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.assembly.chats import augment, rewriter, shadow_comparison, template, versions
from cli.assembly.models import Upstreams, upstreams
from cli.assembly.stores import accounts, key_credentials, ledger_of, record_store
from cli.assembly.targets import targets, upstream_names
from config.sections import Settings
from proxy.access.key_credentials import KeyCredentials
from proxy.access.keys import Keyring
from proxy.access.ledger import Ledger
from proxy.access.sql import SqlAccounts
from proxy.api.admin import Admin
from proxy.api.count_tokens import CountTokens
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.mcp import Mcp
from proxy.api.passthrough import Passthrough
from proxy.app import Parts, application
from proxy.asgi import App
from proxy.augment.history import Histories
from proxy.augment.middleware import Augment, Passages, already
from proxy.augment.rewrite import Rewriter
from proxy.model_calls import ModelCalls
from proxy.observe.metrics import Metrics
from proxy.observe.receipts.receipt import Receipts
from proxy.observe.shadow.middleware import ShadowComparison
from proxy.upstream.routes import Routes
from retrieval.knowledge import Knowledge
from runtime.write_behind import WriteBehindQueue

if TYPE_CHECKING:
    from proxy.agent.actions import Actions
    from proxy.agent.writes.approving import Approvals
    from proxy.api.action_tools import ActionTools
    from proxy.api.table_tools import TableTools


@dataclass(frozen=True, slots=True)
class Gateway:
    """The application, with parts to start before it and close after it."""

    app: App
    ways: Upstreams
    keyring: Keyring
    mcp: Mcp
    ledger: Ledger
    receipts: Receipts
    histories: Histories
    shadow: ShadowComparison
    actions: "Actions | None"  # None: neither APIs nor databases nor tools are configured
    chat: Augment  # the route for chats

    @property
    def writers(self) -> Sequence[Ledger | WriteBehindQueue[Any]]:
        """What runs from `run` to `stop`."""
        return [self.ledger, self.receipts, self.histories, self.shadow.keeper]


def gateway(
    settings: Settings,
    knowledge: Knowledge,
    *,
    ready: Callable[[], str],
    warnings: Callable[[], Sequence[str]] = tuple,
    begun: Callable[[], Awaitable[None]] = already,
    metrics: Metrics | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Gateway:
    """The gateway for these settings.

    begun: awaited before a search. metrics: shared with other workers.
    Raises SettingsError; RetrievalError if keys cannot be read.
    """
    ways, routes = upstreams(settings, environ)
    metrics, keys = metrics or metrics_of(settings, environ), accounts(settings)
    keyring, ledger = Keyring(keys, required=settings.auth.required), ledger_of(settings, keys, metrics)
    receipts = Receipts(record_store(settings), versions(settings), metrics.receipts)
    histories = Histories(record_store(settings, Histories.KIND), metrics.histories)
    shadow = shadow_comparison(settings, ledger, metrics, environ)
    credentials = key_credentials(keys, environ)
    actions = _actions(settings, knowledge, credentials, metrics, environ)
    approvals = _approvals(actions, keyring, keys)
    most_bytes, tools = settings.server.max_body_bytes, _action_tools(actions, approvals)
    mcp = Mcp(knowledge, settings.retrieval, max_body_bytes=most_bytes, actions=tools, tables=_table_tools(actions))
    models = ModelCalls(ways.app, ledger, settings.usage.record)
    passages = _passages(settings, knowledge, ways, rewriter(settings, models, routes), begun)
    chat = augment(settings, ways, routes, passages, receipts, histories, shadow)
    if actions is not None:
        from proxy.answer.offers import Offers  # as in `_actions`

        offers = Offers(ways.app, actions, passages)
        chat = replace(chat, action_sets=True, confirms=actions.writes is not None, offered=offers.call_of)
    parts = Parts(
        chat=chat,
        count=_count(chat, with_passages=settings.inject.augment_count),
        knowledge=_knowledge_api(settings, knowledge, receipts, actions, approvals),
        mcp=mcp,
        admin=Admin(keys, keyring, credentials, max_body_bytes=settings.server.max_body_bytes),
        passthrough=_passthrough(settings, ways.app, routes, histories, actions),
        upstream=ways.app,
        routes=routes,
        ready=lambda: ready() or _unusable(keyring.trouble or ledger.trouble),
        warnings=lambda: [*warnings(), *(one.trouble for one in (receipts, histories) if one.trouble)],
        begun=begun,
        metrics=metrics,
        keyring=keyring,
        ledger=ledger,
        settings=settings,
        actions=actions,
    )
    return Gateway(application(parts), ways, keyring, mcp, ledger, receipts, histories, shadow, actions, chat)


def _passages(
    settings: Settings,
    knowledge: Knowledge,
    ways: Upstreams,
    rewriter: Rewriter | None,
    begun: Callable[[], Awaitable[None]],
) -> Passages:
    """Finds passages for chats. Raises SettingsError."""
    return Passages(
        knowledge,
        template(settings),
        settings.retrieval,
        settings.inject,
        rewriter,
        None if ways.translated is None else ways.translated.window_tokens,
        traced=settings.receipts.keep_hours > 0,
        begun=begun,
    )


def _actions(
    settings: Settings, knowledge: Knowledge, credentials: KeyCredentials, metrics: Metrics, environ: Mapping[str, str]
) -> "Actions | None":
    """What chats may call; None: neither APIs nor databases nor tools are configured. Raises SettingsError."""
    if not (settings.actions or settings.tables or settings.tools) or not settings.retrieval.enabled:
        return None
    from cli.assembly.apis import chat_actions  # 25 MB and 0.3 s, only for gateways with APIs or tools

    return chat_actions(settings, knowledge, credentials, metrics, environ)


def _approvals(actions: "Actions | None", keyring: Keyring, keys: SqlAccounts) -> "Approvals | None":
    """How applications answer a confirmation; None: no API has calls that a person confirms."""
    if actions is None:
        return None
    from cli.assembly.apis import approvals  # as in `_actions`

    return approvals(actions, keyring, keys)


def _action_tools(actions: "Actions | None", approvals: "Approvals | None") -> "ActionTools | None":
    """The tools of MCP that call operations; None: no API has calls that a person confirms."""
    if actions is None or approvals is None:
        return None
    from proxy.api.action_tools import ActionTools  # as in `_actions`

    return ActionTools(actions, approvals)


def _table_tools(actions: "Actions | None") -> "TableTools | None":
    """The tools of MCP that query databases; None: no database is configured."""
    if actions is None or actions.tables is None:
        return None
    from proxy.api.table_tools import TableTools  # as in `_actions`

    return TableTools(actions.tables.queries)


def _count(chat: Augment, *, with_passages: bool) -> CountTokens:
    """The route that counts tokens, as for a chat without actions and without a receipt."""
    retrieval = chat.passages.retrieval
    retrieval = replace(retrieval, enabled=retrieval.enabled and with_passages)
    passages = replace(chat.passages, retrieval=retrieval, traced=False)
    prepared = replace(chat, passages=passages, keep_receipt=None, compared=None, offered=None)
    return CountTokens(prepared, with_passages=with_passages)


def _knowledge_api(
    settings: Settings,
    knowledge: Knowledge,
    receipts: Receipts,
    actions: "Actions | None",
    approvals: "Approvals | None",
) -> KnowledgeApi:
    return KnowledgeApi(
        knowledge,
        settings.retrieval,
        max_body_bytes=settings.server.max_body_bytes,
        uploads=UploadOptions(
            Path(settings.data), settings.ingest.max_file_mb * 2**20, settings.server.max_upload_mb * 2**20
        ),
        receipts=receipts,
        actions=actions,
        sets=settings.actions,
        approvals=approvals,
    )


def _passthrough(
    settings: Settings, upstream: App, routes: Routes, histories: Histories, actions: "Actions | None"
) -> Passthrough:
    def forget(key: str, id: str) -> None:
        histories.forget(key, id)
        if actions is not None:
            actions.forget(key, id)

    return Passthrough(
        upstream,
        routes=routes,
        paths=settings.upstream.paths,
        max_body_bytes=settings.server.max_body_bytes,
        action_sets=actions is not None,
        forget=forget if settings.history.keep_hours else None,
    )


def _unusable(trouble: str) -> str:
    return trouble and f"the accounts cannot be used: {trouble}"


def metrics_of(
    settings: Settings, environ: Mapping[str, str] = os.environ, folder: Path | None = None, worker: int = 0
) -> Metrics:
    """The counters. folder, worker: as in `Metrics`."""
    upstreams = upstream_names(targets(settings, environ))
    return Metrics(folder, worker, sets=tuple(settings.actions), upstreams=upstreams, data=Path(settings.data))
