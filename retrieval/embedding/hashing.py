"""Texts to vectors without a model, for tests and demos: `embedder.model: hash`.

Each word adds 1 or -1 to one place in the vector, by a hash of the word (feature hashing, Weinberger et al. 2009).
Texts that share words have similar vectors. They know no meaning, so a good ranking needs a real model. This embedder
loads in a millisecond, without onnxruntime and torch.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from retrieval.embedding.embed import EmbedderPrompts, Matrix

HASH = "hash"
_DIMENSION = 256


class HashEmbedder:
    """Feature hashing of words. The default embedder's tokenizer counts text lengths."""

    name, dimension, max_tokens = HASH, _DIMENSION, 512

    def __init__(self, tokenizer_file: Path, prompts: EmbedderPrompts) -> None:
        self.tokenizer_file = tokenizer_file
        self.document_prompt = prompts.document or ""
        self._query_prompt = prompts.query or ""

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return _hashed([self._query_prompt + text for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return _hashed([self.document_prompt + text for text in texts])


def _hashed(texts: Sequence[str]) -> Matrix:
    """Each text's unit vector: (n, 256) float32. A text without words gets the first axis."""
    vectors = np.zeros((len(texts), _DIMENSION), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            hashed = crc32(word.encode("utf-8", "replace"))
            vector[hashed % _DIMENSION] += 1 if hashed & 1 << 31 else -1
        if not vector.any():
            vector[0] = 1
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)
