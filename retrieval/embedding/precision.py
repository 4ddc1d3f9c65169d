"""Whether bf16 pays for bulk embedding: shown by a probe of this processor with this model, never assumed.

It takes torch, whose import alone costs as much as some hundred chunks: a few documents are embedded without it.
A processor without units for bf16 (AVX512-BF16, AMX, Arm's BF16) computes it in fp32 after all, and slower; one with
them is two to three times as fast, where the model is large enough to be bound by its multiplications.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from retrieval.embedding.embed import PROBES, Embedder, Matrix

BULK_COSINE = 0.999  # to the fp32 vectors, of every probe
_FLAGS = frozenset(("avx512_bf16", "amx_bf16", "bf16"))  # as /proc/cpuinfo names them; the last one on Arm
_SAMPLE = [" ".join(PROBES) * 6] * 8  # eight texts of the length of a chunk
_RUNS = 3
MANY = 500  # texts: in bf16 they are done 5 to 10 s sooner, which is what torch takes to be there
_PAUSE_S = 10.0  # behind which texts are counted anew


def computes_in_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor says that it multiplies in bf16. False where it does not say anything."""
    try:
        return not _FLAGS.isdisjoint(cpuinfo.read_text("utf-8", "replace").split())
    except OSError:
        return False


def alike(reference: Embedder, candidate: Embedder) -> bool:
    """Whether the candidate makes the reference's vectors, near enough for a search."""
    texts = [*PROBES, _SAMPLE[0]]
    cosines = np.sum(reference.embed_documents(texts) * candidate.embed_documents(texts), axis=1)
    return bool(cosines.min() >= BULK_COSINE)


def pays(reference: Embedder, candidate: Embedder) -> bool:
    """Whether the candidate makes the reference's vectors, and sooner."""
    return alike(reference, candidate) and _best_s(candidate) < _best_s(reference)


class BulkEmbedder:
    """An embedder for documents: as it is for a few, and in bf16 for many at a stretch, if that is shown to pay."""

    def __init__(self, plain: Embedder, short: Callable[[], Embedder], *, many: int) -> None:
        """short: loads the same model in bf16. many: texts at a stretch; with 0 it is tried now."""
        self.name, self.dimension, self.max_tokens = plain.name, plain.dimension, plain.max_tokens
        self.document_prompt, self.tokenizer_file = plain.document_prompt, plain.tokenizer_file
        self._best = plain
        self._short: Callable[[], Embedder] | None = short  # None once it was tried
        self._many = many
        self._texts = 0  # without a pause between
        self._coming = 0
        self._last_s = time.monotonic()
        self._choose()

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._best.embed_query(texts)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if time.monotonic() - self._last_s > _PAUSE_S:
            self._texts = 0
        self._texts += len(texts)
        self._choose()
        vectors = self._best.embed_documents(texts)
        self._last_s = time.monotonic()
        return vectors

    def expect(self, texts: int) -> None:
        """About so many follow those that are embedded next, without a pause."""
        self._coming = texts

    def _choose(self) -> None:
        if self._short is not None and self._texts + self._coming >= self._many:
            short, self._short = self._short(), None
            self._best = short if pays(self._best, short) else self._best


def _best_s(embedder: Embedder) -> float:
    best_s = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        embedder.embed_documents(_SAMPLE)
        best_s = min(best_s, time.perf_counter() - began)
    return best_s
