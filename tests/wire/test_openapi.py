"""The OpenAPI document that the gateway serves: valid, and of the routes that there are, with their methods.

That requests and replies are as it says is seen where they are tested: `tests.support.described`.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from openapi_spec_validator import validate

from config.sections import ActionsApi
from config.settings import load
from proxy.access.key_credentials import KeyCredentials
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from proxy.agent.actions import Actions
from proxy.agent.writes.approving import Approvals
from proxy.api.admin import Admin
from proxy.api.knowledge.access import ACTIONS
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.knowledge.description import PATH
from proxy.api.knowledge.forms import UploadOptions
from proxy.caller import EVERYTHING
from runtime.sealing import MasterKey
from tests.support.described import described
from tests.support.gateway import serving
from tests.support.unasked import Unasked, no_receipts

pytestmark = pytest.mark.models


# With an API configured; without; with an API, and a part of the paths relayed.
RELAYED = [frozenset(), frozenset({ACTIONS}), frozenset({"/v1/vector_stores", "/v1/files", "/v1/usage"})]


@pytest.mark.parametrize("relayed", RELAYED)
def test_every_route_is_described_and_every_description_is_a_route(tmp_path: Path, relayed: frozenset[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    everything = SqlAccounts(data).create("root", EVERYTHING)[1]
    to_echo = json.dumps(dict.fromkeys(sorted(relayed - {ACTIONS}), "echo"))
    apis = "{}" if ACTIONS in relayed else "{shop: {base_url: 'https://shop.example', writes: confirm}}"
    tables = "{shop: {url: 'sqlite:///shop.db'}}"
    settings = f"models: {{echo: {{lane: echo}}}}\nactions: {apis}\ntables: {tables}\nupstream: {{paths: {to_echo}}}"
    with serving(data, tmp_path, settings) as served:
        client = httpx.Client(base_url=served.url, headers={"authorization": f"Bearer {everything}"}, timeout=30)
        with client:
            document = described(client.get(PATH)).json()
            taken = {path: methods_taken(client, path) for path in document["paths"]}
    validate(document)
    assert {path: methods_told(item) for path, item in document["paths"].items()} == taken
    assert set(document["paths"]) == paths(relayed)
    ids = [item[method]["operationId"] for item in document["paths"].values() for method in methods_told(item)]
    assert len(set(ids)) == len(ids)


def paths(relayed: frozenset[str]) -> set[str]:
    uploads = UploadOptions(Path("nowhere"), 1, 1)
    api = KnowledgeApi(
        Unasked(),
        load(environ={}).retrieval,
        max_body_bytes=1,
        uploads=uploads,
        receipts=no_receipts(),
        actions=cast(Actions, SimpleNamespace(library=None, tables=SimpleNamespace(queries=None))),
        sets={} if ACTIONS in relayed else {"shop": ActionsApi()},
        approvals=cast(Approvals, SimpleNamespace()),
    )
    accounts = SqlAccounts(Path("nowhere"))
    credentials = KeyCredentials(accounts, MasterKey("", "NONE"))
    admin = Admin(accounts, Keyring(accounts, required=False), credentials, max_body_bytes=1)
    routes = [*api.routes(relayed=relayed), *admin.routes(usage="/v1/usage" not in relayed)]
    return {re.sub(r":\w+}", "}", route.path) for route in routes}


def methods_told(item: dict[str, Any]) -> set[str]:
    return set(item) - {"parameters"}


def methods_taken(client: httpx.Client, path: str) -> set[str]:
    """What a path takes, as it says itself to what it does not."""
    refused = client.options(path)
    assert refused.status_code == 405, refused.text
    return {method.lower() for method in refused.headers["allow"].split(", ")} - {"head"}
