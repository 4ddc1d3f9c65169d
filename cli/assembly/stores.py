"""Settings to stored things: accounts, credentials, usage, receipts, histories, comparisons."""

import os
from collections.abc import Mapping
from pathlib import Path

from config.sections import Settings
from config.settings import MASTER_KEY
from proxy.access.key_credentials import KeyCredentials
from proxy.access.ledger import Ledger
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.observe.metrics import Metrics
from proxy.observe.shadow.comparison import COMPARISONS
from runtime.record_store import RecordStore
from runtime.sealing import MasterKey


def accounts(settings: Settings) -> SqlAccounts:
    """The stored keys, limits and usage."""
    return SqlAccounts(Path(settings.data), settings.catalog.url)


def key_credentials(accounts: SqlAccounts, environ: Mapping[str, str] | None = None) -> KeyCredentials:
    """The credentials of keys, sealed by the master key of the environment."""
    environ = os.environ if environ is None else environ
    return KeyCredentials(accounts, MasterKey(environ.get(MASTER_KEY, ""), MASTER_KEY))


def ledger_of(settings: Settings, keys: SqlAccounts, metrics: Metrics) -> Ledger:
    return Ledger(SqlUsageStore(keys, keep_days=settings.usage.keep_days), metrics=metrics)


def receipt_store(settings: Settings) -> RecordStore:
    """The stored receipts."""
    keep_s, max_bytes = settings.receipts.keep_hours * 3600, settings.receipts.max_mb * 2**20
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes)


def history_store(settings: Settings, kind: str) -> RecordStore:
    """The stored records of conversations: histories, or rounds or results of actions."""
    keep_s, max_bytes = settings.history.keep_hours * 3600, settings.history.max_mb * 2**20
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes, kind=kind)


def comparison_store(settings: Settings) -> RecordStore:
    """The stored shadow comparisons."""
    keep_s, max_bytes = settings.bench.keep_days * 86_400.0, settings.bench.max_mb * 2**20
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_bytes, kind=COMPARISONS)
