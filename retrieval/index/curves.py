"""Each embedder's curves of relevance in the data folder, as `ragway calibrate` fits them.

An embedder has a file of its own, with its probe vectors: another model of the same name gets the built-in curves.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from retrieval.embedding.embed import SAME_MODEL_COSINE, Matrix
from retrieval.errors import RetrievalError
from retrieval.index.data_folder import shard_name
from retrieval.knowledge import Arms
from retrieval.search.ranking import CURVES, Curve, Curves

FOLDER = "curves"
_DIGITS = 4  # of a probe vector's numbers


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file's content."""

    embedder: str
    probes: list[list[float]]
    curves: Mapping[Arms, Curve]


def write_curves(data: Path, embedder: str, probes: Matrix, curves: Curves) -> None:
    """Keep an embedder's curves, whole or not at all. Raises RetrievalError."""
    kept = _Kept(embedder, np.round(probes, _DIGITS).astype(float).tolist(), curves)
    file = _file(data, embedder, probes)
    fresh = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        fresh.write_bytes(msgspec.json.encode(kept))
        fresh.replace(file)
    except OSError as error:
        raise RetrievalError(f"cannot write {file}: {error.strerror or error}") from error


def read_curves(data: Path, embedder: str, probes: Matrix) -> Curves | None:
    """An embedder's fitted curves; None without any. Raises RetrievalError if the file cannot be used."""
    file = _file(data, embedder, probes)
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
        stored = np.asarray(kept.probes, np.float32)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # msgspec's and numpy's errors are ValueErrors
        raise RetrievalError(f"the fitted curves in {file} cannot be read: {error}") from error
    if not all(_is_curve(curve) for curve in kept.curves.values()):
        raise RetrievalError(f"the fitted curves in {file} cannot be read: their numbers are no curve's")
    if kept.embedder != embedder or not _is_same(stored, probes):
        raise RetrievalError(f"the fitted curves in {file} are another model's")
    return {**CURVES, **kept.curves}


def forget_curves(data: Path, embedder: str, probes: Matrix) -> None:
    """Delete an embedder's curves. Raises RetrievalError."""
    file = _file(data, embedder, probes)
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise RetrievalError(f"cannot delete {file}: {error.strerror or error}") from error


def _file(data: Path, embedder: str, probes: Matrix) -> Path:
    return data / FOLDER / f"{shard_name(embedder, probes.shape[1])}.json"


def _is_curve(curve: Curve) -> bool:
    return curve.slope > 0 and all(map(math.isfinite, (curve.slope, curve.offset, curve.sure)))


def _is_same(stored: Matrix, probes: Matrix) -> bool:
    return stored.shape == probes.shape and float(np.sum(stored * probes, axis=1).min()) >= SAME_MODEL_COSINE
