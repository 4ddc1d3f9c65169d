"""Filters over the wire: in every way there is to search and to list, and never past a caller's rights."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.shelves import Shelves, made, serving_shelves

DOCUMENTS: list[dict[str, Any]] = [
    {
        "key": "hr/pay.md",
        "attributes": {"team": "hr", "year": 2024, "tags": ["pay", "inner"], "issued": "2024-05-01"},
    },
    {"key": "hr/leave.md", "attributes": {"team": "hr", "year": 2021, "tags": ["leave"], "issued": "2021-01-31"}},
    {"key": "hr-old.md", "attributes": {"team": "hr", "year": 1999, "open": False}},
    {"key": "legal.md", "attributes": {"team": "legal", "year": 2024, "open": True}},
    {"key": "plain.md"},
    {"key": "hr/secret.md", "attributes": {"team": "hr", "year": 2024, "tags": ["pay"]}, "groups": ["hr"]},
]
NEW = {"type": "gte", "key": "year", "value": 2022}
PLAIN = {"type": "eq", "key": "source", "value": "plain.md"}
ASKED = [
    ({"type": "eq", "key": "team", "value": "hr"}, "hr/pay.md hr/leave.md hr-old.md"),
    ({"type": "ne", "key": "team", "value": "hr"}, "legal.md plain.md"),
    ({"type": "in", "key": "tags", "value": ["leave", "pay"]}, "hr/pay.md hr/leave.md"),
    ({"type": "and", "filters": [{"type": "eq", "key": "tags", "value": t} for t in ("pay", "inner")]}, "hr/pay.md"),
    (NEW, "hr/pay.md legal.md"),
    ({"type": "not", "filter": NEW}, "hr/leave.md hr-old.md plain.md"),
    ({"type": "lt", "key": "issued", "value": "2024-01-01T00:00:00Z"}, "hr/leave.md"),
    ({"type": "eq", "key": "open", "value": True}, "legal.md"),
    ({"type": "prefix", "key": "source", "value": "hr"}, "hr/pay.md hr/leave.md"),
    ({"type": "or", "filters": [PLAIN, NEW]}, "hr/pay.md legal.md plain.md"),
    ({"type": "lt", "key": "modified_at", "value": "1980-01-01"}, ""),
    ({"type": "eq", "key": "groups ", "value": "hr"}, None),
    ({"type": "eq", "key": "groups", "value": "hr"}, None),
    ({"must": [{"key": "tenant", "match": {"value": "blue@1"}}]}, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    with serving_shelves(tmp_path_factory.mktemp("filters")) as served:
        made(served, "red")
        texts = [{**one, "text": f"# Oskar\n\nThe pump of {one['key']} is called Oskar."} for one in DOCUMENTS]
        placed = served.call("POST", "collections/red/documents", {"documents": texts}).json()["data"]
        assert {one["status"] for one in placed} == {"created"}
        yield served


@pytest.mark.models
@pytest.mark.parametrize(("asked", "keys"), ASKED)
def test_a_filter_narrows_searches_and_lists(shelves: Shelves, asked: dict[str, Any], keys: str | None) -> None:
    body = {"query": "What is the pump called?", "collections": ["red"], "k": 50, "filter": asked}
    list_path = "collections/red/documents"
    if keys is None:
        for refused in (
            shelves.call("POST", "search", body, key="reader"),
            shelves.call("GET", list_path, key="reader", params={"filter": json.dumps(asked)}),
        ):
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "filter"), refused.text
        return
    wanted = set(keys.split())
    for mode in ("hybrid", "dense", "bm25"):
        found = shelves.call("POST", "search", {**body, "mode": mode}, key="reader").json()["data"]
        assert {row["source"] for row in found} == wanted, mode
    rows = shelves.call("GET", list_path, key="reader", params={"filter": json.dumps(asked)}).json()
    assert {row["source"] for row in rows["data"]} == wanted
    assert not rows["has_more"]


@pytest.mark.models
def test_a_filter_is_no_way_around_groups(shelves: Shelves) -> None:
    body = {"query": "pump", "collections": ["red"], "filter": {"type": "eq", "key": "tags", "value": "pay"}, "k": 50}
    seen = {
        key: {row["source"] for row in shelves.call("POST", "search", body, key=key).json()["data"]}
        for key in ("reader", "writer")
    }
    assert seen == {"reader": {"hr/pay.md"}, "writer": {"hr/pay.md", "hr/secret.md"}}


@pytest.mark.models
def test_a_filtered_list_goes_on_where_it_ended(shelves: Shelves) -> None:
    asked = {"type": "eq", "key": "team", "value": "hr"}
    found: list[str] = []
    after = ""
    for _ in range(3):
        page = shelves.call(
            "GET",
            "collections/red/documents",
            key="reader",
            params={"filter": json.dumps(asked), "limit": 1, "after": after},
        ).json()
        found += [row["source"] for row in page["data"]]
        after = page["last_id"]
    assert sorted(found) == ["hr-old.md", "hr/leave.md", "hr/pay.md"]
    assert not page["has_more"]


@pytest.mark.models
def test_openais_client_filters(shelves: Shelves) -> None:
    import openai

    client = openai.OpenAI(base_url=shelves.served.url + "/v1", api_key=shelves.keys["reader"], max_retries=0)
    found = client.vector_stores.search(
        "red",
        query="pump",
        filters={
            "type": "and",
            "filters": [
                {"type": "eq", "key": "team", "value": "hr"},
                {"type": "gte", "key": "year", "value": 2021},
            ],
        },
    )
    assert {one.filename for one in found.data} == {"hr/pay.md", "hr/leave.md"}
    assert {one.attributes["year"] for one in found.data if one.attributes} == {2024, 2021}
