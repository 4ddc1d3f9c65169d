"""OpenAI's files: kept until deleted, visible only to the team whose key uploaded them."""

from typing import Annotated, Literal

from msgspec import Meta

from proxy.api.knowledge.access import Deleted, KnowledgeCall, Page
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.forms import BINARY, received
from proxy.api.knowledge.parameters import After, invalid, none_but
from proxy.api.knowledge.puts import name_of
from proxy.asgi import Send
from proxy.dialects.errors import forbidden
from retrieval.errors import UnknownFile
from retrieval.records.files import UploadedFile

PATH = "/v1/files"  # settings may relay this path instead
_PART_BYTES = 1 << 20
_FILE = PATH + "/{id}"
_PURPOSES = ("assistants", "user_data")
_MOST_LISTED = 10_000
Order = Literal["asc", "desc"]


class StoredFile(Open, frozen=True, tag_field="object", tag="file"):
    id: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Literal["processed"]
    expires_at: Annotated[int | None, doc("Always null")] = None


class FilePage(Page, frozen=True, kw_only=True):
    data: list[StoredFile]


class _FileForm(Closed, frozen=True):
    file: Annotated[str, BINARY]
    purpose: Literal["assistants", "user_data"]


class _FilesQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=_MOST_LISTED)] = _MOST_LISTED
    after: After | None = None
    order: Order = "desc"
    purpose: str | None = None


@operation(f"POST {PATH}", "vector stores", "The stored file", form=_FileForm, slow=True)
async def create_file(call: KnowledgeCall) -> StoredFile:
    """Upload a file, to be attached to vector stores."""
    if not call.rights.write.granted:
        raise forbidden("This key may not upload files: it needs the right to write a collection.")
    async with received(call.scope, call.receive, call.rules.uploads) as form:
        none_but(form.fields, ("purpose",))
        if len(form.files) != 1 or form.files[0].field != "file":
            raise invalid("a form with one file named 'file' is needed", "file")
        (file,), purpose = form.files, form.fields.get("purpose")
        if purpose not in _PURPOSES:
            raise invalid(
                f"'purpose' must be one of {', '.join(_PURPOSES)}: files for batches, fine-tuning and the like "
                "belong to the upstream, which gets all files once upstream.paths lists /v1/files",
                "purpose",
            )
        name = name_of(file.name, "file")
        async with call.rules.asking(writing=True):
            made = await call.writing.add_file(call.exchange.owner, name, purpose, file.spooled)
    return _row(made)


@operation(f"GET {PATH}", "vector stores", "A page")
async def list_files(call: KnowledgeCall, query: _FilesQuery) -> FilePage:
    """The files of the key's team."""
    rows = await call.library.files(
        *(call.exchange.owner, query.purpose or ""),
        after=query.after or "",
        limit=query.limit + 1,
        newest_first=query.order == "desc",
    )
    return FilePage.of([*map(_row, rows)], query.limit)


@operation(f"GET {_FILE}", "vector stores", "The file")
async def read_file(call: KnowledgeCall) -> StoredFile:
    """A file, without the content."""
    return _row(await the_file(call))


@operation(f"DELETE {_FILE}", "vector stores", "Deleted")
async def delete_file(call: KnowledgeCall) -> Deleted:
    """Delete a file, and the file's documents in collections writable by the key."""
    id, rights, knowledge = call.path["id"], call.rights, call.knowledge
    await the_file(call)
    for name in await knowledge.library.collections_with(id):
        if name in rights.read and name in rights.write:
            await knowledge.writing.detach(name, [id], rights.groups)
    await knowledge.writing.delete_file(id, call.exchange.owner)
    return Deleted(id, "file", deleted=True)


@operation(f"GET {_FILE}/content", "vector stores", "The bytes", media="application/octet-stream", streams=True)
async def read_file_content(call: KnowledgeCall, send: Send) -> None:
    """The content of a file."""
    id, owner = call.path["id"], call.exchange.owner
    async with call.rules.asking():
        file = await the_file(call)
        part = await call.library.file_part(id, owner, 0, _PART_BYTES)
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", b"%d" % file.bytes),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    sent = 0
    while part:
        await send({"type": "http.response.body", "body": part, "more_body": True})
        sent += len(part)
        async with call.rules.asking():
            part = await call.library.file_part(id, owner, sent, _PART_BYTES)
    await send({"type": "http.response.body", "body": b""})


async def the_file(call: KnowledgeCall) -> UploadedFile:
    """The file in the path. Raises UnknownFile, even for another team's file."""
    id = call.path["id"]
    for file in await call.library.find_files([id], call.exchange.owner):
        return file
    raise UnknownFile(f"there is no file {id!r}")


def _row(file: UploadedFile) -> StoredFile:
    return StoredFile(file.id, file.bytes, int(file.created_s), file.name, file.purpose, "processed")
