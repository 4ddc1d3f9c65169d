"""The files of OpenAI's vector stores: documents of a collection, and files waiting to become documents.

A job makes a document of an attached file, with the file's id as key. Other documents are shown by document id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType

from proxy import permitted
from proxy.api.knowledge.access import Access, Deleted, Page, ends, rights_of
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.files import Order, owner_of, the_file
from proxy.api.knowledge.filters import Attributes
from proxy.api.knowledge.parameters import After, invalid, query_of
from proxy.api.knowledge.puts import Puts, from_caller, said_of
from proxy.api.knowledge.uploads import finished, visible_job
from proxy.asgi import Receive, Scope
from retrieval.errors import UnknownDocument, UnknownFile, UnknownJob
from retrieval.records.documents import DocumentInfo, FullDocument
from retrieval.records.files import FILE_ID_PREFIX, UploadedFile
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment

_TAG = "vector stores"
Status = Literal["in_progress", "completed", "failed", "cancelled"]
STORE = "/v1/vector_stores/{name}"
_FILE, _BATCH = STORE + "/files/{id}", STORE + "/file_batches/{id}"
_MOST_FILES = 2000  # in a batch
_STATUS: Mapping[str, Status] = {
    "waiting": "in_progress",
    "refused": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}  # else completed
_OF_JOB: Mapping[str, Status] = {
    "queued": "in_progress",
    "running": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
Chunking = Annotated[dict[str, Any] | None, doc("Only auto")]


class TextPart(Open, frozen=True):
    type: Literal["text"]
    text: str


class FileCounts(Open, frozen=True):
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class _FileError(Open, frozen=True):
    code: str
    message: str


class StoreFile(Open, frozen=True, tag_field="object", tag="vector_store.file"):
    id: Annotated[str, doc("Of the file, or of a document made without a file")]
    usage_bytes: Annotated[int, doc("Characters of the text")]
    created_at: int
    vector_store_id: str
    status: Status
    attributes: Attributes
    last_error: _FileError | None
    chunking_strategy: dict[str, Any]


class StoreFilePage(Page, frozen=True, kw_only=True):
    data: list[StoreFile]


class StoreBatch(Open, frozen=True, tag_field="object", tag="vector_store.files_batch"):
    id: Annotated[str, doc("Of the job")]
    created_at: int
    vector_store_id: str
    status: Status
    file_counts: FileCounts


class StoreFileText(Open, frozen=True, tag_field="object", tag="vector_store.file_content.page"):
    data: list[TextPart]
    has_more: Annotated[bool, doc("Always false")]
    next_page: Annotated[str | None, doc("Always null")]


class _Attached(Closed, frozen=True):
    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: Chunking = None


class _Described(Closed, frozen=True):
    attributes: Attributes


class _BatchFile(Open, frozen=True):
    file_id: str


class _AttachedFiles(Closed, frozen=True):
    file_ids: Annotated[list[str], Meta(min_length=1, max_length=_MOST_FILES)] | UnsetType = UNSET
    files: Annotated[list[_BatchFile], Meta(min_length=1, max_length=_MOST_FILES)] | UnsetType = UNSET
    attributes: Attributes | None = None
    chunking_strategy: Chunking = None


_AnyStatus = Annotated[str, Meta(extra_json_schema={"enum": get_args(Status)})]


class _StoreFilesQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: After | None = None
    order: Order = "desc"
    filter: _AnyStatus | None = None


class _BatchFilesQuery(_StoreFilesQuery, frozen=True):
    order: Annotated[str, Meta(extra_json_schema={"enum": get_args(Order)})] = "desc"  # type: ignore[assignment]


class Attachments:
    """The content of a vector store."""

    def __init__(self, access: Access, puts: Puts) -> None:
        self._access = access
        self._puts = puts

    async def start(self, name: str, files: Sequence[Mapping[str, Any]], scope: Scope) -> Job:
        """Attach files to a writable collection: `file_id` and `attributes` of each. Raises UnknownFile."""
        given = await self.given(files, scope)
        return await self._access.knowledge.writing.start_job(name, given)

    async def given(self, files: Sequence[Mapping[str, Any]], scope: Scope) -> list[DocumentInput]:
        """Documents of the caller's files. Raises UnknownFile for the file of another caller."""
        ids = [str(one.get("file_id")) for one in files]
        if not ids or len(ids) > _MOST_FILES or not all(isinstance(one.get("file_id"), str) for one in files):
            raise invalid(f"1 to {_MOST_FILES} file ids are needed", "file_ids")
        if len(set(ids)) < len(ids):
            raise invalid("the same id is listed twice", "file_ids")
        known = {file.id: file for file in await self._access.knowledge.library.find_files(ids, owner_of(scope))}
        for id in ids:
            if id not in known:
                raise UnknownFile(f"there is no file {id!r}")
        return [from_caller(_given(known[one["file_id"]], one), scope) for one in files]

    @operation(f"POST {STORE}/files", _TAG, StoreFile, "The attached file", body=_Attached, writing=True)
    async def attach_file(self, scope: Scope, receive: Receive) -> StoreFile:
        """Make a document of a file; attaching again replaces the document."""
        name = await self._puts.writable(scope)
        fields = await self._access.fields(scope, receive, _Attached)
        check_chunking(fields)
        job = await self.start(name, [fields], scope)
        return _row(name, job.documents[0].key, job.created_s, "in_progress", fields.get("attributes") or {})

    @operation(f"GET {_FILE}", _TAG, StoreFile, "The file")
    async def read_store_file(self, scope: Scope, _receive: Receive) -> StoreFile:
        """The state."""
        name, id = (await self._access.collection(scope)).name, scope["path_params"]["id"]
        for one in await self._access.knowledge.library.unfinished_attachments([name], rights_of(scope).groups):
            if one.key == id:
                return _waiting_row(one)
        return _document_row((await self._document(name, id, scope)).info)

    @operation(f"POST {_FILE}", _TAG, StoreFile, "The file", body=_Described, slow=True)
    async def describe_store_file(self, scope: Scope, receive: Receive) -> StoreFile:
        """Replace the attributes.

        The document is written again, so the file must still exist.
        """
        async with self._access.asking():
            name, id = await self._puts.writable(scope), scope["path_params"]["id"]
            fields = await self._access.fields(scope, receive, _Described)
            if fields.get("attributes") is None:
                raise invalid("'attributes' is needed", "attributes")
            groups = (await self._document(name, id, scope)).info.groups
            file = await the_file(self._access, id, scope)
        async with self._access.asking(writing=True):
            given = from_caller(replace(_given(file, fields), groups=groups or None), scope)
            job = await self._access.knowledge.writing.start_job(name, [given])
        await finished(self._access, job)
        async with self._access.asking():
            return await self.read_store_file(scope, receive)

    @operation(f"DELETE {_FILE}", _TAG, Deleted, "Deleted")
    async def detach_file(self, scope: Scope, _receive: Receive) -> Deleted:
        """Delete the file's document; the file stays."""
        name, id = await self._puts.writable(scope), scope["path_params"]["id"]
        if not await self._access.knowledge.writing.detach(name, [id], rights_of(scope).groups):
            document = await self._document(name, id, scope)
            await self._access.knowledge.writing.delete_document(document.info.id, rights_of(scope).groups)
        return Deleted(id, "vector_store.file.deleted", deleted=True)

    @operation(f"GET {_FILE}/content", _TAG, StoreFileText, "The text")
    async def read_store_file_content(self, scope: Scope, _receive: Receive) -> StoreFileText:
        """The indexed text."""
        name = (await self._access.collection(scope)).name
        document = await self._document(name, scope["path_params"]["id"], scope)
        return StoreFileText([TextPart("text", document.text)], has_more=False, next_page=None)

    @operation(f"GET {STORE}/files", _TAG, StoreFilePage, "A page", query=_StoreFilesQuery)
    async def list_store_files(self, scope: Scope, _receive: Receive) -> StoreFilePage:
        """Documents, and attached files that wait, failed or were cancelled.

        The unfinished attachments come first, then the documents by id.
        """
        asked = query_of(scope, _StoreFilesQuery)
        limit, wanted = asked.limit, asked.filter or ""
        if wanted not in ("", *get_args(Status)):
            raise invalid("'filter' must be in_progress, completed, failed or cancelled", "filter")
        name, after = (await self._access.collection(scope)).name, asked.after or ""
        attached = await self._access.knowledge.library.unfinished_attachments([name], rights_of(scope).groups)
        waiting = [one for one in attached if wanted in ("", _STATUS[one.state])]
        keys = [one.key for one in waiting]
        if after in keys:
            waiting, after = waiting[keys.index(after) + 1 :], ""
        elif after:
            waiting, after = [], await self._id(name, after, scope)
        rows = [_waiting_row(one) for one in waiting[: limit + 1]]
        if wanted in ("", "completed") and len(rows) <= limit:
            left = limit + 1 - len(rows)
            page = await self._access.knowledge.library.documents(
                name, after=after, limit=left, groups=rights_of(scope).groups
            )
            rows += [_document_row(info) for info in page]
        return StoreFilePage(*ends(rows[:limit], more=len(rows) > limit), data=rows[:limit])

    async def _document(self, name: str, id: str, scope: Scope) -> FullDocument:
        """The document of a file id or of a document id. Raises UnknownFile."""
        try:
            found = await permitted.document(self._access.knowledge, await self._id(name, id, scope), rights_of(scope))
        except UnknownDocument as error:
            raise UnknownFile(f"there is no file {id!r}") from error
        if found.info.collection != name:
            raise UnknownFile(f"there is no file {id!r}")
        return found

    async def _id(self, name: str, id: str, scope: Scope) -> str:
        """The document id; an id other than a file id is already a document id."""
        if not id.startswith(FILE_ID_PREFIX):
            return id
        try:
            return await self._access.knowledge.library.find_document(name, id, rights_of(scope).groups)
        except UnknownDocument:
            return id

    @operation(f"POST {STORE}/file_batches", _TAG, StoreBatch, "The batch", body=_AttachedFiles, writing=True)
    async def attach_files(self, scope: Scope, receive: Receive) -> StoreBatch:
        """Attach many files by one job."""
        name = await self._puts.writable(scope)
        fields = await self._access.fields(scope, receive, _AttachedFiles)
        ids, files = fields.get("file_ids"), fields.get("files")
        if (ids is None) == (files is None):
            raise invalid("either 'file_ids' or 'files' is needed", "file_ids")
        if files is None:
            files = of_ids(ids, fields.get("attributes"))
        if not isinstance(files, list) or not all(isinstance(one, dict) for one in files):
            raise invalid("'files' must be a list of objects", "files")
        for one in (fields, *files):
            check_chunking(one)
        return _batch(await self.start(name, files, scope))

    @operation(f"GET {_BATCH}", _TAG, StoreBatch, "The batch")
    async def read_batch(self, scope: Scope, _receive: Receive) -> StoreBatch:
        """The state."""
        return _batch(await self._job(scope))

    @operation(f"POST {_BATCH}/cancel", _TAG, StoreBatch, "The batch", writing=True)
    async def cancel_batch(self, scope: Scope, _receive: Receive) -> StoreBatch:
        """Stop writing the documents; documents already written stay."""
        job = await self._job(scope)
        return _batch(await self._access.knowledge.writing.cancel_job(job.id))

    @operation(f"GET {_BATCH}/files", _TAG, StoreFilePage, "A page", query=_BatchFilesQuery)
    async def list_batch_files(self, scope: Scope, _receive: Receive) -> StoreFilePage:
        """The files of a batch."""
        asked = query_of(scope, _BatchFilesQuery)
        job = await self._job(scope)
        rows = [
            _row(job.collection, one.key, job.created_s, _STATUS.get(one.state, "completed"), {}, one.reason)
            for one in job.documents
        ]
        rows = [row for row in rows if asked.filter in (None, row.status)]
        ids = [row.id for row in rows]
        first = ids.index(asked.after) + 1 if asked.after in ids else 0
        page = rows[first : first + asked.limit]
        return StoreFilePage(*ends(page, more=len(rows) > first + asked.limit), data=page)

    async def _job(self, scope: Scope) -> Job:
        """The batch named in the path. Raises UnknownJob."""
        name, id = (await self._access.collection(scope)).name, scope["path_params"]["id"]
        job = await visible_job(self._access, id, rights_of(scope))
        if job.collection != name:
            raise UnknownJob(f"there is no job {id!r}")
        return job


def of_ids(ids: object, attributes: object = None) -> list[dict[str, Any]]:
    """File ids, as a list of `files`."""
    if not isinstance(ids, list):
        raise invalid("'file_ids' must be a list of ids", "file_ids")
    return [{"file_id": id, "attributes": attributes} for id in ids]


def check_chunking(fields: Mapping[str, Any]) -> None:
    strategy = fields.get("chunking_strategy")
    if strategy is not None and not (isinstance(strategy, dict) and strategy.get("type") == "auto"):
        message = "the gateway's settings decide how documents are cut: leave 'chunking_strategy' out"
        raise invalid(message, "chunking_strategy")


def counts_of(states: Mapping[str, int]) -> FileCounts:
    """OpenAI's counts of documents by state."""
    counts = dict.fromkeys(get_args(Status), 0)
    for state, count in states.items():
        counts[_STATUS.get(state, "completed")] += count
    return FileCounts(**counts, total=sum(counts.values()))


def _given(file: UploadedFile, fields: Mapping[str, Any]) -> DocumentInput:
    return said_of({"source": file.name, "attributes": fields.get("attributes")}, file.id)


def _batch(job: Job) -> StoreBatch:
    return StoreBatch(job.id, int(job.created_s), job.collection, _OF_JOB[job.state], counts_of(job.counts))


def _waiting_row(one: UnfinishedAttachment) -> StoreFile:
    return _row(one.collection, one.key, one.at_s, _STATUS[one.state], {}, one.reason)


def file_id(document: str, key: str) -> str:
    """A document's id in OpenAI's dialect: the id of the document's file, if any."""
    return key if key.startswith(FILE_ID_PREFIX) else document


def _document_row(info: DocumentInfo) -> StoreFile:
    id = file_id(info.id, info.key)
    return _row(info.collection, id, info.modified_s, "completed", info.attributes, size=info.chars)


def _row(
    name: str, id: str, at_s: float, status: Status, attributes: Mapping[str, Any], reason: str = "", size: int = 0
) -> StoreFile:
    code = "unsupported_file" if reason.startswith("unsupported type") else "invalid_file"
    error = _FileError(code, reason) if status == "failed" else None
    return StoreFile(id, size, int(at_s), name, status, dict(attributes), error, {"type": "other"})
