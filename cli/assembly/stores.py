"""From settings to what is stored: accounts, credentials, usage, receipts, histories, comparisons, writes."""

import os
from collections.abc import Mapping
from pathlib import Path

from config.sections import Settings
from config.settings import MASTER_KEY
from proxy.access.key_credentials import KeyCredentials
from proxy.access.ledger import Ledger
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.agent.writes.pending import PendingStore
from proxy.agent.writes.sealer import Sealer
from proxy.observe.metrics import Metrics
from proxy.observe.shadow.comparison import COMPARISONS
from runtime.record_store import RECEIPTS, RecordStore
from runtime.sealing import MasterKey


def accounts(settings: Settings) -> SqlAccounts:
    """Stored keys, limits and usage."""
    return SqlAccounts(Path(settings.data), settings.catalog.url)


def key_credentials(accounts: SqlAccounts, environ: Mapping[str, str] = os.environ) -> KeyCredentials:
    """Key credentials, sealed by the environment's master key."""
    return KeyCredentials(accounts, MasterKey(environ.get(MASTER_KEY, ""), MASTER_KEY))


def ledger_of(settings: Settings, keys: SqlAccounts, metrics: Metrics) -> Ledger:
    return Ledger(SqlUsageStore(keys, keep_days=settings.usage.keep_days), count=metrics.usage_rows)


def record_store(settings: Settings, kind: str = RECEIPTS) -> RecordStore:
    """Stored receipts, shadow comparisons, or conversation records: histories, rounds, results."""
    if kind == COMPARISONS:
        keep_s, max_mb = settings.bench.keep_days * 86_400.0, settings.bench.max_mb
    else:
        row = settings.receipts if kind == RECEIPTS else settings.history
        keep_s, max_mb = row.keep_hours * 3600, row.max_mb
    return RecordStore(Path(settings.data), settings.catalog.url, keep_s=keep_s, max_bytes=max_mb * 2**20, kind=kind)


def write_store(settings: Settings, environ: Mapping[str, str] = os.environ) -> PendingStore:
    """The writes that wait for a person, and their log; sealed by the master key, if the environment has one."""
    master = MasterKey(environ[MASTER_KEY], MASTER_KEY) if environ.get(MASTER_KEY) else None
    kept = settings.action_calls.log_content
    return PendingStore(Path(settings.data), settings.catalog.url, sealer=Sealer(master), log_content=kept)
