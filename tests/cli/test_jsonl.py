"""`ragway ingest - --format jsonl`: what programs print, as documents."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.gateway import PATIENCE_S, environment, ragway


def ingest(folder: Path, *lines: object) -> subprocess.CompletedProcess[str]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return subprocess.run(
        [sys.executable, "-m", "cli", "ingest", "-", "--format", "jsonl", "--collection", "tickets"],
        input=text, cwd=folder, env=environment({}), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_each_line_becomes_a_document_and_is_replaced_by_its_id(tmp_path: Path) -> None:
    lines = [
        {"id": "1", "title": "Pump", "text": "The pump hums.", "url": "https://t.example/1", "groups": ["staff"]},
        {"id": "2", "html": "<h1>Valve</h1><p>It <b>leaks</b>.</p>", "attributes": {"open": True}},
        {"id": "2", "markdown": "# Valve\n\nIt leaked."},
    ]
    done = ingest(tmp_path, *lines, "")
    assert (done.returncode, done.stdout) == (0, "tickets: 2 added, 1 changed, 0 unchanged\n"), done.stderr
    done = ingest(tmp_path, lines[0], {"id": "3", "text": "New."})
    assert done.stdout == "tickets: 1 added, 0 changed, 1 unchanged\n"
    found = ragway("search", "pump", "--collection", "tickets", folder=tmp_path).stdout
    assert "https://t.example/1" in found


def test_a_line_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    done = ingest(
        tmp_path, "{", {"id": "1"}, {"id": "2", "text": "a", "html": "b"}, {"id": "3", "text": ""},
        {"id": "4", "text": "Read.", "titel": "x"}, {"id": "5", "text": "Read.", "groups": ["no group!"]},
        {"id": "6", "text": "Read."},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "tickets: 1 added, 0 changed, 0 unchanged\n")
    named = [line.removeprefix("not ingested: ").partition(":")[0] for line in done.stderr.splitlines()]
    assert named == ["line 1", "line 2", "line 3", "line 5", "line 6", "3"]


def test_standard_input_needs_its_format(tmp_path: Path) -> None:
    for arguments in (["-"], ["a.md", "--format", "jsonl"], ["-", "--format", "jsonl", "--exclude", "a"]):
        done = ragway("ingest", *arguments, folder=tmp_path)
        assert done.returncode == 2
        assert "ragway ingest - --format jsonl" in done.stderr


def test_fields_of_records_are_chosen_on_the_command_line(tmp_path: Path) -> None:
    said = "is broken since May."
    rows = [{"key": f"P-{n}", "s": {"t": f"Crane {n}"}, "body": f"Crane {n} {said}", "x": 1} for n in (1, 2)]
    (tmp_path / "tickets.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    fields = ("--fields", "text=body,text=s.t,title=s.t,id=key,attributes=x", "--collection", "tickets")
    done = ragway("ingest", "tickets.jsonl", *fields, folder=tmp_path)
    assert done.stdout.startswith("tickets: 2 added, 0 changed, 0 unchanged"), done.stderr
    done = ragway("ingest", "tickets.jsonl", *fields, folder=tmp_path)
    assert done.stdout.startswith("tickets: 0 added, 0 changed, 2 unchanged"), done.stderr
    assert "tickets.jsonl/P-2.md" in ragway("search", "crane 2", "--collection", "tickets", folder=tmp_path).stdout


def test_fields_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]", "utf-8")
    for fields, reason in (
        ("body", "'body' is not KIND=FIELD"), ("txt=body", "with one of text, title, id"), ("text=", "'text='"),
        ("title=a", "text=FIELD is missing"), ("text=a,id=b,id=c", "id stands twice"), ("", "'' is not KIND=FIELD"),
    ):  # fmt: skip
        done = ragway("ingest", "a.json", "--fields", fields, folder=tmp_path)
        assert done.returncode == 2
        assert reason in done.stderr
