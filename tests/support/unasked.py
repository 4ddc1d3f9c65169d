"""A test double of `Knowledge`, and receipts that are never kept."""

from pathlib import Path
from typing import Any, NoReturn, cast

from proxy.observe.metrics import Metrics
from proxy.observe.receipts.receipt import Receipts, Versions
from retrieval.knowledge import Library, Search, Writing
from retrieval.rpc.client import OPERATIONS
from runtime.record_store import RecordStore


def no_receipts() -> Receipts:
    """Receipts that are never kept."""
    shelf = RecordStore(Path("nowhere"), keep_s=0, max_bytes=1)
    return Receipts(shelf, Versions("0", "", "best_first", {}), Metrics().receipts)


class Unasked:
    """`Knowledge` without an answer: a subclass defines the operations of its test; any other operation fails."""

    @property
    def search(self) -> Search:
        return cast(Search, self)

    @property
    def library(self) -> Library:
        return cast(Library, self)

    @property
    def writing(self) -> Writing:
        return cast(Writing, self)

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(name)
        return self._fail

    def _fail(self, *_args: object, **_named: object) -> NoReturn:
        raise AssertionError("the test expects no call of this operation")

    async def close(self) -> None:
        pass
