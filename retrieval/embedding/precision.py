"""Whether fewer bits pay: bf16 for bulk embedding, int8 for questions.

bf16 is measured with this model on this processor, never assumed.

bf16 needs torch. Importing it alone takes as long as embedding some hundred chunks, so a few documents are embedded
without it. A processor without bf16 units (AVX512-BF16, AMX, Arm's BF16) computes bf16 in fp32, and more slowly. One
with bf16 units is two to three times as fast, if the model is large enough for multiplications to dominate.
"""

import time
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from retrieval.embedding.embed import PROBES, Embedder, Matrix

BULK_COSINE = 0.999  # each probe's cosine to its fp32 vector
# Each probe's cosine in int8 to its fp32 vector; the default embedder's are .992 to .994. There a question's cosines to
# passages move by .006 to .009 (standard deviation, six sets), a tenth of what unrelated passages' differ by (.071). At
# .98 they move by a sixth of it: enough to change places among the best.
QUESTION_COSINE = 0.98
_CPUINFO = Path("/proc/cpuinfo")
# Names in /proc/cpuinfo. The last is Arm's.
_BF16_UNITS = frozenset(("avx512_bf16", "amx_bf16", "bf16"))
# Without these, x86 processors add products of 8 bits in 16 bits, which overflow: less exact, and hardly faster.
_INT8_UNITS = frozenset(("avx512_vnni", "avx_vnni", "amx_int8"))
_SAMPLE = [" ".join(PROBES) * 6] * 8  # eight texts, each as long as a chunk
_RUNS = 3
BF16_MIN_TEXTS = 500  # texts: bf16 saves 5 to 10 s on 500 texts, as long as torch takes to load
_PAUSE_S = 10.0  # after a pause, texts are counted from 0 again


def has_bf16_units(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether the processor reports bf16 multiplication. False if it reports nothing."""
    return _has_one_of(_BF16_UNITS, cpuinfo)


def has_int8_units(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether the processor reports 8-bit products added in 32 bits. False if it reports nothing."""
    return _has_one_of(_INT8_UNITS, cpuinfo)


def _has_one_of(flags: frozenset[str], cpuinfo: Path) -> bool:
    try:
        return not flags.isdisjoint(cpuinfo.read_text("utf-8", "replace").split())
    except OSError:
        return False


def questions_agree(reference: Embedder, candidate: Embedder) -> bool:
    """Whether the candidate's vectors of questions are close enough to the reference's for a search."""
    cosines = np.sum(reference.embed_query(PROBES) * candidate.embed_query(PROBES), axis=1)
    return bool(cosines.min() >= QUESTION_COSINE)


def vectors_agree(reference: Embedder, candidate: Embedder) -> bool:
    """Whether the candidate's vectors are close enough to the reference's for a search."""
    texts = [*PROBES, _SAMPLE[0]]
    cosines = np.sum(reference.embed_documents(texts) * candidate.embed_documents(texts), axis=1)
    return bool(cosines.min() >= BULK_COSINE)


def is_worthwhile(reference: Embedder, candidate: Embedder) -> bool:
    """Whether the candidate's vectors agree with the reference's, and it is faster."""
    return vectors_agree(reference, candidate) and _best_s(candidate) < _best_s(reference)


class BulkEmbedder:
    """An embedder for documents: fp32 for few texts, bf16 for many without a pause if it pays."""

    def __init__(self, plain: Embedder, load_bf16: Callable[[], Embedder], *, bf16_min_texts: int) -> None:
        """load_bf16: loads the model in bf16. bf16_min_texts: texts without a pause before it is tried; 0: now."""
        self.name, self.dimension, self.max_tokens = plain.name, plain.dimension, plain.max_tokens
        self.document_prompt, self.tokenizer_file = plain.document_prompt, plain.tokenizer_file
        self._best = plain
        self._load_bf16: Callable[[], Embedder] | None = load_bf16  # None once bf16 was tried
        self._bf16_min_texts = bf16_min_texts
        self._recent_texts = 0  # embedded without a pause
        self._expected_texts = 0
        self._last_s = time.monotonic()
        self._choose()

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._best.embed_query(texts)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if time.monotonic() - self._last_s > _PAUSE_S:
            self._recent_texts = 0
        self._recent_texts += len(texts)
        self._choose()
        vectors = self._best.embed_documents(texts)
        self._last_s = time.monotonic()
        return vectors

    def expect(self, texts: int) -> None:
        """Announce about `texts` more texts, without a pause, after those that are embedded next."""
        self._expected_texts = texts

    def _choose(self) -> None:
        if self._load_bf16 is not None and self._recent_texts + self._expected_texts >= self._bf16_min_texts:
            bf16, self._load_bf16 = self._load_bf16(), None
            self._best = bf16 if is_worthwhile(self._best, bf16) else self._best


def _best_s(embedder: Embedder) -> float:
    return min(timeit.repeat(lambda: embedder.embed_documents(_SAMPLE), number=1, repeat=_RUNS))
