"""The benchmark of action search: its scores, and a run on a small set of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.retrieval.actions import others, scores
from tests.support.gateway import environment

ROOT = Path(__file__).parents[2]


def test_scores_are_those_of_trec() -> None:
    ndcg, recall, hit = scores(["a", "x", "b"], {"a": 1, "b": 1})
    assert ndcg == pytest.approx((1 + 0.5) / (1 + 0.63093), abs=1e-4)
    assert (recall, hit) == (1.0, True)
    ndcg, recall, hit = scores(["x"] * 5 + ["a"], {"a": 1})
    assert ndcg == pytest.approx(0.35621, abs=1e-4)
    assert (recall, hit) == (1.0, False)


def test_other_operations_have_names_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        paths = {f"/{name}/{number}": {"get": {"operationId": f"op{number}"}} for number in range(3)} | {
            "/own": {"get": {}}
        }
        (tmp_path / f"{name}.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    (tmp_path / "broken.json").write_text("{")
    own = others(tmp_path, [], 100)
    assert len(own) == len({one.name for one in own}) == 8
    assert len(others(tmp_path, [one for one in own if one.path == "/own"], 100)) == 6
    assert len(others(tmp_path, [], 5)) == 5


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
    assert lines[-1].startswith("| 2 | 1.000 | 1.000 | 1.000 | 0 |")


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
    assert lines[-1].split(" | ")[2] == recall


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
