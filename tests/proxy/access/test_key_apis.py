"""The APIs of each key: own credentials and connections, and changes that count at once."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from proxy.access.key_apis import KeyApis
from proxy.access.key_credentials import KeyCredentials
from proxy.access.sql import SqlAccounts
from proxy.apis.call import Api
from proxy.apis.credentials import ApiKey
from proxy.apis.library import ActionSet
from proxy.caller import Rights
from runtime.sealing import MasterKey
from tests.proxy.apis.calling import LOOPBACK, accepts, called, operation
from tests.support.api_server import ApiServer, api_server

MASTER = base64.b64encode(bytes(32)).decode()


class Keys:
    """An API on loopback, and the keys that call the API."""

    def __init__(self, folder: Path, server: ApiServer) -> None:
        self.accounts = SqlAccounts(folder)
        self.server = server
        self.sets = [ActionSet("atlas", "", server.base_url, 0.0, ())]
        self.credentials = self.with_master(MASTER)
        self.apis = KeyApis(self._api_of, self.credentials)

    def with_master(self, text: str) -> KeyCredentials:
        return KeyCredentials(self.accounts, MasterKey(text, "THE_VARIABLE"))

    def _api_of(self, found: ActionSet, own: Mapping[str, str]) -> Api | None:
        if own.get("user") == "nobody":
            return None
        secret = own.get("secret", "of-the-set")
        fixed = {"groupId": own.get("fixed.groupId", "group-of-the-set")}
        auth = ApiKey(f"Bearer {secret}", "header", "authorization")
        return Api(found.name, found.base_url, auth, fixed, LOOPBACK, secrets=(secret, *fixed.values()))

    def key(self, **values: str) -> str:
        key, _ = self.accounts.create("app", Rights(admin=True))
        if values:
            self.credentials.change(key.id, "atlas", {name.replace("_", "."): one for name, one in values.items()})
        return key.id

    async def call(self, key: str) -> httpx.Request:
        """The request that the API gets for a key."""
        api = (await self.apis.of(key, self.sets))["atlas"]
        await called(api, operation("GET", "/things", "groupId"))
        seen = self.server.requests[-1]
        return httpx.Request(seen.method, self.server.base_url + seen.target, headers=seen.headers)


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[Keys]:
    async with api_server(accepts) as server:
        made = Keys(tmp_path, server)
        yield made
        await made.apis.close()


async def test_a_key_calls_with_its_own_secret_arguments_and_connections(keys: Keys) -> None:
    one, two, bare = keys.key(secret="of-one", fixed_groupId="group-one"), keys.key(secret="of-two"), keys.key()
    sent = [await keys.call(key) for key in (one, two, bare, "", one)]
    tokens = [request.headers["authorization"].removeprefix("Bearer ") for request in sent]
    assert tokens == ["of-one", "of-two", "of-the-set", "of-the-set", "of-one"]
    groups = [request.url.params["groupId"] for request in sent]
    assert groups == ["group-one", "group-of-the-set", "group-of-the-set", "group-of-the-set", "group-one"]
    assert keys.server.connections == 3, "one for each set of credentials"
    assert keys.server.requests[0].connection == keys.server.requests[4].connection


async def test_connections_to_old_addresses_of_a_set_are_closed(keys: Keys) -> None:
    async def called_at(path: str) -> Api:
        place = replace(keys.sets[0], base_url=keys.server.base_url + path)
        api = (await keys.apis.of("", [place]))["atlas"]
        assert (await called(api)).succeeded
        return api

    first = await called_at("/1")
    await called_at("/2")
    assert await called_at("/1") is first, "a chat may still call at the earlier address"
    assert not keys.server.left.is_set()
    await called_at("/3")
    await asyncio.wait_for(keys.server.left.wait(), 10)
    assert keys.server.connections == 3
    assert await called_at("/1") is not first


async def test_keys_without_own_credentials_share_an_api_and_each_other_key_has_one(keys: Keys) -> None:
    one, two = keys.key(secret="same"), keys.key(secret="same")
    apis = [(await keys.apis.of(key, keys.sets))["atlas"] for key in (one, one, two, two, keys.key(), "")]
    assert apis[0] is apis[1]
    assert apis[2] is apis[3]
    assert apis[0] is not apis[2], "each key has a nonce and a token of its own"
    assert apis[4] is apis[5]


async def test_a_changed_or_deleted_secret_is_not_used_from_the_next_chat_on(keys: Keys) -> None:
    key = keys.key(secret="before")
    assert (await keys.call(key)).headers["authorization"] == "Bearer before"
    keys.credentials.change(key, "atlas", {"secret": "after"})
    assert (await keys.call(key)).headers["authorization"] == "Bearer after"
    keys.accounts.revoke(key)
    assert (await keys.call(key)).headers["authorization"] == "Bearer of-the-set"


async def test_a_key_that_may_not_call_has_no_api(keys: Keys) -> None:
    assert await keys.apis.of(keys.key(user="nobody"), keys.sets) == {}


@pytest.mark.parametrize("text", ["", "nonsense", base64.b64encode(bytes([1]) * 32).decode()])
async def test_without_the_right_master_key_nothing_is_sent_and_the_log_names_the_variable(
    keys: Keys, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = keys.key(secret="canary-secret", fixed_groupId="canary-group")
    apis = KeyApis(keys._api_of, keys.with_master(text))
    with caplog.at_level(logging.ERROR, "ragway"):
        for _ in range(2):
            api = (await apis.of(key, keys.sets))["atlas"]
    outcome = await called(api, operation("GET", "/things", "groupId"))
    assert (outcome.sent, keys.server.requests) == (False, [])
    assert outcome.text.startswith("Nothing was sent: the gateway has no working credentials")
    assert [row.levelname for row in caplog.records] == ["ERROR"], "once, not for every chat"
    assert "THE_VARIABLE" in caplog.text
    assert "canary" not in caplog.text + outcome.text + repr(api)
    schema = api.schema_of(operation("GET", "/things", "groupId"))
    assert schema["properties"] == {}, "a fixed argument of the key is in no schema"
    await apis.close()
