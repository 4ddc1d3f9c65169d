"""APIs as one key calls them: its own credentials and fixed arguments replace configured ones.

A key with own credentials has its own `Api`, with its own digest nonce, OAuth token, masks and connections. The limit
on concurrent calls is shared. Sealed rows are read for each chat, so a changed credential counts from the next chat on.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from proxy.access.call_counts import CallCounts
from proxy.access.key_credentials import CredentialName, KeyCredentials
from proxy.apis.call import Api
from proxy.apis.library import ActionSet
from runtime.sealing import SealingError

log = logging.getLogger("ragway")
_MOST_APIS = 1_000  # kept; an API that is made again has no token and no nonce
_MOST_ADDRESSES = 2  # per set with open connections: a chat may still call at the previous address
_REFUSAL = "Nothing was sent: the gateway has no working credentials for this API at present. The operator must act."

_Place = tuple[str, str]  # set and address
Sealed = Mapping[CredentialName, bytes]
# Set and key credentials by name -> API; None: the key may not call it.
ApiOf = Callable[[ActionSet, Mapping[str, str]], Api | None]


class KeyApis:
    """Action set APIs, for each key."""

    def __init__(self, api_of: ApiOf, credentials: KeyCredentials) -> None:
        self._api_of = api_of
        self._count = CallCounts(credentials.accounts).take
        self._credentials = credentials
        self._apis: OrderedDict[tuple[_Place, object], Api | None] = OrderedDict()  # the most recently used last
        self._connected: dict[_Place, Api] = {}  # the API that holds the connections

    async def of(self, key: str, sets: Sequence[ActionSet]) -> dict[str, Api]:
        """Each set name that a key may call -> its API. key: its id; "": no key. Raises RetrievalError."""
        sealed = await asyncio.to_thread(self._credentials.sealed, key) if key else {}
        found = {}
        for one in sets:
            api = await self._api(one, {place: value for place, value in sealed.items() if place.set == one.name})
            if api is not None:
                found[one.name] = api
        return found

    async def close(self) -> None:
        """Close the connections."""
        for api in (*self._apis.values(), *self._connected.values()):
            if api is not None:
                await api.close()

    async def _api(self, action_set: ActionSet, sealed: Sealed) -> Api | None:
        place = action_set.name, action_set.base_url
        known = place, tuple(sealed.items())
        if known not in self._apis:
            own, refusal = await asyncio.to_thread(self._opened, sealed) if sealed else ({}, "")
            api = self._api_of(action_set, own)
            if api is not None:
                api.refusal = refusal
                api.count = self._count
                api.share(self._connected.setdefault(place, api))
                await self._drop_old_addresses(action_set.name)
            self._apis[known] = api
            if len(self._apis) > _MOST_APIS:
                self._apis.popitem(last=False)
        self._apis.move_to_end(known)
        return self._apis[known]

    async def _drop_old_addresses(self, name: str) -> None:
        """Close a set's connections to all but its newest addresses."""
        for old in [place for place in self._connected if place[0] == name][:-_MOST_ADDRESSES]:
            for known in [known for known in self._apis if known[0] == old]:
                del self._apis[known]
            await self._connected.pop(old).close()

    def _opened(self, sealed: Sealed) -> tuple[dict[str, str], str]:
        """Credentials by name, and why no call can be made. The model's schema needs these names in both cases."""
        try:
            return self._credentials.opened(sealed), ""
        except SealingError as error:
            log.error("no call of an API for a key: %s", error)
            return {place.name: "" for place in sealed}, _REFUSAL
