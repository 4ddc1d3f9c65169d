"""The files of OpenAI's vector stores: documents of a collection, and files waiting to become documents.

A job makes a document of an attached file, with the file's id as key. Other documents are shown by document id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.routing import Route

from proxy.access import permitted
from proxy.api.knowledge.access import Access, listed, rights_of
from proxy.api.knowledge.files import newest_first_of, owner_of, the_file
from proxy.api.knowledge.parameters import invalid, query_of, whole_number
from proxy.api.knowledge.puts import Puts, from_caller, said_of
from proxy.api.knowledge.uploads import finished, visible_job
from proxy.asgi import Receive, Scope
from retrieval.errors import UnknownDocument, UnknownFile, UnknownJob
from retrieval.records.documents import DocumentInfo, FullDocument
from retrieval.records.files import FILE_ID_PREFIX, UploadedFile
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment

_PATH = "/v1/vector_stores/{name}"
_MOST_FILES = 2000  # in a batch
_STATUS = {
    "waiting": "in_progress",
    "refused": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}  # else completed
_OF_JOB = {"queued": "in_progress", "running": "in_progress"}  # other states are unchanged


class Attachments:
    """The content of a vector store."""

    def __init__(self, access: Access, puts: Puts) -> None:
        self._access = access
        self._puts = puts

    def routes(self) -> list[Route]:
        route, batch = self._access.route, _PATH + "/file_batches/{id}"
        return [
            route(_PATH + "/files", writing=["POST"], GET=self._list, POST=self._attach),
            route(_PATH + "/files/{id}", slow=["POST"], GET=self._read, POST=self._describe, DELETE=self._detach),
            route(_PATH + "/files/{id}/content", GET=self._content),
            route(_PATH + "/file_batches", writing=["POST"], POST=self._attach_batch),
            route(batch, GET=self._read_batch),
            route(batch + "/cancel", writing=["POST"], POST=self._cancel_batch),
            route(batch + "/files", GET=self._list_batch),
        ]

    async def start(self, name: str, files: Sequence[Mapping[str, Any]], scope: Scope) -> Job:
        """Attach files to a writable collection: `file_id` and `attributes` of each. Raises UnknownFile."""
        given = await self.given(files, scope)
        return await self._access.knowledge.writing.start_job(name, given)

    async def given(self, files: Sequence[Mapping[str, Any]], scope: Scope) -> list[DocumentInput]:
        """Documents of the caller's files. Raises UnknownFile for the file of another caller."""
        ids = [str(one.get("file_id")) for one in files]
        if not ids or len(ids) > _MOST_FILES or not all(isinstance(one.get("file_id"), str) for one in files):
            raise invalid(f"1 to {_MOST_FILES} ids of files are needed", "file_ids")
        if len(set(ids)) < len(ids):
            raise invalid("an id stands twice", "file_ids")
        known = {file.id: file for file in await self._access.knowledge.library.find_files(ids, owner_of(scope))}
        for id in ids:
            if id not in known:
                raise UnknownFile(f"there is no file {id!r}")
        return [from_caller(_given(known[one["file_id"]], one), scope) for one in files]

    async def _attach(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        name = await self._puts.writable(scope)
        fields = await self._access.fields(scope, receive, "file_id", "attributes", "chunking_strategy")
        check_chunking(fields)
        job = await self.start(name, [fields], scope)
        return _row(name, job.documents[0].key, job.created_s, "in_progress", fields.get("attributes") or {})

    async def _read(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name, id = (await self._access.collection(scope)).name, scope["path_params"]["id"]
        for one in await self._access.knowledge.library.unfinished_attachments([name], rights_of(scope).groups):
            if one.key == id:
                return _waiting_row(one)
        return _document_row((await self._document(name, id, scope)).info)

    async def _describe(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        """Set attributes: the document is written again, so the file must still exist."""
        async with self._access.asking():
            name, id = await self._puts.writable(scope), scope["path_params"]["id"]
            fields = await self._access.fields(scope, receive, "attributes")
            if fields.get("attributes") is None:
                raise invalid("'attributes' is needed", "attributes")
            groups = (await self._document(name, id, scope)).info.groups
            file = await the_file(self._access, id, scope)
        async with self._access.asking(writing=True):
            given = from_caller(replace(_given(file, fields), groups=groups or None), scope)
            job = await self._access.knowledge.writing.start_job(name, [given])
        await finished(self._access, job)
        async with self._access.asking():
            return await self._read(scope, receive)

    async def _detach(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name, id = await self._puts.writable(scope), scope["path_params"]["id"]
        if not await self._access.knowledge.writing.detach(name, [id], rights_of(scope).groups):
            document = await self._document(name, id, scope)
            await self._access.knowledge.writing.delete_document(document.info.id, rights_of(scope).groups)
        return {"id": id, "object": "vector_store.file.deleted", "deleted": True}

    async def _content(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name = (await self._access.collection(scope)).name
        document = await self._document(name, scope["path_params"]["id"], scope)
        return {
            "object": "vector_store.file_content.page",
            "data": [{"type": "text", "text": document.text}],
            "has_more": False,
            "next_page": None,
        }

    async def _list(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        """Unfinished attachments, then documents by id."""
        asked = query_of(scope, "limit", "after", "order", "filter")
        newest_first_of(asked)
        limit, wanted = whole_number(asked.get("limit", "20"), "limit", 100), asked.get("filter", "")
        if wanted not in ("", "completed", *_STATUS.values()):
            raise invalid("'filter' must be in_progress, completed, failed or cancelled", "filter")
        name, after = (await self._access.collection(scope)).name, asked.get("after", "")
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
        return listed(rows[:limit], more=len(rows) > limit)

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

    async def _attach_batch(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        name = await self._puts.writable(scope)
        names = ("file_ids", "files", "attributes", "chunking_strategy")
        fields = await self._access.fields(scope, receive, *names)
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

    async def _read_batch(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _batch(await self._job(scope))

    async def _cancel_batch(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        job = await self._job(scope)
        return _batch(await self._access.knowledge.writing.cancel_job(job.id))

    async def _list_batch(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after", "order", "filter")
        limit, after = whole_number(asked.get("limit", "20"), "limit", 100), asked.get("after")
        job = await self._job(scope)
        rows = [
            _row(job.collection, one.key, job.created_s, _STATUS.get(one.state, "completed"), {}, one.reason)
            for one in job.documents
        ]
        rows = [row for row in rows if asked.get("filter", row["status"]) == row["status"]]
        ids = [row["id"] for row in rows]
        first = ids.index(after) + 1 if after in ids else 0
        return listed(rows[first : first + limit], more=len(rows) > first + limit)

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
        message = "documents are cut as the gateway's settings say: leave 'chunking_strategy' out"
        raise invalid(message, "chunking_strategy")


def counts_of(states: Mapping[str, int]) -> dict[str, int]:
    """OpenAI's counts of documents by state."""
    counts = dict.fromkeys(("in_progress", "completed", "failed", "cancelled"), 0)
    for state, count in states.items():
        counts[_STATUS.get(state, "completed")] += count
    return {**counts, "total": sum(counts.values())}


def _given(file: UploadedFile, fields: Mapping[str, Any]) -> DocumentInput:
    return said_of({"source": file.name, "attributes": fields.get("attributes")}, file.id)


def _batch(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "object": "vector_store.files_batch",
        "created_at": int(job.created_s),
        "vector_store_id": job.collection,
        "status": _OF_JOB.get(job.state, job.state),
        "file_counts": counts_of(job.counts),
    }


def _waiting_row(one: UnfinishedAttachment) -> dict[str, Any]:
    return _row(one.collection, one.key, one.at_s, _STATUS[one.state], {}, one.reason)


def file_id(document: str, key: str) -> str:
    """A document's id in OpenAI's dialect: the id of the document's file, if any."""
    return key if key.startswith(FILE_ID_PREFIX) else document


def _document_row(info: DocumentInfo) -> dict[str, Any]:
    id = file_id(info.id, info.key)
    return _row(info.collection, id, info.modified_s, "completed", info.attributes, size=info.chars)


def _row(
    name: str, id: str, at_s: float, status: str, attributes: Mapping[str, Any], reason: str = "", size: int = 0
) -> dict[str, Any]:
    code = "unsupported_file" if reason.startswith("unsupported type") else "invalid_file"
    return {
        "id": id,
        "object": "vector_store.file",
        "usage_bytes": size,
        "created_at": int(at_s),
        "vector_store_id": name,
        "status": status,
        "attributes": attributes,
        "last_error": {"code": code, "message": reason} if status == "failed" else None,
        "chunking_strategy": {"type": "other"},
    }
