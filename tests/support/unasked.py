"""A knowledge that nobody may ask: tests give it the few answers that they need. And receipts that keep nothing."""

from collections.abc import Sequence
from pathlib import Path

from proxy.observe.metrics import Metrics
from proxy.observe.receipts.keeper import Receipts
from proxy.observe.receipts.receipt import Versions
from proxy.observe.receipts.shelf import Shelf
from retrieval.knowledge import EmbedderChoice, Knowledge, Lookup, Progress
from retrieval.records.documents import CollectionInfo, DocumentInfo, DocumentLocation, FullDocument, Groups, Passage
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import IngestReport
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.search import PUBLIC, Retrieved, Turn, View


def no_receipts() -> Receipts:
    """Keeps none."""
    shelf = Shelf(Path("nowhere"), keep_s=0, max_bytes=1)
    return Receipts(shelf, Versions("0", "", "best_first", {}), Metrics())


class Unasked(Knowledge):
    """Every call is a fault of the test."""

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        lookup: Lookup | None = None,
        traced: bool = False,
    ) -> Retrieved:
        raise AssertionError

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        raise AssertionError

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        raise AssertionError

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        raise AssertionError

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        raise AssertionError

    async def points(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        raise AssertionError

    async def standing(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        raise AssertionError

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        raise AssertionError

    async def create_collection(self, name: str, language: str | None) -> None:
        raise AssertionError

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        raise AssertionError

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        raise AssertionError

    async def job(self, id: str, groups: Groups = ()) -> Job:
        raise AssertionError

    async def finished_job(self, id: str) -> Job:
        raise AssertionError

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        raise AssertionError

    async def cancel_job(self, id: str) -> Job:
        raise AssertionError

    async def attached(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        raise AssertionError

    async def detach(self, collection: str, key: str, groups: Groups = ()) -> bool:
        raise AssertionError

    async def holders(self, key: str) -> list[str]:
        raise AssertionError

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        raise AssertionError

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        raise AssertionError

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        raise AssertionError

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        raise AssertionError

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        raise AssertionError

    async def delete_file(self, id: str, owner: str) -> None:
        raise AssertionError

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        raise AssertionError

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        raise AssertionError

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        raise AssertionError

    async def check(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError
