"""The default embedder, through commands."""

import json
from pathlib import Path

from retrieval.embedding.export import DEFAULT_MODEL
from tests.support.gateway import embedder, ragway


def test_the_packaged_model_finds_by_meaning(data_with_model: Path, corpus: Path, tmp_path: Path) -> None:
    where, packaged = ("--data", str(data_with_model)), embedder(DEFAULT_MODEL)
    done = ragway("ingest", str(corpus), "--collection", "docs", *where, folder=tmp_path, environ=packaged)
    assert done.returncode == 0, done.stderr
    found = ragway("search", "Which animals live here?", "--json", *where, folder=tmp_path, environ=packaged)
    assert json.loads(found.stdout)["hits"][0]["passage"]["source"] == "handbook/pets.html"
    assert "note:" not in found.stderr
    found = ragway("search", "Welche Tiere wohnen in diesem Haus?", *where, folder=tmp_path, environ=packaged)
    assert "note: question: this seems not to be English" in found.stderr
