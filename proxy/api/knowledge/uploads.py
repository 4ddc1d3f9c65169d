"""Files uploaded by clients, and jobs that write them.

An upload becomes a job, stored in the catalog before the answer; documents are written in turn. Only callers who may
read and write its collection and all its documents can see a job.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import KnowledgeCall, Page
from proxy.api.knowledge.declarations import Closed, Open, doc, named, operation
from proxy.api.knowledge.filters import Attributes, Groups
from proxy.api.knowledge.forms import BINARY, File, Form, received
from proxy.api.knowledge.parameters import After, clean, invalid, none_but, query_of
from proxy.api.knowledge.puts import COLLECTION, Placed, PutList, document_of, placed_row
from proxy.caller import readable_collections
from retrieval.errors import UnknownJob
from retrieval.records.documents import Format
from retrieval.records.jobs import DocumentInput
from retrieval.records.jobs import Job as JobRecord

_WAIT_S = 50.0  # for a job to end, before the job itself is the answer
_PARSED = ("attributes", "groups", "modified_at")  # JSON
_FILE = "file"
_JOB = "/v1/knowledge/jobs/{id}"


class _UploadForm(Closed, frozen=True):
    file: Annotated[list[Annotated[str, BINARY]], doc("1 to 1,000 files")]
    key: Annotated[str, doc("For a single file; the same key again replaces the document")] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    format: Format | UnsetType = UNSET
    attributes: Attributes | UnsetType = UNSET
    groups: Groups | UnsetType = UNSET
    modified_at: Annotated[float, doc("Seconds since 1970")] | UnsetType = UNSET
    background: Annotated[bool, doc("true: answer at once, with the job; also taken from the query")] | UnsetType = (
        UNSET
    )


DocumentCounts = Annotated[
    dict[str, int],
    named(
        "DocumentCounts",
        "The number of documents, in total and by status",
        required=["total"],
        properties={"total": {"type": "integer"}},
    ),
]


class Job(Open, frozen=True, tag_field="object", tag="knowledge.job"):
    id: str
    collection: str
    status: Literal["queued", "running", "completed", "failed", "cancelled"]
    created_at: int
    updated_at: int
    documents: DocumentCounts
    reason: Annotated[str, doc("The reason of a failure or a wait")] | UnsetType = UNSET


class FullJob(Job, frozen=True, kw_only=True):
    data: list[Placed]


class JobPage(Page, frozen=True, kw_only=True):
    data: list[Job]


class _JobsQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: After | None = None
    collection: str | None = None


class _BackgroundQuery(Closed, frozen=True):
    background: str = ""


@operation(
    f"POST {COLLECTION}/files",
    "documents",
    "The result of each document",
    gives=PutList,
    also={202: (Job, "Stored, and written in the background")},
    right="write",
    form=_UploadForm,
    slow=True,
)
async def upload_files(call: KnowledgeCall) -> PutList | tuple[int, Job]:
    """Upload files of the ingestible types; each file becomes a document under the file's name, or under `key`."""
    name, writing = call.path["name"], call.writing
    asked = query_of(call.scope, _BackgroundQuery)
    async with received(call.scope, call.receive, call.rules.uploads) as form:
        background = _flag(asked.background or form.fields.get("background", ""))
        given = _given(form, call)
        async with call.rules.asking(writing=True):
            job = await writing.start_job(name, given, [file.spooled for file in form.files])
    if not background:
        job = await finished(job, call)
    if not job.over:
        return 202, Job(*_members(job))
    return PutList(name, [*map(placed_row, job.documents)], job.id)


@operation("GET /v1/knowledge/jobs", "jobs", "A page")
async def list_jobs(call: KnowledgeCall, query: _JobsQuery) -> JobPage:
    """Jobs of the collections that the key may read and write, newest first."""
    rights = call.rights
    readable = [row.name for row in await readable_collections(call.knowledge, rights)]
    names = [name for name in readable if name in rights.write and query.collection in (None, name)]
    rows = await call.library.jobs(names, before=query.after or "", limit=query.limit + 1, groups=rights.groups)
    return JobPage.of([Job(*_members(job)) for job in rows], query.limit)


@operation(f"GET {_JOB}", "jobs", "The job with its documents")
async def read_job(call: KnowledgeCall) -> FullJob:
    """A job, with the result of each document."""
    return _whole(await visible_job(call))


@operation(f"DELETE {_JOB}", "jobs", "The job with its documents")
async def stop_job(call: KnowledgeCall) -> FullJob:
    """Cancel a job."""
    return await cancel_job(call)


@operation(f"POST {_JOB}/cancel", "jobs", "The job with its documents", writing=True)
async def cancel_job(call: KnowledgeCall) -> FullJob:
    """Stop writing the documents; documents already written stay."""
    job = await visible_job(call)
    return _whole(await call.writing.cancel_job(job.id))


async def finished(job: JobRecord, call: KnowledgeCall) -> JobRecord:
    """The job, finished if it ends in time."""
    try:
        async with asyncio.timeout(_WAIT_S):
            return await call.library.finished_job(job.id)
    except TimeoutError:
        return await call.library.job(job.id, None)


async def visible_job(call: KnowledgeCall) -> JobRecord:
    """The job in the path, in its collection if the path names one. Raises UnknownJob, even if it is only hidden."""
    id, rights = call.path["id"], call.rights
    job = await call.library.job(id, rights.groups)
    if not (
        job.collection in rights.read
        and job.collection in rights.write
        and job.collection == call.path.get("name", job.collection)
    ):
        raise UnknownJob(f"there is no job {id!r}")
    return job


def _whole(job: JobRecord) -> FullJob:
    return FullJob(*_members(job), data=[*map(placed_row, job.documents)])


def _members(job: JobRecord) -> Any:
    counts = {"total": sum(job.counts.values()), **job.counts}
    times = (int(job.created_s), int(job.updated_s))
    return job.id, job.collection, job.state, *times, counts, job.reason or UNSET


def _given(form: Form, call: KnowledgeCall) -> list[DocumentInput]:
    """Documents for the form's files, without content. Raises ApiError."""
    none_but(form.fields, [name for name in _UploadForm.__struct_fields__ if name != _FILE])
    if not form.files:
        raise invalid(f"a form with at least one file named '{_FILE}' is needed", _FILE)
    fields: dict[str, object] = {name: value for name, value in form.fields.items() if value}
    for name in _PARSED:
        if name in fields:
            fields[name] = _parsed(form.fields[name], name)
    if len(form.files) > 1 and (two := [name for name in ("key", "title") if name in fields]):
        raise invalid(f"'{two[0]}' is for a single file: send each file in its own request", two[0])
    given = [_one(file, fields, call) for file in form.files]
    if len({one.key for one in given}) < len(given):
        raise invalid("two of the files have the same name: send them in two requests, each with a 'key'", _FILE)
    return given


def _one(file: File, fields: Mapping[str, object], call: KnowledgeCall) -> DocumentInput:
    if file.field != _FILE:
        raise invalid(f"there is no file '{file.field}' here; name each '{_FILE}'", file.field)
    return document_of({**fields, "source": file.name}, fields.get("key", file.name), call.exchange)


def _parsed(text: str, name: str) -> object:
    try:
        return clean(orjson.loads(text), name)
    except orjson.JSONDecodeError as error:
        raise invalid(f"'{name}' must be JSON", name) from error


def _flag(text: str) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise invalid("'background' must be true or false", "background")
    return text.lower() == "true"
