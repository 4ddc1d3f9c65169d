"""From settings to what models may call: operations of APIs, and tools. `gateway` imports this if there is any."""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from cli.assembly.stores import record_store, write_store
from cli.assembly.tables import table_offers
from cli.assembly.tools import chat_tools
from cli.common import knowledge as opened_knowledge
from config.sections import ActionsApi, Settings
from config.settings import SettingsError
from proxy.access.call_counts import CallCounts
from proxy.access.key_apis import KeyApis
from proxy.access.key_credentials import FIXED, KeyCredentials
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from proxy.agent.actions import Actions
from proxy.agent.conversation import HiddenRounds
from proxy.agent.toolbox import ActionLimits
from proxy.agent.tools.result_store import StoredResults
from proxy.agent.writes.approving import Approvals
from proxy.agent.writes.confirming import Writes
from proxy.apis.addresses import why_refused
from proxy.apis.call import Api, CallLimits, ToolServer, arguments_named
from proxy.apis.credentials import ApiKey, ClientCredentials, Digest
from proxy.apis.library import ActionLibrary, ActionSet, ActionStore
from proxy.apis.mcp.server import McpServer
from proxy.apis.openapi.operation import CallPolicy, Operation
from proxy.apis.specs import SpecReader
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.observe.metrics import Metrics
from retrieval.knowledge import Knowledge
from runtime.public_addresses import networks_of

_NAMING = ("only", "never", "reads", "confirm", "auto", "four_eyes", "calls_per_hour")  # settings that name operations
_SEARCH_SHARE = 0.7  # of the time for an offer: a slow search still leaves the conversation's operations
_WITH_USER = ("basic", "digest", "oauth2")
_SHORTEST_MASKED_USER = 8  # characters: many results contain shorter users, like admin


def chat_actions(
    settings: Settings,
    knowledge: Knowledge,
    credentials: KeyCredentials,
    metrics: Metrics | None,
    environ: Mapping[str, str],
) -> Actions:
    """Action sets that chats can use. metrics: None: no conversation is kept. Raises SettingsError."""
    for name in settings.actions:  # a missing variable must fail at the start
        action_api(settings, ActionSet(name, "", "", 0.0, ()), environ)
    row, tools = settings.action_calls, chat_tools(settings.tools)
    limits = ActionLimits(
        row,
        call=call_limits(settings),
        search_s=settings.retrieval.deadline_s * _SEARCH_SHARE,
        private=_private_sets(settings),
        public=frozenset(name for name, api in settings.actions.items() if api.public),
        total_bytes=row.total_max_mb * 2**20,
        tools=tools,
        always=[tool.name for tool, offer in zip(tools, settings.tools.values(), strict=True) if offer == "always"],
    )
    library = ActionLibrary(action_store(settings), knowledge, SpecReader(settings.ingest))
    memory, results = None, None
    if metrics is not None and settings.history.keep_hours:
        memory = HiddenRounds(record_store(settings, HiddenRounds.KIND), metrics.histories)
        results = StoredResults(record_store(settings, StoredResults.KIND), metrics.histories)
    return Actions(
        library,
        KeyApis(lambda found, own: action_api(settings, found, environ, own), credentials),
        settings.actions,
        limits,
        memory,
        UnsupportedFeatures(settings.upstream.relearn_after_s),
        results,
        writes_of(settings, environ, library.store),
        table_offers(settings, knowledge, environ),
    )


def approvals(actions: Actions, keyring: Keyring, keys: SqlAccounts) -> Approvals | None:
    """How a person answers without a code line; None: no API has calls that a person confirms.

    From then on `actions` counts the calls of a key that change something.
    """
    if actions.writes is None:
        return None
    counts = CallCounts(keys)
    actions.writes.over_changes = lambda key: counts.over_changes(key, keyring.limits_of(key))
    return Approvals(actions.writes, actions.library, actions.apis, keyring.rights_of)


def _private_sets(settings: Settings) -> frozenset[str]:
    return frozenset(name for name, api in settings.actions.items() if api.private)


def writes_of(settings: Settings, environ: Mapping[str, str], actions: ActionStore) -> Writes | None:
    """The calls that change something; None: no set allows such calls."""
    if all(api.writes == "refuse" for api in settings.actions.values()):
        return None
    row = settings.action_calls
    limits = call_limits(settings)
    store = write_store(settings, environ)
    return Writes(store, limits, row.confirm_s, row.again_s, row.calls, actions.found, _private_sets(settings))


@contextlib.asynccontextmanager
async def action_library(settings: Settings, *, make: bool = False) -> AsyncIterator[ActionLibrary]:
    """Action sets and documents, through a running `serve` or opened by this process.

    make: create a missing data folder.
    """
    with contextlib.closing(action_store(settings)) as store:
        async with opened_knowledge(settings, make=make) as documents:
            yield ActionLibrary(store, documents, SpecReader(settings.ingest))


def action_store(settings: Settings) -> ActionStore:
    """Where operations are defined."""
    return ActionStore(Path(settings.data), settings.catalog.url)


def call_limits(settings: Settings) -> CallLimits:
    """Limits for one API call."""
    row = settings.action_calls
    return CallLimits(seconds=row.call_s, max_bytes=row.result_max_mb * 2**20, max_chars=row.result_chars)


def action_api(
    settings: Settings,
    action_set: ActionSet,
    environ: Mapping[str, str],
    own: Mapping[str, str] | None = None,
) -> Api | None:
    """An action set's API, with a key's credentials, else the environment's. Raises SettingsError.

    own: the key's credentials, by name. Returns None if only keys with their own secret may call it.
    """
    own = own or {}
    row = settings.actions.get(action_set.name, ActionsApi())

    def variable(name: str | None) -> str:
        if name and not environ.get(name):
            raise SettingsError(f"actions.{action_set.name}: the environment variable {name} is not set")
        if name and not environ[name].isprintable():
            raise SettingsError(
                f"actions.{action_set.name}: the environment variable {name} has a line break or another character "
                "that cannot be printed, perhaps at the end: set the variable without this character"
            )
        return environ[name] if name else ""

    env = {name: variable(name) for name in row.env or ()}
    user = own["user"] if "user" in own else variable(row.user_env)
    if row.secret_per_key and ("secret" not in own or (row.auth in _WITH_USER and "user" not in own and not user)):
        return None
    secret = own["secret"] if "secret" in own else variable(row.secret_env)
    of_key = {name.removeprefix(FIXED): text for name, text in own.items() if name.startswith(FIXED)}
    fixed = {**(row.fixed or {}), **of_key}
    long_user = user if len(user) >= _SHORTEST_MASKED_USER else ""
    query = urlsplit(_address(row, action_set)).query
    in_address = (value for name, value in parse_qsl(query) if name != "api-version")
    masked = (secret, long_user, f"{user}:{secret}" if user else "", *fixed.values(), *in_address)
    return replace(
        _api_without_secrets(settings, action_set),
        auth=_auth_of(row, user, secret),
        fixed=fixed,
        secrets=tuple(text for text in (*masked, *env.values()) if text),
        tools=_tools_of(settings, row, env),
    )


async def refused_address(settings: Settings, action_set: ActionSet) -> str:
    """Why a set's API is not called, judged by its address; "": it is called."""
    row = settings.actions.get(action_set.name, ActionsApi())
    base_url = _address(row, action_set)
    if not base_url.startswith("http"):  # not known yet, or a command
        return ""
    return await why_refused(base_url, networks_of(row.networks or ()), api=action_set.name)


def arguments_of(settings: Settings, action_set: ActionSet, operation: Operation) -> dict[str, Any]:
    """The schema of arguments that `ragway actions run` takes."""
    return _api_without_secrets(settings, action_set).schema_of(operation)


def why_not_called(settings: Settings, action_set: ActionSet, operation: Operation) -> str:
    """Why no chat is offered an operation; "": chats are."""
    words = {
        "": "",
        "not_granted": "",
        "could_change": "could change something",
        "not_allowed": f"by actions.{action_set.name}.only or .never",
        "other_server": f"{operation.server.partition('?')[0]} is not in actions.{action_set.name}.servers",
    }
    return words[_api_without_secrets(settings, action_set).why_not_called(operation)]


def _api_without_secrets(settings: Settings, action_set: ActionSet) -> Api:
    row = settings.actions.get(action_set.name, ActionsApi())
    return Api(
        action_set.name,
        _address(row, action_set),
        _auth_of(row, "", ""),
        row.fixed or {},
        networks_of(row.networks or ()),
        servers=row.servers or (),
        only=row.only,
        never=row.never or (),
        ask=row.ask or (),
        policy=_policy(row),
        tools=_tools_of(settings, row, {}),
    )


def _tools_of(settings: Settings, row: ActionsApi, env: Mapping[str, str]) -> ToolServer | None:
    if row.mcp is None:
        return None
    return McpServer(row.mcp if isinstance(row.mcp, tuple) else (), env, call_limits(settings))


@contextlib.asynccontextmanager
async def mcp_server(settings: Settings, name: str, environ: Mapping[str, str]) -> AsyncIterator[tuple[McpServer, Api]]:
    """The server of `actions.NAME.mcp`, to list its tools. Raises SettingsError."""
    row = settings.actions[name]
    own = {"secret": environ.get(row.secret_env or "", ""), "user": environ.get(row.user_env or "", "")}
    api = action_api(settings, ActionSet(name, "", "", 0.0, ()), environ, own if row.secret_per_key else None)
    assert api is not None, "the secret is given"
    assert isinstance(api.tools, McpServer)
    try:
        yield api.tools, api
    finally:
        await api.close()


def mcp_address(settings: Settings, name: str) -> str:
    """The address of a set's MCP server as sets store it, without a query; "": the set has none."""
    row = settings.actions.get(name, ActionsApi())
    return _address(row, ActionSet(name, "", "", 0.0, ())).partition("?")[0] if row.mcp is not None else ""


def policy_of(settings: Settings, name: str) -> CallPolicy:
    """How a set's operations are called."""
    return _policy(settings.actions.get(name, ActionsApi()))


def _policy(row: ActionsApi) -> CallPolicy:
    return CallPolicy(
        row.writes,
        reads=row.reads or (),
        confirm=row.confirm or (),
        auto=row.auto or (),
        four_eyes=row.four_eyes or (),
        idempotency_header=row.idempotency_header or "",
        allowed=row.allowed or {},
        calls_per_hour=row.calls_per_hour or {},
        trust_hints=row.trust_hints,
    )


def unknown_names(store: ActionStore, name: str, row: ActionsApi) -> list[tuple[str, str]]:
    """Settings with each name that no operation in the set has. Raises RetrievalError."""
    if not any(getattr(row, setting) for setting in _NAMING):
        return []
    operations = store.operations(name)
    known = {one for each in operations for one in each.names}
    named = [(setting, one) for setting in _NAMING for one in getattr(row, setting) or ()]
    return [(setting, one) for setting, one in named if operations and one not in known]


def unknown_arguments(store: ActionStore, name: str, named: Collection[str]) -> list[str]:
    """Arguments in a setting that no operation in a set has: the model would then give the one that was meant.

    None for a set without operations. Raises RetrievalError.
    """
    operations = store.operations(name) if named else []
    return [
        one
        for one in named
        if operations
        and not any(arguments_named(each, one) or arguments_named(each, one.partition(".")[0]) for each in operations)
    ]


def _address(row: ActionsApi, action_set: ActionSet) -> str:
    """An API's address: from the settings, else as stored."""
    if row.mcp is not None:
        return row.mcp if isinstance(row.mcp, str) else f"stdio://{action_set.name}"
    return row.base_url or action_set.base_url


def _auth_of(row: ActionsApi, user: str, secret: str) -> httpx.Auth | None:
    match row.auth:
        case "api_key":
            return ApiKey(secret, row.key_in, row.key_name)
        case "basic":
            return httpx.BasicAuth(user, secret)
        case "bearer":
            return ApiKey(f"Bearer {secret}", "header", "authorization")
        case "digest":
            return Digest(user, secret)
        case "oauth2":
            return ClientCredentials(row.token_url or "", user, secret, row.scope or "")
        case "none":
            return None
