"""Texts to unit vectors. A model is prepared once (`export`), then runs as ONNX without torch in memory.

`SentenceTransformer.encode` takes two to three times as long for one query as the same weights in ONNX, and importing
sentence-transformers takes 6-11 s and 400 MB. So torch is imported only to prepare a model for the first time, or if
ONNX does not reproduce it.

Recent questions come from a cache, and concurrent ones share a model call. While one call computes, new questions wait
and share the next: two threads share one batch's rows better than two batches share two threads. A text requested
twice at the same time is embedded once.

A single question never waits, not even for a thread to wake up: if it is short and the model runs in this process, the
event loop itself embeds it. A question that arrives in those 10 ms would wait for the model anyway.
"""

import asyncio
import copy
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import IndexDown, WrongEmbedder
from retrieval.records.points import Vector

Matrix = NDArray[np.float32]

# Texts of different kinds whose vectors identify a model: two embedders are the same model if these agree.
PROBES = (
    "How do I connect to the database with TLS?",
    "EADDRNOTAVAIL (99): cannot assign requested address",
    "def main() -> None:\n    print('hello')",
    "Die Rechnung wurde gestern bezahlt.",
)
_PROMPT = ", prompt "
# For one text, cosine between torch, ONNX and bf16 vectors is above .9999; two models differ far below .99.
SAME_MODEL_COSINE = 0.99
# A batch of 4 chunks of 256 tokens: 22.8 chunks/s on two cores. Batches of 8 give 19.9 and batches of 32 give 11.1,
# because larger ones do not fit into the CPU's cache.
_BATCH_TOKENS = 1024

# How long an onnxruntime thread spins while it waits for its part of the next operator. Median for one question of 22
# tokens every 30 ms, two threads on two cores: 5 us 9.5 ms, 40 us 6.1 ms, the default 6.5 ms. At 5 us a sleeping
# thread often wakes up on the core of the thread that woke it, and they take turns. With one core busy with other
# work: 9.8, 11.0 and 16 ms. A single thread takes 9.9 ms in each case.
_SPIN_US = 40
# Addition and layer normalisation fused into one operator take 46 us on two threads and 79 us on one, for 33 tokens of
# 384 dimensions. As two operators they take 15 and 13 us (onnxruntime 1.31).
_SLOWER = ["SkipLayerNormFusion"]


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    name: str
    dimension: int
    max_tokens: int  # special tokens included; the embedder cuts longer texts
    document_prompt: str  # "" for most models
    tokenizer_file: Path

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        """(n, d) float32, rows of unit length, with the model's query prompt if it has one.

        The row may be zeros if the model knows none of a question's words: see `known_words_only`.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """(n, d) float32, rows of unit length, with the model's document prompt if it has one."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A prepared model's properties, readable without loading it."""

    format: int  # version of the folder's format
    name: str
    dimension: int
    max_tokens: int
    query_prompt: str
    document_prompt: str
    inputs: tuple[str, ...]  # input names of the ONNX graph

    @staticmethod
    def read(folder: Path) -> "ModelCard":
        """Read a prepared model's card. Raises FileNotFoundError."""
        fields = json.loads((folder / "card.json").read_text("utf-8"))
        return ModelCard(**{**fields, "inputs": tuple(fields["inputs"])})


@dataclass(frozen=True, slots=True)
class EmbedderPrompts:
    """Texts put before every question and every chunk. None: the model's own prompt."""

    query: str | None = None
    document: str | None = None


MODEL_PROMPTS = EmbedderPrompts()
GRAPH = "model.onnx"
INT8_GRAPH = "model.int8.onnx"


class _PreparedEmbedder:
    """A prepared model's properties, with `prompts` in place of its own."""

    def __init__(self, folder: Path, prompts: EmbedderPrompts) -> None:
        card = ModelCard.read(folder)
        self.name, self.dimension, self.max_tokens = card.name, card.dimension, card.max_tokens
        self.document_prompt = card.document_prompt if prompts.document is None else prompts.document
        self.tokenizer_file = folder / "tokenizer.json"
        self._query_prompt = card.query_prompt if prompts.query is None else prompts.query
        self._inputs = card.inputs


class OnnxEmbedder(_PreparedEmbedder):
    """A prepared model in onnxruntime; releases the GIL while it computes.

    An 8-bit graph scales the activations of a whole call alike, so it embeds each question alone: its vector must not
    depend on the questions that arrive with it.
    """

    def __init__(
        self, folder: Path, *, threads: int, prompts: EmbedderPrompts = MODEL_PROMPTS, graph: str = GRAPH
    ) -> None:
        from tokenizers import Tokenizer

        super().__init__(folder, prompts)
        self._folder = folder
        self._tokenizer = Tokenizer.from_file(str(self.tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._of_documents = self._of_questions = self._of_single_question = self._session(graph, threads)
        self.int8_questions = graph == INT8_GRAPH

    def with_int8_questions(self, *, threads: int, threads_of_single: int) -> "OnnxEmbedder":
        """The same embedder, but questions go through the 8-bit graph.

        threads_of_single: for a question while no other waits. Both numbers of threads give the same vectors.
        """
        other = copy.copy(self)
        other.int8_questions = True
        other._of_questions = other._of_single_question = self._session(INT8_GRAPH, threads)
        if threads_of_single != threads:
            other._of_single_question = self._session(INT8_GRAPH, threads_of_single)
        return other

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._embed_questions(texts, self._of_questions)

    def embed_single(self, text: str) -> Matrix:
        """(1, d): a question while no other waits, which may take threads that other questions would need."""
        return self._embed_questions([text], self._of_single_question)

    def _embed_questions(self, texts: Sequence[str], session: Any) -> Matrix:
        def embedded(known: Sequence[str]) -> Matrix:
            return self._embed([self._query_prompt + text for text in known], session, alone=self.int8_questions)

        return known_words_only(texts, self, embedded)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        def embedded(read: Sequence[str]) -> Matrix:
            return self._embed([self.document_prompt + text for text in read], self._of_documents)

        return readable_only(texts, self, embedded)

    def _session(self, graph: str, threads: int) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.spin_duration_us", str(_SPIN_US))
        return onnxruntime.InferenceSession(
            str(self._folder / graph), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER
        )

    def _embed(self, texts: Sequence[str], session: Any, *, alone: bool = False) -> Matrix:
        if len(texts) == 1:  # a question: skip `encode_batch`'s thread pool
            return self._run(session, [np.asarray(self._tokenizer.encode(texts[0]).ids, np.int64)])
        vectors = np.empty((len(texts), self.dimension), np.float32)
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = [np.asarray(encoding.ids, np.int64) for encoding in encodings]
        for batch in [[i] for i in range(len(ids))] if alone else _batches([len(row) for row in ids]):
            vectors[batch] = self._run(session, [ids[i] for i in batch])
        return vectors

    def _run(self, session: Any, rows: Sequence[NDArray[np.int64]]) -> Matrix:
        width = max(len(row) for row in rows)
        padded = np.zeros((len(rows), width), np.int64)
        mask = np.zeros_like(padded)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        feed: dict[str, Any] = {"input_ids": padded, "attention_mask": mask}
        (vectors,) = session.run(None, {name: feed[name] for name in self._inputs})
        return np.asarray(vectors, np.float32)


class TorchEmbedder(_PreparedEmbedder):
    """A model as sentence-transformers runs it: for bf16, and if ONNX does not reproduce it."""

    def __init__(
        self,
        model: Any,
        folder: Path,
        *,
        threads: int,
        prompts: EmbedderPrompts = MODEL_PROMPTS,
        copy_per_thread: bool = False,
    ) -> None:
        """model: a SentenceTransformer.

        copy_per_thread: for many documents. Each thread embeds its own share with its own copy of the model. Threads
            that share a batch wait for each other at each operator.
        """
        import torch

        torch.set_num_threads(threads)  # for the calling thread; pool threads use 1 each
        super().__init__(folder, prompts)
        self._models = [model, *(copy.deepcopy(model) for _ in range(threads - 1))] if copy_per_thread else [model]
        self._pool = ThreadPoolExecutor(len(self._models), initializer=torch.set_num_threads, initargs=(1,))

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        def embedded(known: Sequence[str]) -> Matrix:
            return self._shaped(self._models[0].encode_query(list(known), prompt=self._query_prompt, **_ENCODE))

        return known_words_only(texts, self, embedded)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return readable_only(texts, self, self._embed_documents)

    def _embed_documents(self, texts: Sequence[str]) -> Matrix:
        if len(self._models) == 1:
            return self._encoded(self._models[0], texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        # each part has a similar mix of lengths
        parts = [order[i :: len(self._models)] for i in range(len(self._models))]
        vectors = np.empty((len(texts), self.dimension), np.float32)
        vectors_of_parts = self._pool.map(self._encoded, self._models, [[texts[i] for i in part] for part in parts])
        for part, rows in zip(parts, vectors_of_parts, strict=True):
            vectors[part] = rows
        return vectors

    def _encoded(self, model: Any, texts: Sequence[str]) -> Matrix:
        # Pass our own prompt: `encode_document` uses none for a model that calls its document prompt "passage".
        return self._shaped(model.encode_document(list(texts), prompt=self.document_prompt, **_ENCODE))

    def _shaped(self, vectors: Any) -> Matrix:
        rows = np.asarray(vectors, np.float32).reshape(-1, self.dimension)  # bf16 vectors have a length of 1 +- .004
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), NO_LENGTH), np.float32)


NO_LENGTH = 1e-12
_ENCODE: dict[str, Any] = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_numpy": True}


def known_words_only(texts: Sequence[str], embedder: Embedder, embed: Callable[[Sequence[str]], Matrix]) -> Matrix:
    """Question vectors that leave out words the embedder does not know; zeros if no word is left, as in "???".

    A model gives all unknown words (emoji, scripts that its vocabulary lacks) one vector, so a thumbs-up would equal
    any Thai page.
    """
    known = [_known(text, embedder) for text in texts]
    return _embedded(texts, known, embed, lambda: np.zeros(embedder.dimension, np.float32))


def readable_only(texts: Sequence[str], embedder: Embedder, embed: Callable[[Sequence[str]], Matrix]) -> Matrix:
    """Chunk vectors; of a chunk whose words the embedder mostly does not know, only the known ones count.

    Unknown words alone are near any short question ("x", "123"). A chunk without any known word is far from every text.
    """
    read = [
        text if 2 * len(text.encode("ascii", "ignore")) >= len(text) else _mostly_known(text, embedder)
        for text in texts
    ]

    def far() -> Vector:
        middle = embed(PROBES).mean(axis=0)
        return np.asarray(-middle / np.linalg.norm(middle), np.float32)

    return _embedded(texts, read, embed, far)


def _embedded(
    texts: Sequence[str],
    read: Sequence[str],
    embed: Callable[[Sequence[str]], Matrix],
    unreadable: Callable[[], Vector],
) -> Matrix:
    """Vectors of what is read of each text; `unreadable()` for a text of which nothing is left."""
    rows = [number for number, (text, rest) in enumerate(zip(texts, read, strict=True)) if rest or not text]
    if len(rows) == len(texts):
        return embed(read)
    vectors = np.tile(unreadable(), (len(texts), 1))
    if rows:
        vectors[rows] = embed([read[number] for number in rows])
    return vectors


def _mostly_known(text: str, embedder: Embedder) -> str:
    """The text, or its known words if most of its letters are in others."""
    known = _tokenizer(embedder.tokenizer_file).known(text)
    return text if 2 * _letters(known) >= _letters(text) else known


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _known(text: str, embedder: Embedder) -> str:
    if text.isascii():
        return text if any(map(str.isalnum, text)) else ""
    return _tokenizer(embedder.tokenizer_file).known(text)


_tokenizer = lru_cache(maxsize=2)(EmbedderTokenizer)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group positions into batches of similar length (padding is wasted work) that fit into the CPU's cache."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= _BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def label(embedder: Embedder) -> str:
    """What `ragway collections` shows as a collection's embedder: model name, and document prompt if any."""
    prompt = embedder.document_prompt
    return f"{embedder.name}{_PROMPT}{prompt!r}" if prompt else embedder.name


def probe(embedder: Embedder) -> Matrix:
    """Vectors that identify this embedder: (4, d) float32."""
    return embedder.embed_documents(PROBES)


def check_same_model(collection: str, built_with: str, stored: Matrix, current: Matrix, name: str) -> None:
    """Raise WrongEmbedder unless the current embedder reproduces the stored probes.

    This compares by cosine, never by hash: ONNX, bf16 and torch differ in the last digits, and another model of the
    same dimension differs everywhere.
    """
    # a prompt of a word or two hardly moves a vector
    same_prompt = built_with.partition(_PROMPT)[2] == name.partition(_PROMPT)[2]
    vectors_agree = stored.shape == current.shape and float(np.sum(stored * current, axis=1).min()) >= SAME_MODEL_COSINE
    if same_prompt and vectors_agree:
        return
    raise WrongEmbedder(
        f"collection {collection!r} was built with the embedder {built_with!r}, now {name!r} is configured: "
        f"run `ragway reindex {collection}`, or set embedder.model back"
    )


def mix(vectors: Matrix, weights: Sequence[float]) -> Vector:
    """Return a weighted sum of unit vectors, scaled to unit length: (n, d), n weights -> (d,) float32."""
    mixed = np.asarray(weights, np.float32) @ vectors
    length = float(np.linalg.norm(mixed))
    return np.asarray(mixed / length if length > 0 else vectors[0], np.float32)


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- questions in batches ---------------------------------------------------------------------------------------------


_CACHED_TEXTS = 2000  # vectors of recent texts: 3 MB at 384 dimensions
# Questions in one call, if the embedder gains by it. 32 questions at once on two cores: with calls of 8 the median
# question takes 97 ms and the last 154 ms; with calls of 32 both take 134 ms; one by one both take 170 ms.
_BATCH_TEXTS = 8
# Calls that wait in the thread, if each question is embedded alone: the event loop, busy with other searches, would let
# the thread wait between two calls.
_CALLS_AHEAD = 16
# The longest question that the event loop embeds: some 100 tokens, 25 ms. A chat over 10,000 chunks takes 17.3 ms in
# the event loop and 19.1 ms with a thread (medians of 250, alternating in one run).
_SHORT_CHARS = 400


def embeds_alone(embedder: Embedder) -> bool:
    """Whether an embedder gains nothing by several questions in one call."""
    return isinstance(embedder, OnnxEmbedder) and embedder.int8_questions


class QueryBatcher:
    """Embeds questions for one embedder.

    Its prompts and precision are fixed, so a text is its own cache key.
    """

    def __init__(self, embedder: Embedder, *, alone: bool = False) -> None:
        """alone: each question is embedded by a call of its own."""
        self._embedder = embedder
        self._cache: dict[str, Vector] = {}  # least recently used first
        self._pending: dict[str, asyncio.Future[Vector]] = {}  # texts without a vector yet
        self._queue: list[str] = []  # pending texts that no call includes yet
        self._retry_singly: list[str] = []  # texts of a failed batch: each gets its own call
        self._calls = 0  # not ended yet
        self._in_process = embedder if isinstance(embedder, OnnxEmbedder) else None
        self._most_texts, self._most_calls = (1, _CALLS_AHEAD) if alone else (_BATCH_TEXTS, 1)
        self._thread = ThreadPoolExecutor(1, "embed-questions")

    async def vectors(self, texts: Sequence[str]) -> Matrix:
        """(n, d), one row per text. Raises the embedder's errors."""
        vectors = {text: self._cache[text] for text in texts if text in self._cache}
        new = {text: self._request(text) for text in texts if text not in vectors}
        if new:  # `call_soon`: questions that arrived together share one call
            asyncio.get_running_loop().call_soon(self._run_next)
        for text, vector in new.items():  # shield: another caller may wait for the same text
            vectors[text] = await asyncio.shield(vector)
        for text, row in vectors.items():  # move to the end, so that the least recently used goes first
            self._cache.pop(text, None)
            self._cache[text] = row
        while len(self._cache) > _CACHED_TEXTS:
            del self._cache[next(iter(self._cache))]
        return np.stack([vectors[text] for text in texts])

    async def mixed(self, queries: Sequence[Sequence[tuple[str, float]]]) -> list[Vector | None]:
        """A vector for each query, mixed from its weighted texts; None if the embedder knows no word of it."""
        texts = list(dict.fromkeys(text for weighted in queries for text, _ in weighted))
        vector_of = dict(zip(texts, await self.vectors(texts), strict=True))
        vectors = [
            mix(np.stack([vector_of[text] for text, _ in weighted]), [weight for _, weight in weighted])
            if len(weighted) > 1
            else vector_of[weighted[0][0]]
            for weighted in queries
        ]
        return [vector if vector.any() else None for vector in vectors]

    def _request(self, text: str) -> asyncio.Future[Vector]:
        if text in self._pending:
            return self._pending[text]
        pending = self._pending[text] = asyncio.get_running_loop().create_future()
        # retrieve the error: all callers may have left
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._queue.append(text)
        return pending

    def _run_next(self) -> None:
        """Call the model with waiting texts, unless enough calls are running."""
        while (self._retry_singly or self._queue) and self._calls < self._most_calls:
            waiting, most = (self._retry_singly, 1) if self._retry_singly else (self._queue, self._most_texts)
            texts = waiting[:most]
            del waiting[:most]
            call: asyncio.Future[Matrix]
            single = len(texts) == 1 and not waiting and not self._calls
            if single and self._in_process is not None and len(texts[0]) <= _SHORT_CHARS:
                call = asyncio.ensure_future(_embed_in_loop(self._in_process, texts[0]))
            else:  # onnxruntime releases the GIL, so the process continues
                call = asyncio.get_running_loop().run_in_executor(self._thread, self._embedder.embed_query, texts)
            self._calls += 1
            call.add_done_callback(partial(self._on_result, texts))

    def _on_result(self, texts: Sequence[str], call: asyncio.Future[Matrix]) -> None:
        """Hand out a call's results, and call the model for the next texts."""
        self._calls -= 1
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        if error is None:
            for text, vector in zip(texts, call.result(), strict=True):
                self._pending.pop(text).set_result(vector)
        elif len(texts) > 1 and not isinstance(error, IndexDown):
            self._retry_singly += texts  # one text may be unacceptable to the model
        else:
            for text in texts:
                self._pending.pop(text).set_exception(error)
        self._run_next()


async def _embed_in_loop(embedder: OnnxEmbedder, text: str) -> Matrix:
    return embedder.embed_single(text)
