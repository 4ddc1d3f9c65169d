"""Jobs: clients' documents, kept in the catalog until `ingest.job_runner` has written them.

A job is `queued` until its first document's turn comes, then `running`, then `completed` (even if some documents
failed), `failed` (all failed, or the collection cannot be written) or `cancelled`. It survives a restart: the next
index process writes waiting documents. Deleting a collection deletes its jobs.

Only readers in all of the creator's groups see a job: they may read all its documents, and others learn nothing about
documents beyond their rights.
"""

import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, select, true, union, update
from sqlalchemy.exc import IntegrityError

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.catalog_tables import documents, files, jobs, tasks
from retrieval.catalog.revisions import CLIENTS, catalog_key
from retrieval.errors import UnknownCollection, UnknownJob
from retrieval.records.documents import Groups
from retrieval.records.files import FILE_ID_PREFIX
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult

_INCOMPLETE = "making"  # incomplete: a crash may leave such a job, which no client was told about
_UNFINISHED = ("queued", "running")
_SAVED_FIELDS = ("title", "format", "modified_s", "attributes", "groups", "otherwise", "writer", "owner")
_MAX_INTERRUPTIONS = 3  # of one document, which may be what crashes the index
_CREATION_S = 3600.0  # by then a job is complete, or its creator is gone
_RETENTION_S = 30 * 86_400.0  # a finished job


@dataclass(frozen=True, slots=True)
class JobTask:
    """A document of a job, to be written now."""

    place: int
    given: DocumentInput
    obstacle: str  # why it cannot be written; "": no obstacle


class Jobs:
    """One catalog's jobs. Every method is a short transaction."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    # Creating jobs

    def begin(self, collection: str, writer: Groups = ()) -> str:
        """Create a job, invisible until `queue`, and return its id.

        writer: groups of the client whose documents these are.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        id, now = new_id("job-"), time.time()
        row = {"id": id, "collection": collection, "state": _INCOMPLETE, "created_s": now, "updated_s": now}
        try:
            with self._catalog.writing() as sql:
                sql.execute(
                    delete(jobs).where(
                        jobs.c.state.not_in((*_UNFINISHED, _INCOMPLETE)), jobs.c.updated_s < now - _RETENTION_S
                    )
                )
                of = orjson.dumps(writer).decode()
                sql.execute(insert(jobs).values(**row, interruptions=0, reason="", writer=of))
        except IntegrityError as error:
            raise UnknownCollection(f"there is no collection {collection!r} any more") from error
        return id

    def add(self, id: str, place: int, given: DocumentInput, content: bytes | None) -> None:
        """Add a document to a job. content: None takes it from the file with the key as id."""
        fields = orjson.dumps({name: getattr(given, name) for name in _SAVED_FIELDS}).decode()
        row = {"job": id, "place": place, "key": given.key, "source": given.source, "said": fields, "content": content}
        try:
            with self._catalog.writing() as sql:
                sql.execute(insert(tasks).values(**row, state="waiting", document="", reason=""))
        except IntegrityError as error:
            raise UnknownCollection("the collection was deleted meanwhile") from error

    def queue(self, id: str) -> None:
        self._update(jobs.c.id == id, jobs.c.state == _INCOMPLETE, state="queued")

    def discard(self, id: str) -> None:
        """Delete an incomplete job."""
        with self._catalog.writing() as sql:
            sql.execute(delete(jobs).where(jobs.c.id == id, jobs.c.state == _INCOMPLETE))

    def recover(self, *, only_process: bool = True) -> list[str]:
        """Clean up after another process; return collections with unfinished jobs.

        only_process: no other process creates or runs jobs now.
        """
        old = () if only_process else (jobs.c.created_s < time.time() - _CREATION_S,)
        with self._catalog.writing() as sql:
            sql.execute(delete(jobs).where(jobs.c.state == _INCOMPLETE, *old))
            if only_process:
                sql.execute(update(jobs).where(jobs.c.state == "running").values(state="queued"))
            return list(sql.scalars(select(jobs.c.collection).where(jobs.c.state.in_(_UNFINISHED)).distinct()))

    def idle(self, for_s: float) -> list[str]:
        """Return collections with unfinished jobs that have made no progress for `for_s` seconds."""
        condition = jobs.c.state.in_(_UNFINISHED), jobs.c.updated_s < time.time() - for_s
        return [row.collection for row in self._catalog.rows(select(jobs.c.collection).where(*condition).distinct())]

    # Running jobs

    def next(self, collection: str) -> str | None:
        """Return the id of a collection's oldest unfinished job."""
        query = select(func.min(jobs.c.id)).where(jobs.c.collection == collection, jobs.c.state.in_(_UNFINISHED))
        result: str | None = self._catalog.scalar(query)
        return result

    def take(self, id: str) -> JobTask | None:
        """Return a job's next document and mark it as running; None if no document waits or the job is gone.

        Until `done` or `put_back` the document counts as interrupted, because a process that crashes cannot count.
        """
        query = (
            select(tasks, jobs.c.interruptions, files.c.content.label("of_file"))
            .join(jobs, jobs.c.id == tasks.c.job)
            .join(files, (files.c.id == tasks.c.key) & tasks.c.content.is_(None), isouter=True)
            .where(tasks.c.job == id, tasks.c.state == "waiting", jobs.c.state.in_(_UNFINISHED))
            .order_by(tasks.c.place)
            .limit(1)
        )
        row = next(iter(self._catalog.rows(query)), None)
        if row is None:
            return None
        self._update(
            jobs.c.id == id, jobs.c.state.in_(_UNFINISHED), state="running", interruptions=jobs.c.interruptions + 1
        )
        content = row.content if row.content is not None else row.of_file
        obstacle = "the file was deleted before ragway wrote the document" if content is None else ""
        if row.interruptions >= _MAX_INTERRUPTIONS:
            obstacle = f"the index ended {_MAX_INTERRUPTIONS} times while writing this document"
        return JobTask(row.place, _input_of(row, bytes(content or b"")), obstacle)

    def waits(self, id: str, place: int) -> bool:
        """Whether a document of an unfinished job still waits to be written."""
        query = (
            select(tasks.c.place)
            .join(jobs, jobs.c.id == tasks.c.job)
            .where(tasks.c.job == id, tasks.c.place == place)
            .where(tasks.c.state == "waiting", jobs.c.state.in_(_UNFINISHED))
        )
        return bool(self._catalog.rows(query))

    def put_back(self, id: str) -> None:
        """Put a taken document back into the queue, for a reason other than a crash."""
        self._update(jobs.c.id == id, jobs.c.interruptions > 0, interruptions=jobs.c.interruptions - 1)

    def done(self, id: str, place: int, placed: WriteResult) -> None:
        condition = tasks.c.job == id, tasks.c.place == place
        with self._catalog.writing() as sql:
            values = {"state": placed.state, "document": placed.id, "reason": placed.reason, "content": None}
            sql.execute(update(tasks).where(*condition).values(**values))
            sql.execute(update(jobs).where(jobs.c.id == id).values(updated_s=time.time(), interruptions=0, reason=""))

    def finish(self, id: str, state: str | None = None, reason: str = "") -> None:
        """Finish a job. state: None derives it from the documents. Waiting documents will not be written."""
        with self._catalog.writing() as sql:
            condition = tasks.c.job == id, tasks.c.state == "waiting"
            left = "cancelled" if state == "cancelled" else "failed"
            sql.execute(update(tasks).where(*condition).values(state=left, reason=reason, content=None))
            if state is None:
                counts = self._counts(sql, [id]).get(id, {})
                state = "failed" if counts and set(counts) <= {"failed", "refused"} else "completed"
            values = {"state": state, "reason": reason, "updated_s": time.time()}
            sql.execute(update(jobs).where(jobs.c.id == id, jobs.c.state.in_(_UNFINISHED)).values(**values))

    def postpone(self, id: str, reason: str) -> None:
        """Record why the job does not continue now."""
        self._update(jobs.c.id == id, jobs.c.state == "running", state="queued", reason=reason)

    def requeue_all(self) -> None:
        """Queue all running jobs for the next process."""
        self._update(jobs.c.state == "running", state="queued")

    # Reading jobs

    def read(self, id: str, groups: Groups = ()) -> Job:
        """Return a job with its documents. Raises UnknownJob, also if `groups` may not see it."""
        with self._catalog.engine.connect() as sql:
            row = sql.execute(select(jobs).where(jobs.c.id == id, jobs.c.state != _INCOMPLETE)).one_or_none()
            if row is None or not _includes_writer(row.writer, groups):
                raise UnknownJob(f"there is no job {id!r}")
            columns = tasks.c["key", "state", "document", "reason"]
            rows = sql.execute(select(*columns).where(tasks.c.job == id).order_by(tasks.c.place))
            results = [WriteResult(*row) for row in rows]
        return _job(row, Counter(result.state for result in results), results)

    def page(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        """Return at most `limit` jobs of these collections, newest first, older than `before` ("": from the newest)."""
        query = select(jobs).where(jobs.c.collection.in_(collections), jobs.c.state != _INCOMPLETE)
        query = query.where(jobs.c.id < before) if before else query
        with self._catalog.engine.connect() as sql:
            visible = _visible(sql, collections, groups)
            rows = sql.execute(query.where(visible).order_by(jobs.c.id.desc()).limit(limit)).all()
            counts = self._counts(sql, [row.id for row in rows])
        return [_job(row, counts.get(row.id, {})) for row in rows]

    def unfinished_attachments(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        """Return files that these collections still wait for or failed to add, latest first."""
        there = (documents.c.collection == jobs.c.collection) & (documents.c.key == literal(CLIENTS) + tasks.c.key)
        query = (
            select(jobs.c.collection, *tasks.c["key", "state", "reason"], jobs.c.created_s)
            .join(jobs, jobs.c.id == tasks.c.job)
            .join(documents, there, isouter=True)
            .where(jobs.c.collection.in_(collections), jobs.c.state != _INCOMPLETE)
            .where(
                tasks.c.key.startswith(FILE_ID_PREFIX), tasks.c.state.in_(("waiting", "refused", "failed", "cancelled"))
            )
            .where(documents.c.id.is_(None) | (tasks.c.state == "waiting"))
            .order_by(jobs.c.id.desc(), tasks.c.place)
        )
        result: dict[tuple[str, str], UnfinishedAttachment] = {}
        with self._catalog.engine.connect() as sql:
            for row in sql.execute(query.where(_visible(sql, collections, groups))):
                attachment = UnfinishedAttachment(row.collection, row.key, row.state, row.reason, row.created_s)
                result.setdefault((attachment.collection, attachment.key), attachment)
        return list(result.values())

    def collections_with(self, key: str) -> list[str]:
        """Return collections that have or wait for a document under this key."""
        waiting = select(jobs.c.collection).join(tasks, tasks.c.job == jobs.c.id).where(tasks.c.key == key)
        query = union(waiting, select(documents.c.collection).where(documents.c.key == catalog_key(key)))
        return [row.collection for row in self._catalog.rows(query)]

    def forget(self, collection: str, keys: Sequence[str], groups: Groups = ()) -> set[str]:
        """Remove documents from all of a collection's jobs; the caller holds the write lock.

        Return the keys that a job had.
        """
        with self._catalog.writing() as sql:
            ours = select(jobs.c.id).where(jobs.c.collection == collection, _visible(sql, [collection], groups))
            gone = delete(tasks).where(tasks.c.key.in_(keys), tasks.c.job.in_(ours)).returning(tasks.c.key)
            return set(sql.scalars(gone))

    @staticmethod
    def _counts(sql: Any, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        query = select(*tasks.c["job", "state"], func.count()).where(tasks.c.job.in_(ids))
        result: dict[str, dict[str, int]] = {}
        for job, state, count in sql.execute(query.group_by(*tasks.c["job", "state"])):
            result.setdefault(job, {})[state] = count
        return result

    def _update(self, *condition: ColumnElement[bool], **values: Any) -> None:
        with self._catalog.writing() as sql:
            sql.execute(update(jobs).where(*condition).values(**values))


def new_id(begin: str) -> str:
    """Return a new id; later ids are greater."""
    return f"{begin}{time.time_ns():016x}{secrets.token_hex(8)}"


def _visible(sql: Connection, collections: Sequence[str], groups: Groups) -> ColumnElement[bool]:
    """Return an SQL condition: `groups` may see the job. There are few writers and many jobs."""
    if groups is None:
        return true()
    writers = sql.scalars(select(jobs.c.writer).where(jobs.c.collection.in_(collections)).distinct())
    return jobs.c.writer.in_([writer for writer in writers if _includes_writer(writer, groups)])


def _includes_writer(writer: str, groups: Groups) -> bool:
    """Whether `groups` include all of the writer's. writer: JSON."""
    of: list[str] | None = orjson.loads(writer)
    return groups is None or (of is not None and set(of) <= set(groups))


def _input_of(row: Any, content: bytes) -> DocumentInput:
    fields = orjson.loads(row.said)
    names = {name: tuple(fields[name]) for name in ("groups", "writer") if fields.get(name) is not None}
    return DocumentInput(row.key, row.source, content, **{**fields, **names})


def _job(row: Any, counts: dict[str, int] | Counter[Any], of: Sequence[WriteResult] = ()) -> Job:
    return Job(
        row.id, row.collection, cast(Any, row.state), row.created_s, row.updated_s, dict(counts), row.reason, tuple(of)
    )
