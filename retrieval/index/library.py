"""`Library` over an index's catalog."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.file_store import UploadedFiles
from retrieval.catalog.job_store import Jobs
from retrieval.ingest.job_runner import JobRunner
from retrieval.records.points import PointFaults

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Operation = Callable[_P, Coroutine[Any, Any, _T]]


def _at_once(read: Callable[_P, _T]) -> _Operation[_P, _T]:
    """An operation on the event loop, for short statements, which cost less than a thread."""

    @wraps(read)
    async def operation(*args: _P.args, **named: _P.kwargs) -> _T:
        return read(*args, **named)

    return operation


def _in_thread(read: Callable[_P, _T]) -> _Operation[_P, _T]:
    """An operation in a thread, for reads of whole texts, during which searches continue."""
    return wraps(read)(partial(asyncio.to_thread, read))


class IndexLibrary:
    """Implements `Library`: nearly every operation reads the catalog."""

    def __init__(
        self,
        catalog: Catalog,
        jobs: Jobs,
        job_runner: JobRunner,
        problems: _Operation[[], list[str]],
        audit: _Operation[[str], PointFaults],
    ) -> None:
        self.problems = problems
        self.audit = audit
        documents, files = DocumentReader(catalog), UploadedFiles(catalog)
        self.collections = _at_once(documents.collections)
        self.documents = _at_once(documents.page)
        self.document = _in_thread(documents.read)
        self.locations = _in_thread(documents.locations)
        self.find_document = _in_thread(documents.find)
        self.document_keys = _at_once(documents.keys)
        self.keys_under = _in_thread(documents.keys_under)
        self.collections_with = _at_once(jobs.collections_with)
        self.job = _at_once(jobs.read)
        self.finished_job = job_runner.wait_until_finished
        self.jobs = _at_once(jobs.page)
        self.unfinished_attachments = _at_once(jobs.unfinished_attachments)
        self.find_files = _at_once(files.find)
        self.files = _at_once(files.page)
        self.file_part = _in_thread(files.part)
