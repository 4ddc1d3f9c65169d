"""Files uploaded by clients, and the jobs for writing the files.

An upload becomes a job, stored in the catalog before the answer; documents are written in turn. A job is visible to
callers with the right to read and write the collection and all documents of the job, and hidden from other callers.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.routing import Route

from proxy.access import permitted
from proxy.access.rights import Rights
from proxy.api.knowledge.access import Access, ApiReply, listed, rights_of
from proxy.api.knowledge.forms import File, Form, UploadOptions, received
from proxy.api.knowledge.parameters import clean, invalid, none_but, query_of, whole_number
from proxy.api.knowledge.puts import Puts, from_caller, placed_row, said_of
from proxy.asgi import Receive, Scope
from retrieval.errors import UnknownJob
from retrieval.records.jobs import DocumentInput, Job

_MOST_LISTED = 100
_LISTED = "20"
_WAIT_S = 50.0  # for a job's end, before the job is the answer
_FIELDS = ("key", "title", "format", "attributes", "groups", "modified_at", "background")
_PARSED = ("attributes", "groups", "modified_at")  # JSON
_FILE = "file"


class Uploads:
    """Receives files, and answers requests for jobs."""

    def __init__(self, access: Access, puts: Puts, options: UploadOptions) -> None:
        self._access = access
        self._puts = puts
        self._options = options

    def routes(self) -> list[Route]:
        route = self._access.route
        return [
            route("/v1/knowledge/collections/{name}/files", slow=["POST"], POST=self._upload),
            route("/v1/knowledge/jobs", GET=self._list),
            route("/v1/knowledge/jobs/{id}", GET=self._read, DELETE=self._cancel),
            route("/v1/knowledge/jobs/{id}/cancel", writing=["POST"], POST=self._cancel),
        ]

    async def _upload(self, scope: Scope, receive: Receive) -> ApiReply:
        asked = query_of(scope, "background").get("background", "")
        async with self._access.asking():
            name = await self._puts.writable(scope)
        async with received(scope, receive, self._options) as form:
            background = _flag(asked or form.fields.get("background", ""))
            given = [from_caller(one, scope) for one in _given(form)]
            async with self._access.asking(writing=True):
                job = await self._access.knowledge.writing.start_job(name, given, [file.spooled for file in form.files])
        if not background:
            job = await finished(self._access, job)
        if not job.over:
            return ApiReply(202, job_row(job))
        return ApiReply(
            200,
            {
                "object": "knowledge.documents.put",
                "collection": name,
                "job": job.id,
                "data": [placed_row(one) for one in job.documents],
            },
        )

    async def _list(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after", "collection")
        limit, rights = whole_number(asked.get("limit", _LISTED), "limit", _MOST_LISTED), rights_of(scope)
        names = [
            row.name for row in await permitted.readable(self._access.knowledge, rights) if row.name in rights.write
        ]
        names = [name for name in names if name == asked.get("collection", name)]
        rows = await self._access.knowledge.library.jobs(
            names, before=asked.get("after", ""), limit=limit + 1, groups=rights.groups
        )
        return listed([job_row(job) for job in rows[:limit]], more=len(rows) > limit)

    async def _read(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _whole(await self._job(scope))

    async def _cancel(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        job = await self._job(scope)
        return _whole(await self._access.knowledge.writing.cancel_job(job.id))

    async def _job(self, scope: Scope) -> Job:
        return await visible_job(self._access, scope["path_params"]["id"], rights_of(scope))


async def finished(access: Access, job: Job) -> Job:
    """The job, finished if the job ends before the deadline."""
    try:
        async with asyncio.timeout(_WAIT_S):
            return await access.knowledge.library.finished_job(job.id)
    except TimeoutError:
        return await access.knowledge.library.job(job.id, None)


async def visible_job(access: Access, id: str, rights: Rights) -> Job:
    """Raises UnknownJob, also for a hidden job."""
    job = await access.knowledge.library.job(id, rights.groups)
    if job.collection not in rights.read or job.collection not in rights.write:
        raise UnknownJob(f"there is no job {id!r}")
    return job


def job_row(job: Job) -> dict[str, Any]:
    why = {"reason": job.reason} if job.reason else {}
    return {
        "id": job.id,
        "object": "knowledge.job",
        "collection": job.collection,
        "status": job.state,
        "created_at": int(job.created_s),
        "updated_at": int(job.updated_s),
        "documents": {"total": sum(job.counts.values()), **job.counts},
        **why,
    }


def _whole(job: Job) -> dict[str, Any]:
    return {**job_row(job), "data": [placed_row(one) for one in job.documents]}


def _given(form: Form) -> list[DocumentInput]:
    """The documents of the form's files, without content. Raises ApiError."""
    none_but(form.fields, _FIELDS)
    if not form.files:
        raise invalid(f"a form with at least one file named '{_FILE}' is needed", _FILE)
    fields: dict[str, object] = {name: value for name, value in form.fields.items() if value}
    for name in _PARSED:
        if name in fields:
            fields[name] = _parsed(form.fields[name], name)
    if len(form.files) > 1 and (two := [name for name in ("key", "title") if name in fields]):
        raise invalid(f"'{two[0]}' is for one file: send each with its own request", two[0])
    given = [_one(file, fields) for file in form.files]
    if len({one.key for one in given}) < len(given):
        raise invalid("two of the files have the same name: send them in two requests, each with a 'key'", _FILE)
    return given


def _one(file: File, fields: Mapping[str, object]) -> DocumentInput:
    if file.field != _FILE:
        raise invalid(f"there is no file '{file.field}' here; name each '{_FILE}'", file.field)
    return said_of({**fields, "source": file.name}, fields.get("key", file.name))


def _parsed(text: str, name: str) -> object:
    try:
        return clean(orjson.loads(text), name)
    except orjson.JSONDecodeError as error:
        raise invalid(f"'{name}' must be JSON", name) from error


def _flag(text: str) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise invalid("'background' must be true or false", "background")
    return text.lower() == "true"
