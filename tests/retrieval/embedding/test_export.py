"""Preparing a model: once, all or nothing, and afterwards without torch."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from retrieval.embedding.embed import ModelCard, OnnxEmbedder, TorchEmbedder, check_same_model, probe
from retrieval.embedding.export import DEFAULT_MODEL, FORMAT, locate, open_embedder, prepare
from retrieval.errors import RetrievalError

PREPARED = ["card.json", "model.onnx", "tokenizer.json"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


def test_prepares_graph_tokenizer_and_card(tiny_model: Path, tmp_path: Path) -> None:
    open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert names(folder) == PREPARED
    assert ModelCard.read(folder) == ModelCard(
        format=FORMAT,
        name=str(tiny_model),
        dimension=16,
        max_tokens=64,
        query_prompt="",
        document_prompt="",
        inputs=("input_ids", "attention_mask"),
    )


def test_a_prepared_model_is_used_again_as_it_is(tiny_model: Path, tmp_path: Path) -> None:
    first = open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path)
    before = stamps(tmp_path)
    second = open_embedder(str(tiny_model), backend="onnx", threads=2, cache=tmp_path)
    assert stamps(tmp_path) == before
    assert np.allclose(first.embed_query(["use tls"]), second.embed_query(["use tls"]), atol=1e-5)


def test_a_model_prepared_for_torch_is_not_taken_for_one_without_a_graph(tiny_model: Path, tmp_path: Path) -> None:
    assert isinstance(open_embedder(str(tiny_model), backend="torch", threads=1, cache=tmp_path), TorchEmbedder)
    assert isinstance(open_embedder(str(tiny_model), backend="onnx", threads=1, cache=tmp_path), OnnxEmbedder)
    before = stamps(tmp_path)
    assert isinstance(open_embedder(str(tiny_model), backend="torch", threads=1, cache=tmp_path), TorchEmbedder)
    assert stamps(tmp_path) == before


def test_what_an_interrupted_preparation_left_is_never_taken_for_a_model(tiny_model: Path, tmp_path: Path) -> None:
    _, key = locate(str(tiny_model))
    for name in (key, key + ".k1ll3d"):  # killed while it wrote; the first as an older version may have left it
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(b"half a gra")
    embedder = open_embedder(str(tiny_model), backend="onnx", threads=1, cache=tmp_path)
    assert embedder.embed_query(["use tls"]).shape == (1, 16)
    assert names(tmp_path / key) == PREPARED
    assert names(tmp_path) == [key, key + ".k1ll3d"]


def test_a_preparation_that_fails_leaves_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """Weights that are not the known ones must never run under the default's name."""
    with pytest.raises(
        RetrievalError, match=r"weights of all-MiniLM-L6-v2 have an unexpected SHA-256 \([0-9a-f]{64}\)"
    ):
        prepare(str(tiny_model), DEFAULT_MODEL, tmp_path / "cache" / "key", onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_preparing_again_puts_a_whole_model_in_the_place_of_the_earlier(tiny_model: Path, tmp_path: Path) -> None:
    source, key = locate(str(tiny_model))
    prepare(source, str(tiny_model), tmp_path / key, onnx=True)
    prepare(source, str(tiny_model), tmp_path / key, onnx=True)  # the later finds the earlier's folder in its place
    assert names(tmp_path) == [key]
    assert names(tmp_path / key) == PREPARED


@pytest.mark.parametrize("format", [None, FORMAT - 1, FORMAT + 1, "2"])
def test_a_folder_of_another_format_is_prepared_anew_in_its_place(
    tiny_model: Path, tmp_path: Path, format: object
) -> None:
    first = open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    card = json.loads((folder / "card.json").read_text("utf-8"))
    if format is None:  # as the first versions wrote it
        del card["format"]
    else:
        card["format"] = format
    (folder / "card.json").write_text(json.dumps(card), "utf-8")
    (folder / "model.onnx").write_bytes(b"a graph of that format")
    second = open_embedder(str(tiny_model), backend="onnx", threads=1, cache=tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert ModelCard.read(folder).format == FORMAT
    check_same_model("docs", "tiny", probe(first), probe(second), "tiny")


def operators(folder: Path) -> set[str]:
    import onnx

    return {node.op_type for node in onnx.load(folder / "model.onnx").graph.node}


def test_the_graph_has_attention_fused_to_one_operator(tiny_model: Path, tmp_path: Path) -> None:
    open_embedder(str(tiny_model), backend="onnx", threads=1, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    made = operators(folder)
    assert {"Attention", "LayerNormalization", "BiasGelu"} <= made
    assert not {"SkipLayerNormalization", "GatherElements"} & made  # slow, and what stands for token types
    assert "Softmax" not in operators(folder)


@pytest.mark.parametrize("architecture", ["DistilBert", "Roberta", "MPNet", "ModernBert"])
def test_models_of_other_architectures_are_reproduced(tiny_model: Path, tmp_path: Path, architecture: str) -> None:
    """Whether the optimizer knows them or not: padding, positions and pooling must be theirs."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    sizes: dict[str, int] = {"max_position_embeddings": 80, "pad_token_id": 0}
    if architecture == "DistilBert":
        sizes |= {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    else:
        sizes |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path / "source")
    config = getattr(transformers, architecture + "Config")(vocab_size=len(tokenizer), **sizes)
    getattr(transformers, architecture + "Model")(config).save_pretrained(tmp_path / "source")
    transformer = Transformer(str(tmp_path / "source"), max_seq_length=64)
    model = SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")
    model.save(str(tmp_path / "model"))
    embedder = open_embedder(str(tmp_path / "model"), backend="onnx", threads=1, cache=tmp_path / "cache")
    texts = ["use tls", "how do i connect to the database with tls on the wire " * 9, "", "open a session page 9"]
    expected = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert np.abs(embedder.embed_documents(texts) - expected).max() < 1e-4


def test_a_model_that_changed_on_disk_is_prepared_anew(tiny_model: Path) -> None:
    assert locate(str(tiny_model)) == locate(str(tiny_model))
    _, before = locate(str(tiny_model))
    config = tiny_model / "config.json"
    stat = config.stat()
    os.utime(config, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))
    try:
        assert locate(str(tiny_model))[1] != before
    finally:
        os.utime(config, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_the_cache_folder_of_any_model_is_one_plain_name(tmp_path: Path) -> None:
    for model in (str(tmp_path), "BAAI/bge-small-en-v1.5", "x/../../y", "all-MiniLM-L6-v2"):
        _, key = locate(model)
        assert "/" not in key
        assert key not in (".", "..")


def test_models_of_the_same_folder_name_have_caches_of_their_own(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "model").mkdir(parents=True)
    assert locate(str(tmp_path / "a" / "model"))[1] != locate(str(tmp_path / "b" / "model"))[1]


def test_a_prepared_model_runs_without_torch(tiny_model: Path, tmp_path: Path) -> None:
    open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path)
    script = (
        "import sys; from pathlib import Path; from retrieval.embedding.export import open_embedder\n"
        f"e = open_embedder({str(tiny_model)!r}, backend='auto', threads=1, cache=Path({str(tmp_path)!r}))\n"
        "print(e.embed_query(['use tls']).shape)\n"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["(1, 16)", "[]"]


@pytest.mark.models
def test_the_packaged_default_knows_what_is_alike(models: Path) -> None:
    embedder = open_embedder(DEFAULT_MODEL, backend="auto", threads=1, cache=models)
    assert isinstance(embedder, OnnxEmbedder)
    assert (embedder.name, embedder.dimension, embedder.max_tokens) == ("all-MiniLM-L6-v2", 384, 256)
    question = embedder.embed_query(["How do I encrypt the connection to my database?"])[0]
    same, near, far = (
        embedder.embed_documents(
            [
                "Turn on TLS to encrypt traffic between the client and the database server.",
                "The database server listens on port 27017.",
                "Bake the cake for forty minutes.",
            ]
        )
        @ question
    )
    assert same > 0.6 > near > 0.2 > far


@pytest.mark.models
def test_the_packaged_default_reads_256_tokens(models: Path) -> None:
    """Its tokenizer.json would cut at 128."""
    embedder = open_embedder(DEFAULT_MODEL, backend="auto", threads=1, cache=models)
    words = ["word"] * 254
    plain, at_130, at_254, beyond = embedder.embed_documents(
        [
            " ".join(text)
            for text in (words, [*words[:129], "whale", *words[130:]], [*words[:253], "whale"], [*words, "whale"])
        ]
    )
    assert np.array_equal(plain, beyond)
    assert np.abs(plain - at_130).max() > 1e-3
    assert np.abs(plain - at_254).max() > 1e-3


def test_a_killed_embedder_leaves_no_semaphore_behind(tiny_model: Path) -> None:
    program = (
        "import multiprocessing, os, signal, sys; from retrieval.embedding.export import load_model;"
        "multiprocessing.set_start_method('spawn');"  # as in a process that reads files
        "load_model(sys.argv[1]).encode(['a text'], show_progress_bar=False); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tiny_model)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "leaked" not in done.stderr
