"""Jobs: documents that clients gave, kept in the catalog until each is written; `ingest.background` writes them.

A job is `queued` until its first document's turn comes, then `running`, then `completed` (also where some documents
failed), `failed` (all did, or the collection cannot be written) or `cancelled`. It survives a restart: what still waits
is written by the next index process. It goes with its collection.

A job is shown to those who are in all groups of who began it: they may read whatever it writes, and nobody else is told
of documents, waiting or written, that they may not read.
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
from retrieval.catalog.tables import documents, files, jobs, tasks
from retrieval.errors import UnknownCollection, UnknownJob
from retrieval.records.documents import Groups
from retrieval.records.files import FILE_ID_PREFIX
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult

_MAKING = "making"  # not all of its documents are there yet: what is left of it by a crash was never acknowledged
_OPEN = ("queued", "running")
PREFIX = "api:"  # of the catalog's keys of documents that clients gave
_SAID = ("title", "format", "modified_s", "attributes", "groups", "otherwise", "writer")
_MOST_INTERRUPTIONS = 3  # of one document: it may be what ends the index
_MADE_S = 3600.0  # by then a job is made, or its maker is gone
_KEPT_S = 30 * 86_400.0  # a job that is over


@dataclass(frozen=True, slots=True)
class Task:
    """A document of a job, to be written now."""

    place: int
    given: DocumentInput
    hopeless: str  # why it cannot be written; "": it can


class Jobs:
    """The jobs of one catalog. All methods are short transactions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    # Making

    def begin(self, collection: str, writer: Groups = ()) -> str:
        """A new job, that nobody sees before `queue`; returns its id. writer: the groups of who gives its documents.

        Raises UnknownCollection.
        """
        self._catalog.collection(collection)
        id, now = new_id("job-"), time.time()
        row = {"id": id, "collection": collection, "state": _MAKING, "created_s": now, "updated_s": now}
        try:
            with self._catalog.writing() as sql:
                sql.execute(
                    delete(jobs).where(jobs.c.state.not_in((*_OPEN, _MAKING)), jobs.c.updated_s < now - _KEPT_S)
                )
                of = orjson.dumps(writer).decode()
                sql.execute(insert(jobs).values(**row, interruptions=0, reason="", writer=of))
        except IntegrityError as error:
            raise UnknownCollection(f"there is no collection {collection!r} any more") from error
        return id

    def add(self, id: str, place: int, given: DocumentInput, content: bytes | None) -> None:
        """One of its documents. content: None takes that of the file whose id is the key."""
        said = orjson.dumps({name: getattr(given, name) for name in _SAID}).decode()
        row = {"job": id, "place": place, "key": given.key, "source": given.source, "said": said, "content": content}
        try:
            with self._catalog.writing() as sql:
                sql.execute(insert(tasks).values(**row, state="waiting", document="", reason=""))
        except IntegrityError as error:
            raise UnknownCollection("the collection was deleted meanwhile") from error

    def queue(self, id: str) -> None:
        self._update(jobs.c.id == id, jobs.c.state == _MAKING, state="queued")

    def drop(self, id: str) -> None:
        """Take away what was not made to its end."""
        with self._catalog.writing() as sql:
            sql.execute(delete(jobs).where(jobs.c.id == id, jobs.c.state == _MAKING))

    def recover(self, *, alone: bool = True) -> list[str]:
        """What another process left: returns the collections with jobs that are to go on.

        alone: whether no other process is making or running jobs now.
        """
        old = () if alone else (jobs.c.created_s < time.time() - _MADE_S,)
        with self._catalog.writing() as sql:
            sql.execute(delete(jobs).where(jobs.c.state == _MAKING, *old))
            if alone:
                sql.execute(update(jobs).where(jobs.c.state == "running").values(state="queued"))
            return list(sql.scalars(select(jobs.c.collection).where(jobs.c.state.in_(_OPEN)).distinct()))

    def idle(self, for_s: float) -> list[str]:
        """The collections with jobs of which nothing was written for so long."""
        this = jobs.c.state.in_(_OPEN), jobs.c.updated_s < time.time() - for_s
        with self._catalog.engine.connect() as sql:
            return list(sql.scalars(select(jobs.c.collection).where(*this).distinct()))

    # Running

    def next(self, collection: str) -> str | None:
        """The id of its oldest job that is not over."""
        query = select(func.min(jobs.c.id)).where(jobs.c.collection == collection, jobs.c.state.in_(_OPEN))
        with self._catalog.engine.connect() as sql:
            found: str | None = sql.scalar(query)
        return found

    def take(self, id: str) -> Task | None:
        """The next document to write; None where none waits, or the job is gone. The job runs from now on.

        Until it is `done` or `put_back` it counts as interrupted: a process that ends counts nothing any more.
        """
        query = (
            select(tasks, jobs.c.interruptions, files.c.content.label("of_file"))
            .join(jobs, jobs.c.id == tasks.c.job)
            .join(files, (files.c.id == tasks.c.key) & tasks.c.content.is_(None), isouter=True)
            .where(tasks.c.job == id, tasks.c.state == "waiting", jobs.c.state.in_(_OPEN))
            .order_by(tasks.c.place)
            .limit(1)
        )
        with self._catalog.engine.connect() as sql:
            row = sql.execute(query).one_or_none()
        if row is None:
            return None
        self._update(jobs.c.id == id, jobs.c.state.in_(_OPEN), state="running", interruptions=jobs.c.interruptions + 1)
        content = row.content if row.content is not None else row.of_file
        hopeless = "the file was deleted before its turn came" if content is None else ""
        if row.interruptions >= _MOST_INTERRUPTIONS:
            hopeless = f"the index ended {_MOST_INTERRUPTIONS} times while this document was written"
        return Task(row.place, _given(row, bytes(content or b"")), hopeless)

    def put_back(self, id: str) -> None:
        """The document that was taken is not written now, for another reason than that the index ended."""
        self._update(jobs.c.id == id, jobs.c.interruptions > 0, interruptions=jobs.c.interruptions - 1)

    def done(self, id: str, place: int, placed: WriteResult) -> None:
        """What became of a document."""
        this = tasks.c.job == id, tasks.c.place == place
        with self._catalog.writing() as sql:
            sql.execute(
                update(tasks)
                .where(*this)
                .values(state=placed.state, document=placed.id, reason=placed.reason, content=None)
            )
            sql.execute(update(jobs).where(jobs.c.id == id).values(updated_s=time.time(), interruptions=0, reason=""))

    def finish(self, id: str, state: str | None = None, reason: str = "") -> None:
        """The job is over. state: without, as its documents say. What still waits will not be written."""
        with self._catalog.writing() as sql:
            this = tasks.c.job == id, tasks.c.state == "waiting"
            left = "cancelled" if state == "cancelled" else "failed"
            sql.execute(update(tasks).where(*this).values(state=left, reason=reason, content=None))
            if state is None:
                counts = self._counts(sql, [id]).get(id, {})
                state = "failed" if counts and set(counts) <= {"failed", "refused"} else "completed"
            values = {"state": state, "reason": reason, "updated_s": time.time()}
            sql.execute(update(jobs).where(jobs.c.id == id, jobs.c.state.in_(_OPEN)).values(**values))

    def wait(self, id: str, reason: str) -> None:
        """Tell why it does not go on now."""
        self._update(jobs.c.id == id, jobs.c.state == "running", state="queued", reason=reason)

    def rest(self) -> None:
        """All of them wait for the next process."""
        self._update(jobs.c.state == "running", state="queued")

    # Looking

    def read(self, id: str, groups: Groups = ()) -> Job:
        """With its documents. Raises UnknownJob, also where these groups may not see it."""
        with self._catalog.engine.connect() as sql:
            row = sql.execute(select(jobs).where(jobs.c.id == id, jobs.c.state != _MAKING)).one_or_none()
            if row is None or not _within(row.writer, groups):
                raise UnknownJob(f"there is no job {id!r}")
            columns = tasks.c["key", "state", "document", "reason"]
            of = [
                WriteResult(*one)
                for one in sql.execute(select(*columns).where(tasks.c.job == id).order_by(tasks.c.place))
            ]
        return _job(row, Counter(one.state for one in of), of)

    def page(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        """At most `limit` jobs of these collections, newest first, from behind the id `before` on ("": from all)."""
        query = select(jobs).where(jobs.c.collection.in_(collections), jobs.c.state != _MAKING)
        query = query.where(jobs.c.id < before) if before else query
        with self._catalog.engine.connect() as sql:
            seen = _seen(sql, collections, groups)
            rows = sql.execute(query.where(seen).order_by(jobs.c.id.desc()).limit(limit)).all()
            counts = self._counts(sql, [row.id for row in rows])
        return [_job(row, counts.get(row.id, {})) for row in rows]

    def attached(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        """The files that these collections are still to get, or could not, the latest first."""
        there = (documents.c.collection == jobs.c.collection) & (documents.c.key == literal(PREFIX) + tasks.c.key)
        query = (
            select(jobs.c.collection, *tasks.c["key", "state", "reason"], jobs.c.created_s)
            .join(jobs, jobs.c.id == tasks.c.job)
            .join(documents, there, isouter=True)
            .where(jobs.c.collection.in_(collections), jobs.c.state != _MAKING)
            .where(
                tasks.c.key.startswith(FILE_ID_PREFIX), tasks.c.state.in_(("waiting", "refused", "failed", "cancelled"))
            )
            .where(documents.c.id.is_(None) | (tasks.c.state == "waiting"))
            .order_by(jobs.c.id.desc(), tasks.c.place)
        )
        found: dict[tuple[str, str], UnfinishedAttachment] = {}
        with self._catalog.engine.connect() as sql:
            for row in sql.execute(query.where(_seen(sql, collections, groups))):
                one = UnfinishedAttachment(row.collection, row.key, row.state, row.reason, row.created_s)
                found.setdefault((one.collection, one.key), one)
        return list(found.values())

    def holders(self, key: str) -> list[str]:
        """The collections that have, or are to get, a document under this key."""
        waiting = select(jobs.c.collection).join(tasks, tasks.c.job == jobs.c.id).where(tasks.c.key == key)
        query = union(waiting, select(documents.c.collection).where(documents.c.key == PREFIX + key))
        with self._catalog.engine.connect() as sql:
            return list(sql.scalars(query))

    def forget(self, collection: str, key: str, groups: Groups = ()) -> bool:
        """Take a document out of all jobs of the collection, which the caller has `alone`; whether there was any."""
        with self._catalog.writing() as sql:
            ours = select(jobs.c.id).where(jobs.c.collection == collection, _seen(sql, [collection], groups))
            return bool(sql.execute(delete(tasks).where(tasks.c.key == key, tasks.c.job.in_(ours))).rowcount)

    @staticmethod
    def _counts(sql: Any, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        query = select(*tasks.c["job", "state"], func.count()).where(tasks.c.job.in_(ids))
        found: dict[str, dict[str, int]] = {}
        for job, state, count in sql.execute(query.group_by(*tasks.c["job", "state"])):
            found.setdefault(job, {})[state] = count
        return found

    def _update(self, *this: ColumnElement[bool], **values: Any) -> None:
        with self._catalog.writing() as sql:
            sql.execute(update(jobs).where(*this).values(**values))


def new_id(begin: str) -> str:
    """The later, the greater."""
    return f"{begin}{time.time_ns():016x}{secrets.token_hex(8)}"


def _seen(sql: Connection, collections: Sequence[str], groups: Groups) -> ColumnElement[bool]:
    """Of the jobs of these collections, those that these groups may see. There are few writers, and many jobs."""
    if groups is None:
        return true()
    writers = sql.scalars(select(jobs.c.writer).where(jobs.c.collection.in_(collections)).distinct())
    return jobs.c.writer.in_([writer for writer in writers if _within(writer, groups)])


def _within(writer: str, groups: Groups) -> bool:
    """Whether these groups are all of the writer's, or more. writer: JSON."""
    of: list[str] | None = orjson.loads(writer)
    return groups is None or (of is not None and set(of) <= set(groups))


def _given(row: Any, content: bytes) -> DocumentInput:
    said = orjson.loads(row.said)
    names = {of: tuple(said[of]) for of in ("groups", "writer") if said.get(of) is not None}
    return DocumentInput(row.key, row.source, content, **{**said, **names})


def _job(row: Any, counts: dict[str, int] | Counter[Any], of: Sequence[WriteResult] = ()) -> Job:
    return Job(
        row.id, row.collection, cast(Any, row.state), row.created_s, row.updated_s, dict(counts), row.reason, tuple(of)
    )
