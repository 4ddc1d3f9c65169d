"""Files uploaded over the wire, and the jobs that they become."""

import io
import json
import resource
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.described import described
from tests.support.gateway import Served, environment, ragway
from tests.support.shelves import Shelves, made, serving_shelves

SETTINGS = "server: {max_upload_mb: 3}\ningest: {max_file_mb: 1}"


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    with serving_shelves(tmp_path_factory.mktemp("uploads"), SETTINGS) as opened:
        yield opened


def upload(
    shelves: Shelves, name: str, *files: tuple[str, str | bytes], by: str = "writer", query: str = "", **fields: str
) -> httpx.Response:
    sent = [("file", (file, content.encode() if isinstance(content, str) else content)) for file, content in files]
    shown = {"authorization": f"Bearer {shelves.keys[by]}"}
    url = f"{shelves.served.url}/v1/knowledge/collections/{name}/files{query}"
    return described(httpx.post(url, files=sent, data=fields, headers=shown, timeout=90))


def job(shelves: Shelves, id: str) -> dict[str, Any]:
    told: dict[str, Any] = shelves.call("GET", f"jobs/{id}").json()
    return told


def over(shelves: Shelves, id: str) -> dict[str, Any]:
    until = time.monotonic() + 200
    while (told := job(shelves, id))["status"] in ("queued", "running"):
        assert time.monotonic() < until, told
        threading.Event().wait(0.05)
    return told


def left(shelves: Shelves) -> list[Path]:
    return list((shelves.served.data / "spool").iterdir())


def test_office_files_are_uploaded_and_a_text_with_such_a_name_is_put(shelves: Shelves) -> None:
    name = made(shelves, "red-office")
    folder = Path(__file__).parents[1] / "retrieval" / "ingest" / "formats" / "office"
    files = [(one, (folder / one).read_bytes()) for one in ("handbook.docx", "prices.xlsx", "talk.pptx")]
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as archive:
        archive.writestr("notes/pumps.md", "The yellow pump is called Ottokar.")
    files.append(("box.zip", box.getvalue()))
    rows = upload(shelves, name, *files, ("broken.docx", b"PK")).json()["data"]
    assert [row["status"] for row in rows] == ["created", "created", "created", "created", "failed"], rows
    assert rows[4]["reason"].startswith("damaged, or not a .docx file")
    (hit, *_) = shelves.search("What is the yellow pump called?", name)
    assert (hit["source"], hit["place"]) == ("box.zip", "notes/pumps.md")
    (hit, *_) = shelves.search("How much is the blue pump?", name)
    assert hit["source"] in ("handbook.docx", "prices.xlsx", "talk.pptx")
    text = {"text": "# Own\n\nThe green pump is called Wanda.", "source": "own.docx"}
    reply = shelves.call("PUT", f"collections/{name}/documents/own", text)
    assert reply.status_code in (200, 201), reply.text
    assert shelves.search("What is the green pump called?", name)[0]["source"] == "own.docx"


def test_files_of_each_type_become_documents_with_what_is_said_of_them(shelves: Shelves) -> None:
    name = made(shelves, "red-types")
    page = "<html><head><title>Pets</title></head><body><p>The office dog is called Bruno.</p></body></html>"
    table = "pump,called\nred,Oskar\nblue,Wilma\n"
    reply = upload(
        shelves, name, ("pets.html", page), ("größe.csv", table), ("a.bin", b"\0\1"), ("n.md", "# New\n\nX.")
    )
    assert (reply.status_code, reply.json()["collection"]) == (200, name), reply.text
    rows = {row["key"]: row for row in reply.json()["data"]}
    assert {key: row["status"] for key, row in rows.items()} == {
        "pets.html": "created",
        "größe.csv": "created",
        "a.bin": "failed",
        "n.md": "created",
    }
    assert "unsupported type .bin" in rows["a.bin"]["reason"]
    document = shelves.call("GET", f"documents/{rows['pets.html']['id']}").json()
    assert (document["title"], document["format"], document["source"]) == ("Pets", "html", "pets.html")
    assert shelves.search("What is the dog called?", name)[0]["source"] == "pets.html"
    told = job(shelves, reply.json()["job"])
    assert (told["status"], told["documents"]) == ("completed", {"total": 4, "created": 3, "failed": 1})
    said = {"key": "p/1", "title": "Names", "attributes": '{"year": 2024}', "groups": '["hr"]', "format": "text"}
    (row,) = upload(shelves, name, ("x.unknown", "The pump is called Karl."), **said).json()["data"]
    found = shelves.call("GET", f"collections/{name}/documents/p/1").json()
    assert (found["id"], found["title"], found["attributes"], found["groups"], found["source"]) == (
        row["id"],
        "Names",
        {"year": 2024},
        ["hr"],
        "x.unknown",
    )
    again = upload(shelves, name, ("x.unknown", "The pump is called Karl."), **said).json()["data"]
    assert again == [{**row, "status": "unchanged"}]
    assert left(shelves) == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("../../etc/passwd.md", "passwd.md"),
        ("/root/a.md", "a.md"),
        ("C:\\docs\\b.md", "b.md"),
        ("..\\..\\c.md", "c.md"),
    ],
)
def test_a_file_name_is_a_name_and_no_path(shelves: Shelves, name: str, key: str) -> None:
    if shelves.call("GET", "collections/red-names").status_code == 404:
        made(shelves, "red-names")
    (row,) = upload(shelves, "red-names", (name, f"Named {key}.")).json()["data"]
    assert (row["key"], row["status"]) == (key, "created")
    assert not (shelves.served.data.parent / key).exists()


def test_what_is_no_upload_is_refused_and_nothing_is_kept(shelves: Shelves) -> None:
    name = made(shelves, "red-refused")
    shown = {"authorization": f"Bearer {shelves.keys['writer']}"}
    url = f"{shelves.served.url}/v1/knowledge/collections/{name}/files"
    form = "multipart/form-data; boundary=b"
    whole = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nA text.\r\n--b--\r\n'
    for content_type, body, status, code in (
        ("application/json", b"{}", 415, "unsupported_content_type"), ("multipart/form-data", whole, 415, None),
        (form + ";" * 1000, whole, 415, "unsupported_content_type"),
        (form, whole[:-9], 400, "invalid_form"), (form, b"nonsense", 400, "invalid_form"), (form, b"", 400, None),
        (form, whole.replace(b"file\"", b"other\""), 400, "invalid_parameter"),
        (form, whole.replace(b"a.md", b".."), 400, "invalid_parameter"),
        (form, whole.replace(b"a.md", b"a\tb.md"), 400, "invalid_parameter"),
    ):  # fmt: skip
        reply = httpx.post(url, content=body, headers={**shown, "content-type": content_type}, timeout=30)
        assert reply.status_code == status, (body, reply.text)
        assert code in (None, reply.json()["error"]["code"])
    for files, fields, param in (
        ([("a.md", "A."), ("x/a.md", "B.")], {}, "file"), ([("a.md", "A."), ("b.md", "B.")], {"key": "k"}, "key"),
        ([("a.md", "A.")], {"attributes": "{"}, "attributes"), ([("a.md", "A.")], {"attributes": "[1]"}, "attributes"),
        ([("a.md", "A.")], {"groups": '"hr"'}, "groups"), ([("a.md", "A.")], {"owner": "me"}, "owner"),
        ([("a.md", "A.")], {"background": "perhaps"}, "background"), ([("a.md", "A.")], {"format": "pdf"}, "format"),
    ):  # fmt: skip
        reply = upload(shelves, name, *files, **fields)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text
    big = upload(shelves, name, ("a.md", "A."), ("big.md", "x" * (2**20 + 1)))
    assert (big.status_code, big.json()["error"]["code"]) == (413, "file_too_large")
    many = [(f"{i}.md", "x" * 2**20) for i in range(4)]
    assert upload(shelves, name, *many).json()["error"]["code"] == "body_too_large"
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == 0
    assert left(shelves) == []


def test_a_chunked_upload_is_cut_at_the_limit_and_one_that_is_left_is_forgotten(shelves: Shelves) -> None:
    name = made(shelves, "red-chunked")
    url = f"{shelves.served.url}/v1/knowledge/collections/{name}/files"
    shown = {"authorization": f"Bearer {shelves.keys['writer']}", "content-type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="%d.md"\r\n\r\n'

    def body(last: bool) -> Iterator[bytes]:
        for i in range(5 if last else 2):
            yield (b"\r\n" if i else b"") + head % i + b"x" * 900_000
        if not last:
            raise ConnectionAbortedError

    assert httpx.post(url, content=body(True), headers=shown, timeout=30).status_code == 413
    with pytest.raises(ConnectionAbortedError):
        httpx.post(url, content=body(False), headers=shown, timeout=30)
    until = time.monotonic() + 100
    while left(shelves):
        assert time.monotonic() < until
        threading.Event().wait(0.05)
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == 0


def test_a_full_disk_refuses_the_upload_and_keeps_nothing_of_it(served: Callable[..., Served]) -> None:
    """A file of the gateway's may grow to 256 KB: every write beyond is refused, as on a full disk."""
    gateway = served()
    url = f"{gateway.url}/v1/knowledge/collections"
    assert httpx.post(url, json={"name": "docs"}, timeout=60).status_code == 201
    resource.prlimit(gateway.worker_pid(), resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
    reply = httpx.post(url + "/docs/files", files={"file": ("a.md", b"x" * (1 << 19))}, timeout=60)
    assert (reply.status_code, reply.json()["error"]["code"]) == (507, "disk_full"), reply.text
    assert list((gateway.data / "spool").iterdir()) == []
    assert httpx.get(url + "/docs/documents", timeout=60).json()["data"] == []
    reply = httpx.post(url + "/docs/files", files={"file": ("a.md", b"Small enough.")}, timeout=60)
    assert [row["status"] for row in reply.json()["data"]] == ["created"]
    for headers in ({"origin": "https://evil.example.com"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        reply = httpx.post(url + "/docs/files", files={"file": ("b.md", b"x")}, headers=headers, timeout=60)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")


def test_a_job_in_the_background_tells_how_far_it_is(shelves: Shelves) -> None:
    name = made(shelves, "red-job")
    files = [(f"{i}.md", f"Gauge {i} shows {i * 7} bar.") for i in range(5)]
    for reply in (
        upload(shelves, name, *files, background="true"),
        upload(shelves, name, *files, query="?background=true"),
    ):
        told = reply.json()
        assert (reply.status_code, told["object"], told["collection"]) == (202, "knowledge.job", name)
        assert told["documents"]["total"] == 5
    first, second = (row["id"] for row in shelves.call("GET", f"jobs?collection={name}").json()["data"][::-1])
    assert over(shelves, first)["documents"] == {"total": 5, "created": 5}
    assert over(shelves, second)["documents"] == {"total": 5, "unchanged": 5}
    assert [row["status"] for row in job(shelves, second)["data"]] == ["unchanged"] * 5
    page = shelves.call("GET", f"jobs?collection={name}&limit=1").json()
    assert (page["has_more"], page["last_id"]) == (True, second)
    assert shelves.call("GET", f"jobs?collection={name}&after={second}").json()["data"][0]["id"] == first


def test_an_ingest_a_job_and_a_put_of_one_collection_queue(shelves: Shelves, tmp_path: Path) -> None:
    name = made(shelves, "red-queue")
    folder = tmp_path / "notes"
    folder.mkdir()
    for i in range(30):
        (folder / f"{i}.md").write_text(f"The note {i} tells of valve {i}.", "utf-8")
    data = str(shelves.served.data)
    command = [sys.executable, "-m", "cli", "ingest", str(folder), "--collection", name, "--data", data]
    ingests = [
        subprocess.Popen(command, cwd=tmp_path, env=environment({}), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    files = [(f"{i}.md", f"Uploaded note {i} tells of hose {i}.") for i in range(20)]
    jobs = [upload(shelves, name, *files, background="true").json()["id"] for _ in range(2)]
    assert shelves.call("PUT", f"collections/{name}/documents/k", {"text": "A put."}).status_code == 201
    for ingest in ingests:
        _, said = ingest.communicate(timeout=60)
        assert ingest.returncode == 0, said
    counts = [over(shelves, id)["documents"] for id in jobs]
    assert counts == [{"total": 20, "created": 20}, {"total": 20, "unchanged": 20}]
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == 51


def test_a_job_is_cancelled_and_what_is_written_stays(shelves: Shelves) -> None:
    name = made(shelves, "red-cancel")
    long = "\n\n".join(f"Paragraph {i} of a text that takes a while to embed, about valve {i}." * 9 for i in range(60))
    id = upload(shelves, name, *((f"{i}.md", f"{i} {long}") for i in range(20)), background="true").json()["id"]
    assert job(shelves, id)["status"] in ("queued", "running")
    reply = shelves.call("POST", f"jobs/{id}/cancel")
    assert (reply.status_code, reply.json()["status"]) == (200, "cancelled")
    assert shelves.call("DELETE", f"jobs/{id}").json()["status"] == "cancelled"
    # Behind the document whose turn it was, so that it is over.
    assert upload(shelves, name, ("z.md", "The last one.")).json()["data"][0]["status"] == "created"
    counts = job(shelves, id)["documents"]
    assert counts["cancelled"] >= 15
    assert counts["cancelled"] + counts.get("created", 0) == 20
    assert shelves.call("GET", f"collections/{name}").json()["documents"] == counts.get("created", 0) + 1


def told(reply: httpx.Response, name: str) -> tuple[int, str]:
    return reply.status_code, json.dumps(reply.json()).replace(name, "NAME")


def test_who_may_not_write_a_collection_uploads_nothing_and_sees_no_jobs(shelves: Shelves) -> None:
    name = made(shelves, "red-hidden")
    id = upload(shelves, name, ("a.md", "A secret."), background="true").json()["id"]
    over(shelves, id)
    for key in ("reader", "other"):
        for method, path in (("GET", "jobs/{}"), ("DELETE", "jobs/{}"), ("POST", "jobs/{}/cancel")):
            here, none = (told(shelves.call(method, path.format(n), key=key), n) for n in (id, "job-none"))
            assert here == none
            assert here[0] == 404
            assert "job_not_found" in here[1]
        assert shelves.call("GET", "jobs", key=key).json()["data"] == []
    here, none = (told(upload(shelves, n, ("a.md", "A."), by="other"), n) for n in (name, "red-none"))
    assert here == none
    assert here[0] == 404
    assert upload(shelves, name, ("a.md", "A."), by="reader").json()["error"]["code"] == "forbidden"
    assert shelves.call("DELETE", f"collections/{name}").status_code == 200
    assert shelves.call("GET", f"jobs/{id}").status_code == 404


def test_a_job_goes_on_after_a_kill(tmp_path: Path) -> None:
    with serving_shelves(tmp_path) as shelves:
        name = made(shelves, "red-killed")
        files = [(f"{i}.md", f"The note {i} tells of valve {i}.") for i in range(40)]
        id = upload(shelves, name, *files, background="true").json()["id"]
        subprocess.run(["kill", "-9", str(shelves.served.index_pid())], check=True)
        until = time.monotonic() + 200
        while (reply := shelves.call("GET", f"jobs/{id}")).status_code == 503:
            assert time.monotonic() < until
            threading.Event().wait(0.1)
        assert reply.status_code == 200
        counts = over(shelves, id)["documents"]
        assert counts.get("created", 0) + counts.get("unchanged", 0) == 40
        assert shelves.call("GET", f"collections/{name}").json()["documents"] == 40
        done = ragway("collections", "--data", str(shelves.served.data), folder=tmp_path)
        assert name in done.stdout
