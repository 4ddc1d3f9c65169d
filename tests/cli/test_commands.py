"""Every command as a process of its own: exit codes, what goes to which stream, and one line for each thing wrong."""

import json
import os
import pty
import re
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli import COMMANDS
from cli import ragway as group
from tests.support.copies import copied
from tests.support.gateway import environment, ragway, ragway_from_scratch, refused
from tests.support.rows import all_rows

KOTLIN = "How do I use Zephyr from Kotlin?"


def command(name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def commands_of(made: click.Command) -> Iterator[click.Command]:
    """The command, or all commands of a group and of the groups within."""
    if not isinstance(made, click.Group):
        yield made
        return
    for part in made.commands.values():
        yield from commands_of(part)


# Help


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_goes_to_stdout_and_says_what_each_option_does(name: str, tmp_path: Path) -> None:
    done = ragway(name, "--help", folder=tmp_path) if name else ragway_from_scratch("--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: ragway {name}".rstrip())
    if name:
        made = command(name)
        for part in commands_of(made):
            options = [param for param in part.params if isinstance(param, click.Option)]
            assert all(param.help for param in options)
            assert {"--config", "--data"} <= {flag for param in options for flag in param.opts}
    else:
        assert all(re.search(rf"^  {known} ", done.stdout, re.MULTILINE) for known in COMMANDS)


@all_rows("name", COMMANDS)
def test_the_table_of_commands_says_what_the_command_says_of_itself(name: str) -> None:
    said = re.findall(r"[a-z]{4,}", COMMANDS[name][1].lower())
    itself = (command(name).help or "").lower()
    assert command(name).name == name
    assert COMMANDS[name][1].endswith(".")
    assert sum(word in itself for word in said) >= len(said) * 0.6


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_needs_nothing_heavy(flag: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cli", flag],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({}),
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in imported  # the list is what we think it is
    assert not imported & {
        "asyncio", "httpx", "litellm", "numpy", "onnxruntime", "orjson", "qdrant_client", "qdrant_edge", "sqlalchemy",
        "starlette", "torch", "transformers", "uvicorn", "uvloop", "yaml",
    }  # fmt: skip


def test_the_installed_command_and_the_module_are_the_same(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("ragway")
    installed = subprocess.run([script, "--version"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert installed.stdout == ragway_from_scratch("--version", folder=tmp_path).stdout
    assert re.fullmatch(r"ragway, version \d+\.\d+\.\d+\n", installed.stdout)


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",), ("--nonsense",), ("ingest",), ("search",), ("rebuild",), ("search", "a", "b"), ("search", "  "),
        ("search", "a", "-k", "0"), ("search", "a", "-k", "many"), ("serve", "--port", "70000"),
        ("serve", "--workers", "0"), ("collections", "docs", "wiki"),
    ],
)  # fmt: skip
def test_wrong_usage_is_code_2_and_points_to_the_help(args: tuple[str, ...], tmp_path: Path) -> None:
    done = ragway(*args, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--help" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


# The data folder


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", "utf-8")
    (tmp_path / "x.md").write_text("# X", "utf-8")
    for args in (["search", "x"], ["ingest", "x.md"], ["serve", "--port", "0"]):
        line = refused(ragway(*args, folder=tmp_path))
        assert f"cannot use the data folder {tmp_path / 'data'}" in line


def test_a_qdrant_server_that_does_not_run_is_named(data: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
    environ = {"RAGWAY_QDRANT__URL": f"http://{where}"}
    line = refused(ragway("search", "x", "--data", str(data), folder=tmp_path, environ=environ))
    assert where in line
    assert "qdrant.url" in line


@pytest.mark.parametrize(
    "args",
    [
        ("collections",), ("search", "x"), ("delete", "docs", "--yes"), ("rebuild", "docs"), ("reindex",), ("mcp",),
        ("keys", "list"), ("keys", "revoke", "k"), ("usage",), ("replay", "x"), ("doctor",), ("bench", "live"),
        ("eval", ".", "--collection", "docs"),
    ],
)  # fmt: skip
def test_what_only_reads_makes_no_data_folder_and_says_that_there_is_none(
    args: tuple[str, ...], tmp_path: Path
) -> None:
    done = ragway(*args, "--data", "mistyped", folder=tmp_path)
    assert done.returncode == 1
    assert re.search("there is no |does not exist", done.stderr + done.stdout)
    assert "mistyped" in done.stderr + done.stdout
    assert not (tmp_path / "mistyped").exists()


def test_a_mistyped_path_is_the_one_thing_said_and_nothing_is_made_for_it(tmp_path: Path) -> None:
    assert refused(ragway("ingest", "nosuch", folder=tmp_path)) == "Error: there is no nosuch"
    assert not (tmp_path / "data").exists()


# Documents


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("serve", "--port", "abc"), "'abc' is not a valid whole number"),
        (("search", "x", "-k", "1.5"), "'1.5' is not a valid whole number"),
        (("bench", "q.jsonl", "--model", "m", "--max-usd", "much"), "'much' is not a valid number"),
        (("delete", "docs", "my file.md", "b.md"), "ragway delete docs --source 'my file.md' --source b.md"),
    ],
)
def test_wrong_usage_says_what_was_expected(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]


def test_a_source_that_is_not_there_is_told_with_the_one_that_may_be_meant(documents: Path, tmp_path: Path) -> None:
    data = copied(documents, tmp_path / "data")
    (row, *_) = json.loads(ragway("search", KOTLIN, "--json", "--data", str(data), folder=tmp_path).stdout)["hits"]
    source = row["passage"]["source"]
    done = ragway("delete", "docs", "--source", f"elsewhere/{source}", "--data", str(data), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"elsewhere/{source} is not in docs; did you mean {source}?\n"


def test_no_name_and_no_text_of_a_file_commands_the_terminal(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "a\x1b[31m.md").write_text(
        "---\ntitle: x\x1b]0;\n---\nThe zebra \x1b[2J is here.\n" + "Words. " * 20, "utf-8"
    )
    (folder / "bad\n\x1b[31m.md").write_bytes(b"\0")
    (folder / "link\x1b[31m.md").symlink_to(tmp_path / "away\x1b[31m.md")
    done = ragway("ingest", "odd", "--data", str(data), "--collection", "odd", folder=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 2)
    assert r"left out: odd/link\x1b[31m.md -> " in done.stderr
    assert r"bad\n\x1b[31m.md: binary" in done.stderr
    found = ragway("search", "zebra", "--data", str(data), "--collection", "odd", folder=tmp_path)
    assert r"odd/a\x1b[31m.md" in found.stdout
    assert "zebra \\x1b[2J" in found.stdout
    gone = ragway("delete", "odd", "--source", r"odd/a\x1b[31m.md", "--data", str(data), folder=tmp_path)
    assert (gone.returncode, gone.stderr) == (0, "odd/a\\x1b[31m.md is deleted\n")
    assert "\x1b" not in done.stdout + done.stderr + found.stdout + found.stderr


def test_one_bad_file_never_stops_an_ingest_and_each_is_named_at_the_end(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nThe good page is read.\n", "utf-8")
    (folder / "binary.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "empty.md").write_bytes(b" \n\n")
    (folder / "huge.txt").write_bytes(b"words " * 200_000)
    (folder / "latin.txt").write_bytes("Größe".encode("latin-1"))
    (folder / "picture.gif").write_bytes(b"x")
    (folder / "page.rst").write_text("Zebra\n=====\n\nThe zebra page is read, too.\n", "utf-8")
    os.mkfifo(folder / "pipe.md")
    args = ("--data", str(data), "--collection", "pages")
    done = ragway("ingest", "pages", "missing.md", *args, folder=tmp_path, environ={"RAGWAY_INGEST__MAX_FILE_MB": "1"})
    assert done.returncode == 1
    assert re.fullmatch(r"pages: 3 added, .*; 3 chunks written; skipped: .*\n", done.stdout)
    assert "1 unsupported type .gif" in done.stdout
    assert "1 a pipe, not a regular file" in done.stdout
    reasons = {
        "binary.txt": "binary",
        "empty.md": "empty",
        "huge.txt": "too large: 1,200,000 bytes",
        "latin.txt": "which the file does not declare",
        "missing.md": "does not exist",
    }
    lines = done.stderr.splitlines()
    assert len(lines) == len(reasons)
    for name, reason in reasons.items():
        (line,) = [line for line in lines if name in line]
        assert line.startswith("note: " if name == "latin.txt" else "not ingested: ")
        assert reason in line
    found = ragway("search", "Which page is read?", *args, "--json", folder=tmp_path)
    sources = {hit["passage"]["source"] for hit in json.loads(found.stdout)["hits"]}
    assert sources == {"pages/good.md", "pages/page.rst"}


def test_a_path_that_cannot_be_read_is_code_1_and_changes_nothing(data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    done = ragway("ingest", "pipe.md", "missing", "--data", str(data), folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    pipe, missing = done.stderr.splitlines()
    assert "pipe.md" in pipe
    assert "a pipe, not a regular file" in pipe
    assert "missing: does not exist" in missing


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_named(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "secret.md"
    page.write_text("# Secret\n", "utf-8")
    page.chmod(0)
    done = ragway("ingest", str(page), "--data", str(data), folder=tmp_path)
    assert done.returncode == 1
    assert "no permission to read the file" in done.stderr


def test_progress_is_drawn_on_a_terminal_only_and_never_on_stdout(data: Path, corpus: Path, tmp_path: Path) -> None:
    args = ["ingest", str(corpus), "--data", str(data)]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", *args],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=tmp_path,
        env=environment({}),
    )
    os.close(theirs)
    drawn = b""
    try:
        while part := os.read(ours, 1 << 16):
            drawn += part
    except OSError:  # what Linux says when the other end of a terminal is closed
        pass
    os.close(ours)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert out == "docs: 5 added, 0 changed, 0 unchanged, 0 removed; 6 chunks written\n"
    assert b"ingest docs" in drawn
    assert b"5/5" in drawn
    (corpus / "pets.html").unlink()
    again = ragway(*args, folder=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "docs: 0 added, 0 changed, 4 unchanged, 1 removed; 0 chunks written\n"


def test_search_prints_the_passages_with_what_each_arm_said(documents: Path, tmp_path: Path) -> None:
    done = ragway("search", KOTLIN, "-k", "1", "--data", str(documents), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert re.fullmatch(
        r"1\. Zephyr from Kotlin > Install  \(handbook/kotlin\.md; bm25 #1 [\d.]+, dense #1 [\d.]+\)", first
    )
    assert "zephyr-driver-kotlin-coroutine" in done.stdout
    assert "\n2. " not in done.stdout
    assert re.fullmatch(r"the best is relevant with probability [01]\.\d\d", done.stdout.splitlines()[-1])


def test_search_as_json_is_one_object_with_everything(documents: Path, tmp_path: Path) -> None:
    done = ragway("search", KOTLIN, "--json", "--data", str(documents), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert set(found) == {"query", "hits", "context", "timings_ms", "relevance"}
    assert found["relevance"] > 0.5
    assert found["query"]["text"] == KOTLIN
    assert found["hits"][0]["ranks"] == {"bm25": 1, "dense": 1}
    assert found["context"]["passages"][0]["source"] == "handbook/kotlin.md"


def test_a_search_that_finds_nothing_is_no_failure(documents: Path, tmp_path: Path) -> None:
    done = ragway("search", "quantum chromodynamics", "--data", str(documents), folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    told = r"nothing found in docs: the best is relevant with probability 0\.0\d, retrieval\.min_relevance is 0\.06\n"
    assert re.fullmatch(told, done.stderr)


@pytest.mark.parametrize("args", [("search", KOTLIN, "--collection", "nowhere"), ("rebuild", "nowhere")])
def test_an_unknown_collection_is_named(documents: Path, args: tuple[str, ...], tmp_path: Path) -> None:
    assert "'nowhere'" in refused(ragway(*args, "--data", str(documents), folder=tmp_path))


def test_collections_are_listed_for_people_and_for_programs(documents: Path, tmp_path: Path) -> None:
    done = ragway("collections", "--data", str(documents), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"docs  5 documents  6 chunks  en  hash  \d{4}-\d\d-\d\d \d\d:\d\d UTC\n", done.stdout)
    (row,) = json.loads(ragway("collections", "--json", "--data", str(documents), folder=tmp_path).stdout)
    assert (row["name"], row["documents"], row["chunks"]) == ("docs", 5, 6)


def test_no_collections_yet_is_said_on_stderr(data: Path, tmp_path: Path) -> None:
    done = ragway("collections", "--data", str(data), folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "ragway ingest" in done.stderr
    assert ragway("collections", "--json", "--data", str(data), folder=tmp_path).stdout == "[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_is_full_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "config"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment({}),
            timeout=60,
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "No space left on device" in line


def test_a_reader_that_stops_early_is_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "config"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment({}),
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(30)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("ingst",), "No such command 'ingst': did you mean 'ingest'?"),
        (("keys", "creat"), "No such command 'creat': did you mean 'create'?"),
        (("actions", "updte"), "No such command 'updte': did you mean 'update'?"),
        (("zzzzzz",), "No such command 'zzzzzz': commands: serve, ingest"),
    ],
)
def test_a_mistyped_command_is_told_the_nearest(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("where", ["before", "after"])
def test_settings_and_folder_are_named_before_the_command_or_after_it(where: str, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("server: {port: 8765}\n")
    options = ("--config", str(file), "--data", str(tmp_path / "here"))
    args = (*options, "config") if where == "before" else ("config", *options)
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"server\.port\b.*\b8765\b", done.stdout)
    assert str(tmp_path / "here") in done.stdout
