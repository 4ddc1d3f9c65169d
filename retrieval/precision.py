"""Whether bf16 pays for bulk embedding: shown by a probe of this processor with this model, never assumed.

A processor without units for bf16 (AVX512-BF16, AMX, Arm's BF16) computes it in fp32 after all, and slower; one with
them is two to three times as fast, where the model is large enough to be bound by its multiplications.
"""

import time
from pathlib import Path

import numpy as np

from retrieval.embed import PROBES, Embedder

BULK_COSINE = 0.999  # to the fp32 vectors, of every probe
_FLAGS = frozenset(("avx512_bf16", "amx_bf16", "bf16"))  # as /proc/cpuinfo names them; the last one on Arm
_SAMPLE = [" ".join(PROBES) * 6] * 8  # eight texts of the length of a chunk
_RUNS = 3


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


def _best_s(embedder: Embedder) -> float:
    best_s = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        embedder.embed_documents(_SAMPLE)
        best_s = min(best_s, time.perf_counter() - began)
    return best_s
