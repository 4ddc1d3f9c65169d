"""Embedding: ONNX and torch agree, a batch is like its texts alone, another model is never taken for this one."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.embedding.embed import (
    PROBES,
    SAME_MODEL_COSINE,
    Embedder,
    Matrix,
    OnnxEmbedder,
    TorchEmbedder,
    _batches,
    check_same_model,
    mix,
    probe,
)
from retrieval.embedding.export import open_embedder
from retrieval.errors import RetrievalError, WrongEmbedder
from tests.support.tiny_model import make_tiny_model

MAX_TOKENS = 64
TEXTS = [
    "",
    "how do i connect to the database",
    " ".join(["certificate"] * 300),
    "Größe 日本 🎈 \x00 \ud83d",
    "the",
    *(" ".join("use tls with a session on the wire".split()[: i % 9]) + f" page {i}" for i in range(60)),
    "def main() -> None:\n\treturn",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def onnx(tiny_model: Path, cache: Path) -> Embedder:
    return open_embedder(str(tiny_model), backend="onnx", threads=1, cache=cache)


@pytest.fixture(scope="module")
def torch(tiny_model: Path, cache: Path) -> Embedder:
    return open_embedder(str(tiny_model), backend="torch", threads=1, cache=cache)


@pytest.fixture(scope="module")
def reference(tiny_model: Path) -> Callable[[list[str]], Matrix]:
    """Vectors as sentence-transformers itself makes them."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tiny_model), device="cpu")
    return lambda texts: np.asarray(model.encode(texts, normalize_embeddings=True, show_progress_bar=False))


def prompted(tiny_model: Path, folder: Path, prompts: dict[str, str], **pooling: Any) -> str:
    """A copy of the model with these prompts, and these changes of its pooling."""
    copy = folder / "prompted"
    shutil.copytree(tiny_model, copy)
    for name, changes in (
        ("config_sentence_transformers.json", {"prompts": prompts}),
        ("1_Pooling/config.json", pooling),
    ):
        file = copy / name
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changes}), "utf-8")
    return str(copy)


def close(a: Matrix, b: Matrix) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) < 1e-4)


# What comes out


def test_onnx_makes_the_vectors_that_sentence_transformers_makes(
    onnx: Embedder, reference: Callable[[list[str]], Matrix]
) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in TEXTS]
    assert isinstance(onnx, OnnxEmbedder)
    assert close(onnx.embed_documents(texts), reference(texts))
    known = [text for text in texts if text.isascii()]
    assert close(onnx.embed_query(known), reference(known))


def test_torch_makes_the_vectors_that_onnx_makes(onnx: Embedder, torch: Embedder) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in TEXTS]
    assert isinstance(torch, TorchEmbedder)
    assert close(torch.embed_documents(texts), onnx.embed_documents(texts))
    assert close(torch.embed_query(texts), onnx.embed_query(texts))


@pytest.mark.parametrize("backend", ["onnx", "torch"])
@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_gives_one_unit_vector_for_each_text(count: int, backend: str, request: pytest.FixtureRequest) -> None:
    embedder: Embedder = request.getfixturevalue(backend)
    for vectors in (embedder.embed_documents(TEXTS[4 : 4 + count]), embedder.embed_query(TEXTS[4 : 4 + count])):
        assert vectors.shape == (count, 16)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_a_question_has_the_vector_of_its_known_words(backend: str, request: pytest.FixtureRequest) -> None:
    """A model gives every unknown word one vector: a thumbs-up would equal any page in an unknown script."""
    embedder: Embedder = request.getfixturevalue(backend)
    thumb, script, mixed, known = embedder.embed_query(["👍", "ጀልባዎች የት ናቸው?", "👍 database ጀልባዎች", "database"])
    assert not thumb.any()
    assert not script.any()
    assert close(mixed[None], known[None])
    assert not embedder.embed_query(["???", "—", "👍!"]).any()
    assert embedder.embed_query(["👍"]).shape == (1, 16)
    assert embedder.embed_documents(["👍"]).any()


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_a_page_of_unknown_words_is_near_no_question(backend: str, request: pytest.FixtureRequest) -> None:
    embedder: Embedder = request.getfixturevalue(backend)
    amharic, mostly, known, partly, page = embedder.embed_documents(
        ["ጀልባዎች የት ናቸው?", "ጀልባዎች የት ናቸው ጀልባዎች database", "database", "use the database የት", "use the database"]
    )
    assert close(mostly[None], known[None])
    assert not close(partly[None], page[None]), "a few unknown words stay"
    questions = embedder.embed_query(["database", "x", "123", *PROBES[:2]])
    assert (questions @ amharic).mean() < 0 < (questions @ page).mean()
    assert np.isclose(np.linalg.norm(amharic), 1, atol=1e-5)


def test_a_batch_of_mixed_lengths_keeps_its_order(onnx: Embedder) -> None:
    texts = TEXTS[4:] * 3
    alone = np.vstack([onnx.embed_documents([text]) for text in texts[: len(TEXTS) - 4]] * 3)
    assert close(onnx.embed_documents(texts), alone)
    assert len({tuple(row) for row in alone.round(3)}) > 50  # or the order could not be seen


def test_reads_as_many_tokens_as_it_says_and_not_one_more(onnx: Embedder) -> None:
    """Two of them are [CLS] and [SEP]."""
    read = ["page"] * (MAX_TOKENS - 2)
    plain, beyond, within = onnx.embed_documents(
        [" ".join(words) for words in (read, [*read, "java"], [*read[:-1], "java"])]
    )
    assert onnx.max_tokens == MAX_TOKENS
    assert np.array_equal(plain, beyond)
    assert np.abs(plain - within).max() > 1e-3


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_says_what_it_is(tiny_model: Path, backend: str, request: pytest.FixtureRequest) -> None:
    embedder: Embedder = request.getfixturevalue(backend)
    assert (embedder.name, embedder.dimension, embedder.max_tokens) == (str(tiny_model), 16, MAX_TOKENS)
    assert embedder.document_prompt == ""
    assert embedder.tokenizer_file.is_file()


# Prompts


@pytest.mark.parametrize("backend", ["onnx", "torch"])
@pytest.mark.parametrize("key", ["document", "passage", "corpus"])
def test_takes_the_models_own_prompts(tiny_model: Path, tmp_path: Path, onnx: Embedder, backend: Any, key: str) -> None:
    model = prompted(tiny_model, tmp_path, {"query": "how: ", key: "page: "})
    embedder = open_embedder(model, backend=backend, threads=1, cache=tmp_path)
    assert embedder.document_prompt == "page: "
    assert close(embedder.embed_query(["use tls"]), onnx.embed_query(["how: use tls"]))
    assert close(embedder.embed_documents(["use tls"]), onnx.embed_documents(["page: use tls"]))
    assert not close(embedder.embed_query(["use tls"]), onnx.embed_query(["use tls"]))


@pytest.mark.parametrize("prompts", [{"query": "how do i: "}, {"document": "page number: "}])
def test_a_model_that_the_graph_does_not_reproduce_runs_on_torch(
    tiny_model: Path, tmp_path: Path, prompts: dict[str, str]
) -> None:
    """Prompts that are read and not pooled: the graph knows no prompt."""
    model = prompted(tiny_model, tmp_path, prompts, include_prompt=False)
    assert isinstance(open_embedder(model, backend="auto", threads=1, cache=tmp_path), TorchEmbedder)
    with pytest.raises(RetrievalError, match="could not be exported to ONNX faithfully; use embedder.backend: torch"):
        open_embedder(model, backend="onnx", threads=1, cache=tmp_path)


# Models that cannot be loaded


def refused(model: str, cache: Path) -> str:
    """The error's text: one line."""
    with pytest.raises(RetrievalError) as caught:
        open_embedder(model, backend="auto", threads=1, cache=cache)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("path", ["/no/such/model", "./no-such-model", "../no/such/model", "~/no/such/model"])
def test_a_path_that_leads_nowhere_is_refused_at_once(path: str, tmp_path: Path) -> None:
    assert refused(path, tmp_path) == (
        f"there is no folder '{path}': embedder.model must be the name or the folder of a sentence-transformers model"
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b"{}"),
        ("modules.json", b'[{"idx": 0}]'),
        ("modules.json", b'[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]'),
        ("model.safetensors", b"\x00" * 100),
        ("model.safetensors", None),
        ("tokenizer.json", b"{}"),
    ],
)
def test_a_damaged_model_is_refused_and_leaves_nothing(
    tiny_model: Path, tmp_path: Path, file: str, content: bytes | None
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    (broken / file).unlink()
    if content is not None:
        (broken / file).write_bytes(content)
    assert f"cannot load the embedder '{broken}'" in refused(str(broken), tmp_path / "cache")
    assert list(tmp_path.glob("cache/*")) == []


# Which model it is


def test_the_same_model_is_known_by_its_probes(onnx: Embedder, torch: Embedder) -> None:
    assert probe(onnx).shape == (len(PROBES), 16)
    check_same_model("docs", "tiny", probe(torch), probe(onnx), "tiny")


def test_vectors_that_differ_in_the_last_digits_are_the_same_model(onnx: Embedder) -> None:
    rough = probe(onnx).astype(np.float16).astype(np.float32)
    check_same_model("docs", "tiny", rough, probe(onnx), "tiny")


def test_another_model_of_the_same_dimension_is_refused(tmp_path: Path, onnx: Embedder) -> None:
    other = open_embedder(str(make_tiny_model(tmp_path / "other", seed=1)), backend="auto", threads=1, cache=tmp_path)
    assert other.dimension == onnx.dimension
    with pytest.raises(
        WrongEmbedder, match="'docs' was built with the embedder 'old', now 'new' .* `ragway reindex docs`"
    ):
        check_same_model("docs", "old", probe(other), probe(onnx), "new")


@pytest.mark.parametrize(
    "change",
    [
        lambda probes: probes[:, :8],
        lambda probes: probes[:3],
        lambda probes: probes[::-1],
        lambda probes: -probes,
        lambda probes: probes * np.nan,
        lambda probes: np.vstack([probes[:3], -probes[3:]]),
    ],
)
def test_one_probe_that_differs_is_enough(onnx: Embedder, change: Callable[[Matrix], Matrix]) -> None:
    with pytest.raises(WrongEmbedder):
        check_same_model("docs", "old", change(probe(onnx)), probe(onnx), "new")


def test_a_cosine_of_the_threshold_is_the_same_model() -> None:
    a = np.array([[1, 0]], np.float32)
    for cosine, same in ((SAME_MODEL_COSINE + 1e-4, True), (SAME_MODEL_COSINE - 1e-4, False)):
        b = np.array([[cosine, math.sqrt(1 - cosine**2)]], np.float32)
        if same:
            check_same_model("docs", "old", a, b, "new")
        else:
            with pytest.raises(WrongEmbedder):
                check_same_model("docs", "old", a, b, "new")


# Mixing and batching


def test_mixes_by_weight_to_unit_length() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    assert np.allclose(mix(vectors, [1.0, 1.0]), [math.sqrt(0.5)] * 2)
    assert np.allclose(mix(vectors, [4.0, 3.0]), [0.8, 0.6])
    assert mix(vectors, [4.0, 3.0]).dtype == np.float32


def test_one_vector_mixed_stays_what_it_is() -> None:
    vector = np.array([[0.6, 0.8]], np.float32)
    assert np.allclose(mix(vector, [1.0]), vector[0])
    assert np.allclose(mix(vector, [0.2]), vector[0])


def test_vectors_that_cancel_leave_the_first() -> None:
    assert np.array_equal(mix(np.array([[1, 0], [-1, 0]], np.float32), [1.0, 1.0]), [1, 0])


@given(st.lists(st.integers(1, 512), max_size=100))
def test_batches_hold_every_text_once_and_fit_the_cache(lengths: list[int]) -> None:
    batches = _batches(lengths)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert max(lengths[i] for i in batch) * len(batch) <= 2048
    widest = [max(lengths[i] for i in batch) for batch in batches]
    assert widest == sorted(widest, reverse=True)


def test_onnxruntime_reports_nothing_to_its_maker(tmp_path: Path) -> None:
    """It keeps the number of the device and what is still to be sent in the home folder."""
    environ = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    script = "import retrieval.embedding.embed, onnxruntime"
    folders = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env={**environ, **folders}, check=True)
    assert list(tmp_path.iterdir()) == []
