"""Vectors kept between runs: found again, told apart, and never in the way."""

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from retrieval.embedding.embed import Embedder, EmbedderPrompts, Matrix
from retrieval.embedding.hashing import HashEmbedder
from retrieval.embedding.vector_cache import CachedEmbedder, CachedQueryEmbedder, VectorFile
from tests.support.first_writer import first_writer
from tests.support.minilm import hashing, tokenizer_file

TEXTS = ["open a session", "use tls", "the office dog is called"]


class Counting:
    """An embedder that remembers what it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        self.name, self.dimension, self.max_tokens = inner.name, inner.dimension, inner.max_tokens
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file
        self._inner = inner
        self.documents: list[str] = []
        self.questions: list[str] = []

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        self.questions += texts
        return self._inner.embed_query(texts)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        self.documents += texts
        return self._inner.embed_documents(texts)


class Reversed(HashEmbedder):
    """Another model of the same name and dimension."""

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return -super().embed_documents(texts)


class Rough(HashEmbedder):
    """The same model with questions in fewer bits than documents."""

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        vectors = super().embed_query(texts)
        vectors[:, 0] += 0.1
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@pytest.fixture
def counting() -> Counting:
    return Counting(hashing())


def cached(counting: Counting, folder: Path) -> CachedEmbedder:
    opened = CachedEmbedder(counting, folder)
    counting.documents.clear()  # the probes
    return opened


def test_what_was_embedded_once_is_found_by_the_next_run_in_the_order_asked(counting: Counting, tmp_path: Path) -> None:
    expected = counting.embed_documents(TEXTS)
    first = cached(counting, tmp_path).embed_documents(TEXTS)
    assert counting.documents == TEXTS
    again = cached(counting, tmp_path).embed_documents([TEXTS[2], "a new one", TEXTS[0], TEXTS[2]])
    assert counting.documents == ["a new one"]
    np.testing.assert_allclose(first, expected, atol=1e-6)
    np.testing.assert_array_equal(again[[0, 2, 3]], first[[2, 0, 2]])
    assert again.shape == (4, counting.dimension)
    assert again.dtype == np.float32


def test_no_text_makes_no_vector(counting: Counting, tmp_path: Path) -> None:
    assert cached(counting, tmp_path).embed_documents([]).shape == (0, counting.dimension)


def test_questions_are_kept_only_where_that_is_wanted_and_apart_from_documents(
    counting: Counting, tmp_path: Path
) -> None:
    for _ in range(2):
        cached(counting, tmp_path).embed_query(["use tls"])
    assert counting.questions == ["use tls"] * 2
    for _ in range(2):
        CachedQueryEmbedder(counting, tmp_path).embed_query(["use tls"])
    assert counting.questions.count("use tls") == 3
    counting.documents.clear()
    CachedQueryEmbedder(counting, tmp_path).embed_documents(["use tls"])
    assert "use tls" in counting.documents


def test_questions_of_another_precision_get_none_of_them(counting: Counting, tmp_path: Path) -> None:
    CachedQueryEmbedder(counting, tmp_path).embed_query(["use tls"])
    rough = Counting(Rough(tokenizer_file(), EmbedderPrompts()))
    for _ in range(2):
        found = CachedQueryEmbedder(rough, tmp_path).embed_query(["use tls"])
    assert rough.questions.count("use tls") == 1
    np.testing.assert_array_equal(found, Rough(tokenizer_file(), EmbedderPrompts()).embed_query(["use tls"]))


def test_another_model_of_the_same_name_and_dimension_gets_none_of_them(counting: Counting, tmp_path: Path) -> None:
    cached(counting, tmp_path / "cache").embed_documents(TEXTS)
    other = Counting(Reversed(tokenizer_file(), EmbedderPrompts()))
    assert cached(other, tmp_path / "cache").embed_documents(TEXTS).shape == (3, counting.dimension)
    assert other.documents == TEXTS
    assert len(list((tmp_path / "cache").glob("*.sqlite"))) == 2


def test_a_broken_file_is_made_anew(counting: Counting, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cached(counting, tmp_path).embed_documents(TEXTS)
    (file,) = tmp_path.glob("*.sqlite")
    for part in tmp_path.iterdir():
        part.unlink()
    file.write_bytes(b"this is no database, however long it is" * 100)
    assert cached(counting, tmp_path).embed_documents(TEXTS).shape == (3, counting.dimension)
    assert "is damaged" in caplog.text
    counting.documents.clear()
    cached(counting, tmp_path).embed_documents(TEXTS)
    assert counting.documents == []


def test_a_folder_that_cannot_be_made_costs_the_cache_and_nothing_else(
    counting: Counting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    opened = CachedEmbedder(counting, tmp_path / "file" / "cache")
    np.testing.assert_allclose(opened.embed_documents(TEXTS), counting.embed_documents(TEXTS), atol=1e-6)
    assert "are not cached" in caplog.text


def test_half_a_surrogate_pair_is_a_text_like_another(counting: Counting, tmp_path: Path) -> None:
    opened = VectorFile(tmp_path / "vectors.sqlite", dimension=2)
    assert opened.read([b"\xff"]) == {}
    cached(counting, tmp_path)._from_cache(opened, ["\ud800"], b"", lambda texts: np.ones((len(texts), 2), np.float32))


# The file


def vector(number: int) -> Matrix:
    return np.full(4, number, np.float32)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    for number in range(3):  # a run each
        run = VectorFile(file, dimension=4)
        run.write({key(number): vector(number)})
        run.close()
    run = VectorFile(file, dimension=4)
    run.read([key(0)])  # used again
    run.close()
    left = VectorFile(file, dimension=4, max_bytes=2 * 4 * 4).read([key(0), key(1), key(2)])
    assert set(left) == {key(0), key(2)}


def test_more_keys_than_one_statement_takes_are_found(tmp_path: Path) -> None:
    opened = VectorFile(tmp_path / "vectors.sqlite", dimension=4)
    opened.write({key(number): vector(number) for number in range(2500)})
    found = opened.read([key(number) for number in range(3000)])
    assert len(found) == 2500
    np.testing.assert_array_equal(found[key(2499)], vector(2499))


def test_threads_and_another_process_may_write_at_once(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    here, there = VectorFile(file, dimension=4), VectorFile(file, dimension=4)

    def write(opened: VectorFile, start: int) -> None:
        for number in range(start, start + 20):
            opened.write({key(number): vector(number)})

    threads = [threading.Thread(target=write, args=(one, n * 100)) for n, one in enumerate([here, here, there])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(here.read([key(number) for number in range(400)])) == 60


def test_a_write_that_fails_is_told_and_leaves_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened = VectorFile(tmp_path / "vectors.sqlite", dimension=4)
    opened.write({key(1): vector(1)})
    opened._sql.execute("PRAGMA query_only = ON")
    opened.write({key(2): vector(2)})
    assert "could not be written" in caplog.text
    opened._sql.execute("PRAGMA query_only = OFF")
    assert set(opened.read([key(1), key(2)])) == {key(1)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_costs_the_cache_alone(counting: Counting, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert CachedEmbedder(counting, tmp_path).embed_documents(TEXTS).shape == (3, counting.dimension)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_of_the_cache_is_a_database_anybody_can_look_into(counting: Counting, tmp_path: Path) -> None:
    cached(counting, tmp_path).embed_documents(TEXTS)
    (file,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(file) as sql:
        assert sql.execute("SELECT COUNT(*), MIN(LENGTH(vector)) FROM vectors").fetchone() == (
            3,
            counting.dimension * 4,
        )


def test_a_new_file_can_have_a_first_writer_while_another_process_opens(tmp_path: Path) -> None:
    file = tmp_path / "a.sqlite"
    with first_writer(file), closing(VectorFile(file, dimension=3)):
        pass
