"""Action sets without credentials, and an offer without tools, for tests without a gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proxy.access.key_apis import KeyApis
from proxy.access.key_credentials import KeyCredentials
from proxy.access.sql import SqlAccounts
from proxy.actions.actions import ActionLimits, Actions
from proxy.actions.offer import Offer, OfferedOperation
from proxy.apis.call import Api, CallLimits
from proxy.apis.library import ActionLibrary
from proxy.upstream.bridges.lacking import Lacking
from runtime.sealing import MasterKey

_LIMITS = ActionLimits(k=6, rounds=6, calls=12, total_s=60, keepalive_s=5, call=CallLimits())


def actions_of(folder: Path, library: ActionLibrary, configured: Mapping[str, bool], **limits: Any) -> Actions:
    """The action sets of a library. limits: other values than the usual values."""
    credentials = KeyCredentials(SqlAccounts(folder), MasterKey("", "NONE"))
    apis = KeyApis(lambda found, _: Api(found.name, found.base_url), credentials)
    return Actions(library, apis, configured, replace(_LIMITS, **limits), None, Lacking(60))


def empty_offer(*taken: str) -> Offer:
    """An offer whose search finds nothing. taken: names of the client's tools."""

    async def nothing(_turns: object) -> Sequence[OfferedOperation]:
        return []

    return Offer(nothing, taken)
