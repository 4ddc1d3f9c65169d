"""Small points for the store suites: passages with real BM25 terms and seeded vectors, no model."""

from collections.abc import Mapping
from uuid import UUID

import numpy as np

from retrieval.lexical.terms import document_vector, query_vectors
from retrieval.records.documents import Passage, lexical_text
from retrieval.records.points import Point, Sparse, Vector

DIMENSION = 8
VECTORS = {"dense": DIMENSION}


def id_of(number: int) -> str:
    return str(UUID(int=number))


def vector_of(seed: int) -> Vector:
    vector = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def words_of(text: str, *tenants: str) -> Mapping[str, Sparse]:
    """A question's words for `Store.search`; without tenants, for the tenant `a@1`."""
    return query_vectors(tenants or ("a@1",), [(text, 1.0)])


def passage_of(text: str, *, title: str = "", headings: tuple[str, ...] = (), ordinal: int = 0) -> Passage:
    return Passage(
        document="d1",
        revision=1,
        ordinal=ordinal,
        title=title,
        source="docs/page.md",
        modified_s=1700000000.25,
        headings=headings,
        start=0,
        end=len(text),
        text=text,
        tokens=len(text.split()),
    )


def point_of(number: int, text: str, *, seed: int | None = None) -> Point:
    """Point `number`; equal seeds make equal vectors."""
    return point_with(number, passage_of(text, ordinal=number), seed=seed)


def point_with(number: int, passage: Passage, *, seed: int | None = None) -> Point:
    terms = document_vector(lexical_text(passage.title, passage.headings, passage.text, source=passage.source))
    return Point(id_of(number), passage, {"dense": vector_of(number if seed is None else seed)}, terms)


def points_of(texts: list[str], *, first: int = 1) -> list[Point]:
    return [point_of(first + i, text) for i, text in enumerate(texts)]
