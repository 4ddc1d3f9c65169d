"""The errors of retrieval that callers handle: each message says the fault and the remedy."""

from runtime.errors import Busy, IndexDown, RetrievalError

__all__ = ["Busy", "IndexDown", "RetrievalError"]  # handed on, beside the errors of this module


class Unreadable(RetrievalError):
    """A file that cannot become a document: missing, empty, binary, oversized, wrongly encoded."""


class UnreadableRights(Unreadable):
    """A document whose list of groups cannot be read with certainty."""


class Invalid(RetrievalError):
    """An argument that no request may use: a name, a language."""


class CollectionExists(RetrievalError):
    """A collection to create already exists."""


class UnknownCollection(RetrievalError):
    """A collection that does not exist."""


class UnknownDocument(RetrievalError):
    """A document that does not exist."""


class NotReadable(RetrievalError):
    """A deletion covers documents that the caller may not read, and so may not delete."""


class UnknownJob(RetrievalError):
    """A job that does not exist."""


class UnknownFile(RetrievalError):
    """A file that was not uploaded, is deleted, or belongs to another owner."""


class WrongEmbedder(RetrievalError):
    """The collection's vectors were made by another model: a search would return nonsense."""


class Incomplete(RetrievalError):
    """The index lacks points of the collection: a search would miss documents without a word."""


class DataInUse(RetrievalError):
    """Another process has the data folder open."""

    def __init__(self, message: str, holder: str = "another process") -> None:
        """holder: the process that has the folder open, by the name that the process gave."""
        super().__init__(message)
        self.holder = holder


class DiskFull(RetrievalError):
    """Too little room on the disk: the engine maps files into memory and dies if a file cannot grow."""


class IndexStarting(IndexDown):
    """The index has not answered since the gateway started."""


class IndexSilent(IndexDown):
    """The index process exists and does not answer: waiting would cost every request its deadline."""
