"""Uploads as forms (multipart/form-data): files of any size go to disk as they arrive, fields to memory."""

import asyncio
import errno
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from pathlib import Path

from msgspec import Meta, Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from proxy.api.knowledge.parameters import clean_text, invalid
from proxy.api.multipart import MAX_CONTENT_TYPE_BYTES, PartReader, boundary_of
from proxy.asgi import Receive, Scope
from proxy.body import check_announced, received_part, too_large
from proxy.dialects.errors import ApiError
from retrieval.index.spool import Spool

BINARY = Meta(extra_json_schema={"format": "binary"})  # says that a text is a file in a form
MOST_FILES = 1000  # per request
_MOST_FIELD_BYTES = 64 * 1024  # for all fields together
_MOST_FIELDS = 100
_SETTING = "server.max_upload_mb"
_AT_ONCE_BYTES = 1 << 20  # collected before a write
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UploadOptions(Struct, frozen=True):
    """Folder and size limits for uploads."""

    data: Path
    max_file_bytes: int
    max_bytes: int  # for a whole request


class File(Struct):
    """A file in a form."""

    field: str
    name: str  # as the client names it, without folders
    spooled: str  # its name in the spool
    bytes: int = 0


class Form(Struct):
    """A form's content."""

    fields: dict[str, str] = {}
    files: list[File] = []


@asynccontextmanager
async def received(scope: Scope, receive: Receive, options: UploadOptions) -> AsyncIterator[Form]:
    """The form in a request's body; its files are on disk while the context lasts.

    Raises ApiError 400 (not a form), 413 (too large), 415 (another type), 507 (disk full), ClientGone.
    """
    boundary = _boundary(scope, options)
    making = asyncio.ensure_future(asyncio.to_thread(Spool, options.data))
    try:
        spool = await asyncio.shield(making)
    except OSError as error:
        raise _refused(error) from error
    except asyncio.CancelledError:  # the thread goes on; its result is dropped
        making.add_done_callback(_unwanted)
        raise
    try:
        yield await _read(receive, _Reading(boundary, spool, options), options)
    finally:  # shielded: a second cancellation would prevent the deletion
        await asyncio.shield(asyncio.to_thread(spool.close))


async def _read(receive: Receive, reading: "_Reading", options: UploadOptions) -> Form:
    left, more = options.max_bytes, True
    while more:
        part, more = received_part(await receive())
        if (left := left - len(part)) < 0:
            raise too_large(options.max_bytes, _SETTING)
        reading.feed(part)
        if reading.gathered >= _AT_ONCE_BYTES:
            await reading.flush()
    await reading.flush()
    return reading.form()


def _unwanted(making: "asyncio.Future[Spool]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().close()


class _Reading(PartReader):
    """A form while it is being read."""

    def __init__(self, boundary: bytes, spool: Spool, options: UploadOptions) -> None:
        super().__init__(boundary)
        self._spool = spool
        self._most = options.max_file_bytes
        self._form = Form()
        self._file: File | None = None  # the current part
        self._field_name = ""
        self._field = bytearray()
        self._field_bytes = 0
        self._waiting: list[tuple[int, bytes]] = []  # not written yet
        self.gathered = 0  # file bytes not written yet

    def feed(self, data: bytes) -> None:
        """Raises ApiError."""
        try:
            self.parser.write(data)
        except FormParserError as error:
            raise _no_form() from error

    async def flush(self) -> None:
        """Write what was collected. Raises ApiError."""
        waiting, self._waiting, self.gathered = self._waiting, [], 0

        def write() -> None:
            for number, data in waiting:
                self._spool.append(number, data)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise _refused(error) from error

    def form(self) -> Form:
        if not self.whole:
            raise _no_form()
        return self._form

    def on_part(self) -> None:
        self._file = None
        self._field.clear()
        disposition = dict(self.headers).get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        self._field_name = options.get(b"name", b"").decode("utf-8", "replace")
        filename = _filename(disposition, options)
        if filename is None:
            if len(self._form.fields) >= _MOST_FIELDS:
                raise invalid(f"a form has at most {_MOST_FIELDS} fields", self._field_name)
            return
        number = len(self._form.files)
        if number >= MOST_FILES:
            raise invalid(f"a form has at most {MOST_FILES} files", self._field_name)
        name = bare(clean_text(filename))
        self._file = File(self._field_name, name, self._spool.name(number))
        self._form.files.append(self._file)
        self._waiting.append((number, b""))

    def on_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None:
            self._field_bytes += end - start
            if self._field_bytes > _MOST_FIELD_BYTES:
                message = f"The fields of a form have at most {_MOST_FIELD_BYTES // 1024} KB."
                raise ApiError(413, message, code="body_too_large", param=self._field_name)
            self._field += data[start:end]
            return
        self._file.bytes += end - start
        if self._file.bytes > self._most:
            message = f"{self._file.name!r} is larger than {self._most // 2**20} MB (ingest.max_file_mb): split it."
            raise ApiError(413, message, code="file_too_large", param=self._file.field)
        self._waiting.append((len(self._form.files) - 1, data[start:end]))
        self.gathered += end - start

    def on_part_end(self) -> None:
        if self._file is None:
            self._form.fields[self._field_name] = clean_text(self._field.decode("utf-8", "replace"))


def _filename(disposition: bytes, options: Mapping[bytes, bytes]) -> str | None:
    """The file's name; None for a field. Some clients write names beyond ASCII only as `filename*`."""
    if b"filename" in options:
        return options[b"filename"].decode("utf-8", "replace")
    if b"filename*" not in disposition.lower() or len(disposition) > MAX_CONTENT_TYPE_BYTES:
        return None
    header = Message()
    header["content-disposition"] = disposition.decode("latin-1")
    return header.get_filename()


def bare(name: str) -> str:
    """A file's name without folders; "" if it has nothing else."""
    last = re.split(r"[/\\]", name)[-1].strip()
    return "" if last in (".", "..") else last


def _boundary(scope: Scope, options: UploadOptions) -> bytes:
    if check_announced(
        scope, max_bytes=options.max_bytes, setting=_SETTING
    ):  # unpacking would need the whole form in memory
        message = "Send files without content-encoding: forms are written to disk while they arrive."
        raise ApiError(415, message, code="unsupported_encoding")
    media, boundary = b"", b""
    for name, value in scope["headers"]:
        if name == b"content-type" and len(value) <= MAX_CONTENT_TYPE_BYTES:
            media, boundary = parse_options_header(value)[0], boundary_of(value)
    if media.lower() != b"multipart/form-data" or not boundary:
        message = "Send the files as a form, with content-type: multipart/form-data and its boundary."
        raise ApiError(415, message, code="unsupported_content_type")
    return boundary


def _no_form() -> ApiError:
    return ApiError(400, "The body is not a whole multipart form.", code="invalid_form")


def _refused(error: OSError) -> ApiError:
    if error.errno in _FULL:
        message = "The gateway's disk has no room for the upload: nothing was kept."
        return ApiError(507, message, code="disk_full", type="server_error")
    message = f"The upload cannot be written to the gateway's disk ({error.strerror}): nothing was kept."
    return ApiError(503, message, code="knowledge_unavailable", type="server_error")
