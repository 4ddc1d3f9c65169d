"""Hostile files, read in the real sandbox: each costs its own document and nothing else."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from benchmarks.documents.hostile_files import hostile_files
from retrieval.errors import Unreadable
from retrieval.ingest.load import parse
from retrieval.records.documents import Document
from runtime.sandbox import Sandbox, SandboxJob

Reading = Sandbox[tuple[str, bytes], Document]
_CANARY = "canary-4711"


def _worker() -> Callable[[tuple[str, bytes]], Document]:
    return lambda item: parse(item[1], Path(item[0]), item[0], 0.0)


@pytest.fixture
async def reading() -> AsyncIterator[Reading]:
    job = SandboxJob(_worker, Unreadable, "too slow", "died", seconds=20, memory_mb=1024, confined=True)
    sandbox = Reading(job, processes=2, idle=2)
    yield sandbox
    await sandbox.close()


SOME = (
    *(
        "entity-file.docx",
        "entity-net.epub",
        "entity-outside.odt",
        "laughs.xlsx",
        "laughs.pptx",
        "bomb.docx",
        "padded.odt",
    ),
    *("deep.odp", "climbs.docx", "symlink.odt", "macro.xlsx", "links.epub", "crowd.pptx", "template.docx", "wide.docx"),
    *(
        "repeated.ods",
        "far.xlsx",
        "braces.rtf",
        "field.rtf",
        "input.tex",
        "include.org",
        "include.adoc",
        "header.doc",
        "deep.jsonl",
        "number.json",
        "header.msg",
    ),
    *("entity-file.xml", "entity-outside.xml", "laughs.xml", "deep.xml", "include.xml", "laughs.yaml", "object.yaml"),
    *("bomb.pdf", "page.pdf", "loop.pdf", "deep.html", "frames.html", "anchors.md", "pickle.md", "noise.xls"),
)


async def test_a_hostile_file_costs_its_own_document_only(reading: Reading, tmp_path: Path) -> None:
    """benchmarks/documents/hostile.py reads all of them, through a gateway and a command."""
    secret = tmp_path / "secret.txt"
    secret.write_text(_CANARY, "utf-8")
    left = set(SOME)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for name, data in hostile_files(secret, address, megabytes=8):
            if name not in left:
                continue
            left.remove(name)
            try:
                read = await reading.run((name, data))
            except Unreadable:
                continue
            assert _CANARY not in read.text, name
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not left
    assert os.listdir(tmp_path) == [secret.name]  # noqa: PTH208
    assert (await reading.run(("good.md", b"# Good\n\nText."))).title == "Good"
