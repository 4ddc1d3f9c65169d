"""The comparison of engines: the same points in both, the same found, and what is told of it."""

import json
from pathlib import Path

import pytest

from benchmarks.retrieval.engines import Asked, compared, row
from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.judged import read

TEXTS = {
    "tls": "Encrypt the connection with a certificate.", "pool": "At most ten connections are kept open in the pool.",
    "logs": "The log tells every refused connection.",
}  # fmt: skip


@pytest.mark.models
async def test_both_engines_find_the_same(tmp_path: Path, models: Path) -> None:
    folder = tmp_path / "judged"
    folder.mkdir()
    corpus = [json.dumps({"_id": id, "title": id, "text": text}) for id, text in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(corpus), "utf-8")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "How many connections are kept?"}), "utf-8")
    (folder / "qrels.tsv").write_text("q\tpool\t1\n", "utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").symlink_to(models)
    base = plan(load(environ={}, flags={"data": str(tmp_path / "data")}))
    chunks, (asked,) = await compared(read(folder), base, tmp_path / "cache")
    assert chunks == 3
    assert asked.rankings[0] == asked.rankings[1]
    assert asked.rankings[0][0] == "pool"
    assert asked.ndcg == asked.recall == (1.0, 1.0)


def test_a_set_is_told_with_how_often_both_agree() -> None:
    asked = [Asked((["a"], ["a"]), (1.0, 1.0), (1.0, 1.0)), Asked((["a"], ["b"]), (0.0, 0.5), (0.0, 1.0))]
    assert row("docs", 7, asked) == [
        "docs", "7", "2", "0.500", "0.750", "+0.2500 [-0.8054, +0.8856]", "0.500", "1.000", "50%",
    ]  # fmt: skip
