"""Settings to the APIs whose operations are called. `cli.build` imports the module where an API is configured."""

import os
from collections.abc import Mapping
from pathlib import Path

import httpx

from cli.build import history_store
from config.settings import ActionsApi, Settings, SettingsError
from proxy.actions.addresses import networks_of
from proxy.actions.call import Api, CallLimits
from proxy.actions.credentials import ApiKey, Bearer, ClientCredentials, Digest
from proxy.actions.library import ActionLibrary
from proxy.actions.memory import ActionMemory
from proxy.actions.offer import ActionLimits, Actions
from proxy.actions.store import ActionSet, ActionStore
from proxy.observe.metrics import Metrics
from retrieval.knowledge import Knowledge


def chat_actions(
    settings: Settings, knowledge: Knowledge, metrics: Metrics, environ: Mapping[str, str] | None = None
) -> Actions:
    """The action sets that chats can use. Raises SettingsError."""
    for name in settings.actions:  # a variable that is not set is an error of the start
        action_api(settings, ActionSet(name, "", "", 0.0, ()), environ)
    row = settings.action_calls
    limits = ActionLimits(
        k=row.k,
        rounds=row.rounds,
        calls=row.calls,
        total_s=row.total_s,
        keepalive_s=row.keepalive_s,
        call=call_limits(settings),
    )
    library = ActionLibrary(ActionStore(Path(settings.data), settings.catalog.url), knowledge)
    offered = {name: api.offer for name, api in settings.actions.items()}
    memory = ActionMemory(history_store(settings, "action_rounds"), metrics.histories)
    return Actions(
        library,
        lambda found: action_api(settings, found, environ),
        offered,
        limits,
        memory if settings.history.keep_hours else None,
    )


def call_limits(settings: Settings) -> CallLimits:
    """The limits of one call of an API."""
    row = settings.action_calls
    return CallLimits(seconds=row.call_s, max_bytes=row.result_max_mb * 2**20, max_chars=row.result_chars)


def action_api(settings: Settings, action_set: ActionSet, environ: Mapping[str, str] | None = None) -> Api:
    """The API of an action set, with the credentials of the environment. Raises SettingsError."""
    environ = os.environ if environ is None else environ
    row = settings.actions.get(action_set.name, ActionsApi())

    def variable(name: str | None) -> str:
        if name and not environ.get(name):
            raise SettingsError(f"actions.{action_set.name}: the environment variable {name} is not set")
        return environ[name] if name else ""

    user, secret = variable(row.user_env), variable(row.secret_env)
    auth: httpx.Auth | None = None
    match row.auth:
        case "api_key":
            auth = ApiKey(secret, row.key_in, row.key_name)
        case "basic":
            auth = httpx.BasicAuth(user, secret)
        case "bearer":
            auth = Bearer(secret)
        case "digest":
            auth = Digest(user, secret)
        case "oauth2":
            auth = ClientCredentials(row.token_url or "", user, secret, row.scope or "")
    fixed = dict(row.fixed or {})
    return Api(
        action_set.name,
        row.base_url or action_set.base_url,
        auth,
        fixed,
        networks_of(row.networks or ()),
        secrets=tuple(text for text in (secret, f"{user}:{secret}" if user else "", *fixed.values()) if text),
        servers=row.servers or (),
    )
