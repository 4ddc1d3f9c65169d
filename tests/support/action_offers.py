"""Action sets without credentials, and an offer without tools, for tests without a gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proxy.access.key_apis import KeyApis
from proxy.access.key_credentials import KeyCredentials
from proxy.access.sql import SqlAccounts
from proxy.agent.action_trace import ActionCall
from proxy.agent.actions import Actions
from proxy.agent.execution import Execution
from proxy.agent.toolbox import ActionLimits, Calling, Toolbox
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api, CallLimits
from proxy.apis.library import ActionLibrary
from proxy.dialects.unsupported_features import UnsupportedFeatures
from proxy.exchange import Exchange
from runtime.sealing import MasterKey

_LIMITS = ActionLimits(k=6, rounds=6, calls=12, total_s=60, keepalive_s=5, call=CallLimits())


def actions_of(folder: Path, library: ActionLibrary, configured: Mapping[str, bool], **limits: Any) -> Actions:
    """The action sets of a library. limits: other values than the usual values."""
    credentials = KeyCredentials(SqlAccounts(folder), MasterKey("", "NONE"))
    apis = KeyApis(lambda found, _: Api(found.name, found.base_url), credentials)
    return Actions(library, apis, configured, replace(_LIMITS, **limits), None, UnsupportedFeatures(60))


async def nothing(_turns: object) -> Sequence[OperationTool]:
    """A search that finds nothing."""
    return []


def empty_toolbox(*taken: str) -> Toolbox:
    """No tools. taken: names of the client's tools."""
    return Toolbox(taken)


def calling(toolbox: Toolbox | None = None, max_chars: int = 1000) -> Calling:
    """A call of a tool in a new chat."""
    limits = replace(_LIMITS, call=CallLimits(max_chars=max_chars))
    chat = Execution(toolbox or empty_toolbox(), limits, Exchange(), ()).chat
    return Calling(chat, ActionCall(0.0), chat.budget.share(1, limits.call))
