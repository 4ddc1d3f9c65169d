"""Sentence-transformers models of every make: their vectors are theirs, through ONNX where it can be, else torch."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from retrieval.embedding import export, precision
from retrieval.embedding.embed import (
    Embedder,
    Matrix,
    ModelCard,
    OnnxEmbedder,
    QueryBatcher,
    TorchEmbedder,
    check_same_model,
    label,
    probe,
)
from retrieval.embedding.export import load_model, open_embedder
from retrieval.embedding.precision import (
    BF16_MIN_TEXTS,
    BULK_COSINE,
    has_bf16_units,
    has_int8_units,
    is_worthwhile,
    vectors_agree,
)
from retrieval.errors import RetrievalError, WrongEmbedder
from retrieval.ingest.prepare import ChunkTexts, Embedding
from retrieval.ingest.splitting import Recipe
from retrieval.knowledge import EmbedderOptions
from tests.support.plans import plan_for

TEXTS = ["use tls", "", "how do i connect to the database with tls on the wire " * 9, "open a session page 9"]


def options(**changes: Any) -> EmbedderOptions:
    """Settings of the embedder, the same on every processor."""
    return replace(plan_for(Path("nowhere")).embedding, **{"precision": "fp32", **changes})


def vectors_of_parts(
    tiny_model: Path, folder: Path, *after: Any, pooling: str = "mean", length: int = 64, **more: Any
) -> Path:
    """A model of the tiny transformer with this pooling and these modules behind it, saved to the folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    modules = [Transformer(str(tiny_model), max_seq_length=length), Pooling(16, pooling_mode=pooling), *after]
    SentenceTransformer(modules=modules, device="cpu", **more).save(str(folder))
    return folder


def reference(model: Path, texts: list[str], *, kind: str = "document") -> Matrix:
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(model), device="cpu")
    encode = loaded.encode_document if kind == "document" else loaded.encode_query
    return np.asarray(encode(texts, normalize_embeddings=True, show_progress_bar=False))


def cosine(a: Matrix, b: Matrix) -> float:
    return float(np.sum(a * b, axis=1).min())


def open_(model: Path, cache: Path, **changes: Any) -> Embedder:
    return open_embedder(str(model), backend="auto", threads=1, cache=cache, options=options(**changes))


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "lasttoken", "mean_sqrt_len_tokens"])
def test_pooling_is_the_models_own(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    model = vectors_of_parts(tiny_model, tmp_path / "model", pooling=pooling)
    embedder = open_(model, tmp_path / "cache")
    assert cosine(embedder.embed_documents(TEXTS), reference(model, TEXTS)) >= 0.9999
    alone = np.vstack([embedder.embed_documents([text]) for text in TEXTS])  # padding must not be pooled
    assert cosine(alone, reference(model, TEXTS)) >= 0.9999


def test_layers_behind_the_pooling_are_part_of_the_model(tiny_model: Path, tmp_path: Path) -> None:
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    torch.manual_seed(3)
    model = vectors_of_parts(tiny_model, tmp_path / "model", Dense(16, 7), Normalize())
    embedder = open_(model, tmp_path / "cache")
    assert (type(embedder), embedder.dimension) == (OnnxEmbedder, 7)
    assert cosine(embedder.embed_documents(TEXTS), reference(model, TEXTS)) >= 0.9999


def test_a_shorter_bound_than_the_transformers_is_kept(tiny_model: Path, tmp_path: Path) -> None:
    model = vectors_of_parts(tiny_model, tmp_path / "model", length=12)
    embedder = open_(model, tmp_path / "cache")
    assert embedder.max_tokens == 12
    assert cosine(embedder.embed_documents(TEXTS), reference(model, TEXTS)) >= 0.9999


def test_questions_and_documents_take_the_prompts_that_sentence_transformers_takes(
    tiny_model: Path, tmp_path: Path
) -> None:
    prompts = {"query": "how do i ", "document": "page number "}
    model = vectors_of_parts(tiny_model, tmp_path / "model", prompts=prompts, default_prompt_name="query")
    embedder = open_(model, tmp_path / "cache")
    assert cosine(embedder.embed_documents(TEXTS), reference(model, TEXTS)) >= 0.9999
    assert cosine(embedder.embed_query(TEXTS), reference(model, TEXTS, kind="query")) >= 0.9999
    assert cosine(embedder.embed_query(TEXTS), embedder.embed_documents(TEXTS)) < 0.9999


def test_a_default_prompt_is_for_both_where_there_is_no_other(tiny_model: Path, tmp_path: Path) -> None:
    model = vectors_of_parts(
        tiny_model, tmp_path / "model", prompts={"retrieval": "open a "}, default_prompt_name="retrieval"
    )
    embedder = open_(model, tmp_path / "cache")
    plain = open_(tiny_model, tmp_path / "cache")
    assert embedder.document_prompt == "open a "
    assert cosine(embedder.embed_query(["session"]), plain.embed_query(["open a session"])) >= 0.9999


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_prompts_of_the_settings_take_the_place_of_the_models(tiny_model: Path, tmp_path: Path, backend: Any) -> None:
    model = vectors_of_parts(tiny_model, tmp_path / "model", prompts={"query": "how do i ", "document": "page number "})
    opened = [
        open_embedder(str(model), backend=backend, threads=1, cache=tmp_path / "cache", options=options(**changes))
        for changes in ({}, {"query_prompt": "", "document_prompt": "the "})
    ]
    own, ours = opened
    assert cosine(ours.embed_query(["how do i use tls"]), own.embed_query(["use tls"])) >= 0.9999
    assert ours.document_prompt == "the "
    with pytest.raises(WrongEmbedder):
        check_same_model("docs", label(own), probe(own), probe(ours), label(ours))
    with pytest.raises(WrongEmbedder):  # however little the prompt moves the vectors
        check_same_model("docs", label(own), probe(own), probe(own), label(ours))


def test_eight_bits_are_near_and_asked_for(tiny_model: Path, tmp_path: Path) -> None:
    plain, int8 = open_(tiny_model, tmp_path), open_(tiny_model, tmp_path, precision="int8")
    assert isinstance(int8, OnnxEmbedder)
    assert 0.9 < cosine(plain.embed_query(TEXTS), int8.embed_query(TEXTS)) < 0.999999
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} >= {"model.onnx", "model.int8.onnx"}
    again = open_(tiny_model, tmp_path, precision="int8")
    assert cosine(int8.embed_query(TEXTS), again.embed_query(TEXTS)) >= 0.9999


def test_eight_bits_of_a_model_without_a_graph_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="another embedder.precision than int8"):
        open_embedder(str(tiny_model), backend="torch", threads=1, cache=tmp_path, options=options(precision="int8"))


def test_questions_are_in_eight_bits_where_the_processor_has_units_for_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = open_(tiny_model, tmp_path)
    monkeypatch.setattr(export, "has_int8_units", lambda: True)
    embedder = open_(tiny_model, tmp_path, precision="auto")
    questions = embedder.embed_query(TEXTS)
    assert 0.9 < cosine(plain.embed_query(TEXTS), questions) < 0.999999
    assert np.array_equal(embedder.embed_documents(TEXTS), plain.embed_documents(TEXTS))
    check_same_model("docs", label(plain), probe(plain), probe(embedder), label(embedder))
    alone = np.vstack([embedder.embed_query([text]) for text in TEXTS])  # one scale of activations for each
    assert np.array_equal(questions, alone)


@pytest.mark.parametrize(("setting", "several", "single"), [(None, 1, 2), (1, 1, 1), (3, 3, 3), (9, 4, 4)])
async def test_a_question_in_eight_bits_takes_more_threads_only_while_no_other_waits(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: int | None, several: int, single: int
) -> None:
    import onnxruntime

    calls, session = list[tuple[str, int]](), onnxruntime.InferenceSession

    def opened(path: str, options: Any, **more: Any) -> Any:
        opened = session(path, options, **more)
        run, name = opened.run, Path(path).name

        def recorded(*arguments: Any) -> Any:
            calls.append((name, options.intra_op_num_threads))
            return run(*arguments)

        return SimpleNamespace(run=recorded)

    open_(tiny_model, tmp_path)  # prepared
    monkeypatch.setattr(export, "has_int8_units", lambda: True)
    monkeypatch.setattr(export, "cores", lambda: 4)
    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    wanted = options(precision="auto")
    embedder = open_embedder(str(tiny_model), backend="auto", threads=setting, cache=tmp_path, options=wanted)
    questions = QueryBatcher(embedder, alone=True)
    calls.clear()
    first = await questions.vectors(["use tls"])
    assert calls == [("model.int8.onnx", single)]
    others = await questions.vectors(["open a page", "use a session", "connect"])
    assert calls[1:] == [("model.int8.onnx", several)] * 3
    texts = ["use tls", "open a page", "use a session", "connect"]
    assert np.array_equal(np.vstack([first, others]), embedder.embed_query(texts))
    embedder.embed_documents(TEXTS[:1])
    assert calls[-1] == ("model.onnx", 2 if setting is None else several)


def test_questions_are_in_eight_bits_only_if_their_vectors_agree(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = open_(tiny_model, tmp_path)
    monkeypatch.setattr(export, "has_int8_units", lambda: True)
    monkeypatch.setattr(precision, "QUESTION_COSINE", 1.1)
    embedder = open_(tiny_model, tmp_path, precision="auto")
    assert np.array_equal(embedder.embed_query(TEXTS), plain.embed_query(TEXTS))


def test_a_disk_without_room_for_the_eight_bit_graph_costs_time_alone(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_folder: Path) -> str:
        raise OSError("No space left on device")

    monkeypatch.setattr(export, "has_int8_units", lambda: True)
    monkeypatch.setattr(export, "_quantized", full)
    plain = open_(tiny_model, tmp_path)
    embedder = open_(tiny_model, tmp_path, precision="auto")
    assert np.array_equal(embedder.embed_query(TEXTS), plain.embed_query(TEXTS))
    assert "No space left on device" in caplog.text


def test_who_embeds_documents_alone_makes_no_graph_for_questions(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "has_int8_units", lambda: True)
    monkeypatch.setattr(export, "has_bf16_units", lambda: False)
    wanted = options(precision="auto")
    open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path, options=wanted, bulk=True)
    assert not list(tmp_path.rglob("model.int8.onnx"))


def test_bf16_is_for_bulk_and_near(tiny_model: Path, tmp_path: Path) -> None:
    wanted = options(precision="bf16")
    bulk = open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path, options=wanted, bulk=True)
    question = open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path, options=wanted)
    assert (type(bulk), type(question)) == (TorchEmbedder, OnnxEmbedder)
    vectors = bulk.embed_documents(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert BULK_COSINE <= cosine(vectors, question.embed_documents(TEXTS)) < 0.9999999


def test_a_few_documents_do_not_wait_for_bf16(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "has_bf16_units", lambda: True)
    monkeypatch.setattr(precision, "is_worthwhile", lambda _plain, _bf16: True)
    loaded = []

    def load(source: str) -> object:
        loaded.append(source)
        return load_model(source)

    open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path)  # prepared
    monkeypatch.setattr(export, "load_model", load)
    wanted = options(precision="auto")
    bulk = open_embedder(
        str(tiny_model), backend="auto", threads=1, cache=tmp_path, options=wanted, bulk=True, bf16_min_texts=5
    )
    few = bulk.embed_documents(TEXTS[:2])
    assert loaded == []
    many = bulk.embed_documents([*TEXTS[:2], "three", "four"])
    assert len(loaded) == 1
    assert not np.array_equal(few, many[:2])
    assert cosine(few, many[:2]) >= BULK_COSINE
    bulk.embed_documents(TEXTS)
    assert len(loaded) == 1


def test_many_documents_that_are_still_to_come_are_reason_enough(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "has_bf16_units", lambda: True)
    monkeypatch.setattr(precision, "is_worthwhile", lambda _plain, _bf16: True)
    plain = open_(tiny_model, tmp_path).embed_documents(TEXTS)
    recipe = Recipe(plan_for(tmp_path).ingest, options(model=str(tiny_model), precision="auto"), tmp_path)
    preparer, texts = Embedding(recipe), [ChunkTexts(text, text) for text in TEXTS]
    assert np.array_equal(preparer.vectors(texts, BF16_MIN_TEXTS - len(TEXTS) - 1).dense, plain)
    short = preparer.vectors(texts, BF16_MIN_TEXTS).dense
    assert not np.array_equal(short, plain)
    assert cosine(short, plain) >= BULK_COSINE


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_threads_with_a_copy_of_the_model_each_make_what_one_makes(
    tiny_model: Path, tmp_path: Path, threads: int, count: int
) -> None:
    one = open_(tiny_model, tmp_path)
    (folder,) = tmp_path.iterdir()
    copy_per_thread = TorchEmbedder(load_model(str(tiny_model)), folder, threads=threads, copy_per_thread=True)
    texts = [" ".join(["word", *TEXTS][: 1 + i % 4]) for i in range(count)]
    assert copy_per_thread.embed_documents(texts).shape == (count, 16)
    assert np.allclose(copy_per_thread.embed_documents(texts), one.embed_documents(texts), atol=1e-4)
    assert np.allclose(copy_per_thread.embed_query(TEXTS), one.embed_query(TEXTS), atol=1e-4)


def test_bf16_is_chosen_only_where_it_is_alike_and_sooner(tiny_model: Path, tmp_path: Path) -> None:
    plain = open_(tiny_model, tmp_path)

    class Turned:
        """The same model with its vectors the other way round: as quick, and of no use."""

        name, dimension, max_tokens = plain.name, plain.dimension, plain.max_tokens
        document_prompt, tokenizer_file = plain.document_prompt, plain.tokenizer_file

        def embed_documents(self, texts: Any) -> Matrix:
            return -plain.embed_documents(texts[:1]).repeat(len(texts), axis=0)

        embed_query = embed_documents

    assert vectors_agree(plain, plain)
    assert not vectors_agree(plain, Turned())
    assert not is_worthwhile(plain, Turned())


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ("fpu avx2 avx512_bf16 sse", True),
        ("fpu amx_bf16", True),
        ("asimd bf16 i8mm", True),
        ("fpu avx2 f16c", False),
        ("", False),
    ],
)
def test_the_processor_says_whether_it_has_bf16(tmp_path: Path, flags: str, has: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    assert has_bf16_units(tmp_path / "cpuinfo") is has
    assert not has_bf16_units(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ("fpu avx2 avx512_vnni", True),
        ("fpu avx2 avx_vnni", True),
        ("amx_tile amx_int8", True),
        ("fpu avx2 avx512bw avx512_vpopcntdq", False),
        ("asimd asimddp i8mm", False),
    ],
)
def test_the_processor_says_whether_it_has_units_for_eight_bits(tmp_path: Path, flags: str, has: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    assert has_int8_units(tmp_path / "cpuinfo") is has
    assert not has_int8_units(tmp_path / "nowhere")


def test_the_card_keeps_the_models_prompts_whatever_the_settings_say(tiny_model: Path, tmp_path: Path) -> None:
    open_(tiny_model, tmp_path, query_prompt="how ", document_prompt="the ")
    (folder,) = tmp_path.iterdir()
    assert (ModelCard.read(folder).query_prompt, ModelCard.read(folder).document_prompt) == ("", "")
    assert "how " not in json.dumps((folder / "card.json").read_text("utf-8"))
