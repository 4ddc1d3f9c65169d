"""What the catalog says of collections, documents and revisions, and where their points stand in a store."""

import uuid
from dataclasses import dataclass
from typing import Literal

from retrieval.embedding.embed import Matrix
from retrieval.lexical.language import DEFAULT

State = Literal["staged", "ready", "current", "retired"]  # ready: of a generation not yet in use, see `builds`
NAMESPACE = uuid.UUID("6f1d3c1e-7c0b-5b0e-9a55-3d1f5f6a2b10")  # of point ids; ours, fixed for ever


@dataclass(frozen=True, slots=True)
class Collection:
    """A row of the catalog: a collection and the embedder its current generation was built with."""

    name: str
    generation: int
    embedder: str
    probes: Matrix
    language: str = DEFAULT

    @property
    def tenant(self) -> str:
        """The name under which its points stand in the store."""
        return tenant_of(self.name, self.generation, self.language)


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog says of a file's current revision."""

    document: str
    revision: int
    content_hash: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision by name: enough to find its points."""

    document: str
    revision: int
    tenant: str
    chunks: int

    def point_ids(self) -> list[str]:
        """Ids of its points: UUIDv5 of tenant, document, revision and ordinal."""
        return [point_id(self.tenant, self.document, self.revision, i) for i in range(self.chunks)]

    def last_point_id(self) -> str:
        """The id of the last of them, without making those of all."""
        return point_id(self.tenant, self.document, self.revision, self.chunks - 1)


def tenant_of(collection: str, generation: int, language: str = DEFAULT) -> str:
    """The store's tenant for one generation of a collection; `terms.language_of` reads its language."""
    return f"{collection}@{generation}" + (f".{language}" if language != DEFAULT else "")


def collection_of(tenant: str) -> str:
    """The collection that a tenant is a generation of."""
    return tenant.partition("@")[0]


def point_id(tenant: str, document: str, revision: int, ordinal: int) -> str:
    """The id of a chunk's point; the same again for the same chunk, so that a repeated write changes nothing."""
    return str(uuid.uuid5(NAMESPACE, f"{tenant}/{document}/{revision}/{ordinal}"))
