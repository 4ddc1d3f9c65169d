"""A large corpus grown from a small real corpus: thousands of real texts embedded once, then any number of chunks.

Chunk i comes from base text i mod n. The chunk's vector is the base text's vector plus Gaussian noise of length
`NOISE`, normalised (cosine to the base about .86, between two chunks of one base about .74). The chunk's text is a
sentence of the base and sentences of other texts. Questions are the openings of real paragraphs outside the corpus,
with real vectors. Everything follows from the seed; base texts and vectors are cached.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.common import corpus
from benchmarks.common.output import say
from benchmarks.common.processes import Unmeasurable
from retrieval.lexical.terms import document_vector
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse

NOISE = 0.6  # length of the noise added to a unit vector
_SENTENCES = range(2, 5)  # of a chunk: 60 to 110 tokens
_SEED = 7
_BLOCK = 10_000  # chunks per draw of noise

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Bases:
    """Real texts with vectors, and the questions for the grown corpus."""

    texts: list[str]
    vectors: Matrix  # (n, d), unit length
    questions: list[str]
    asked: Matrix  # vectors of the questions


def bases(cache: Path, texts: int, questions: int, models: Path) -> Bases:
    """The bases from the cache, or embedded and cached (some 60 texts a second). Raises Unmeasurable."""
    folder = cache / f"bases-{texts}-{questions}"
    if not (folder / "vectors.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        paragraphs = corpus.paragraphs()
        if len(paragraphs) < texts + questions:
            raise Unmeasurable(
                f"the installed packages hold {len(paragraphs)} paragraphs, expected {texts + questions}"
            )
        drawn = Random(_SEED).sample(paragraphs, texts + questions)
        asked = [_question(text) for text in drawn[texts:]]
        say(f"embedding {texts} texts and {questions} questions, once")
        vectors = _embedded(drawn[:texts] + asked, models)
        (folder / "texts.json").write_bytes(orjson.dumps([drawn[:texts], asked]))
        np.save(folder / "asked.npy", vectors[texts:])
        np.save(folder / "vectors.npy", vectors[:texts])  # written last: the file marks a complete cache
    kept, asked = orjson.loads((folder / "texts.json").read_bytes())
    return Bases(kept, np.load(folder / "vectors.npy"), asked, np.load(folder / "asked.npy"))


def _question(paragraph: str) -> str:
    words = re.split(r"(?<=[.!?;:]) ", paragraph)[0].rstrip(".,;:").split()
    return f"Why is it that {' '.join(words[:14])}?"


def _embedded(texts: list[str], models: Path) -> Matrix:
    from retrieval.embedding.export import DEFAULT_MODEL, open_embedder

    embedder = open_embedder(DEFAULT_MODEL, backend="onnx", threads=1, cache=models)
    return np.concatenate([embedder.embed_documents(texts[at : at + 64]) for at in range(0, len(texts), 64)])


def vectors(base: Bases, count: int) -> Iterator[Matrix]:
    """The chunks' vectors, in blocks: (block, d) float32 of unit length."""
    n, d = base.vectors.shape
    for block, start in enumerate(range(0, count, _BLOCK)):
        rows = np.arange(start, min(start + _BLOCK, count))
        noise = np.random.default_rng([_SEED, block]).standard_normal((len(rows), d), np.float32)
        grown = base.vectors[rows % n] + noise * np.float32(NOISE / d**0.5)
        yield grown / np.linalg.norm(grown, axis=1, keepdims=True)


def texts(base: Bases, count: int) -> Iterator[str]:
    """The chunks' texts, in order."""
    sentences = [[s for s in re.split(r"(?<=[.!?;:]) ", text) if s] for text in base.texts]
    random = Random(_SEED)
    for i in range(count):
        own = sentences[i % len(sentences)]
        others = (random.choice(random.choice(sentences)) for _ in range(random.choice(_SENTENCES) - 1))
        yield " ".join([random.choice(own), *others])


def words(base: Bases, count: int) -> Iterator[Sparse]:
    """The chunks' BM25 vectors, in order."""
    return map(document_vector, texts(base, count))


def points(base: Bases, count: int, *, first: int = 0) -> Iterator[list[Point]]:
    """The chunks as points for a store, in blocks; the id of chunk i is `identifier(first + i)`."""
    said, at = texts(base, count), first
    for block in vectors(base, count):
        made = []
        for row in block:
            text = next(said)
            made.append(Point(identifier(at), passage(at, text), {"dense": row}, document_vector(text)))
            at += 1
        yield made


def identifier(row: int) -> str:
    """The point id of a chunk."""
    return str(UUID(int=row))


def row(identifier: str) -> int:
    """The chunk of a point id."""
    return UUID(identifier).int


def passage(number: int, text: str) -> Passage:
    """The stored form of a chunk."""
    return Passage(
        document=f"d{number // 50}",
        revision=1,
        ordinal=number % 50,
        title="",
        source=f"notes/{number // 50}.md",
        modified_s=1.7e9,
        headings=(),
        start=0,
        end=len(text),
        text=text,
        tokens=len(text) // 4,
    )
