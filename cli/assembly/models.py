"""From settings to models: ways to all of them, and calls by commands."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.assembly.stores import accounts, ledger_of
from cli.assembly.targets import targets
from config.sections import Settings
from proxy.asgi import App
from proxy.dialects.target import Lane
from proxy.model_calls import ModelCalls
from proxy.observe.metrics import Metrics
from proxy.upstream.bridges.missing_paths import Bridge
from proxy.upstream.echo import Echo
from proxy.upstream.relay import Relay
from proxy.upstream.routes import Routes, Upstream
from runtime.http_client import Client

if TYPE_CHECKING:
    from proxy.upstream.translated.lane import Translated


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Ways to every configured model, without any middleware."""

    app: Upstream
    client: Client
    translated: "Translated | None"

    async def close(self) -> None:
        self.client.close()
        if self.translated is not None:
            await self.translated.close()


@asynccontextmanager
async def model_calls(settings: Settings) -> AsyncIterator[tuple[ModelCalls, Routes]]:
    """Model calls by a command, and routes for the configured models. Raises SettingsError.

    At the end, their usage is written to the accounts.
    """
    ways, routes = upstreams(settings)
    ledger = ledger_of(settings, accounts(settings), Metrics())
    keeping = asyncio.create_task(ledger.run())
    try:
        yield ModelCalls(ways.app, ledger, settings.usage.record), routes
    finally:
        ledger.stop()
        await keeping
        await ways.close()


def upstreams(settings: Settings, environ: Mapping[str, str] = os.environ) -> tuple[Upstreams, Routes]:
    """Ways to the configured models, and routes for their names. Raises SettingsError."""
    up, rows = settings.upstream, targets(settings, environ)
    client = Client(
        connect_timeout_s=up.connect_timeout_s,
        first_byte_timeout_s=up.first_byte_timeout_s,
        idle_timeout_s=up.idle_timeout_s,
        keepalive_s=up.keepalive_s,
        max_connections=up.max_connections,
    )
    relay = Relay(client)
    lanes: dict[Lane, App] = {"relay": relay, "echo": Echo()}
    bridges: dict[Lane, App] = {"relay": Bridge(relay, relearn_after_s=up.relearn_after_s)}
    translated = None
    if any(row.lane == "translated" for row in rows.values()):
        # Imported on use: it imports httpx and, on first use, litellm (seconds, 170 MB).
        from proxy.upstream.translated.lane import Translated

        translated = Translated(
            connect_timeout_s=up.connect_timeout_s,
            first_byte_timeout_s=up.first_byte_timeout_s,
            idle_timeout_s=up.idle_timeout_s,
        )
        lanes["translated"] = translated
        bridges["translated"] = Bridge(translated, relearn_after_s=up.relearn_after_s, chat_only=True)
    return Upstreams(Upstream(lanes, bridges), client, translated), Routes(rows)
