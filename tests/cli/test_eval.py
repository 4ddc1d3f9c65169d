"""`ragway eval` as a process of its own: what it prints and writes, and what it leaves behind when it is stopped."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrieval.embedding.export import DEFAULT_MODEL
from tests.evaluation.retrieval.folders import judged_folder, judged_operations, openapi_file, write_lines
from tests.support.gateway import WITHOUT_TORCH, embedder, environment, ragway, refused


def evaluate(*args: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return ragway("eval", *args, folder=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return judged_folder(tmp_path / "zephyr")


def test_prints_a_ladder_and_writes_files_that_the_next_run_compares_with(
    data: Path, folder: Path, tmp_path: Path
) -> None:
    files = ("--json", "run.json", "--per-query", "rows.jsonl")
    done = evaluate(str(folder), "--data", str(data), *files, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    title, head, *lines = done.stdout.splitlines()
    assert title.startswith("zephyr: 3 questions, 5 documents in 5 chunks (corpus.jsonl); hash; k = ")
    assert head.split()[:3] == ["rung", "nDCG@5", "nDCG@10"]
    rungs = ["rank-bm25", "BM25", "dense", "hybrid", "+ rewriting", "(human rewrite)", "as configured"]
    assert [line.partition("  ")[0] for line in lines[: len(rungs)]] == rungs
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["ragway_eval"] == 1
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == len(rungs) * 4
    assert list((data / "cache").glob("*.sqlite"))
    options = ("--rung", "bm25", "--untimed", "--against", "rows.jsonl")
    again = evaluate(str(folder), "--data", str(data), *options, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    rows = [line for line in again.stdout.splitlines() if line.startswith("zephyr  bm25")]
    assert len(rows) == 2
    assert all("+0.000 [too few to say: -" in row for row in rows), "a few questions without a change show no zero"


def test_json_to_standard_output_is_all_there_is(data: Path, folder: Path, tmp_path: Path) -> None:
    other = judged_folder(tmp_path / "other")
    done = evaluate(
        str(folder),
        str(other),
        "--data",
        str(data),
        "--rung",
        "bm25",
        "--rung",
        "dense",
        "--json",
        "-",
        "--limit",
        "1",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(one["name"], one["questions"]) for one in document["sets"]] == [("zephyr", 1), ("other", 1)]
    assert [(one["name"], one["sets"]) for one in document["average"]] == [("bm25", 2), ("dense", 2)]


def test_several_folders_have_a_table_each_and_an_average_also_as_markdown(
    data: Path, folder: Path, tmp_path: Path
) -> None:
    other = judged_folder(tmp_path / "other")
    done = ragway(
        "eval",
        str(folder),
        str(other),
        "--data",
        str(data),
        "--rung",
        "bm25",
        "--markdown",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    titles = [line for line in done.stdout.splitlines() if line.startswith("**")]
    assert [title.split()[0] for title in titles] == ["**zephyr:", "**other:", "**Average"]
    assert done.stdout.count("| BM25 |") == 3


def test_embedders_are_compared(data_with_model: Path, folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    done = evaluate(
        str(folder),
        "--data",
        str(data_with_model),
        "--rung",
        "dense",
        "--rung",
        "bm25",
        "--embedder",
        "all-MiniLM-L6-v2",
        "--embedder",
        str(tiny_model),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    _, _, table = done.stdout.partition("before: all-MiniLM-L6-v2; after: ")
    rows = [line.split()[:3] for line in table.splitlines() if line.startswith("zephyr")]
    assert rows == [["zephyr", "dense", "ndcg@10"], ["zephyr", "dense", "recall@10"]]


@pytest.mark.parametrize(
    ("number", "ctrl_c"),
    [
        (signal.SIGINT, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_IGN),  # as a script's background job has it
    ],
)  # fmt: skip
def test_stopped_it_leaves_nothing_behind_but_what_was_embedded(
    number: signal.Signals, ctrl_c: signal.Handlers, data_with_model: Path, tmp_path: Path
) -> None:
    folder, scratch = judged_folder(tmp_path / "large"), tmp_path / "scratch"
    scratch.mkdir()
    pages = [{"_id": f"p{n}", "text": f"Page {n} is about w{n}. " * 60} for n in range(400)]
    write_lines(folder / "corpus.jsonl", pages)
    cache = tmp_path / "cache"
    before = signal.signal(signal.SIGINT, ctrl_c)  # what it inherits
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "cli",
            "eval",
            str(folder),
            "--data",
            str(data_with_model),
            "--cache",
            str(cache),
            "--json",
            "run.json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment({"TMPDIR": str(scratch), **WITHOUT_TORCH, **embedder(DEFAULT_MODEL)}),
    )
    signal.signal(signal.SIGINT, before)
    try:
        while not any(cache.glob("*.sqlite")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, ""), errors
    assert errors.splitlines()[-1] == "interrupted; finished work is kept"
    assert list(scratch.glob("ragway-*")) == []
    assert not (tmp_path / "run.json").exists()
    assert {entry.name for entry in data_with_model.iterdir()} == {"models"}


def test_what_is_wrong_with_a_folder_is_said_before_anything_is_done(data: Path, folder: Path, tmp_path: Path) -> None:
    other = judged_folder(tmp_path / "other")
    (other / "qrels.tsv").write_text("q1 connect 1\nq1\tconnect\n", "utf-8")
    line = refused(evaluate(str(folder), str(other), "--data", str(data), folder=tmp_path))
    assert f"{other / 'qrels.tsv'}, line 1: 1 columns between tabs; expected query-id, corpus-id, score" in line
    line = refused(evaluate(str(folder), "--against", "nowhere", "--data", str(data), folder=tmp_path))
    assert "nowhere cannot be read" in line
    assert list(data.iterdir()) == []


def test_questions_find_operations_of_a_document_and_of_action_sets(data: Path, tmp_path: Path) -> None:
    folder, spec = judged_operations(tmp_path / "zoo"), openapi_file(tmp_path / "api.json")
    ragway(
        "actions",
        "add",
        "shop",
        str(spec),
        "--base-url",
        "https://api.example.com",
        "--data",
        str(data),
        folder=tmp_path,
    )
    tables = []
    for given in (("--spec", str(spec)), ("--actions", "shop")):
        done = evaluate(str(folder), *given, "--data", str(data), "--rung", "configured", "--untimed", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        title, *table = done.stdout.splitlines()
        assert title.endswith("; k = 6")
        tables.append(table)
    assert tables[0] == tables[1]
    line = refused(evaluate(str(folder), "--actions", "shoe", "--data", str(data), folder=tmp_path))
    assert "there is no action set 'shoe'; known: shop" in line


@pytest.mark.parametrize(
    "args",
    [
        (), ("zephyr", "--limit", "0"), ("zephyr", "--rung", "nonsense"), ("zephyr", "-k", "0"),
        ("zephyr", "./zephyr"), ("zephyr", "--collection", "a", "--embedder", "b", "--embedder", "c"),
        ("zephyr", "--collection", "a", "--actions", "b"), ("zephyr", "--actions", "a", "--spec", "zephyr/qrels.tsv"),
        ("zephyr", "--actions", "a", "--embedder", "b", "--embedder", "c"), ("zephyr", "--spec", "nowhere.json"),
        ("zephyr", "--spec", "zephyr/qrels.tsv", "--spec", "./zephyr/qrels.tsv"),
    ],
)  # fmt: skip
def test_wrong_usage_is_code_2(args: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    done = evaluate(*args, folder=folder.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert not (tmp_path / "data").exists()
