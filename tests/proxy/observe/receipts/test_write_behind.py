"""Receipts off a request's way: written in batches, kept for a time and within a room, none lost by a refusal."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from proxy.augment.gate import Chat, Decision
from proxy.caller import EVERYTHING
from proxy.dialects.chat import CHAT
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.observe.metrics import Metrics
from proxy.observe.receipts.receipt import Receipt, Receipts, Versions, receipt_of
from retrieval.records.search import Turn
from runtime import write_behind
from runtime.record_store import RecordStore
from tests.proxy.observe.test_metrics import value

NOON_S = 1_795_348_830.0
VERSIONS = Versions("1", "template", "best_first", {"retrieval.k": 12})


class Clock:
    def __init__(self) -> None:
        self.past_s = 0.0

    def now_s(self) -> float:
        return NOON_S + self.past_s


class Written:
    """Counts of receipts, and an event for each change."""

    def __init__(self) -> None:
        self.written = 0
        self.told = asyncio.Event()

    def receipts(self, *, written: int = 0, lost: int = 0) -> None:
        assert not lost
        self.written += written
        self.told.set()


def made(question: str = "What?", model: str = "echo") -> Receipt:
    decision = Decision("echo", "augmented", "", (Turn("user", question),), ("docs",), False, None)
    exchange = Exchange(rights=EVERYTHING, model=model, rag_status="empty", rag_reason="nothing relevant found")
    request, exchange.target = CHAT.parse(b'{"model": "echo", "messages": []}'), Target("", "echo", "", "")
    return receipt_of(Chat(exchange, request, exchange.target, decision, 100))


@pytest.fixture
def shelved(catalog_url: str, tmp_path: Path) -> Iterator[Callable[..., RecordStore]]:
    """Makes shelves in one place."""
    opened: list[RecordStore] = []

    def make(
        *,
        keep_s: float = 3600.0,
        max_bytes: int = 1 << 20,
        now_s: Callable[[], float] = time.time,
        kind: str = "receipts",
    ) -> RecordStore:
        opened.append(RecordStore(tmp_path, catalog_url, keep_s=keep_s, max_bytes=max_bytes, now_s=now_s, kind=kind))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def row(number: int, at_s: float = NOON_S, size: int = 10) -> tuple[str, float, bytes]:
    noise = orjson.dumps([hash((number, i)) for i in range(size)])
    return f"rag-{number}", at_s, noise


def test_what_is_put_is_read_by_others_until_it_is_too_old(shelved: Callable[..., RecordStore]) -> None:
    clock = Clock()
    shelf, other = shelved(now_s=clock.now_s), shelved(now_s=clock.now_s)
    shelf.put([row(1), row(2, NOON_S + 1000)])
    assert [other.read(f"rag-{i}") for i in range(4)] == [None, row(1)[2], row(2)[2], None]
    clock.past_s = 3600
    assert [other.read(f"rag-{i}") for i in (1, 2)] == [None, row(2)[2]]
    shelf.prune()
    everlasting = shelved(keep_s=1e9)
    assert [everlasting.read(f"rag-{i}") for i in (1, 2)] == [None, row(2)[2]], "what is too old is deleted"


def test_the_oldest_go_where_there_is_no_room(shelved: Callable[..., RecordStore]) -> None:
    shelf = shelved(max_bytes=100_000, now_s=Clock().now_s)
    shelf.put([row(i, NOON_S - 100 + i, size=500) for i in range(40)])
    left = [i for i in range(40) if shelf.read(f"rag-{i}") is not None]
    assert 0 < len(left) < 40
    assert left == list(range(left[0], 40))


def test_marks_of_the_future_leave_room_for_other_records(shelved: Callable[..., RecordStore]) -> None:
    shelf = shelved(max_bytes=100_000, now_s=Clock().now_s)
    marks = [(f"mark-{i}", NOON_S + 3600 - 1000 + i, b"[]") for i in range(1000)]
    shelf.put([*marks, *(row(i, NOON_S - 100 + i, size=500) for i in range(5))])
    assert [i for i in range(5) if shelf.read(f"rag-{i}") is None] == []
    left = [i for i in range(1000) if shelf.read(f"mark-{i}") is not None]
    assert 30 < len(left) < 50
    assert left == list(range(left[0], 1000)), "the oldest go first"


def test_comparisons_have_a_shelf_of_their_own_and_can_be_changed(shelved: Callable[..., RecordStore]) -> None:
    shelf, receipts = (shelved(now_s=Clock().now_s, kind=kind) for kind in ("comparisons", "receipts"))
    assert list(shelf.every()) == []
    shelf.put([row(2, NOON_S - 1), row(1), row(3, NOON_S - 4000)])
    assert list(shelf.every()) == [row(2)[2], row(1)[2]], "oldest first, and none that is too old"
    assert list(shelf.every(NOON_S - 0.5)) == [row(1)[2]]
    shelf.change("rag-1", lambda content: content + b" ")
    shelf.change("rag-9", lambda content: content + b" ")
    assert (shelf.read("rag-1"), shelf.read("rag-2"), shelf.read("rag-9")) == (row(1)[2] + b" ", row(2)[2], None)
    assert receipts.read("rag-1") is None


def test_the_same_again_changes_nothing(shelved: Callable[..., RecordStore]) -> None:
    shelf = shelved(now_s=Clock().now_s)
    for _ in range(2):
        shelf.put([row(1), row(2)])
    assert shelf.read("rag-1") == row(1)[2]


async def test_a_receipt_can_be_read_before_and_after_it_is_written(tmp_path: Path) -> None:
    shelf, metrics = RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 20), Metrics()
    receipts, one = Receipts(shelf, VERSIONS, metrics.receipts), made("How?")
    receipts.add(one)
    before = await receipts.find(one.id)
    assert before is not None
    assert (before["question"], before["status"], before["injected"]) == ("How?", "empty", "")
    assert shelf.read(one.id) is None, "nothing is written on a request's way"
    receipts.stop()
    await receipts.run()
    assert await receipts.find(one.id) == before
    assert value(metrics, "receipts_total", outcome="written") == 1
    assert await receipts.find("rag-none") is None


async def test_where_nothing_can_be_written_they_wait_and_too_many_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.write_text("no folder")
    metrics = Metrics()
    receipts = Receipts(RecordStore(folder / "deeper", keep_s=3600, max_bytes=1 << 20), VERSIONS, metrics.receipts)
    many = [made(f"CNRY {i}") for i in range(1005)]
    for one in many:
        receipts.add(one)
    assert value(metrics, "receipts_total", outcome="lost") == 5
    receipts.stop()
    await receipts.run()
    assert "receipts are not written" in caplog.text
    assert "CNRY" not in caplog.text
    assert (await receipts.find(many[0].id) or {})["question"] == "CNRY 0"


async def test_what_could_not_be_written_is_tried_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_behind, "_AGAIN_S", 0.01)
    blocked = tmp_path / "data"
    blocked.write_text("no folder")
    shelf, counts = RecordStore(blocked, keep_s=3600, max_bytes=1 << 20), Written()
    receipts = Receipts(shelf, VERSIONS, counts.receipts)
    receipts.add(one := made())
    keeping = asyncio.create_task(receipts.run())
    await counts.told.wait()
    assert counts.written == 0
    blocked.unlink()
    while not counts.written:
        counts.told.clear()
        await counts.told.wait()
    assert shelf.read(one.id) is not None
    receipts.stop()
    await keeping


async def test_a_model_that_is_no_text_spoils_no_receipt(tmp_path: Path) -> None:
    """Half a surrogate pair, as JSON allows it."""
    shelf, metrics = RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 20), Metrics()
    receipts = Receipts(shelf, VERSIONS, metrics.receipts)
    receipts.add(odd := made(model="echo \ud800" + "o" * 1000))
    receipts.add(other := made())
    receipts.stop()
    await receipts.run()
    assert value(metrics, "receipts_total", outcome="written") == 2
    assert shelf.read(other.id) is not None
    kept = orjson.loads(shelf.read(odd.id) or b"{}")
    assert kept["model"].startswith("echo ?")
    assert len(kept["model"]) == 100


async def test_leaving_writes_what_waits_at_once(tmp_path: Path) -> None:
    receipts = Receipts(RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 20), VERSIONS, Metrics().receipts)
    keeping = asyncio.create_task(receipts.run())
    await asyncio.sleep(0)
    receipts.add(one := made())
    receipts.stop()
    await keeping
    shelf = RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 20)
    assert orjson.loads(shelf.read(one.id) or b"{}")["id"] == one.id
    shelf.close()
