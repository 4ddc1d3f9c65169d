"""The Knowledge API over the wire, in both its dialects, each key seeing only what it may read."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.described import described
from tests.support.gateway import Served, ragway, serving

SETTINGS = "retrieval: {collections: [red, blue], min_relevance: 0.0}\nmodels: {echo: {lane: echo}}"
RED = {
    "pump.md": "# Pumps\n\nThe red pump is called Oskar and runs at 40 bar.\n\n## Care\n\nOil it every Monday.",
    "valve.md": "# Valves\n\nThe red valve is of brass — größer als 40 mm.",
    "hose.txt": "The red hose is nine metres long.",
}
BLUE = {"pump.md": "# Pumps\n\nThe blue pump is called Wilma."}


class Guarded:
    """A gateway of two collections; the reader's key reads `red` alone."""

    def __init__(self, served: Served, reader: str, root: str) -> None:
        self.url = served.url
        self.reader = reader
        self.root = root

    def get(self, path: str, key: str | None = None, **query: str | int) -> httpx.Response:
        return described(httpx.get(self.url + path, params=query or None, headers=self._shown(key), timeout=30))

    def post(self, path: str, body: object, key: str | None = None) -> httpx.Response:
        return described(httpx.post(self.url + path, json=body, headers=self._shown(key), timeout=30))

    def sdk(self, key: str | None = None) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key or self.reader, max_retries=0)

    def _shown(self, key: str | None) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key or self.reader}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("knowledge")
    data = folder / "data"
    data.mkdir()

    def run(*words: str) -> str:
        done = ragway(*words, "--data", str(data), folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    for name, files in {"red": RED, "blue": BLUE}.items():
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text, "utf-8")
        run("ingest", name, "--collection", name)
    reader = run("keys", "create", "reader", "--read", "red", "--model", "echo")
    root = run("keys", "create", "root", "--read", "*", "--model", "*")
    with serving(data, folder, SETTINGS) as served:
        yield Guarded(served, reader, root)


def listed(reply: httpx.Response) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    rows: list[dict[str, Any]] = reply.json()["data"]
    return rows


def test_collections_are_those_that_may_be_read(guarded: Guarded) -> None:
    (red,) = listed(guarded.get("/v1/knowledge/collections"))
    assert (red["id"], red["documents"], red["object"]) == ("red", 3, "knowledge.collection")
    assert [row["id"] for row in listed(guarded.get("/v1/knowledge/collections", guarded.root))] == ["blue", "red"]
    assert guarded.get("/v1/knowledge/collections/red").json() == red


def test_documents_are_listed_page_by_page_and_read_whole(guarded: Guarded) -> None:
    path = "/v1/knowledge/collections/red/documents"
    seen: list[dict[str, Any]] = []
    while True:
        page = guarded.get(path, limit=2, **({"after": seen[-1]["id"]} if seen else {})).json()
        seen += page["data"]
        if not page["has_more"]:
            break
        assert (len(page["data"]), page["last_id"]) == (2, seen[-1]["id"])
    assert seen == listed(guarded.get(path))
    assert {row["source"] for row in seen} == {f"red/{name}" for name in RED}
    texts = {row["source"]: guarded.get(f"/v1/knowledge/documents/{row['id']}").json() for row in seen}
    for name, text in RED.items():
        found = texts[f"red/{name}"]
        assert (found["text"], found["chars"], found["collection"]) == (text, len(text), "red")


def test_a_search_finds_spans_of_documents_that_can_be_read(guarded: Guarded) -> None:
    reply = guarded.post("/v1/knowledge/search", {"query": "What is the pump called?", "k": 2})
    hits = listed(reply)
    assert "Oskar" in hits[0]["text"]
    assert len(hits) <= 2
    assert set(hits[0]["ranks"]) | set(hits[0]["scores"]) <= {"dense", "bm25"}
    assert 0 <= reply.json()["relevance"] <= 1
    for hit in hits:
        text = guarded.get(f"/v1/knowledge/documents/{hit['document']}").json()["text"]
        assert text[hit["start"] : hit["end"]] == hit["text"]
    both = listed(guarded.post("/v1/knowledge/search", {"query": "pump called", "k": 9}, guarded.root))
    assert {"Oskar", "Wilma"} <= {word.strip(".") for hit in both for word in hit["text"].split()}


def test_an_export_is_every_document_and_goes_on_where_it_was_cut(guarded: Guarded) -> None:
    path = "/v1/knowledge/collections/red/export"
    reply = guarded.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/jsonl")
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert {line["source"]: line["text"] for line in lines} == {f"red/{name}": text for name, text in RED.items()}
    assert lines == [guarded.get(f"/v1/knowledge/documents/{line['id']}").json() for line in lines]
    rest = guarded.get(path, after=lines[0]["id"]).text.splitlines()
    assert [json.loads(line) for line in rest] == lines[1:]
    assert guarded.get(path, after=lines[-1]["id"]).content == b""


@pytest.mark.parametrize(("mode", "arms"), [("hybrid", {"dense", "bm25"}), ("dense", {"dense"}), ("bm25", {"bm25"})])
def test_a_search_takes_one_arm_or_both(guarded: Guarded, mode: str, arms: set[str]) -> None:
    for _ in range(2):  # made, then kept
        hits = listed(guarded.post("/v1/knowledge/search", {"query": "What is the pump called?", "mode": mode}))
        assert {arm for hit in hits for arm in hit["ranks"]} == arms
        assert "Oskar" in hits[0]["text"]


def test_a_search_finds_what_a_chat_gets(guarded: Guarded) -> None:
    """What is injected for a key can be read with that key."""
    question = "What is the pump called, and how long is the hose?"
    hits = listed(guarded.post("/v1/knowledge/search", {"query": question}))
    body = {"model": "echo", "messages": [{"role": "user", "content": question}]}
    chat = guarded.post("/v1/chat/completions", body)
    assert chat.headers["x-rag-status"] == "augmented"
    assert set(chat.headers["x-rag-sources"].split(",")) <= {hit["source"] for hit in hits}
    assert all(hit["text"] in chat.json()["choices"][0]["message"]["content"] for hit in hits if len(hit["text"]) < 60)


def told(reply: httpx.Response, name: str) -> tuple[int, str, str]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["message"].replace(name, "NAME")


def test_what_may_not_be_read_is_not_there(guarded: Guarded) -> None:
    (theirs,) = listed(guarded.get("/v1/knowledge/collections/blue/documents", guarded.root))
    below = ("", "/documents", "/export")
    for path in (*(f"/v1/knowledge/collections/{{}}{part}" for part in below), "/v1/vector_stores/{}"):
        assert told(guarded.get(path.format("blue")), "blue") == told(guarded.get(path.format("none")), "none")
    for make in (
        lambda name: ("/v1/knowledge/search", {"query": "pump", "collections": [name]}),
        lambda name: ("/v1/knowledge/search", {"query": "pump", "collections": ["red", name]}),
        lambda name: (f"/v1/vector_stores/{name}/search", {"query": "pump"}),
    ):
        here, away = (told(guarded.post(*make(name)), name) for name in ("blue", "none"))
        assert here == away == (404, "collection_not_found", "there is no collection 'NAME'; there are: red.")
    id, other = theirs["id"], "0" * len(theirs["id"])
    forbidden = told(guarded.get(f"/v1/knowledge/documents/{id}"), id)
    assert forbidden == told(guarded.get(f"/v1/knowledge/documents/{other}"), other)
    assert forbidden[:2] == (404, "document_not_found")


@pytest.mark.parametrize("name", ["red'", "red@1", "../red", "red%00", "Red", "*", "r*", "red/../blue", "ré", " red"])
def test_no_spelling_of_a_name_reaches_another_collection(guarded: Guarded, name: str) -> None:
    for reply in (
        guarded.post("/v1/knowledge/search", {"query": "pump", "collections": [name]}),
        guarded.get(f"/v1/knowledge/collections/{httpx.URL(path='/' + name).raw_path[1:].decode()}"),
    ):
        assert reply.status_code in (400, 404), reply.text
        assert "Wilma" not in reply.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "'query' must be text"),
        ({"query": " "}, "'query' must be text"),
        ({"query": ["a"]}, "'query' must be text"),
        ({"query": "a" * 20_001}, "'query' must be text"),
        ({"query": "a", "k": 0}, "'k' must be a whole number"),
        ({"query": "a", "k": True}, "'k' must be a whole number"),
        ({"query": "a", "k": 101}, "'k' must be a whole number"),
        ({"query": "a", "collections": []}, "'collections' must be a list of names"),
        ({"query": "a", "collections": "red"}, "'collections' must be a list of names"),
        ({"query": "a", "collections": [1]}, "'collections' must be a list of names"),
        ({"query": "a", "mode": "magic"}, "'mode' must be one of hybrid, dense, bm25"),
        ({"query": "a", "mode": ["dense"]}, "'mode' must be one of"),
        ({"query": "a", "rerank": True}, "no reranker is configured here (retrieval.rerank_model)"),
        ({"query": "a", "rerank": "yes"}, "'rerank' must be true or false"),
        ({"query": "a", "neighbours": 6}, "'neighbours' must be a whole number from 0 to 5"),
        ({"query": "a", "neighbours": True}, "'neighbours' must be a whole number"),
        ({"query": "a", "whole": 1}, "'whole' must be true or false"),
        ({"query": "a", "filter": {}}, "a filter is an object with a type"),
        ({"query": "a", "filters": {}}, "there is no 'filters' here"),
    ],
)
def test_a_search_that_cannot_be_read_says_what_is_wrong(guarded: Guarded, body: object, said: str) -> None:
    reply = guarded.post("/v1/knowledge/search", body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_parameter")
    assert said.lower() in reply.json()["error"]["message"].lower()


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=%C2%B2", "page=2"])
def test_a_list_that_cannot_be_read_says_what_is_wrong(guarded: Guarded, query: str) -> None:
    reply = guarded.get(f"/v1/knowledge/collections/red/documents?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_parameter")


def test_half_a_character_in_a_query_is_no_fault_of_ours(guarded: Guarded) -> None:
    content = rb'{"query": "pump \ud83d"}'
    headers = {"authorization": f"Bearer {guarded.reader}", "content-type": "application/json"}
    assert httpx.post(guarded.url + "/v1/knowledge/search", content=content, headers=headers).status_code == 200


def test_methods_and_keys_are_checked(guarded: Guarded) -> None:
    for path in ("/v1/knowledge/collections", "/v1/knowledge/search", "/v1/vector_stores"):
        assert httpx.request("PUT", guarded.url + path, headers=guarded._shown(None)).status_code == 405
        assert httpx.get(guarded.url + path).status_code == 401


# The official openai SDK


def test_the_sdk_lists_and_searches_collections_as_vector_stores(guarded: Guarded) -> None:
    client = guarded.sdk(guarded.root)
    assert [store.id for store in client.vector_stores.list(order="asc", limit=1)] == ["blue", "red"]
    assert [store.id for store in client.vector_stores.list()] == ["red", "blue"]
    store = guarded.sdk().vector_stores.retrieve("red")
    assert (store.name, store.status, store.file_counts.completed) == ("red", "completed", 3)
    results = guarded.sdk().vector_stores.search("red", query="What is the pump called?", max_num_results=2).data
    assert 1 <= len(results) <= 2
    assert (results[0].filename, results[0].score) == ("red/pump.md", 1.0)
    assert "Oskar" in results[0].content[0].text
    text = guarded.get(f"/v1/knowledge/documents/{results[0].file_id}").json()["text"]
    assert results[0].content[0].text in text
    best = guarded.sdk().vector_stores.search("red", query=["pump"], ranking_options={"score_threshold": 1.0}).data
    assert len(best) == 1


def test_the_sdk_searches_a_vector_store_for_several_queries(guarded: Guarded) -> None:
    search = guarded.sdk().vector_stores.search
    queries = ["What is the pump called?", "How long is the hose?"]
    alone = [search("red", query=query).data for query in queries]
    assert alone[0][0].content != alone[1][0].content
    page = search("red", query=queries)
    assert page.to_dict()["search_query"] == queries
    assert page.data[:2] == [alone[0][0], alone[1][0]], "the first passage of each query"
    texts = [row.content[0].text for row in page]
    assert len(texts) == len(set(texts))
    assert len(search("red", query=queries, max_num_results=2).data) == 2
    assert search("red", query=queries[:1]).data == alone[0]


def test_the_sdk_understands_what_is_refused(guarded: Guarded) -> None:
    client = guarded.sdk()
    with pytest.raises(openai.NotFoundError, match="there is no collection 'blue'"):
        client.vector_stores.search("blue", query="pump")
    with pytest.raises(openai.BadRequestError, match="cannot filter by groups"):
        client.vector_stores.search("red", query="pump", filters={"type": "eq", "key": "groups", "value": "b"})
    for queries in ([], ["pump"] * 11, ["pump", ""]):
        with pytest.raises(openai.BadRequestError, match="'query' must be"):
            client.vector_stores.search("red", query=queries)
    with pytest.raises(openai.BadRequestError, match="no parameter 'before' here"):
        client.vector_stores.list(before="red")
    with pytest.raises(openai.BadRequestError, match="'max_num_results'"):
        client.vector_stores.search("red", query="pump", max_num_results=101)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-wrong").vector_stores.list()


# Deleting


@pytest.fixture
def writable(tmp_path: Path, data: Path) -> Iterator[tuple[Served, str, str]]:
    """A gateway of `red`, a key that may write it, and one that may read it only."""

    def run(*words: str) -> str:
        done = ragway(*words, "--data", str(data), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (tmp_path / "red").mkdir()
    for file, text in RED.items():
        (tmp_path / "red" / file).write_text(text, "utf-8")
    run("ingest", "red", "--collection", "red")
    writer = run("keys", "create", "writer", "--read", "red", "--write", "*")
    reader = run("keys", "create", "reader", "--read", "red")
    with serving(data, tmp_path, SETTINGS) as served:
        yield served, writer, reader


def test_documents_and_collections_are_deleted_by_who_may_write_them(
    writable: tuple[Served, str, str], tmp_path: Path
) -> None:
    served, writer, reader = writable

    def call(method: str, path: str, key: str) -> httpx.Response:
        shown = {"authorization": f"Bearer {key}"}
        return httpx.request(method, f"{served.url}/v1/knowledge/{path}", headers=shown, timeout=30)

    def sources() -> list[str]:
        return sorted(row["source"] for row in listed(call("GET", "collections/red/documents", reader)))

    rows = {row["source"]: row["id"] for row in listed(call("GET", "collections/red/documents", reader))}
    pump = f"documents/{rows['red/pump.md']}"
    for path in (pump, "collections/red"):
        refusal = call("DELETE", path, reader)
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (403, "forbidden")
    assert len(sources()) == 3
    assert call("DELETE", pump, writer).json()["deleted"] is True
    assert sources() == ["red/hose.txt", "red/valve.md"]
    for method in ("GET", "DELETE"):
        assert call(method, pump, writer).status_code == 404
        assert call(method, "collections/none", writer).status_code == 404
    done = ragway("delete", "red", "--source", "red/hose.txt", "--data", str(served.data), folder=tmp_path)
    assert (done.returncode, sources()) == (0, ["red/valve.md"]), done.stderr
    assert call("DELETE", "collections/red", writer).json() == {
        "id": "red",
        "object": "knowledge.collection.deleted",
        "deleted": True,
    }
    assert listed(call("GET", "collections", reader)) == []
    assert call("GET", "collections/red", reader).status_code == 404


def test_the_command_line_asks_before_it_deletes_all(data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The pump is called Oskar.", "utf-8")
    assert ragway("ingest", "a.md", "--data", str(data), folder=tmp_path).returncode == 0
    done = ragway("delete", "docs", "--data", str(data), folder=tmp_path)
    assert (done.returncode, "say so with --yes" in done.stderr) == (2, True)
    done = ragway("delete", "docs", "--source", "b.md", "--data", str(data), folder=tmp_path)
    assert (done.returncode, "b.md is not in docs" in done.stderr) == (1, True)
    assert ragway("delete", "none", "--yes", "--data", str(data), folder=tmp_path).returncode == 1
    done = ragway("delete", "docs", "--yes", "--data", str(data), folder=tmp_path)
    assert (done.returncode, "docs is deleted" in done.stderr) == (0, True)
    assert ragway("collections", "--json", "--data", str(data), folder=tmp_path).stdout.strip() == "[]"
