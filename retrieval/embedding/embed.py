"""Texts to unit vectors. The model is prepared once (`export`), then runs as ONNX without torch in memory.

A query embedded through `SentenceTransformer.encode` costs two to three times what the same weights cost as
ONNX, and importing sentence-transformers takes 6-11 s and 400 MB: so torch is only imported where a model is
prepared for the first time, or where ONNX does not reproduce it.
"""

import copy
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval.errors import WrongEmbedder
from retrieval.records.points import Vector

Matrix = NDArray[np.float32]

# Texts of different kinds whose vectors identify a model: two embedders are the same when these agree.
PROBES = (
    "How do I connect to the database with TLS?",
    "EADDRNOTAVAIL (99): cannot assign requested address",
    "def main() -> None:\n    print('hello')",
    "Die Rechnung wurde gestern bezahlt.",
)
_PROMPT = ", prompt "
# Cosine between what torch, ONNX and bf16 make of one text is above .9999; two models differ far below .99.
SAME_MODEL_COSINE = 0.99
# A batch of 4 chunks of 256 tokens: 22.8 chunks/s on two cores against 19.9 at 8 and 11.1 at 32, which fall out of
# the CPU's cache.
_BATCH_TOKENS = 1024

# How long a thread of onnxruntime's waits busily for its part of the next operator. One question of 22 tokens every
# 30 ms, two threads on two cores, median: with 5 us 9.5 ms, for a thread that slept is often woken on the core of the
# one that wakes it, and the two then take turns; with 40 us, 6.1 ms; with the default, 6.5 ms. With one of the cores
# busy with something else: 9.8, 11.0 and 16 ms. One thread alone takes 9.9 ms either way.
_SPIN_US = 40
# Addition and layer normalisation in one operator: 46 us for 33 tokens of 384 dimensions on two threads, 79 on one;
# as two operators 15 and 13 (onnxruntime 1.31).
_SLOWER = ["SkipLayerNormFusion"]


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    name: str
    dimension: int
    max_tokens: int  # special tokens included; what lies beyond would be cut
    document_prompt: str  # "" for most
    tokenizer_file: Path

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        """(n, d) float32, rows of unit length, with the model's query prompt where it has one."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """(n, d) float32, rows of unit length, with the model's document prompt where it has one."""
        ...


@dataclass(frozen=True, slots=True)
class Card:
    """What must be known of a prepared model without loading it."""

    format: int  # of the folder
    name: str
    dimension: int
    max_tokens: int
    query_prompt: str
    document_prompt: str
    inputs: tuple[str, ...]  # of the ONNX graph

    @staticmethod
    def read(folder: Path) -> "Card":
        """The card of a prepared model. Raises FileNotFoundError."""
        fields = json.loads((folder / "card.json").read_text("utf-8"))
        return Card(**{**fields, "inputs": tuple(fields["inputs"])})


@dataclass(frozen=True, slots=True)
class Prompts:
    """What stands before every question, and before every chunk. None: what the model itself says."""

    query: str | None = None
    document: str | None = None


OWN_PROMPTS = Prompts()
GRAPH = "model.onnx"


def prompted(card: Card, prompts: Prompts) -> Card:
    """The card with these prompts in the place of the model's own."""
    query = card.query_prompt if prompts.query is None else prompts.query
    document = card.document_prompt if prompts.document is None else prompts.document
    return replace(card, query_prompt=query, document_prompt=document)


class OnnxEmbedder:
    """The prepared model in onnxruntime; releases the GIL while it computes."""

    def __init__(self, folder: Path, *, threads: int, prompts: Prompts = OWN_PROMPTS, graph: str = GRAPH) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        card = prompted(Card.read(folder), prompts)
        self.name, self.dimension, self.max_tokens = card.name, card.dimension, card.max_tokens
        self.document_prompt = card.document_prompt
        self.tokenizer_file = folder / "tokenizer.json"
        self._card = card
        self._tokenizer = Tokenizer.from_file(str(self.tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(card.max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.spin_duration_us", str(_SPIN_US))
        self._session = onnxruntime.InferenceSession(
            str(folder / graph), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER
        )

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._embed([self._card.query_prompt + text for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._embed([self._card.document_prompt + text for text in texts])

    def _embed(self, texts: Sequence[str]) -> Matrix:
        if len(texts) == 1:  # a question: without the thread pool of `encode_batch`
            return self._run([np.asarray(self._tokenizer.encode(texts[0]).ids, np.int64)])
        vectors = np.empty((len(texts), self.dimension), np.float32)
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = [np.asarray(encoding.ids, np.int64) for encoding in encodings]
        for batch in _batches([len(row) for row in ids]):
            vectors[batch] = self._run([ids[i] for i in batch])
        return vectors

    def _run(self, rows: Sequence[NDArray[np.int64]]) -> Matrix:
        width = max(len(row) for row in rows)
        padded = np.zeros((len(rows), width), np.int64)
        mask = np.zeros_like(padded)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        feed: dict[str, Any] = {"input_ids": padded, "attention_mask": mask}
        (vectors,) = self._session.run(None, {name: feed[name] for name in self._card.inputs})
        return np.asarray(vectors, np.float32)


class TorchEmbedder:
    """The model as sentence-transformers runs it: where ONNX does not reproduce it, and for bf16."""

    def __init__(
        self, model: Any, folder: Path, *, threads: int, prompts: Prompts = OWN_PROMPTS, apart: bool = False
    ) -> None:
        """model: a SentenceTransformer.

        apart: for many documents: each thread embeds some of them, with a copy of the model; threads that share a
        text wait for one another at each operator.
        """
        import torch

        torch.set_num_threads(threads)  # of this thread; each of the pool's has one
        card = prompted(Card.read(folder), prompts)
        self.name, self.dimension, self.max_tokens = card.name, card.dimension, card.max_tokens
        self.document_prompt = card.document_prompt
        self.tokenizer_file = folder / "tokenizer.json"
        self._query_prompt = card.query_prompt
        self._models = [model, *(copy.deepcopy(model) for _ in range(threads - 1))] if apart else [model]
        self._pool = ThreadPoolExecutor(len(self._models), initializer=torch.set_num_threads, initargs=(1,))

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._shaped(self._models[0].encode_query(list(texts), prompt=self._query_prompt, **_ENCODE))

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if len(self._models) == 1:
            return self._encoded(self._models[0], texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        parts = [order[i :: len(self._models)] for i in range(len(self._models))]  # of like lengths
        vectors = np.empty((len(texts), self.dimension), np.float32)
        made = self._pool.map(self._encoded, self._models, [[texts[i] for i in part] for part in parts])
        for part, rows in zip(parts, made, strict=True):
            vectors[part] = rows
        return vectors

    def _encoded(self, model: Any, texts: Sequence[str]) -> Matrix:
        # The prompt is ours to name: encode_document takes none where a model calls its own "passage".
        return self._shaped(model.encode_document(list(texts), prompt=self.document_prompt, **_ENCODE))

    def _shaped(self, vectors: Any) -> Matrix:
        rows = np.asarray(vectors, np.float32).reshape(-1, self.dimension)  # in bf16 of length 1 +- .004
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), NO_LENGTH), np.float32)


NO_LENGTH = 1e-12
_ENCODE: dict[str, Any] = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_numpy": True}


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Positions grouped so that each batch is of like lengths (padding is wasted work) and fits the cache."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= _BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def label(embedder: Embedder) -> str:
    """What a collection is said to be built with: the model, and what stands before every chunk."""
    prompt = embedder.document_prompt
    return f"{embedder.name}{_PROMPT}{prompt!r}" if prompt else embedder.name


def probe(embedder: Embedder) -> Matrix:
    """The vectors that identify this embedder: (4, d) float32."""
    return embedder.embed_documents(PROBES)


def check_same_model(collection: str, built_with: str, stored: Matrix, current: Matrix, name: str) -> None:
    """Raise WrongEmbedder unless the stored probes are what the current embedder makes of them.

    Compared by cosine, never by hash: ONNX, bf16 and torch differ in the last digits, another model of the
    same dimension differs everywhere.
    """
    same_prompt = built_with.partition(_PROMPT)[2] == name.partition(_PROMPT)[2]  # a word or two move a vector little
    alike = stored.shape == current.shape and float(np.sum(stored * current, axis=1).min()) >= SAME_MODEL_COSINE
    if same_prompt and alike:
        return
    raise WrongEmbedder(
        f"collection {collection!r} was built with the embedder {built_with!r}, now {name!r} is configured: "
        f"run `ragway reindex {collection}`, or set embedder.model back"
    )


def mix(vectors: Matrix, weights: Sequence[float]) -> Vector:
    """The weighted sum of unit vectors, of unit length again: (n, d), n weights -> (d,) float32."""
    mixed = np.asarray(weights, np.float32) @ vectors
    length = float(np.linalg.norm(mixed))
    return np.asarray(mixed / length if length > 0 else vectors[0], np.float32)


def cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
