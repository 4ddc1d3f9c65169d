"""Groups over the wire: what each key sees, in every way there is to see a document, is what its groups may read."""

import itertools
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from proxy.access.sql import SqlAccounts
from proxy.caller import Names, Rights
from tests.support.gateway import Served, ragway, serving

GROUPS = ("hr", "legal", "ops")
# Each shows documents in another way: neighbours and whole documents, a whole collection, the other lexical arm.
SETTINGS = {
    "neighbours": "neighbours: 3, whole_document_tokens: 60, mode: hybrid",
    "whole": "mode: whole",
    "okapi": "mode: auto, lexical: okapi",
}
ROOT = ("--read=*", "--write=*", "--model=*", "--group=*")
ASKED = "What is the pump called?"


@dataclass
class Page:
    """A document, the token in each of its sections, and who may read it."""

    key: str
    tokens: tuple[str, ...]
    groups: tuple[str, ...]
    id: str = ""

    @property
    def text(self) -> str:
        return "# Pumps\n\n" + "\n\n".join(
            f"## Section {token}\n\nThe pump {token} is called Oskar. " + "It is oiled every Monday. " * 12
            for token in self.tokens
        )

    def readable(self, groups: tuple[str, ...]) -> bool:
        return not self.groups or bool(set(self.groups) & set(groups))


class House:
    """A gateway, its documents, and a key for each set of groups."""

    def __init__(self, served: Served, keys: dict[tuple[str, ...], str], root: str, pages: list[Page]) -> None:
        self.served = served
        self.keys = keys
        self.root = root
        self.pages = pages
        self._client = httpx.Client(base_url=served.url, timeout=60)

    def call(self, method: str, path: str, key: str, body: object = None, **query: Any) -> httpx.Response:
        shown = {"authorization": f"Bearer {key}", "accept": "application/json"}
        return self._client.request(method, path, json=body, headers=shown, params=query or None)

    def upload(self, path: str, key: str, name: str, content: bytes, **fields: str) -> dict[str, Any]:
        shown = {"authorization": f"Bearer {key}"}
        reply = self._client.post(path, files={"file": (name, content)}, data=fields, headers=shown)
        assert reply.is_success, reply.text
        told: dict[str, Any] = reply.json()
        return told

    def close(self) -> None:
        self._client.close()

    def tokens(self, groups: tuple[str, ...]) -> set[str]:
        return {token for page in self.pages if page.readable(groups) for token in page.tokens}


def told(text: str) -> set[str]:
    return set(re.findall(r"tok\d+", text))


@pytest.fixture(scope="module", params=SETTINGS)
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("groups")
    data = folder / "data"
    data.mkdir()

    accounts = SqlAccounts(data)

    def key(name: str, groups: tuple[str, ...] | None) -> str:
        docs = Names(["docs"])
        return accounts.create(name, Rights(docs, docs, Names(["echo"]), groups))[1]

    sets = [of for n in range(len(GROUPS) + 1) for of in itertools.combinations(GROUPS, n)]
    keys = {of: key(f"in {of}", of) for of in sets}
    done = ragway("keys", "create", "root", *ROOT, "--data", str(data), folder=folder)
    root = done.stdout.strip()
    accounts.close()
    drawn = random.Random(7)
    pages = [
        Page(f"page{i}.md", tuple(f"tok{i:02}{part}" for part in range(drawn.randint(1, 3))), drawn.choice(sets))
        for i in range(16)
    ]
    settings = (
        f"retrieval: {{collections: [docs], min_relevance: 0.0, k: 6, candidates: 200, {SETTINGS[request.param]}}}"
    )
    with serving(data, folder, settings + "\ninject: {budget_tokens: 20000}\nmodels: {echo: {lane: echo}}") as served:
        made = House(served, keys, root, pages)
        assert made.call("POST", "/v1/knowledge/collections", root, {"name": "docs"}).status_code == 201
        rows = [{"key": page.key, "text": page.text, "groups": page.groups} for page in pages]
        reply = made.call("POST", "/v1/knowledge/collections/docs/documents", root, {"documents": rows})
        for page, row in zip(pages, reply.json()["data"], strict=True):
            assert row["status"] == "created", row
            page.id = row["id"]
        yield made
        made.close()


def test_lists_counts_and_exports_are_of_what_may_be_read(house: House) -> None:
    for groups, key in house.keys.items():
        ours = [page for page in house.pages if page.readable(groups)]
        (row,) = house.call("GET", "/v1/knowledge/collections", key).json()["data"]
        assert row["documents"] == len(ours)
        listed, after = [], ""
        while True:
            page = house.call("GET", "/v1/knowledge/collections/docs/documents", key, limit=5, after=after).json()
            listed += [one["id"] for one in page["data"]]
            if not page["has_more"]:
                break
            after = page["last_id"]
        assert listed == sorted(page.id for page in ours)
        assert told(house.call("GET", "/v1/knowledge/collections/docs/export", key).text) == house.tokens(groups)
        (store,) = house.call("GET", "/v1/vector_stores", key).json()["data"]
        assert store["file_counts"]["total"] == len(ours)


def test_searches_find_as_many_as_there_are_and_nothing_else(house: House) -> None:
    for groups, key in house.keys.items():
        for mode in ("hybrid", "dense", "bm25"):
            body = {"query": ASKED, "k": 100, "mode": mode}
            found = house.call("POST", "/v1/knowledge/search", key, body)
            assert told(found.text) == house.tokens(groups), (groups, mode)
        for more in ({"neighbours": 5}, {"whole": True}):
            found = house.call("POST", "/v1/knowledge/search", key, {"query": ASKED, "k": 100, **more})
            assert told(found.text) == house.tokens(groups), (groups, more)
        few = house.call("POST", "/v1/knowledge/search", key, {"query": ASKED, "k": 2, "mode": "dense"}).json()["data"]
        assert len(few) == 2
        found = house.call("POST", "/v1/vector_stores/docs/search", key, {"query": ASKED, "max_num_results": 100})
        assert told(found.text) == house.tokens(groups)
        tool = {"name": "search", "arguments": {"query": ASKED, "k": 100}}
        found = house.call("POST", "/mcp", key, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool})
        assert told(found.text) == house.tokens(groups)


def test_what_a_chat_is_given_its_key_may_read(house: House) -> None:
    """The invariant, of random questions: what is injected is part of what the Knowledge API gives the same key."""
    drawn = random.Random(11)
    everything = [token for page in house.pages for token in page.tokens]
    for groups, key in house.keys.items():
        lines = house.call("GET", "/v1/knowledge/collections/docs/export", key).text
        may = told(lines)
        for _ in range(6):
            question = f"What is the pump {drawn.choice(everything)} called, and {drawn.choice(everything)}?"
            reply = house.served.chat(
                {"role": "user", "content": question}, headers={"authorization": f"Bearer {key}"}, model="echo"
            )
            assert reply.headers["x-rag-status"] == "augmented"
            sent = reply.json()["choices"][0]["message"]["content"]
            injected = told(sent.replace(question, ""))
            assert injected
            assert injected <= may == house.tokens(groups)


def test_a_document_of_others_is_one_that_is_not_there(house: House) -> None:
    for groups, key in house.keys.items():
        for page in house.pages:
            if page.readable(groups):
                assert house.call("GET", f"/v1/knowledge/documents/{page.id}", key).json()["text"] == page.text
                continue
            for path, none in (
                (f"/v1/knowledge/documents/{page.id}", "/v1/knowledge/documents/" + "0" * 32),
                (f"/v1/knowledge/collections/docs/documents/{page.key}", "/v1/knowledge/collections/docs/documents/0"),
            ):
                for method in ("GET", "DELETE"):
                    one, other = house.call(method, path, key), house.call(method, none, key)
                    assert (one.status_code, other.status_code) == (404, 404)
                    assert one.text.replace(path.rpartition("/")[2], "x") == other.text.replace(
                        none.rpartition("/")[2], "x"
                    )
            fetch = {"name": "fetch", "arguments": {"id": page.id}}
            said = house.call("POST", "/mcp", key, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": fetch})
            assert f"there is no document '{page.id}'" in said.json()["result"]["content"][0]["text"]


def test_a_key_writes_what_it_may_read_and_nothing_else(house: House) -> None:
    key, other = house.keys["hr",], house.keys["legal",]
    path = "/v1/knowledge/collections/docs/documents/"
    body = {"text": "The hose is nine metres long.", "groups": ["hr", "ops"]}
    assert house.call("PUT", path + "hose", key, body).status_code == 201
    for refused in (
        house.call("PUT", path + "hose", other, {"text": "mine"}),  # it may not read what it would replace
        house.call("PUT", path + "new", other, body),  # nor what it would make
        house.call("PUT", path + "new", other, {"text": "---\ngroups: [hr]\n---\nThe hose."}),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    many = {"documents": [{"key": "hose", "text": "mine"}, {"key": "valve", "text": "The valve.", "groups": ["legal"]}]}
    rows = house.call("POST", path[:-1], other, many).json()["data"]
    assert [row["status"] for row in rows] == ["refused", "created"]
    assert house.call("GET", path + "hose", key).json()["text"] == body["text"]
    assert house.call("GET", path + "new", house.root).status_code == 404
    gone = house.call("DELETE", "/v1/knowledge/collections/docs", key)  # and with it what legal alone may read
    assert (gone.status_code, gone.json()["error"]["code"]) == (403, "forbidden")
    # A change of groups counts from the answer on.
    assert house.call("PUT", path + "hose", key, {**body, "groups": []}).json()["status"] == "replaced"
    assert house.call("GET", path + "hose", other).json()["text"] == body["text"]
    assert house.call("PUT", path + "hose", other, {**body, "groups": ["legal"]}).json()["status"] == "replaced"
    assert house.call("GET", path + "hose", key).status_code == 404
    for name in ("hose", "valve"):
        assert house.call("DELETE", path + name, house.root).status_code == 200


def test_what_is_being_written_is_seen_by_who_is_in_all_groups_of_its_writer(house: House) -> None:
    files = "/v1/vector_stores/docs/files"
    legal = house.keys["legal",]
    made = house.upload("/v1/knowledge/collections/docs/files", legal, "suit.md", b"The suit.", groups='["legal"]')
    broken = house.upload("/v1/files", legal, "suit.bin", b"\0\1", purpose="assistants")["id"]
    assert house.call("POST", files, legal, {"file_id": broken}).is_success
    until = time.monotonic() + 60
    while house.call("GET", f"{files}/{broken}", legal).json()["status"] != "failed":
        assert time.monotonic() < until
    attached = house.call("GET", "/v1/knowledge/jobs", legal).json()["data"][0]["id"]
    for groups, key in house.keys.items():
        seen = "legal" in groups
        status = 200 if seen else 404
        for id in (made["job"], attached):
            for path in (f"/v1/knowledge/jobs/{id}", f"/v1/vector_stores/docs/file_batches/{id}"):
                assert house.call("GET", path, key).status_code == status, groups
            assert house.call("POST", f"/v1/knowledge/jobs/{id}/cancel", key).status_code == status
        jobs = {row["id"] for row in house.call("GET", "/v1/knowledge/jobs", key).json()["data"]}
        assert jobs & {made["job"], attached} == ({made["job"], attached} if seen else set())
        assert (broken in house.call("GET", files, key, limit=100).text) is seen
        assert house.call("GET", f"{files}/{broken}", key).status_code == status
        (store,) = house.call("GET", "/v1/vector_stores", key).json()["data"]
        assert store["file_counts"]["failed"] == int(seen)
        if not seen:
            assert house.call("DELETE", f"{files}/{broken}", key).status_code == 404
    assert house.call("DELETE", f"{files}/{broken}", legal).status_code == 200
    assert house.call("DELETE", "/v1/knowledge/collections/docs/documents/suit.md", legal).status_code == 200


def test_groups_of_a_key_are_listed(house: House) -> None:
    done = ragway("keys", "list", "--data", str(house.served.data), folder=house.served.data.parent)
    lines = done.stdout.splitlines()
    assert any("in ('hr', 'legal')" in line and line.endswith("in hr,legal") for line in lines)
    assert any(" root " in line and line.endswith("in *") for line in lines)
