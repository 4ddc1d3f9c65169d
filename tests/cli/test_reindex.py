"""ragway reindex while `serve` answers a stream of questions: none fails, none is without passages."""

import threading
from pathlib import Path

import pytest

from retrieval.embedding.export import open_embedder
from tests.support.gateway import ragway, serving

QUESTION = "How do I encrypt the connection with TLS?"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_no_question_goes_without_passages_while_the_embedder_changes(
    data: Path, corpus: Path, tiny_model: Path, tmp_path: Path
) -> None:
    # Prepared here, so that no process of the gateway imports torch.
    open_embedder(str(tiny_model), backend="auto", threads=1, cache=data / "models")
    with serving(data, tmp_path, "retrieval: {deadline_s: 30}") as gateway:
        where = ("--data", str(data), "--config", str(tmp_path / "ragway.yaml"))
        assert ragway("ingest", str(corpus), "--collection", "docs", *where, folder=tmp_path).returncode == 0
        told: list[tuple[int, str]] = []
        done = threading.Event()

        def stream() -> None:
            while not done.is_set():
                reply = gateway.ask(QUESTION)
                told.append((reply.status_code, reply.headers["x-rag-status"]))

        asking = threading.Thread(target=stream)
        asking.start()
        try:
            reindexed = ragway("reindex", "docs", "--embedder", str(tiny_model), *where, folder=tmp_path)
        finally:
            done.set()
            asking.join()
        assert (reindexed.returncode, reindexed.stderr) == (0, "")
        assert reindexed.stdout.startswith("docs: ")
        assert reindexed.stdout.rstrip().endswith(f"chunks written with {tiny_model}")
        told.append((gateway.ask(QUESTION).status_code, gateway.ask(QUESTION).headers["x-rag-status"]))
        assert set(told) == {(200, "augmented")}
        assert len(told) > 2
        listed = ragway("collections", *where, folder=tmp_path)
        assert str(tiny_model) in listed.stdout


def test_without_a_name_all_collections_are_made_anew(data: Path, corpus: Path, tmp_path: Path) -> None:
    where = ("--data", str(data))
    for name in ("one", "two"):
        assert ragway("ingest", str(corpus), "--collection", name, *where, folder=tmp_path).returncode == 0
    done = ragway("reindex", *where, folder=tmp_path)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["one", "two"]
    unknown = ragway("reindex", "three", *where, folder=tmp_path)
    assert unknown.returncode == 1
    assert "there is no collection 'three'" in unknown.stderr
