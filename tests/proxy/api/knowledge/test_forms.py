"""The name of a file in a form, however a client writes the name."""

import asyncio
from pathlib import Path

import pytest

from proxy.api.knowledge.forms import Form, UploadOptions, received
from tests.support.asgi_calls import Call, scope_of

MEDIA = (b"content-type", b"multipart/form-data; boundary=b")


async def form_of(disposition: bytes, folder: Path) -> Form:
    part = b"--b\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\nText.\r\n--b--\r\n"
    options = UploadOptions(folder, max_file_bytes=1000, max_bytes=100_000)
    async with received(scope_of(headers=[MEDIA]), Call([part]).receive, options) as form:
        return form


@pytest.mark.parametrize(("disposition", "name"), [
    (b"name=\"file\"; filename*=UTF-8''%C3%9Cbung.md", "Übung.md"),
    (b"name=\"file\"; FileName*=utf-8'de'%C3%9Cbung.md", "Übung.md"),
    (b"name=\"file\"; filename*=\"UTF-8''%C3%9Cbung.md\"", "Übung.md"),
    (b"filename*=iso-8859-1''%DCbung.md; name=file", "Übung.md"),
    (b"name=file; filename*0*=UTF-8''%C3%9C; filename*1=bung.md", "Übung.md"),
    (b"name=file; filename=\"U.md\"; filename*=UTF-8''%C3%9Cbung.md", "U.md"),
    (b"name=file; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
    (b"name=file; filename*=nothing''a.md", "a.md"),
    (b"name=file; filename*=''a.md", "a.md"),
])  # fmt: skip
async def test_a_file_has_the_name_that_the_client_writes(disposition: bytes, name: str, tmp_path: Path) -> None:
    form = await form_of(disposition, tmp_path)
    assert [(file.field, file.name) for file in form.files] == [("file", name)]


@pytest.mark.parametrize(
    "disposition", [b'name="file"', b'name="a; filename*x"', b"name=file; filename*=" + b"x" * 2000]
)
async def test_a_part_without_a_name_of_a_file_is_a_field(disposition: bytes, tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        assert list((await form_of(disposition, tmp_path)).fields.values()) == ["Text."]
