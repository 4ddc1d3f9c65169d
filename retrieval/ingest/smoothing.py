"""Mix a chunk's vector with its neighbours', because the text around a passage shows its subject.

"It is set to 30 seconds by default" has the answer's words, and the chunk before has the question's. Each vector adds
those of the two chunks on either side, the nearer ones at full weight and the others at half, each times its cosine to
the chunk's own vector: an unrelated neighbour, as in a list, hardly counts. Questions take no extra time.
docs/use/chunking.md has the measured gain.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from retrieval.embedding.embed import Matrix
from retrieval.ingest.splitting import SplitDocument
from retrieval.records.points import Vector

_SHARES = (1.0, 0.5)  # share of weight, by distance


def smooth_with_neighbours(
    splits: Sequence[SplitDocument], vectors: Sequence[Vector], weight: float
) -> Iterator[Vector]:
    """Yield the vectors of all chunks in these documents, `smoothed` within each.

    Table rows are neighbours by chance and stay unchanged.
    """
    remaining = iter(vectors)
    for split in splits:
        own = list(islice(remaining, len(split.chunks)))
        unchanged = len(own) < 2 or not weight or split.document.format == "csv"
        yield from own if unchanged else smoothed(np.stack(own), weight)


def smoothed(vectors: Matrix, weight: float) -> Matrix:
    """Mix the (n, d) unit vectors of a document's chunks with their neighbours; return (n, d) of unit length."""
    smooth_with_neighbours = vectors.copy()
    for distance, share in enumerate(_SHARES, 1):
        before, after = vectors[:-distance], vectors[distance:]
        similarity = np.maximum(np.sum(before * after, axis=1, keepdims=True), 0.0)
        smooth_with_neighbours[:-distance] += weight * share * similarity * after
        smooth_with_neighbours[distance:] += weight * share * similarity * before
    lengths: NDArray[np.float32] = np.linalg.norm(smooth_with_neighbours, axis=1, keepdims=True)
    return np.asarray(smooth_with_neighbours / lengths, np.float32)
