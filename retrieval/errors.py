"""Retrieval errors that callers handle; each message says what is wrong and how to fix it."""

from runtime.errors import Busy, IndexDown, RetrievalError

__all__ = ["Busy", "IndexDown", "RetrievalError"]  # handed on, beside the errors below


class Unreadable(RetrievalError):
    """A file that cannot become a document: missing, empty, binary, oversized, wrongly encoded."""


class Unreachable(RetrievalError):
    """A source that cannot be listed now: nothing is known of its documents."""


class UnreadableRights(Unreadable):
    """A document whose groups cannot be read with certainty."""


class HoldsSecrets(Unreadable):
    """A document with secrets that nobody may see."""


class Invalid(RetrievalError):
    """An argument that no request may use, such as a name or a language."""


class CollectionExists(RetrievalError):
    """A collection to create already exists."""


class UnknownCollection(RetrievalError):
    """A collection that does not exist."""


class UnknownDocument(RetrievalError):
    """A document that does not exist."""


class NotReadable(RetrievalError):
    """A deletion covers documents that the caller may not read, and so not delete."""


class UnknownJob(RetrievalError):
    """A job that does not exist."""


class UnknownFile(RetrievalError):
    """A file that was not uploaded, is deleted, or belongs to another owner."""


class WrongEmbedder(RetrievalError):
    """The collection's vectors were made by another model: a search would return nonsense."""


class Incomplete(RetrievalError):
    """The index lacks points of the collection: a search would silently miss documents."""


class DataInUse(RetrievalError):
    """Another process has the data folder open."""

    def __init__(self, message: str, holder: str = "another process") -> None:
        """holder: the process that has the folder open, as it named itself."""
        super().__init__(message)
        self.holder = holder


class DiskFull(RetrievalError):
    """Too little disk space: the engine maps files into memory and dies if one cannot grow."""


class IndexStarting(IndexDown):
    """The index has not answered since the gateway started."""


class IndexSilent(IndexDown):
    """The index process exists but does not answer: waiting would cost every request its deadline."""


def groups_outside_markdown(kind: str, another: str = "") -> UnreadableRights:
    """Make the error for groups in a format from which they are not read. another: what else the reader can do."""
    ways = f"remove the groups, or {another}" if another else "or remove the groups"
    return UnreadableRights(
        f"the {kind} names groups, but ragway reads groups only from Markdown: use a Markdown file, {ways}"
    )
