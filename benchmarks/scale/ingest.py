"""The ingest row of the scale benchmark: from texts to points in a store, by ragway and by a naive stack."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import grown
from benchmarks.scale.grown import Bases
from cli.assembly.index import plan
from config.settings import load
from retrieval.lexical.terms import document_vector
from retrieval.records.points import Point, Sparse
from retrieval.stores.edge import EdgeStore
from retrieval.stores.qdrant import QdrantStore

_SLICE = 96  # as the ingester's
_TENANT = "docs@1"


async def measured(
    base: Bases, count: int, tokens: int, cache: Path, models: Path
) -> tuple[list[float], list[float], dict[str, object]]:
    """(ragway, peer, notes): milliseconds from texts to searchable points, one round each."""
    from retrieval.embedding.export import DEFAULT_MODEL, load_model, locate
    from retrieval.ingest.prepare import ChunkTexts, Embedding
    from retrieval.ingest.splitting import Recipe

    texts = _long(base, count, tokens)
    settings = plan(load(environ={}), {})
    embedding = Embedding(
        Recipe(settings.ingest, settings.embedding, models.parent)
    )  # like `ragway ingest`: bf16 if bf16 is faster
    embedding.vectors([ChunkTexts(text, text) for text in texts[:2]])  # the model is loaded
    model: Any = load_model(locate(DEFAULT_MODEL)[0])
    model.encode(texts[:2])
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        began = time.perf_counter()
        edge = EdgeStore.open(Path(folder) / "edge", vectors={"dense": base.vectors.shape[1]})
        made = []
        for at in range(0, count, _SLICE):
            part = texts[at : at + _SLICE]
            found = embedding.vectors([ChunkTexts(text, text) for text in part], count - at - len(part))
            made.append(found.dense)
            await edge.upsert(_TENANT, _points(part, found.dense, list(found.sparse), at))
        ours_ms = (time.perf_counter() - began) * 1000
        await edge.close()
        began = time.perf_counter()
        local = await QdrantStore.local(
            str(Path(folder) / "local"), collection="scale", vectors={"dense": base.vectors.shape[1]}
        )
        dense = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        await local.upsert(_TENANT, _points(texts, dense, [document_vector(text) for text in texts], 0))
        peer_ms = (time.perf_counter() - began) * 1000
        await local.close()
    cosines = np.sum(np.concatenate(made) * dense, axis=1)
    notes: dict[str, object] = {
        "least cosine to fp32": round(float(cosines.min()), 5),
        "chunks/s": round(count / ours_ms * 1000, 1),
        "peer's chunks/s": round(count / peer_ms * 1000, 1),
    }
    return [ours_ms], [peer_ms], notes


def _points(texts: list[str], dense: Any, sparse: list[Sparse], first: int) -> list[Point]:
    return [
        Point(grown.identifier(first + i), grown.passage(first + i, text), {"dense": vector}, words)
        for i, (text, vector, words) in enumerate(zip(texts, dense, sparse, strict=True))
    ]


def _long(base: Bases, count: int, tokens: int) -> list[str]:
    """Texts that fill the model's window: concatenated base texts, some 4.2 characters per token."""
    chars, pool = int(tokens * 5.2), len(base.texts)
    made = []
    for i in range(count):
        text, j = base.texts[i % pool], 1
        while len(text) < chars:
            text += " " + base.texts[(i * 7 + j * 13) % pool]
            j += 1
        made.append(text[:chars])
    return made
