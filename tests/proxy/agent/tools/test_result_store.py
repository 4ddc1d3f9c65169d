"""The store: whole results for later questions, by any process, of the same key only."""

import tracemalloc
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from proxy.agent.toolbox import Done
from proxy.agent.tools.read_result import ReadResult
from proxy.agent.tools.result_store import ResultStore, StoredResults
from proxy.apis.schema_check import problems
from proxy.dialects.replies import json_of
from proxy.observe.metrics import Metrics
from runtime.record_store import RecordStore
from tests.proxy.observe.test_metrics import value
from tests.support.action_offers import calling

TEXT = "x" * 300 + "\ud800 é"


def stored(folder: Path, max_bytes: int = 1 << 20) -> StoredResults:
    store = RecordStore(folder, keep_s=3600, max_bytes=max_bytes, kind="action_results")
    return StoredResults(store, Metrics().histories)


async def read(store: ResultStore, id: str) -> str:
    return (await ReadResult(store).call({"id": id}, calling())).text


async def test_another_process_reads_a_result_of_the_same_key(tmp_path: Path) -> None:
    one = stored(tmp_path)
    id = ResultStore(one, "key").put(TEXT)
    assert await read(ResultStore(one, "key"), id) == "x" * 300 + "? é", "before the write"
    one.stop()
    await one.run()
    other = stored(tmp_path)
    assert (await read(ResultStore(other, "key"), id)).startswith("xxx")
    for key, wrong in (("another", id), ("", id), ("key", id[:-1] + "g"), ("key", "")):
        answer = await ReadResult(ResultStore(other, key)).call({"id": wrong}, calling())
        assert isinstance(answer, Done)
        assert answer.text == "No result has this id, or the result is no longer kept. Call the operation again."
        assert not answer.known
    other.stop()
    await other.run()


async def test_the_oldest_results_go_first(tmp_path: Path) -> None:
    one = stored(tmp_path, max_bytes=2000)
    store = ResultStore(one, "key")
    ids = [store.put("x" * 900) for _ in range(4)]
    one.stop()
    await one.run()
    other = stored(tmp_path, max_bytes=2000)
    assert "No result" in await read(ResultStore(other, "key"), ids[0])
    other.stop()
    await other.run()


async def test_results_wait_for_the_write_within_a_limit_of_bytes(tmp_path: Path) -> None:
    metrics = Metrics()
    one = StoredResults(RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 30, kind="action_results"), metrics.histories)
    large = b"x" * (20 << 20)
    for number in range(5):
        one.keep("key", str(number), large)
    one.keep("key", "small", b"x")
    found = [await one.find("key", name) is not None for name in ("0", "1", "2", "3", "4", "small")]
    assert found == [True, True, True, False, False, True]
    assert value(metrics, "histories_total", outcome="lost") == 2
    one.keep("key", "0", large)
    assert value(metrics, "histories_total", outcome="lost") == 2, "in place of the same result"
    one.stop()
    await one.run()
    one.keep("key", "5", large)
    assert value(metrics, "histories_total", outcome="lost") == 2, "room again after the write"


async def test_a_chat_holds_no_copy_of_a_stored_result(tmp_path: Path) -> None:
    one = stored(tmp_path, max_bytes=1 << 30)
    store = ResultStore(one, "key")
    tracemalloc.start()
    try:
        for _ in range(30):
            store.put("😀" + "x" * (1 << 20))  # 4 MB as a text
        waiting_bytes, _ = tracemalloc.get_traced_memory()
        one.stop()
        await one.run()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert waiting_bytes < 40 << 20
    assert held_bytes < 10 << 20


async def test_a_result_without_room_for_the_write_is_read_by_the_chat_alone(tmp_path: Path) -> None:
    one = stored(tmp_path)
    one.keep("key", "huge", b"x" * (65 << 20))
    store = ResultStore(one, "key")
    id = store.put("whole")
    assert await read(store, id) == "whole"
    assert "No result" in await read(ResultStore(one, "key"), id)


async def test_a_result_beyond_the_limit_waits_alone(tmp_path: Path) -> None:
    one = stored(tmp_path)
    one.keep("key", "huge", b"x" * (65 << 20))
    one.keep("key", "next", b"x")
    assert await one.find("key", "huge") is not None
    assert await one.find("key", "next") is None


async def test_a_whole_number_with_a_point_is_a_start() -> None:
    store = ResultStore()
    id = store.put("abc")
    asked = json_of(b'{"id": "%b", "start": 1.0}' % id.encode())
    assert isinstance(asked, dict)
    assert problems(ReadResult.schema, asked) == []
    assert (await ReadResult(store).call(asked, calling(max_chars=100))).text == "bc"


@given(st.lists(st.text(), min_size=2, max_size=20))
def test_no_two_results_have_the_same_id(texts: list[str]) -> None:
    store = ResultStore()
    assert len({store.put(text) for text in texts}) == len(texts)


async def test_without_a_store_a_chat_reads_the_results_of_the_chat_alone() -> None:
    store = ResultStore()
    id = store.put("whole")
    assert await read(store, id) == "whole"
    assert "No result" in await read(ResultStore(), id)
