"""Action sets without credentials, and an offer without tools, for tests without a gateway."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from config.sections import ActionsApi
from config.settings import load
from proxy.access.key_apis import KeyApis
from proxy.access.key_credentials import KeyCredentials
from proxy.access.sql import SqlAccounts
from proxy.agent.actions import Actions
from proxy.agent.execution import Execution
from proxy.agent.toolbox import ActionLimits, Calling, Toolbox
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api, CallLimits
from proxy.apis.library import ActionLibrary
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.exchange import ActionCall, Exchange
from runtime.sealing import MasterKey

_SETTINGS = load(environ={}).action_calls
_AT_ONCE = CallLimits(pause_s=0)


def action_limits(
    call: CallLimits = _AT_ONCE, *, calls: int = 100, rounds: int = 6, k: int = 6, keepalive_s: float = 5.0
) -> ActionLimits:
    """Limits that a test rarely meets."""
    settings = replace(_SETTINGS, k=k, rounds=rounds, calls=calls, keepalive_s=keepalive_s, result_tokens=sys.maxsize)
    return ActionLimits(settings, call)


def actions_of(
    folder: Path, library: ActionLibrary, configured: Mapping[str, ActionsApi], *, k: int = 6, **limits: Any
) -> Actions:
    """The action sets of a library. limits: other values than the usual values."""
    credentials = KeyCredentials(SqlAccounts(folder), MasterKey("", "NONE"))
    apis = KeyApis(lambda found, _: Api(found.name, found.base_url), credentials)
    return Actions(library, apis, configured, replace(action_limits(k=k), **limits), None, UnsupportedFeatures(60))


async def nothing(_turns: object) -> Sequence[OperationTool]:
    """A search that finds nothing."""
    return []


def empty_toolbox(*taken: str) -> Toolbox:
    """No tools. taken: names of the client's tools."""
    return Toolbox(taken)


def calling(toolbox: Toolbox | None = None, max_chars: int = 1000) -> Calling:
    """A call of a tool in a new chat."""
    limits = action_limits(CallLimits(max_chars=max_chars))
    chat = Execution(toolbox or empty_toolbox(), limits, Exchange(), ()).chat
    return Calling(chat, ActionCall(0.0), chat.budget.share(1, limits.call))
