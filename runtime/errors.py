"""Errors that databases and locks raise, too; `retrieval.errors` has them all."""


class RetrievalError(Exception):
    """Base of all errors that retrieval raises on purpose."""


class Busy(RetrievalError):
    """Another process is writing to the collection: try again later."""


class IndexDown(RetrievalError):
    """The index cannot be searched now, but may be soon."""
