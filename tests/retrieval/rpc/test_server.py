"""The index process's end of the wire: every call has an answer, and what the disk refuses costs no index."""

import asyncio
import errno
import resource
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrieval.errors import DataInUse, DiskFull, IndexDown, RetrievalError
from retrieval.index.data_folder import open_shard, passing
from retrieval.knowledge import EmbedderChoice, Progress, SearchRequest
from retrieval.records.documents import CollectionInfo, Groups
from retrieval.records.ingest import IngestReport
from retrieval.records.search import Retrieved, Turn
from retrieval.rpc.client import IndexClient
from retrieval.rpc.server import IndexServer
from tests.support.plans import silent
from tests.support.unasked import Unasked


class Failing(Unasked):
    """Fails as nothing of ours means to, once for each call; a rebuild never ends, and tells when it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.asked: Sequence[Path] = ()

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        raise KeyError("text")

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        self.asked = paths
        raise OSError(28, "No space left on device")

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return 0

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        return []

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_a_fault_is_answered_with_its_reason_and_the_connection_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with IndexServer(Failing()).listening(tmp_path):
        client = IndexClient(tmp_path)
        for call in (
            client.search.retrieve(SearchRequest([Turn("user", "?")], ["docs"], k=None)),
            client.writing.ingest([tmp_path], "docs", silent),
        ):
            with pytest.raises(RetrievalError, match=r"the index failed \(.*(KeyError|No space left)") as caught:
                await call
            assert not isinstance(caught.value, IndexDown)
            assert await client.library.collections() == []
        await client.close()
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


async def test_calls_under_way_end_with_the_server(tmp_path: Path) -> None:
    failing = Failing()
    client = IndexClient(tmp_path)
    async with IndexServer(failing).listening(tmp_path):
        call = asyncio.ensure_future(client.writing.rebuild("docs", silent))
        await failing.begun.wait()
    assert failing.ended.is_set()
    with pytest.raises(IndexDown):
        await call
    await client.close()


async def test_a_path_of_any_bytes_arrives_as_it_is(tmp_path: Path) -> None:
    failing = Failing()
    paths = [tmp_path / "größe.md", tmp_path / "caf\udce9.md"]
    async with IndexServer(failing).listening(tmp_path):
        client = IndexClient(tmp_path)
        with pytest.raises(RetrievalError):
            await client.writing.ingest(paths, "docs", silent)
        await client.close()
    assert failing.asked == paths


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_shard_that_cannot_be_read_is_put_aside(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-16"
    folder.mkdir()
    (folder / "edge_config.json").write_text("nonsense", "utf-8")
    store = open_shard(folder, {"dense": 16})
    assert await store.count("docs@1") == 0
    await store.close()
    assert (tmp_path / "tiny-16.broken" / "edge_config.json").read_text("utf-8") == "nonsense"


async def test_a_refusal_of_the_system_puts_no_shard_aside(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-16"
    await open_shard(folder, {"dense": 16}).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # no further file may be opened
    try:
        with pytest.raises(RetrievalError, match="os error 24"):
            open_shard(folder, {"dense": 16})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert names_in(tmp_path) == ["tiny-16"]
    await open_shard(folder, {"dense": 16}).close()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (RetrievalError("cannot open index: No space left on device (os error 28)"), True),
        (RetrievalError("cannot open index: Permission denied (os error 13)"), False),
        (RetrievalError("cannot load the embedder"), False),
        (DiskFull("the disk has 3 MB free"), True),
        (DataInUse("the data folder is in use"), False),
    ],
)
def test_what_may_pass_by_itself_is_told_from_what_somebody_must_change(error: Exception, expected: bool) -> None:
    assert passing(error) is expected


def test_a_catalog_that_another_process_has_locked_may_be_free_in_a_moment(tmp_path: Path) -> None:
    for name, expected in (("SQLITE_BUSY", True), ("SQLITE_IOERR_WRITE", True), ("SQLITE_READONLY", False)):
        refused = sqlite3.OperationalError("refused")
        refused.sqlite_errorname = name
        error = RetrievalError("the catalog cannot be read or written")
        error.__cause__ = refused
        assert passing(error) is expected, name


async def test_a_ping_is_answered_whatever_is_wrong_and_a_check_tells(tmp_path: Path) -> None:
    class Unwell(Failing):
        async def check(self) -> None:
            raise IndexDown("Qdrant is away")

    async with IndexServer(Unwell()).listening(tmp_path):
        client = IndexClient(tmp_path)
        await client.ping()
        with pytest.raises(IndexDown, match="Qdrant is away"):
            await client.search.check()
        await client.close()
