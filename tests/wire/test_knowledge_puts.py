"""Documents given over the wire: whole, found at once, under keys of the client's own, for who may write."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import ragway
from tests.support.shelves import Shelves, made, serving_shelves


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    with serving_shelves(tmp_path_factory.mktemp("puts")) as opened:
        yield opened


def test_a_collection_is_made_empty_and_can_be_searched(shelves: Shelves) -> None:
    name = made(shelves, "red-empty", language="de")
    assert shelves.search("pump", name) == []
    row = shelves.call("GET", f"collections/{name}").json()
    assert (row["documents"], row["chunks"], row["language"]) == (0, 0, "de")
    again = shelves.call("POST", "collections", {"name": name})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "collection_exists")


def test_a_put_is_found_replaced_and_left_alone_where_nothing_changed(shelves: Shelves) -> None:
    name = made(shelves, "red-put")
    path = f"collections/{name}/documents/pumps/oskar.md"
    body: dict[str, object] = {"text": "# Pumps\n\nThe red pump is called Oskar.", "modified_at": 1_700_000_000}
    first = shelves.call("PUT", path, body)
    assert (first.status_code, first.json()["status"], first.json()["key"]) == (201, "created", "pumps/oskar.md")
    (hit,) = shelves.search("What is the pump called?", name)
    assert (hit["document"], hit["source"], hit["title"]) == (first.json()["id"], "pumps/oskar.md", "Pumps")
    same = shelves.call("PUT", path, body)
    assert (same.status_code, same.json()["status"], same.json()["id"]) == (200, "unchanged", first.json()["id"])
    changed = shelves.call("PUT", path, {**body, "text": "The red pump is called Wilma.", "title": "Names"})
    assert (changed.status_code, changed.json()["status"]) == (200, "replaced")
    (hit,) = shelves.search("What is the pump called?", name)
    assert (hit["text"], hit["title"]) == ("The red pump is called Wilma.", "Names")
    document = shelves.call("GET", path).json()
    assert (document["text"], document["modified_at"]) == ("The red pump is called Wilma.", 1_700_000_000)
    assert document == shelves.call("GET", f"documents/{document['id']}").json()
    assert shelves.call("DELETE", path).json()["deleted"] is True
    assert shelves.call("GET", path).status_code == 404
    assert shelves.search("pump", name) == []


def test_many_are_put_in_one_call_and_each_says_what_became_of_it(shelves: Shelves) -> None:
    name = made(shelves, "red-many")
    documents: list[dict[str, object]] = [
        {"key": str(i), "text": f"Valve number {i} is of brass.", "source": f"valves/{i}.txt"} for i in range(40)
    ]
    documents += [
        {"key": "page", "text": "<h1>Hoses</h1><p>Nine metres.</p>", "format": "html"},
        {"key": "bad", "text": "\0\0\0", "format": "text"},
        {"source": "v1.2 notes", "text": "# Notes\n\nNothing new."},
    ]
    reply = shelves.call("POST", f"collections/{name}/documents", {"documents": documents})
    assert reply.status_code == 200, reply.text
    rows = {row["key"]: row for row in reply.json()["data"]}
    assert [row["key"] for row in reply.json()["data"]] == [*map(str, range(40)), "page", "bad", "v1.2 notes"]
    assert {row["status"] for key, row in rows.items() if key != "bad"} == {"created"}
    assert (rows["bad"]["status"], rows["bad"]["id"]) == ("failed", None)
    assert "binary" in rows["bad"]["reason"]
    assert shelves.call("GET", f"documents/{rows['page']['id']}").json()["text"] == "# Hoses\n\nNine metres."
    assert shelves.call("GET", f"documents/{rows['v1.2 notes']['id']}").json()["title"] == "Notes"
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == 42
    reply = shelves.call("POST", f"collections/{name}/documents", {"documents": documents})
    assert {row["status"] for row in reply.json()["data"]} == {"unchanged", "failed"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "'text' must be text"),
        ({"text": " "}, "'text' must be text"),
        ({"text": "a", "format": "pdf"}, "'format' must be one of"),
        ({"text": "a", "title": 1}, "'title' must be"),
        ({"text": "a", "source": "a\nb"}, "'source' must be"),
        ({"text": "a", "modified_at": "now"}, "'modified_at' must be"),
        ({"text": "a", "id": "x"}, "no 'id' here"),
    ],
)
def test_a_put_that_cannot_be_says_what_is_wrong(shelves: Shelves, body: dict[str, object], said: str) -> None:
    shelves.call("POST", "collections", {"name": "red-wrong"})
    one = shelves.call("PUT", "collections/red-wrong/documents/a", body)
    many = shelves.call("POST", "collections/red-wrong/documents", {"documents": [{"key": "a", **body}]})
    for reply in (one, many):
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_parameter"), reply.text
        assert said in reply.json()["error"]["message"]
    assert many.json()["error"]["param"].startswith("documents[0]")
    assert shelves.call("GET", "collections/red-wrong").json()["documents"] == 0


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "'documents' must be a list"),
        ("a", "'documents' must be a list"),
        ([1], "'documents[0]' must be an object"),
        ([{"text": "a"}], "'key' must be"),
        ([{"key": "a", "text": "a"}, {"key": "a", "text": "b"}], "the same key"),
    ],
)
def test_a_list_that_cannot_be_put_says_what_is_wrong(shelves: Shelves, documents: object, said: str) -> None:
    shelves.call("POST", "collections", {"name": "red-wrong"})
    reply = shelves.call("POST", "collections/red-wrong/documents", {"documents": documents})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_parameter"), reply.text
    assert said.lower() in reply.json()["error"]["message"].lower()


def test_a_text_that_is_none_is_refused_and_what_was_there_stays(shelves: Shelves) -> None:
    name = made(shelves, "red-stays")
    assert shelves.call("PUT", f"collections/{name}/documents/a", {"text": "The pump is called Oskar."}).is_success
    reply = shelves.call("PUT", f"collections/{name}/documents/a", {"text": "\0 binary"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "document_unreadable")
    assert [hit["text"] for hit in shelves.search("pump", name)] == ["The pump is called Oskar."]


def told(reply: httpx.Response, name: str) -> tuple[int, str, str]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["message"].replace(name, "NAME")


def test_who_may_not_write_learns_nothing_of_what_is_there(shelves: Shelves) -> None:
    name = made(shelves, "red-rights")
    body = {"text": "secret"}
    # Made by somebody else, or by nobody: the same answer.
    for there, absent, key, status in (
        (name, "red-none", "reader", 403),
        (name, "red-none", "other", 403),
        ("blind", "blind", "writer", 403),  # may write, and not read
    ):
        answers = [told(shelves.call("POST", "collections", {"name": n}, key=key), n) for n in (there, absent)]
        assert answers[0] == answers[1]
        assert answers[0][:2] == (status, "forbidden")
    for method, path in (
        ("PUT", "collections/{}/documents/a"),
        ("DELETE", "collections/{}/documents/a"),
        ("GET", "collections/{}/documents/a"),
    ):
        here, none = (
            told(shelves.call(method, path.format(n), body if method == "PUT" else None, key="other"), n)
            for n in (name, "red-none")
        )
        assert here == none
        assert here[:2] == (404, "collection_not_found")
    refusal = shelves.call("PUT", f"collections/{name}/documents/a", body, key="reader")
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (403, "forbidden")
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == 0


@pytest.mark.parametrize("name", ["red put", "red/../blue", "", "red" + "x" * 64, 7])
def test_a_name_that_cannot_be_is_refused(shelves: Shelves, name: object) -> None:
    reply = shelves.call("POST", "collections", {"name": name})
    assert reply.status_code in (400, 403), reply.text
    assert shelves.call("POST", "collections", {"name": "red-tongue", "language": "xx"}).status_code == 400


def test_files_and_given_documents_leave_each_other_alone(shelves: Shelves, tmp_path: Path) -> None:
    name = made(shelves, "red-both")
    folder = tmp_path / "notes"
    folder.mkdir()
    file = folder / "a.md"
    file.write_text("The file's pump is called Oskar.", "utf-8")
    assert shelves.call("PUT", f"collections/{name}/documents/{file}", {"text": "Given: Wilma."}).status_code == 201
    data = str(shelves.served.data)

    def ingest() -> str:
        done = ragway("ingest", str(folder), "--collection", name, "--data", data, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def texts() -> set[str]:
        lines = shelves.call("GET", f"collections/{name}/documents").json()["data"]
        return {shelves.call("GET", f"documents/{line['id']}").json()["text"] for line in lines}

    ingest()
    assert texts() == {"The file's pump is called Oskar.", "Given: Wilma."}
    assert shelves.call("PUT", f"collections/{name}/documents/{file}", {"text": "Given: Karl."}).status_code == 200
    file.unlink()
    ingest()
    assert texts() == {"Given: Karl."}


def test_puts_at_once_are_all_there(shelves: Shelves) -> None:
    name = made(shelves, "red-crowd")
    replies: list[int] = []

    def put(i: int) -> None:
        body = {"text": f"Gauge {i} shows {i * 7} bar."}
        replies.append(shelves.call("PUT", f"collections/{name}/documents/g{i % 8}", body).status_code)

    threads = [threading.Thread(target=put, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == [200] * 16 + [201] * 8
    row = shelves.call("GET", f"collections/{name}").json()
    assert (row["documents"], row["chunks"]) == (8, 8)


def test_a_collection_speaks_the_language_of_its_first_documents(shelves: Shelves) -> None:
    name = made(shelves, "red-deutsch")
    text = "Die Pumpe steht im Keller und wird jeden Montag von dem Meister geölt, damit sie nicht verrostet."
    assert shelves.call("PUT", f"collections/{name}/documents/a.md", {"text": text}).status_code == 201
    assert shelves.call("GET", f"collections/{name}").json()["language"] == "de"
    assert shelves.search("Pumpen", name)[0]["ranks"].get("bm25") == 1


def test_attributes_and_groups_are_what_the_put_says_or_else_its_front_matter(shelves: Shelves) -> None:
    name = made(shelves, "red-said")
    text = "---\ntitle: Pay\nyear: 2024\ngroups: [hr]\n---\nThe red pay scales."
    path = f"collections/{name}/documents/pay.md"
    shelves.call("PUT", path, {"text": text})
    found = shelves.call("GET", path).json()
    assert (found["title"], found["attributes"], found["groups"]) == ("Pay", {"year": 2024}, ["hr"])
    said = {"text": text, "attributes": {"team": "red", "draft": True}, "groups": []}
    assert shelves.call("PUT", path, said).json()["status"] == "replaced"
    found = shelves.call("GET", path).json()
    assert (found["attributes"], found["groups"]) == ({"team": "red", "draft": True}, [])
    assert shelves.call("PUT", path, said).json()["status"] == "unchanged"
    assert shelves.call("PUT", path, {**said, "groups": ["hr"]}).json()["status"] == "replaced"
    for wrong in ({"attributes": {"a b": 1}}, {"attributes": [1]}, {"groups": "hr"}, {"groups": ["/"]}):
        reply = shelves.call("PUT", path, {**said, **wrong})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, next(iter(wrong)))
    assert shelves.call("GET", path).json()["groups"] == ["hr"]
