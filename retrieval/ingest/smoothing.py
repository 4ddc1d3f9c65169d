"""A chunk's vector leans on those of its neighbours, for what stands around a passage says what it is about.

"It is set to 30 seconds by default" has the words of the answer, and the chunk before it those of the question. Each
vector gets those of the two chunks on either side added, the nearer ones at the whole weight and the others at half of
it, each times its cosine to the chunk's own: what stands beside it by chance, as in a list, hardly counts. It costs no
time when a question is asked. docs/contextual.md has what it is worth.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from retrieval.embedding.embed import Matrix
from retrieval.ingest.splitting import Split
from retrieval.records.points import Vector

_SHARES = (1.0, 0.5)  # of the weight, by distance


def leaning(splits: Sequence[Split], vectors: Sequence[Vector], weight: float) -> Iterator[Vector]:
    """The vectors of all chunks of these documents, each as `smoothed` within its own document.

    Rows of a table stand beside each other by chance and stay as they are.
    """
    left = iter(vectors)
    for split in splits:
        own = list(islice(left, len(split.chunks)))
        lonely = len(own) < 2 or not weight or split.document.format == "csv"
        yield from own if lonely else smoothed(np.stack(own), weight)


def smoothed(vectors: Matrix, weight: float) -> Matrix:
    """The unit vectors of a document's chunks in order, (n, d), each leaning on its neighbours: (n, d), unit length."""
    leaning = vectors.copy()
    for distance, share in enumerate(_SHARES, 1):
        one, other = vectors[:-distance], vectors[distance:]
        likeness = np.maximum(np.sum(one * other, axis=1, keepdims=True), 0.0)
        leaning[:-distance] += weight * share * likeness * other
        leaning[distance:] += weight * share * likeness * one
    lengths: NDArray[np.float32] = np.linalg.norm(leaning, axis=1, keepdims=True)
    return np.asarray(leaning / lengths, np.float32)
