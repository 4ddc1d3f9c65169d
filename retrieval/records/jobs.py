"""From a document that a client sends to the result of writing it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from retrieval.records.documents import Attribute, Format


@dataclass(frozen=True, slots=True)
class DocumentInput:
    """A document as a client sends it: its content, and how to read that."""

    key: str  # the client's name for it in its collection: the same key replaces it
    source: str
    content: bytes
    title: str = ""  # "": as in the content
    format: Format | None = None  # None: by the ending of `source`
    modified_s: float | None = None  # None: when it is written
    attributes: Mapping[str, Attribute] | None = None  # None: as in the front matter
    groups: tuple[str, ...] | None = None  # None: as in the front matter
    otherwise: Format | None = None  # the format if `format` and the ending name none; None: refuse the document
    writer: tuple[str, ...] | None = ()  # the client's groups; None: all
    owner: str = ""  # shares reading and embedding with other owners: id of the client's key


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What writing one `DocumentInput` led to."""

    key: str
    state: Literal["waiting", "created", "replaced", "unchanged", "refused", "failed", "cancelled"]
    id: str = ""  # of the document; "" without one
    reason: str = ""  # of a failure or a refusal; what a person should know of another, such as its encoding


@dataclass(frozen=True, slots=True)
class Job:
    """Documents that are being written into a collection in the background."""

    id: str
    collection: str
    state: Literal["queued", "running", "completed", "failed", "cancelled"]
    created_s: float
    updated_s: float
    counts: Mapping[str, int] = field(hash=False)  # document state -> number of documents
    reason: str = ""  # of a failure or a wait
    documents: Sequence[WriteResult] = ()  # if a caller asks for one job, not for a list

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class UnfinishedAttachment:
    """An uploaded file that is attached to a collection but is not one of its documents."""

    collection: str
    key: str  # the file's id
    state: Literal["waiting", "failed", "cancelled"]
    reason: str
    at_s: float
