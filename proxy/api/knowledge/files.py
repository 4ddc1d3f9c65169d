"""OpenAI's files: kept until deletion, visible only to the team of the uploading key."""

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from proxy.api.knowledge.access import Access, listed, rights_of
from proxy.api.knowledge.forms import UploadOptions, received
from proxy.api.knowledge.parameters import invalid, none_but, query_of, whole_number
from proxy.api.knowledge.puts import name_of
from proxy.asgi import Receive, Scope, Send
from proxy.dialects.errors import ApiError
from proxy.exchange import exchange_of
from retrieval.errors import UnknownFile
from retrieval.records.files import UploadedFile

PATH = "/v1/files"  # the settings may relay the path instead
_PURPOSES = ("assistants", "user_data")
_MOST_LISTED = 10_000
_PART_BYTES = 1 << 20


class Files:
    """The files of a caller's team."""

    def __init__(self, access: Access, options: UploadOptions) -> None:
        self._access = access
        self._options = options

    def routes(self) -> list[Route]:
        route = self._access.route
        return [
            route(PATH, slow=["POST"], GET=self._list, POST=self._create),
            route(PATH + "/{id}", GET=self._read, DELETE=self._delete),
            Route(PATH + "/{id}/content", _Content(self._access)),
        ]

    async def _create(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        if not rights_of(scope).write.granted:
            message = "This key may upload no files: that takes the right to write a collection."
            raise ApiError(403, message, code="forbidden", type="permission_error")
        async with received(scope, receive, self._options) as form:
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
            async with self._access.asking(writing=True):
                made = await self._access.knowledge.writing.add_file(owner_of(scope), name, purpose, file.spooled)
        return file_row(made)

    async def _list(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "purpose", "limit", "order", "after")
        limit = whole_number(asked.get("limit", str(_MOST_LISTED)), "limit", _MOST_LISTED)
        newest_first, after = newest_first_of(asked), asked.get("after", "")
        rows = await self._access.knowledge.library.files(
            owner_of(scope), asked.get("purpose", ""), after=after, limit=limit + 1, newest_first=newest_first
        )
        return listed([file_row(row) for row in rows[:limit]], more=len(rows) > limit)

    async def _read(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return file_row(await the_file(self._access, scope["path_params"]["id"], scope))

    async def _delete(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        """Delete the file, and the file's documents in collections writable by the key."""
        id, rights, knowledge = scope["path_params"]["id"], rights_of(scope), self._access.knowledge
        await the_file(self._access, id, scope)
        for name in await knowledge.library.collections_with(id):
            if name in rights.read and name in rights.write:
                await knowledge.writing.detach(name, [id], rights.groups)
        await knowledge.writing.delete_file(id, owner_of(scope))
        return {"id": id, "object": "file", "deleted": True}


class _Content:
    """The content of an uploaded file."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self._access.check(scope, ["GET"])
        id, owner = scope["path_params"]["id"], owner_of(scope)
        async with self._access.asking():
            file = await the_file(self._access, id, scope)
            part = await self._access.knowledge.library.file_part(id, owner, 0, _PART_BYTES)
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
            async with self._access.asking():
                part = await self._access.knowledge.library.file_part(id, owner, sent, _PART_BYTES)
        await send({"type": "http.response.body", "body": b""})


def owner_of(scope: Scope) -> str:
    return exchange_of(scope).owner


async def the_file(access: Access, id: str, scope: Scope) -> UploadedFile:
    """Raises UnknownFile, also for the file of another team."""
    for file in await access.knowledge.library.find_files([id], owner_of(scope)):
        return file
    raise UnknownFile(f"there is no file {id!r}")


def file_row(file: UploadedFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_s),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "expires_at": None,
    }


def newest_first_of(asked: Mapping[str, str]) -> bool:
    order = asked.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid("'order' must be asc or desc", "order")
    return order == "desc"
