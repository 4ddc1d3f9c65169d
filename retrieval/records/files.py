"""Files uploaded by clients."""

from dataclasses import dataclass

FILE_ID_PREFIX = "file-"  # of the ids of uploaded files


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file uploaded by a client, without the content."""

    id: str
    name: str  # the client's name for the file
    purpose: str
    created_s: float
    bytes: int
