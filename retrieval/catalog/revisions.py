"""Catalog values for collections, documents and revisions, and what their points are called in a store."""

import uuid
from dataclasses import dataclass
from typing import Literal

from retrieval.embedding.embed import Matrix
from retrieval.lexical.terms import DEFAULT

State = Literal["staged", "ready", "current", "retired"]  # ready: in an unfinished generation, see `builds`
CLIENTS = "api:"  # prefix of catalog keys for clients' documents; a file's key is its absolute path
NAMESPACE = uuid.UUID("6f1d3c1e-7c0b-5b0e-9a55-3d1f5f6a2b10")  # of point ids; must never change


@dataclass(frozen=True, slots=True)
class Collection:
    """A catalog row: a collection, and its current generation's embedder."""

    name: str
    generation: int
    embedder: str
    probes: Matrix
    language: str
    tenant: str  # of the current generation in a store


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """A catalog record of a document's revision, to compare with new content."""

    document: str
    revision: int
    content_hash: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision's key: enough to find its points."""

    document: str
    revision: int
    tenant: str
    chunks: int

    def point_ids(self) -> list[str]:
        """Return its points' ids: UUIDv5 of tenant, document, revision and ordinal."""
        return [point_id(self.tenant, self.document, self.revision, i) for i in range(self.chunks)]

    def last_point_id(self) -> str:
        """Return its last point's id, without making the others."""
        return point_id(self.tenant, self.document, self.revision, self.chunks - 1)


def tenant_of(collection: str, generation: int, language: str = DEFAULT) -> str:
    """Return a collection generation's tenant in a store; `terms.language_of` reads its language."""
    return f"{collection}@{generation}" + (f".{language}" if language != DEFAULT else "")


def collection_of(tenant: str) -> str:
    return tenant.partition("@")[0]


def point_id(tenant: str, document: str, revision: int, ordinal: int) -> str:
    """Return the id of a chunk's point. It is always the same, so that a repeated write changes nothing."""
    return str(uuid.uuid5(NAMESPACE, f"{tenant}/{document}/{revision}/{ordinal}"))


def catalog_key(key: str) -> str:
    """Return the catalog key for a client's name `key`."""
    return CLIENTS + key


def client_key(key: str) -> str:
    """Return the client's name for a catalog key; "" for a file."""
    return key.removeprefix(CLIENTS) if key.startswith(CLIENTS) else ""
