"""What can go wrong in retrieval and is caught by somebody.

RetrievalError            anything below; its text says what was wrong and what to do
├── Unreadable            a file that cannot become a document (ingest names it and goes on)
│   └── UnreadableRights  one that says in no certain way who may read it: nobody may
├── Invalid               a name or a language that cannot be
├── UnknownCollection     a collection that was asked for by name and does not exist
├── UnknownDocument       a document that does not exist
├── UnknownJob            a job that does not exist
├── UnknownFile           an uploaded file that does not exist
├── CollectionExists      a collection that was to be made, and is there
├── WrongEmbedder         a collection built with another embedder than the one now loaded
├── Busy                  another process writes to the collection, and takes its time
├── DataInUse             the data folder is held by another process
├── DiskFull              less room on the data folder's disk than the engine needs
└── IndexDown             the index cannot be asked right now (not started, died, its Qdrant server is away)
    ├── IndexStarting     it is started for the first time, and takes long
    └── IndexSilent       it is there and does not answer: stopped, stuck, overloaded
"""


class RetrievalError(Exception):
    """Base of everything that retrieval raises on purpose."""


class Unreadable(RetrievalError):
    """A file that cannot become a document: missing, empty, binary, oversized, wrongly encoded."""


class UnreadableRights(Unreadable):
    """A document that names groups in a way that cannot be read with certainty."""


class Invalid(RetrievalError):
    """An argument that can never be used: a name, a language."""


class CollectionExists(RetrievalError):
    """A collection that was to be made is there already."""


class UnknownCollection(RetrievalError):
    """A collection that does not exist."""


class UnknownDocument(RetrievalError):
    """A document that does not exist."""


class NotReadable(RetrievalError):
    """There are documents that the caller may not read, and so not take away."""


class UnknownJob(RetrievalError):
    """A job that does not exist."""


class UnknownFile(RetrievalError):
    """A file that was not uploaded, or is deleted, or is somebody else's."""


class WrongEmbedder(RetrievalError):
    """The collection's vectors were made by another model: searching it would return nonsense."""


class Busy(RetrievalError):
    """Another process writes to the collection: later."""


class DataInUse(RetrievalError):
    """Another process has the data folder open."""

    def __init__(self, message: str, holder: str = "another process") -> None:
        """holder: the process that has it open, as that named itself."""
        super().__init__(message)
        self.holder = holder


class DiskFull(RetrievalError):
    """Too little room on the disk: the engine maps its files into memory and dies where they cannot grow."""


class IndexDown(RetrievalError):
    """The index cannot be asked right now; it may be in a moment."""


class IndexStarting(IndexDown):
    """The index was never there yet, and is on its way."""


class IndexSilent(IndexDown):
    """The index is there and does not answer: waiting for it would cost every request its deadline."""
