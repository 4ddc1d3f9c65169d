"""The benchmark of action search: a run on a small set of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.retrieval.actions import own_of
from tests.support.gateway import environment

ROOT = Path(__file__).parents[2]


def printed(script: str, *words: str, folder: Path) -> list[str]:
    """The lines of a benchmark on standard output."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "retrieval" / script), *words],
        capture_output=True, text=True, check=False, cwd=folder,
        env=environment({"RAGWAY_EMBEDDER__MODEL": "hash"}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def judged(folder: Path, paths: dict[str, object], question: str, *gold: str) -> None:
    """Write a judged set with one question."""
    (folder / "openapi.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": each, "text": each}) + "\n" for each in gold))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": question}) + "\n")
    (folder / "qrels.tsv").write_text("".join(f"1\t{each}\t1\n" for each in gold))


def test_a_run_finds_the_judged_operation(tmp_path: Path) -> None:
    paths: dict[str, object] = {
        "/users": {"get": {"summary": "List users"}},
        "/invoices": {"get": {"summary": "List invoices"}},
    }
    judged(tmp_path, paths, "list users", "GET /users")
    lines = printed("actions.py", str(tmp_path), "--data", str(tmp_path / "data"), folder=tmp_path)
    assert lines[-1].startswith(f"| {tmp_path.name} | 0 | ragway | 1.000 | 1.000 | 1.000 | 0 |")


def test_whole_documents_join_up_to_a_number_of_operations(tmp_path: Path) -> None:
    judged(tmp_path, {"/users": {"get": {"summary": "List users"}}}, "list users", "GET /users")
    others = tmp_path / "others"
    others.mkdir()
    for name in ("a", "b"):
        paths: dict[str, object] = {f"/{name}/{number}": {"get": {"summary": "List users"}} for number in range(3)}
        (others / f"{name}.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    (others / "broken.json").write_text("{")
    lines = printed("actions.py", str(tmp_path), "--others", str(others), "--among", "0,2,100", folder=tmp_path)
    assert [line.split(" | ")[1] for line in lines[2:]] == ["0", "3", "6"]


def test_each_api_of_toolbench_becomes_a_set(tmp_path: Path) -> None:
    rows = {
        "A::List users": "[Social] GET All the users.\nrequired page: The page; size: ",
        "A::count": "[Social] POST Count\n",
        "B::List users": "[Games] GET Users",
    }
    corpus = "".join(json.dumps({"_id": id, "title": "", "text": text}) + "\n" for id, text in rows.items())
    (tmp_path / "corpus.jsonl").write_text(corpus)
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": "list users"}) + "\n")
    (tmp_path / "qrels.tsv").write_text("1\tA::List users\t1\n")
    own = own_of(tmp_path)
    assert [document.title for document in own.sets.values()] == ["A", "B"]
    assert sorted(own.ids.values()) == sorted(rows)
    first = next(iter(own.sets.values())).operations[0]
    assert (first.summary, first.description) == ("List users", "All the users.")
    assert list(first.schema["properties"]) == ["page", "size"]


@pytest.mark.parametrize(("words", "recall"), [([], "1.000"), (["--alone"], "0.500")])
def test_a_search_alone_brings_no_producer_along(tmp_path: Path, words: list[str], recall: str) -> None:
    wanted = {
        "parameters": [{"name": "userId", "in": "path", "required": True}],
        "summary": "Show the birthday of a person",
    }
    paths: dict[str, object] = {
        f"/calendar{number}": {"get": {"summary": "Birthday of a person"}} for number in range(12)
    }
    paths |= {"/users/{userId}/birthday": {"get": wanted}, "/users": {"get": {"summary": "List"}}}
    judged(tmp_path, paths, "show the birthday of a person", "GET /users/{userId}/birthday", "GET /users")
    lines = printed("actions.py", str(tmp_path), *words, "--data", str(tmp_path / "data"), folder=tmp_path)
    assert lines[-1].split(" | ")[4] == recall


def test_documents_are_counted_with_the_reasons(tmp_path: Path) -> None:
    paths: dict[str, object] = {"/good": {"get": {}}, "/bad": {"trace": {}}}
    (tmp_path / "a.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    (tmp_path / "b.yaml").write_text("openapi: 4.0.0\n")
    lines = printed("openapi.py", str(tmp_path), folder=tmp_path)
    rows = dict(cells for line in lines if len(cells := line.strip("| ").split(" | ")) == 2)
    assert (
        rows["documents"] == rows["refused documents"] == rows["operations"] == rows["operations with a reason"] == "1"
    )
    assert rows["TRACE is not called"] == "1"
