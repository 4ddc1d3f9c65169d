"""Commands on real documents, started, stopped and beside each other."""

import fcntl
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from retrieval.index.data_folder import hold
from tests.support.copies import copied
from tests.support.gateway import environment, ragway, refused, serving

KOTLIN = "How do I use Zephyr from Kotlin?"


def test_collections_are_listed_beside_an_ingest_and_others_are_told_what_runs(documents: Path, tmp_path: Path) -> None:
    data = copied(documents, tmp_path / "data")
    with hold(data, "process 7 (ragway ingest)"):
        done = ragway("collections", "--data", str(data), folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("docs  5 documents")
        search = [sys.executable, "-m", "cli", "search", KOTLIN, "--data", str(data)]
        with subprocess.Popen(search, stderr=subprocess.PIPE, text=True, env=environment({})) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith(f"process 7 (ragway ingest) uses {data}: waiting")
            waiting.kill()


def test_the_holder_of_a_data_folder_is_the_command_that_was_given(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path, "models: {echo: {lane: echo}}") as gateway:
        assert (data / "lock").read_text("utf-8") == f"process {gateway.process.pid} (ragway serve)"
        assert "authorization" not in gateway.example, "there are no keys"


def test_of_two_benches_the_one_that_holds_the_folder_is_named(documents: Path, tmp_path: Path) -> None:
    data = shutil.copytree(documents, tmp_path / "data")
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": KOTLIN}) + "\n", "utf-8")
    args = ["bench", "q.jsonl", "--model", "echo", "--yes", "--data", str(data)]
    with (tmp_path / "first.log").open("w") as said:
        first = subprocess.Popen(
            [sys.executable, "-m", "cli", *args, "--repeats", "100000"],
            stdout=said,
            stderr=said,
            cwd=tmp_path,
            env=environment({}),
        )
    try:
        until = time.monotonic() + 60
        while not (data / "lock").exists() or not (data / "lock").read_text("utf-8").endswith("(ragway bench)"):
            assert first.poll() is None, (tmp_path / "first.log").read_text("utf-8")
            assert time.monotonic() < until, "it never held the folder"
            time.sleep(0.02)
        assert (data / "lock").read_text("utf-8") == f"process {first.pid} (ragway bench)"
    finally:
        first.kill()
        first.wait()
    while _held(data):  # its index process ends with it
        time.sleep(0.02)
    with hold(data, "process 7 (ragway bench)"):
        line = refused(ragway(*args, folder=tmp_path))
    assert f"the data folder {data} is in use by process 7 (ragway bench)" in line


def test_the_example_asks_about_what_is_there_with_a_place_for_a_key(documents: Path, tmp_path: Path) -> None:
    data = shutil.copytree(documents, tmp_path / "data")
    made = ragway("keys", "create", "a", "--read", "*", "--model", "*", "--data", str(data), folder=tmp_path)
    settings = "models: {echo: {lane: echo}}\nretrieval: {collections: [nowhere]}"
    with serving(data, tmp_path, settings) as gateway:
        assert "Try with a key in RAGWAY_KEY" in gateway.log.read_text("utf-8")
        assert '"authorization: Bearer $RAGWAY_KEY"' in gateway.example, "which a shell fills in"
        curl, url, key, shown, kind, typed, body, said = shlex.split(gateway.example)
        assert (curl, key, shown) == ("curl", "-H", "authorization: Bearer $RAGWAY_KEY")
        assert (kind, typed, body) == ("-H", "content-type: application/json", "-d")
        sent = {"authorization": f"Bearer {made.stdout.strip()}"}
        reply = httpx.post(url, json=json.loads(said), headers=sent, timeout=60)
    assert (reply.status_code, reply.headers["x-rag-status"]) == (200, "augmented")


def test_what_is_excluded_is_left_out_and_taken_away_and_comes_back(data: Path, tmp_path: Path) -> None:
    (tmp_path / "pages" / "drafts").mkdir(parents=True)
    for name in ("a.md", "drafts/b.md", "c.md"):
        (tmp_path / "pages" / name).write_text(f"# {name}\n\nWords of {name}.\n", "utf-8")
    (tmp_path / "c.md").write_text("# Named\n\nIt is named itself.\n", "utf-8")

    def ingest(*more: str) -> subprocess.CompletedProcess[str]:
        return ragway("ingest", "pages", "c.md", *more, "--data", str(data), folder=tmp_path)

    assert ingest("--exclude", "drafts").stdout.startswith("docs: 3 added, 0 changed, 0 unchanged, 0 removed; 3 chunks")
    done = ingest("--exclude", "drafts", "--exclude", "c.*")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "docs: 0 added, 0 changed, 1 unchanged, 2 removed; 0 chunks written; skipped: 3 excluded\n"
    assert ingest().stdout.startswith("docs: 3 added, 0 changed, 1 unchanged, 0 removed")
    done = ingest("--exclude", "drafst")
    assert (done.returncode, done.stderr) == (0, "--exclude matches no file and no folder of the given paths\n")
    with serving(data, tmp_path):
        assert ingest("--exclude", "drafts").stdout.startswith("docs: 0 added, 0 changed, 3 unchanged, 1 removed")


def test_a_language_that_a_collection_was_not_made_in_is_told(data: Path, tmp_path: Path) -> None:
    (tmp_path / "seite.md").write_text("# Rechnung\n\nDie Rechnungen sind noch nicht bezahlt.\n", "utf-8")
    args = ("ingest", "seite.md", "--data", str(data), "--collection", "sprachen")
    german = {"RAGWAY_INGEST__LANGUAGE": "de"}
    made = ragway(*args, folder=tmp_path, environ={"RAGWAY_INGEST__LANGUAGE": "fr"})
    assert (made.returncode, made.stderr) == (0, "")
    again = ragway(*args, folder=tmp_path, environ=german)
    assert again.returncode == 0
    assert "made in the language 'fr' and stays so, though 'de' is set: `ragway rebuild sprachen`" in again.stderr
    assert ragway("rebuild", "sprachen", "--data", str(data), folder=tmp_path, environ=german).returncode == 0
    assert ragway(*args, folder=tmp_path, environ=german).stderr == ""


def test_an_interrupted_ingest_says_so_and_the_next_one_goes_on(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text(f"Page {number} is about w{number}. " * 60, "utf-8")
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a background job has not
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "ingest", "pages", "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment({}),
    )
    signal.signal(signal.SIGINT, before)
    while not _held(data) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert errors == "interrupted; finished work is kept\n"
    done = ragway("ingest", "pages", "--data", str(data), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(ragway("collections", "--json", "--data", str(data), folder=tmp_path).stdout)
    assert [row["documents"] for row in listed] == [12]


def _held(data: Path) -> bool:
    """Whether a process holds the data folder."""
    if not (data / "lock").exists():
        return False
    with (data / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_a_rebuild_brings_an_index_back_that_was_deleted(data: Path, corpus: Path, tmp_path: Path) -> None:
    where = ("--data", str(data))
    assert ragway("ingest", str(corpus), *where, folder=tmp_path).returncode == 0
    for file in sorted((data / "index").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert "ragway rebuild docs" in refused(ragway("search", KOTLIN, *where, folder=tmp_path))
    rebuilt = ragway("rebuild", "docs", *where, folder=tmp_path)
    assert (rebuilt.returncode, rebuilt.stdout) == (0, "docs: 6 chunks written\n")
    assert "kotlin-coroutine" in ragway("search", KOTLIN, *where, folder=tmp_path).stdout


def test_files_that_are_not_read_are_named_with_the_way_to_convert_them(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wiki"
    folder.mkdir()
    (folder / "page.md").write_text("# Pumps\n\nThe blue pump is called Zephyr.\n")
    for name in ("manual.pages", "prices.numbers"):
        (folder / name).write_bytes(b"%PDF-1.7")
    done = ragway("ingest", str(folder), "--collection", "wiki", "--data", str(data), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("; not read: wiki/manual.pages, wiki/prices.numbers\n")
    for name, way in (("manual.pages", "as PDF"), ("prices.numbers", "as an Office file")):
        done = ragway("ingest", str(folder / name), "--collection", "wiki", "--data", str(data), folder=tmp_path)
        assert done.returncode == 1
        assert way in done.stderr
