"""Files and vector stores as the official SDK makes, fills, reads and deletes them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import APIStatusError, BadRequestError, NotFoundError, OpenAI, PermissionDeniedError

from tests.support.described import described
from tests.support.shelves import Shelves, made, serving_shelves

TEXT = b"# Pumps\n\nThe red pump is called Oskar."


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    with serving_shelves(tmp_path_factory.mktemp("files")) as opened:
        yield opened


_opened: list[OpenAI] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def sdk(shelves: Shelves, key: str = "writer") -> OpenAI:
    """The SDK, each of whose replies is held against the OpenAPI document."""

    def check(reply: httpx.Response) -> None:
        reply.read()
        described(reply)

    http = httpx.Client(event_hooks={"response": [check]})
    client = OpenAI(api_key=shelves.keys[key], base_url=f"{shelves.served.url}/v1", max_retries=0, http_client=http)
    _opened.append(client)
    return client


def refusal(error: APIStatusError, id: str) -> tuple[int, str]:
    return error.status_code, json.dumps(error.body).replace(id, "ID")


def test_files_are_kept_listed_read_and_deleted(shelves: Shelves) -> None:
    client = sdk(shelves)
    big = bytes(range(256)) * 10_000  # in parts
    files = [
        client.files.create(file=(name, content), purpose="assistants")
        for name, content in (("a.md", TEXT), ("../../b.md", big), ("c.txt", b""))
    ]
    assert [(one.filename, one.bytes, one.status) for one in files] == [
        ("a.md", len(TEXT), "processed"),
        ("b.md", len(big), "processed"),
        ("c.txt", 0, "processed"),
    ]
    ids = [one.id for one in files]
    assert [one.id for one in client.files.list() if one.id in ids] == ids[::-1]
    page = client.files.list(limit=2, order="asc", after=ids[0])
    assert [one.id for one in page.data] == ids[1:]
    assert [one.id for one in client.files.list(limit=1) if one.id in ids] == ids[::-1]
    assert client.files.list(purpose="user_data").data == []
    assert client.files.retrieve(ids[0]) == files[0]
    assert [client.files.content(id).content for id in ids] == [TEXT, big, b""]
    assert client.files.delete(ids[0]).deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(NotFoundError):
            call(ids[0])
    with pytest.raises(BadRequestError, match=r"'purpose' must be .* upstream.paths lists /v1/files"):
        client.files.create(file=("a.jsonl", b"{}"), purpose="batch")
    with pytest.raises(BadRequestError, match="expires_after"):
        client.files.create(
            file=("a.md", b"x"), purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
        )


def test_a_file_is_its_teams_and_to_others_none(shelves: Shelves) -> None:
    client, mate, other = sdk(shelves), sdk(shelves, "reader"), sdk(shelves, "other")
    made(shelves, "red-owned")
    theirs = other.vector_stores.create(name="blue-owned")
    file = client.files.create(file=("a.md", TEXT), purpose="assistants")
    assert mate.files.retrieve(file.id) == file
    assert file.id in [one.id for one in mate.files.list()]
    assert file.id not in [one.id for one in other.files.list()]
    for call in (
        other.files.retrieve,
        other.files.content,
        other.files.delete,
        lambda id: other.vector_stores.files.create(theirs.id, file_id=id),
        lambda id: other.vector_stores.file_batches.create(theirs.id, file_ids=[id]),
        lambda id: other.vector_stores.create(name="blue-new", file_ids=[id]),
    ):
        answers = []
        for id in (file.id, file.id[:-1] + ("0" if file.id[-1] != "0" else "1"), "file-none"):
            with pytest.raises(NotFoundError) as caught:
                call(id)
            answers.append(refusal(caught.value, id))
        assert len(set(answers)) == 1, answers
    mine = other.files.create(file=("b.md", b"Blue."), purpose="assistants")
    with pytest.raises(NotFoundError):  # one foreign among one's own: nothing of it happens
        other.vector_stores.file_batches.create(theirs.id, file_ids=[mine.id, file.id])
    assert other.vector_stores.files.list(theirs.id).data == []
    assert "blue-new" not in [store.id for store in other.vector_stores.list()]
    with pytest.raises(PermissionDeniedError):  # it may read alone
        mate.files.create(file=("a.md", TEXT), purpose="assistants")
    with pytest.raises(PermissionDeniedError):
        mate.vector_stores.files.create("red-owned", file_id=file.id)
    with pytest.raises(PermissionDeniedError):
        mate.vector_stores.delete("red-owned")


def test_a_store_is_made_filled_searched_and_deleted(shelves: Shelves) -> None:
    client = sdk(shelves)
    store = client.vector_stores.create(name="red-store")
    assert (store.id, store.name, store.status, store.file_counts.total) == ("red-store", "red-store", "completed", 0)
    attached = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("pumps.md", TEXT))
    assert (attached.status, attached.last_error, attached.vector_store_id) == ("completed", None, "red-store")
    file = client.files.retrieve(attached.id)
    assert file.filename == "pumps.md"
    (hit,) = client.vector_stores.search(store.id, query="What is the red pump called?").data
    assert (hit.file_id, hit.filename, hit.content[0].text) == (file.id, "pumps.md", TEXT.decode())
    assert [part.text for part in client.vector_stores.files.content(file.id, vector_store_id=store.id)] == [
        TEXT.decode()
    ]
    assert [one.id for one in client.vector_stores.files.list(store.id)] == [file.id]
    changed = client.vector_stores.files.update(
        file.id, vector_store_id=store.id, attributes={"year": 2024, "draft": True}
    )
    assert (changed.status, changed.attributes) == ("completed", {"year": 2024, "draft": True})
    assert shelves.call("GET", f"collections/red-store/documents/{file.id}").json()["attributes"] == changed.attributes
    bad = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("a.bin", b"\0\1"))
    assert bad.last_error is not None
    assert (bad.status, bad.last_error.code) == ("failed", "unsupported_file")
    counts = client.vector_stores.retrieve(store.id).file_counts
    assert (counts.completed, counts.failed, counts.in_progress, counts.total) == (1, 1, 0, 2)
    listed = client.vector_stores.files.list
    assert [one.id for one in listed(store.id, limit=1)] == [bad.id, file.id]
    assert [one.id for one in listed(store.id, filter="failed")] == [bad.id]
    assert [one.id for one in listed(store.id, filter="completed")] == [file.id]
    assert client.vector_stores.update(store.id, name="red-store").id == store.id
    for wrong in ({"name": "red-else"}, {"metadata": {"a": "b"}}):
        with pytest.raises(BadRequestError):
            client.vector_stores.update(store.id, **wrong)
    for gone in (bad.id, file.id):
        assert client.vector_stores.files.delete(gone, vector_store_id=store.id).deleted
        with pytest.raises(NotFoundError):
            client.vector_stores.files.retrieve(gone, vector_store_id=store.id)
    assert client.files.retrieve(file.id).id == file.id, "it can be attached again"
    assert client.vector_stores.search(store.id, query="What is the red pump called?").data == []
    assert client.vector_stores.delete(store.id).deleted
    with pytest.raises(NotFoundError):
        client.vector_stores.retrieve(store.id)
    assert client.vector_stores.create(name="red-store").file_counts.total == 0, "a new one has nothing of the old"


def test_batches_tell_how_far_they_are_and_are_cancelled(shelves: Shelves) -> None:
    client = sdk(shelves)
    made(shelves, "red-batch")
    files = [(f"{i}.md", f"Gauge {i} shows {i * 7} bar.".encode()) for i in range(4)]
    batch = client.vector_stores.file_batches.upload_and_poll("red-batch", files=[*files, ("x.bin", b"\0")])
    assert (batch.status, batch.file_counts.completed, batch.file_counts.failed, batch.file_counts.total) == (
        "completed",
        4,
        1,
        5,
    )
    rows = list(client.vector_stores.file_batches.list_files(batch.id, vector_store_id="red-batch", limit=2))
    assert sorted(row.status for row in rows) == ["completed"] * 4 + ["failed"]
    long = b"\n\n".join(b"Paragraph %d of a text that takes a while to embed." % i * 9 for i in range(60))
    ids = [client.files.create(file=(f"{i}.md", b"%d " % i + long), purpose="assistants").id for i in range(12)]
    attributes: dict[str, str | float | bool] = {"year": 2025}
    batch = client.vector_stores.file_batches.create(
        "red-batch", files=[{"file_id": id, "attributes": attributes} for id in ids]
    )
    assert batch.status == "in_progress"
    assert client.vector_stores.retrieve("red-batch").status == "in_progress"
    assert client.vector_stores.files.retrieve(ids[-1], vector_store_id="red-batch").status == "in_progress"
    client.vector_stores.files.delete(ids[-1], vector_store_id="red-batch")
    client.files.delete(ids[-2])
    batch = client.vector_stores.file_batches.cancel(batch.id, vector_store_id="red-batch")
    assert (batch.status, batch.file_counts.total) == ("cancelled", 10)
    until = time.monotonic() + 60
    while client.vector_stores.retrieve("red-batch").status == "in_progress":
        assert time.monotonic() < until
    (first, *_) = client.vector_stores.file_batches.list_files(
        batch.id, vector_store_id="red-batch", filter="cancelled"
    )
    assert client.vector_stores.files.retrieve(first.id, vector_store_id="red-batch").status == "cancelled"
    made(shelves, "red-elsewhere")
    for store, key in (("red-elsewhere", "writer"), ("red-batch", "reader"), ("red-batch", "other")):
        with pytest.raises(NotFoundError):
            sdk(shelves, key).vector_stores.file_batches.retrieve(batch.id, vector_store_id=store)


def test_a_store_takes_files_as_it_is_made_and_deleted_files_go_from_it(shelves: Shelves) -> None:
    client = sdk(shelves)
    file = client.files.create(file=("pumps.md", TEXT), purpose="user_data")
    store = client.vector_stores.create(name="red-made", file_ids=[file.id])
    assert client.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=50).status == "completed"
    with pytest.raises(NotFoundError):
        client.vector_stores.create(name="red-other", file_ids=[file.id, "file-none"])
    with pytest.raises(BadRequestError):
        client.vector_stores.create(name="red-other", expires_after={"anchor": "last_active_at", "days": 1})
    with pytest.raises(PermissionDeniedError):
        client.vector_stores.create()  # a name of our own is none that this key may write
    assert shelves.call("GET", "collections/red-other").status_code == 404
    client.files.delete(file.id)
    assert list(client.vector_stores.files.list(store.id)) == []
    put = shelves.call("PUT", "collections/red-made/documents/mine.md", {"text": "Wilma."}).json()
    (row,) = client.vector_stores.files.list(store.id).data
    assert (row.id, row.status) == (put["id"], "completed"), "documents of another way in are shown by their own ids"
    assert client.vector_stores.files.delete(row.id, vector_store_id=store.id).deleted
    assert shelves.call("GET", "collections/red-made").json()["documents"] == 0


def test_a_configuration_that_relays_vector_stores_relays_no_files_of_ours(tmp_path: Path) -> None:
    settings = "upstream: {paths: {/v1/vector_stores: echo}}"
    with serving_shelves(tmp_path, settings) as shelves, pytest.raises(NotFoundError) as caught:
        sdk(shelves).files.list()
    assert caught.value.code in ("unknown_path", "path_not_supported")
