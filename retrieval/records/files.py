"""Files uploaded by clients."""

from dataclasses import dataclass

FILE_ID_PREFIX = "file-"  # of uploaded files' ids


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file uploaded by a client, without its content."""

    id: str
    name: str  # the client's name for it
    purpose: str
    created_s: float
    bytes: int
