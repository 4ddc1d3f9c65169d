"""Files in OpenAI's vector stores: a collection's documents, and files waiting to become documents.

A job turns an attached file into a document, with the file's id as key. Other documents are shown by their own id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, get_args

from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import Deleted, KnowledgeCall, Page
from proxy.api.knowledge.declarations import Closed, Open, doc, must, operation
from proxy.api.knowledge.files import Order, the_file
from proxy.api.knowledge.filters import Attributes
from proxy.api.knowledge.parameters import After, invalid, read_as
from proxy.api.knowledge.puts import document_of
from proxy.api.knowledge.uploads import finished, visible_job
from proxy.caller import readable_document
from retrieval.errors import UnknownDocument, UnknownFile
from retrieval.records.documents import DocumentInfo, FullDocument
from retrieval.records.files import FILE_ID_PREFIX, UploadedFile
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment

_T = TypeVar("_T")
_TAG = "vector stores"
Status = Literal["in_progress", "completed", "failed", "cancelled"]
STORE = "/v1/vector_stores/{name}"
_FILE, _BATCH = STORE + "/files/{id}", STORE + "/file_batches/{id}"
_MOST_FILES = 2000  # in a batch
_STATUS: Mapping[str, Status] = {  # for a document or a job; any other state: completed
    "waiting": "in_progress",
    "queued": "in_progress",
    "running": "in_progress",
    "refused": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}
_SETTINGS_CUT = must("left out: the gateway's settings decide how documents are cut")
Chunking = Annotated[Annotated[dict[str, Any], _SETTINGS_CUT] | None, doc("Only auto")]


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


_FEW = must(f"a list of 1 to {_MOST_FILES} files")


class _AttachedFiles(Closed, frozen=True):
    file_ids: Annotated[list[str], Meta(min_length=1, max_length=_MOST_FILES), _FEW] | UnsetType = UNSET
    files: Annotated[list[_BatchFile], Meta(min_length=1, max_length=_MOST_FILES), _FEW] | UnsetType = UNSET
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


async def given_files(files: Sequence[Mapping[str, Any]], call: KnowledgeCall) -> list[DocumentInput]:
    """Documents made from the caller's files, each with `file_id` and `attributes`.

    Raises UnknownFile if a file is missing or belongs to another caller.
    """
    ids = [one["file_id"] for one in files]
    if not 1 <= len(ids) <= _MOST_FILES:
        raise invalid(f"1 to {_MOST_FILES} file ids are needed", "file_ids")
    if len(set(ids)) < len(ids):
        raise invalid("the same id is listed twice", "file_ids")
    known = {file.id: file for file in await call.library.find_files(ids, call.exchange.owner)}
    for id in ids:
        if id not in known:
            raise UnknownFile(f"there is no file {id!r}")
    return [_given(known[one["file_id"]], one.get("attributes"), call) for one in files]


@operation(f"POST {STORE}/files", _TAG, "The attached file", right="write", writing=True)
async def attach_file(call: KnowledgeCall, body: _Attached) -> StoreFile:
    """Make a document of a file; attaching again replaces the document."""
    check_chunking(body.chunking_strategy)
    file = {"file_id": body.file_id, "attributes": body.attributes}
    job = await call.writing.start_job(call.path["name"], await given_files([file], call))
    return _row(job.collection, job.documents[0].key, job.created_s, "in_progress", body.attributes or {})


@operation(f"GET {_FILE}", _TAG, "The file", right="read")
async def read_store_file(call: KnowledgeCall) -> StoreFile:
    """The state."""
    waiting = await call.library.unfinished_attachments([call.path["name"]], call.rights.groups)
    for one in waiting:
        if one.key == call.path["id"]:
            return _waiting_row(one)
    return _document_row((await _document(call)).info)


@operation(f"POST {_FILE}", _TAG, "The file", right="write", slow=True)
async def describe_store_file(call: KnowledgeCall, body: _Described) -> StoreFile:
    """Replace the attributes.

    The document is written again, so its file must still exist.
    """
    async with call.rules.asking():
        groups = (await _document(call)).info.groups
        file = await the_file(call)
    async with call.rules.asking(writing=True):
        given = replace(_given(file, body.attributes, call), groups=groups or None)
        job = await call.writing.start_job(call.path["name"], [given])
    await finished(job, call)
    async with call.rules.asking():
        return await read_store_file(call)


@operation(f"DELETE {_FILE}", _TAG, "Deleted", right="write")
async def detach_file(call: KnowledgeCall) -> Deleted:
    """Delete the file's document; the file stays."""
    id, groups, writing = call.path["id"], call.rights.groups, call.writing
    if not await writing.detach(call.path["name"], [id], groups):
        await writing.delete_document((await _document(call)).info.id, groups)
    return Deleted(id, "vector_store.file.deleted", deleted=True)


@operation(f"GET {_FILE}/content", _TAG, "The text", right="read")
async def read_store_file_content(call: KnowledgeCall) -> StoreFileText:
    """The indexed text."""
    document = await _document(call)
    return StoreFileText([TextPart("text", document.text)], has_more=False, next_page=None)


@operation(f"GET {STORE}/files", _TAG, "A page", right="read")
async def list_store_files(call: KnowledgeCall, query: _StoreFilesQuery) -> StoreFilePage:
    """Documents, and attached files that wait, failed or were cancelled.

    Unfinished attachments come first, then documents by id.
    """
    limit, wanted, after = query.limit, query.filter or "", query.after or ""
    if wanted not in ("", *get_args(Status)):
        raise invalid("'filter' must be in_progress, completed, failed or cancelled", "filter")
    name, groups, library = call.path["name"], call.rights.groups, call.library
    attached = await library.unfinished_attachments([name], groups)
    waiting = [one for one in attached if wanted in ("", _STATUS[one.state])]
    keys = [one.key for one in waiting]
    if after in keys:
        waiting, after = rows_after(after, waiting, keys), ""
    elif after:
        waiting, after = [], await _id(after, call)
    rows = [_waiting_row(one) for one in waiting[: limit + 1]]
    if wanted in ("", "completed") and len(rows) <= limit:
        page = await library.documents(name, after=after, limit=limit + 1 - len(rows), groups=groups)
        rows += [_document_row(info) for info in page]
    return StoreFilePage.of(rows, limit)


async def _document(call: KnowledgeCall) -> FullDocument:
    """The document that the path names, by its own id or its file's. Raises UnknownFile."""
    id = call.path["id"]
    try:
        found = await readable_document(call.knowledge, await _id(id, call), call.rights)
    except UnknownDocument as error:
        raise UnknownFile(f"there is no file {id!r}") from error
    if found.info.collection != call.path["name"]:
        raise UnknownFile(f"there is no file {id!r}")
    return found


async def _id(id: str, call: KnowledgeCall) -> str:
    """The document id; whatever is not a file id already is one."""
    if not id.startswith(FILE_ID_PREFIX):
        return id
    try:
        return await call.library.find_document(call.path["name"], id, call.rights.groups)
    except UnknownDocument:
        return id


@operation(f"POST {STORE}/file_batches", _TAG, "The batch", right="write", writing=True)
async def attach_files(call: KnowledgeCall, body: Annotated[Mapping[str, Any], _AttachedFiles]) -> StoreBatch:
    """Attach many files by one job."""
    ids, files = body.get("file_ids"), body.get("files")
    if (ids is None) == (files is None):
        raise invalid("either 'file_ids' or 'files' is needed", "file_ids")
    read_as(_AttachedFiles, body)
    rows = files or [{"file_id": id, "attributes": body.get("attributes")} for id in ids or ()]
    for one in (body, *rows):
        check_chunking(one.get("chunking_strategy"))
    given = await given_files(rows, call)
    return _batch(await call.writing.start_job(call.path["name"], given))


@operation(f"GET {_BATCH}", _TAG, "The batch", right="read")
async def read_batch(call: KnowledgeCall) -> StoreBatch:
    """The state."""
    return _batch(await visible_job(call))


@operation(f"POST {_BATCH}/cancel", _TAG, "The batch", right="read", writing=True)
async def cancel_batch(call: KnowledgeCall) -> StoreBatch:
    """Stop writing the documents; documents already written stay."""
    job = await visible_job(call)
    return _batch(await call.writing.cancel_job(job.id))


@operation(f"GET {_BATCH}/files", _TAG, "A page", right="read")
async def list_batch_files(call: KnowledgeCall, query: _BatchFilesQuery) -> StoreFilePage:
    """The files of a batch."""
    job = await visible_job(call)
    rows = [
        _row(job.collection, one.key, job.created_s, _STATUS.get(one.state, "completed"), {}, one.reason)
        for one in job.documents
    ]
    rows = [row for row in rows if query.filter in (None, row.status)]
    return StoreFilePage.of(rows_after(query.after, rows, [row.id for row in rows]), query.limit)


def rows_after(after: str | None, rows: list[_T], ids: Sequence[str]) -> list[_T]:
    """Rows that follow an id's row; all rows for an unknown id."""
    return rows[ids.index(after) + 1 :] if after in ids else rows


def check_chunking(strategy: Mapping[str, Any] | None) -> None:
    if strategy is not None and not (isinstance(strategy, dict) and strategy.get("type") == "auto"):
        message = "the gateway's settings decide how documents are cut: leave 'chunking_strategy' out"
        raise invalid(message, "chunking_strategy")


def counts_of(states: Mapping[str, int]) -> FileCounts:
    """OpenAI's document counts, by state."""
    counts = dict.fromkeys(get_args(Status), 0)
    for state, count in states.items():
        counts[_STATUS.get(state, "completed")] += count
    return FileCounts(**counts, total=sum(counts.values()))


def _given(file: UploadedFile, attributes: Mapping[str, Any] | None, call: KnowledgeCall) -> DocumentInput:
    return document_of({"source": file.name, "attributes": attributes}, file.id, call.exchange)


def _batch(job: Job) -> StoreBatch:
    status = _STATUS.get(job.state, "completed")
    return StoreBatch(job.id, int(job.created_s), job.collection, status, counts_of(job.counts))


def _waiting_row(one: UnfinishedAttachment) -> StoreFile:
    return _row(one.collection, one.key, one.at_s, _STATUS[one.state], {}, one.reason)


def file_id(document: str, key: str) -> str:
    """A document's id in OpenAI's dialect: its file's id, if it has one."""
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
