"""Receipts over the wire: what they tell, who may read them, and how long they last.

One gateway of two workers, and a key for each set of groups: all of one team, but for one. The echo model answers with
the messages it received, so a test sees what the model was shown.
"""

import asyncio
import functools
import hashlib
import itertools
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import func, select

from proxy.access.sql import SqlAccounts
from proxy.access.tables import keys as keys_table
from proxy.caller import EVERYTHING, Names, Rights
from runtime.record_store import RecordStore
from tests.support.described import described
from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, DialectClient, Turn
from tests.support.gateway import Served, serving

pytestmark = pytest.mark.models

GROUPS = ("hr", "legal", "ops")
SETS = [of for n in range(len(GROUPS) + 1) for of in itertools.combinations(GROUPS, n)]
SETTINGS = """
server: {workers: 2}
retrieval: {collections: [docs], min_relevance: 0.0, k: 3, candidates: 4}
models: {echo: {lane: echo}}
"""
NAMES = "Oskar Emil Ludwig Anton Bruno Karl Hugo Otto Paul Theo".split()
COLOURS = "red blue green yellow black white grey brown pink purple".split()
ASKED = "What is the pump called?"
_DOCS = Names(["docs", "other"])
_ECHO = Names(["echo"])
LOSER = Rights(_DOCS, Names(), _ECHO, ("hr",))


class House:
    """A gateway with documents of several groups, and whoever asks it."""

    def __init__(self, served: Served, accounts: SqlAccounts, folder: Path) -> None:
        self.served = served
        self.accounts = accounts
        self.folder = folder
        self.groups: dict[str, tuple[str, ...]] = {}  # document -> its groups
        self.secrets: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def key(self, name: str, rights: Rights, team: str = "house") -> None:
        key, self.secrets[name] = self.accounts.create(name, rights, team=team)
        self.ids[name] = key.id

    def call(self, method: str, path: str, key: str, body: object = None) -> httpx.Response:
        """On a connection of its own: any worker may answer."""
        headers = {"authorization": f"Bearer {self.secrets[key]}"}
        return described(httpx.request(method, self.served.url + path, json=body, headers=headers, timeout=60))

    def ask(
        self, question: str, key: str, *earlier: Turn, client: DialectClient = CHAT_CLIENT, **more: Any
    ) -> httpx.Response:
        reply = described(
            client.post(self.served.url, client.body("echo", question, *earlier, **more), self.secrets[key])
        )
        assert reply.status_code == 200, reply.text
        return reply

    def receipt(self, reply: httpx.Response, key: str) -> httpx.Response:
        return self.call("GET", f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}", key)

    def put(self, name: str, text: str, groups: tuple[str, ...] = (), collection: str = "docs") -> str:
        path = f"/v1/knowledge/collections/{collection}/documents/{name}"
        reply = self.call("PUT", path, "root", {"text": text, "groups": groups})
        assert reply.is_success, reply.text
        id: str = reply.json()["id"]
        self.groups[id] = groups
        return id

    async def statuses(self, replies: list[httpx.Response], keys: list[str]) -> list[list[int]]:
        """Of each reply's receipt for each of these keys; asked all at once: a refusal takes a second."""

        async def status(reply: httpx.Response, key: str) -> int:
            headers = {"authorization": f"Bearer {self.secrets[key]}"}
            path = f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}"
            return (await client.get(path, headers=headers)).status_code

        async with httpx.AsyncClient(base_url=self.served.url, timeout=60) as client:
            asked = [asyncio.gather(*(status(reply, key) for key in keys)) for reply in replies]
            return list(await asyncio.gather(*asked))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("receipts")
    data = folder / "data"
    data.mkdir()
    accounts = SqlAccounts(data)
    _, secret = accounts.create("root", EVERYTHING)
    with serving(data, folder, SETTINGS) as served:
        made = House(served, accounts, folder)
        made.secrets["root"] = secret
        for of in SETS:
            made.key(" ".join(of), Rights(_DOCS, Names(), _ECHO, of))
        made.key("stranger", Rights(_DOCS, Names(), _ECHO, None), team="elsewhere")
        made.key("loser", LOSER)
        made.key("narrow", Rights(Names(["other"]), Names(), _ECHO, None))
        for name in ("docs", "other"):
            assert made.call("POST", "/v1/knowledge/collections", "root", {"name": name}).status_code == 201
        drawn = random.Random(5)
        for i in range(10):
            words = f"# Pump {i}\n\nThe pump number {i} is called {NAMES[i]} and is {COLOURS[i]}."
            made.put(f"pump{i}.md", words, drawn.choice(SETS))
        made.put("hose.md", "The hose is nine metres long.", collection="other")
        yield made
        made.accounts.close()


@BY_DIALECT
def test_a_receipt_tells_what_was_asked_found_and_shown(house: House, client: DialectClient) -> None:
    earlier = [("user", "What colour has pump 3?"), ("assistant", "Red.")]
    reply = house.ask("And how is it called?", "hr legal ops", *earlier, client=client, rag={"k": 2})
    assert reply.headers["x-rag-status"] == "augmented"
    told = house.receipt(reply, "hr legal ops").json()
    assert (told["id"], told["status"]) == (reply.headers["x-rag-id"], "augmented")
    assert told["reason"] == reply.headers["x-rag-reason"] == told["query"]["reason"]
    assert [turn["text"] for turn in told["turns"]] == [*(text for _, text in earlier), told["question"]]
    assert (told["k"], told["model"], told["position"]) == (2, "echo", "lead")
    shown = client.answer_of(reply)
    assert told["injected"]
    assert told["injected"] in shown
    assert told["sha256"] == hashlib.sha256(told["injected"].encode()).hexdigest()
    (searched,) = told["collections"]
    assert (searched["name"], searched["generation"]) == ("docs", 1)
    assert searched["embedder"] == "hash"
    assert told["versions"]["settings"]["retrieval.k"] == 3
    assert set(told["timings_ms"]) >= {"parse", "embed", "search", "retrieval"}


def test_its_passages_are_those_injected_in_their_order(house: House) -> None:
    reply = house.ask(ASKED, "hr legal ops")
    told = house.receipt(reply, "hr legal ops").json()
    assert len(told["passages"]) == 3
    assert ",".join(dict.fromkeys(one["source"] for one in told["passages"])) == reply.headers["x-rag-sources"]
    places = [told["injected"].index(one["text"]) for one in told["passages"]]
    assert places == sorted(places)
    for one in told["passages"]:
        text = house.call("GET", f"/v1/knowledge/documents/{one['document']}", "root").json()["text"]
        assert (one["collection"], one["text"]) == ("docs", text[one["start"] : one["end"]])


def test_every_candidate_is_told_with_its_place_and_its_outcome(house: House) -> None:
    told = house.receipt(house.ask(ASKED, "hr legal ops"), "hr legal ops").json()
    candidates = told["candidates"]
    assert [one["score"] for one in candidates] == sorted((one["score"] for one in candidates), reverse=True)
    for arm in ("dense", "bm25"):
        found = {one["ranks"][arm]: one["scores"][arm] for one in candidates if arm in one["ranks"]}
        assert sorted(found) == [1, 2, 3, 4], arm
        assert [found[rank] for rank in sorted(found)] == sorted(found.values(), reverse=True)
    kept = {(one["document"], one["start"]) for one in candidates if one["outcome"] == "kept"}
    assert kept == {(one["document"], one["start"]) for one in told["passages"]}
    others = [one for one in candidates if one["outcome"] != "kept"]
    assert others
    assert all(one["document"] in house.groups for one in candidates), "also those that were not read are named"
    few = house.receipt(house.ask(ASKED, "hr legal ops", rag={"k": 1}), "hr legal ops").json()
    assert [one["outcome"] for one in few["candidates"]].count("kept") == 1
    assert "surplus" in {one["outcome"] for one in few["candidates"]}


@BY_DIALECT
def test_what_was_not_searched_for_leaves_none(house: House, client: DialectClient) -> None:
    reply = house.ask(ASKED, "root", client=client, rag=False)
    assert reply.headers["x-rag-status"] == "off"
    refused = house.receipt(reply, "root")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "receipt_not_found")


def test_every_worker_answers_for_the_others(house: House) -> None:
    replies = [house.ask(ASKED, "root") for _ in range(4)]
    for reply in replies * 3:
        assert house.receipt(reply, "root").json()["id"] == reply.headers["x-rag-id"]


async def test_it_is_for_whoever_may_read_each_document_that_it_names(house: House) -> None:
    """The invariant, of questions by every set of groups: readable exactly if all that it shows is."""
    keys = [" ".join(of) for of in SETS]
    drawn = random.Random(3)
    replies, expected = [], []
    for asker in SETS:
        reply = house.ask(f"What is the pump number {drawn.randrange(10)} called?", " ".join(asker))
        told = house.receipt(reply, "root").json()
        named = {one["document"] for one in (*told["candidates"], *told["passages"])}
        assert named
        wanted = [house.groups[document] for document in named]
        assert all(not of or set(of) & set(asker) for of in wanted), "what is found its asker may read"
        replies.append(reply)
        expected.append([200 if all(not of or set(of) & set(reader) for of in wanted) else 404 for reader in SETS])
    assert await house.statuses(replies, keys) == expected
    assert {200, 404} == {status for row in expected for status in row}
    assert all(row[at] == 200 for at, row in enumerate(expected)), "each may read its own"


@BY_DIALECT
async def test_it_is_for_the_team_that_asked_and_for_admins(house: House, client: DialectClient) -> None:
    reply = house.ask(ASKED, "hr", client=client)
    assert await house.statuses([reply], ["hr", "root", "stranger", "narrow"]) == [[200, 200, 404, 404]]
    absent = house.call("GET", "/v1/knowledge/receipts/rag-000000000000000000000000", "stranger")
    forbidden = house.receipt(reply, "stranger")
    assert absent.text.replace("rag-000000000000000000000000", "x") == forbidden.text.replace(
        reply.headers["x-rag-id"], "x"
    )


def test_a_key_that_lost_a_right_reads_no_more(house: House) -> None:
    reply = house.ask(ASKED, "loser")

    def answered(status: int) -> bool:
        return house.receipt(reply, "loser").status_code == status

    assert answered(200)
    for less in (replace(LOSER, read=Names(["other"])), LOSER):
        granted = {"read": less.read.granted, "models": less.models.granted, "groups": less.groups}
        this = keys_table.c.id == house.ids["loser"]
        with house.accounts.writing() as sql:
            change = sql.execute(select(func.max(keys_table.c.change))).scalar_one() + 1
            sql.execute(keys_table.update().where(this).values(change=change, rights=orjson.dumps(granted).decode()))
        until(functools.partial(answered, 404 if "docs" not in less.read else 200))


async def test_the_groups_count_that_a_document_had_then_and_those_it_has_now(house: House) -> None:
    for name, before, after in (("lever", ("hr",), ("ops",)), ("crank", ("hr",), ()), ("gasket", (), ("hr",))):
        id = house.put(name, f"The {name} was made in Zwickau.", before)
        reply = house.ask(f"Where was the {name} made?", "hr ops")
        told = house.receipt(reply, "hr ops").json()
        assert id in {one["document"] for one in told["passages"]}
        house.put(name, f"Nobody knows where the {name} was made.", after)
        others = {one["document"] for one in told["candidates"]} - {id}
        rest = [house.groups[one] for one in others]
        may = [
            all(not of or set(of) & set(reader) for of in (before, after, *rest)) for reader in (("hr",), ("ops",), ())
        ]
        assert await house.statuses([reply], ["hr", "ops", ""]) == [[200 if one else 404 for one in may]], name
        assert house.receipt(reply, "hr legal ops").json()["injected"] == told["injected"]


def test_nobody_reads_what_quotes_a_deleted_document(house: House) -> None:
    id = house.put("gone.md", "The sieve is called Ludmilla.")
    reply = house.ask("How is the sieve called?", "")
    assert house.receipt(reply, "root").status_code == 200
    assert house.call("DELETE", f"/v1/knowledge/documents/{id}", "root").status_code == 200
    house.put("gone.md", "The sieve is called Ludmilla.")  # another document, of the same name
    assert house.receipt(reply, "root").status_code == 404


def test_a_new_collection_of_the_same_name_is_another_one(house: House) -> None:
    reply = house.ask("How long is the hose?", "narrow", rag={"collections": ["other"]})
    assert house.receipt(reply, "narrow").json()["passages"][0]["collection"] == "other"
    assert house.call("DELETE", "/v1/knowledge/collections/other", "root").status_code == 200
    assert house.receipt(reply, "narrow").status_code == 404
    assert house.call("POST", "/v1/knowledge/collections", "root", {"name": "other"}).status_code == 201
    house.put("hose.md", "The hose is nine metres long.", collection="other")
    assert house.receipt(reply, "narrow").status_code == 404


def test_receipts_outlive_the_gateway_and_end_where_none_are_kept(learned: Callable[[], Path], tmp_path: Path) -> None:
    data, question = learned(), "How do I use Zephyr from Kotlin?"
    with serving(data, tmp_path) as served:
        path = f"/v1/knowledge/receipts/{served.ask(question).headers['x-rag-id']}"
        told = described(served.get(path)).json()
        assert told["question"] == question
        assert question not in served.log.read_text()
        served.stop()
    assert (data / "receipts.db").stat().st_mode & 0o777 == 0o600
    with serving(data, tmp_path) as served:
        assert served.get(path).json() == told
    with serving(data, tmp_path, "receipts: {keep_hours: 0}") as served:
        assert served.get(path).status_code == 404
        id = served.ask(question).headers["x-rag-id"]
        assert served.get(f"/v1/knowledge/receipts/{id}").status_code == 404
    shelf = RecordStore(data, keep_s=1e9, max_bytes=1 << 30)
    assert [shelf.read(of) for of in (told["id"], id)] == [None, None], "nothing of them is left"
    shelf.close()
    assert not re.search("Traceback|ERROR", served.log.read_text())


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds: rights of keys are known within a second."""
    end_s = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < end_s, "it never held"
