"""The OpenAPI document that the gateway serves: valid, and of the routes that there are, with their methods.

That requests and replies are as it says is seen where they are tested: `tests.described`.
"""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate

from proxy.knowledge.api import KnowledgeApi
from proxy.knowledge.description import PATH
from tests.described import described
from tests.gateway import serving
from tests.unasked import Unasked

pytestmark = pytest.mark.models


@pytest.mark.parametrize(("settings", "stores"), [("", True), ("upstream: {paths: {/v1/vector_stores: echo}}", False)])
def test_every_route_is_described_and_every_description_is_a_route(
    tmp_path: Path, models: Path, settings: str, stores: bool
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "models").symlink_to(models)
    with serving(data, tmp_path, f"models: {{echo: {{lane: echo}}}}\n{settings}") as served:
        document = described(httpx.get(served.url + PATH, timeout=30)).json()
        taken = {path: methods_taken(served.url + path) for path in document["paths"]}
    validate(document)
    assert {path: methods_told(item) for path, item in document["paths"].items()} == taken
    assert set(document["paths"]) == paths(stores)
    ids = [item[method]["operationId"] for item in document["paths"].values() for method in methods_told(item)]
    assert len(set(ids)) == len(ids)


def paths(stores: bool) -> set[str]:
    api = KnowledgeApi(Unasked(), enabled=True, collections=[], k=1, deadline_s=1, max_body_bytes=1)
    return {re.sub(r":\w+}", "}", route.path) for route in api.routes(stores=stores)}


def methods_told(item: dict[str, Any]) -> set[str]:
    return set(item) - {"parameters"}


def methods_taken(url: str) -> set[str]:
    """What a path takes, as it says itself to what it does not."""
    refused = httpx.options(url, timeout=30)
    assert refused.status_code == 405, refused.text
    return {method.lower() for method in refused.headers["allow"].split(", ")} - {"head"}
