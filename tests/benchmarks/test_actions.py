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


def test_a_run_finds_the_judged_operation(tmp_path: Path) -> None:
    paths = {"/users": {"get": {"summary": "List users"}}, "/invoices": {"get": {"summary": "List invoices"}}}
    (tmp_path / "openapi.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    (tmp_path / "corpus.jsonl").write_text('{"_id": "GET /users", "text": "users"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "list users"}\n')
    (tmp_path / "qrels.tsv").write_text("1\tGET /users\t1\n")
    script = str(ROOT / "benchmarks" / "retrieval" / "actions.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), "--data", str(tmp_path / "data")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=environment({"RAGWAY_EMBEDDER__MODEL": "hash"}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("| 2 | 1.000 | 1.000 | 1.000 | 0 |")
