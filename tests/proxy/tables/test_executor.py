"""The third wall alone: whatever passes the other two ends within the limits, and concerns no other query."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec
import pytest

from proxy.tables.executor import Executor, QueryFailed, QueryLimits
from proxy.tables.schema import DatabaseSource
from tests.proxy.tables.shop import GRANTS, LIMITS, shop
from tests.support.postgres_server import Postgres

ENDLESS = "WITH RECURSIVE _q1 AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM _q1) SELECT count(*) FROM _q1"
# One call of one function, in which SQLite looks at no clock.
ONE_CALL = "SELECT instr(printf('%.*c', 16000000, 'a'), printf('%.*c', 8000000, 'a') || 'b')"


@pytest.fixture
async def executor() -> AsyncIterator[Executor]:
    made = Executor()
    yield made
    await made.close()


@pytest.fixture
def source(tmp_path: Path) -> DatabaseSource:
    return shop("sqlite", tmp_path, Postgres).source  # type: ignore[arg-type]


def used(child: BaseProcess) -> int:
    """Ticks of processor time."""
    return int(Path(f"/proc/{child.pid}/stat").read_bytes().split()[13])


async def failed(executor: Executor, source: DatabaseSource, sql: str, limits: QueryLimits = LIMITS) -> QueryFailed:
    with pytest.raises(QueryFailed) as error:
        await executor.query(source, sql, limits)
    return error.value


async def test_a_process_answers_one_query_after_another(
    executor: Executor, source: DatabaseSource, children: Callable[[], list[BaseProcess]]
) -> None:
    found = await executor.query(source, "SELECT id, note FROM sales ORDER BY id LIMIT 2", LIMITS, grants=GRANTS)
    assert (found.columns, found.rows, found.cut) == (("id", "note"), [[1, "gift"], [2, None]], False)
    (child,) = children()
    await executor.query(source, "SELECT 1", LIMITS)
    assert children() == [child]


async def test_rows_and_bytes_are_cut(executor: Executor, source: DatabaseSource) -> None:
    numbers = "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    found = await executor.query(source, numbers, LIMITS)
    assert (len(found.rows), found.cut) == (LIMITS.max_rows, True)
    few = msgspec.structs.replace(LIMITS, result_bytes=100)
    found = await executor.query(source, numbers, few)
    assert found.cut
    assert sum(len(str(row)) for row in found.rows) <= 100


async def test_a_query_ends_at_the_time_limit_and_the_process_stays(
    executor: Executor, source: DatabaseSource, children: Callable[[], list[BaseProcess]]
) -> None:
    await executor.query(source, "SELECT 1", LIMITS)
    (child,) = children()
    started = time.monotonic()
    assert (await failed(executor, source, ENDLESS)).kind == "timeout"
    assert time.monotonic() - started < LIMITS.max_seconds + 3
    assert children() == [child]


async def test_what_no_clock_of_the_engine_sees_is_killed(
    executor: Executor, source: DatabaseSource, children: Callable[[], list[BaseProcess]]
) -> None:
    await executor.query(source, "SELECT 1", LIMITS)
    (child,) = children()
    started = time.monotonic()
    assert (await failed(executor, source, ONE_CALL)).kind == "timeout"
    assert time.monotonic() - started < LIMITS.max_seconds + 4
    assert child not in children()
    assert (await executor.query(source, "SELECT 1", LIMITS)).rows == [[1]]


async def test_memory_is_limited(executor: Executor, source: DatabaseSource, tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, memory_mb=48, max_seconds=20)
    bomb = (
        "WITH RECURSIVE n AS (SELECT 1 AS x, hex(x'00') AS y UNION ALL SELECT x + 1, y FROM n WHERE x < 1000000) "
        "SELECT x FROM n ORDER BY y || replace(printf('%200d', x), ' ', 'a')"
    ).replace("hex(x'00')", "'00'")
    assert (await failed(executor, source, bomb, limits)).kind == "memory"
    (tmp_path / "t.csv").write_text("a\n1\n")
    files = DatabaseSource("files", files=(str(tmp_path / "t.csv"),))
    big = "SELECT max(length(x)) FROM (SELECT string_agg(repeat('x', 1000), '') AS x FROM range(1000000))"
    assert (await failed(executor, files, "SELECT unnest(range(1000000000))", limits)).kind == "memory"
    assert (await failed(executor, files, big, limits)).kind == "memory"
    assert (await executor.query(files, "SELECT a FROM t", limits)).rows == [[1]]


async def test_a_caller_that_leaves_ends_its_query_at_once(
    executor: Executor, source: DatabaseSource, children: Callable[[], list[BaseProcess]]
) -> None:
    long = msgspec.structs.replace(LIMITS, max_seconds=600)
    await executor.query(source, "SELECT 1", long)
    (child,) = children()
    assert child.pid
    asked = asyncio.create_task(executor.query(source, ENDLESS, long))
    before = used(child)
    while used(child) < before + 5:  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    child.join(5)
    assert child.exitcode == -signal.SIGKILL
    assert (await executor.query(source, "SELECT 1", long)).rows == [[1]]


async def test_a_server_ends_the_query_of_a_caller_that_left(
    executor: Executor, postgres: Postgres, tmp_path: Path
) -> None:
    made = shop("postgres", tmp_path, lambda: postgres)
    long = msgspec.structs.replace(LIMITS, max_seconds=600, max_cost=0)
    running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ragway tables' AND query LIKE '%FETCH%'"
    asked = asyncio.create_task(executor.query(made.source, ENDLESS, long))
    while not await asyncio.to_thread(postgres.value, f"{running} AND state = 'active'"):
        assert not asked.done()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    until = time.monotonic() + 10
    while await asyncio.to_thread(postgres.value, running):
        assert time.monotonic() < until


async def test_a_process_that_dies_costs_its_own_query(
    executor: Executor, source: DatabaseSource, children: Callable[[], list[BaseProcess]]
) -> None:
    """And not even that, if it died between two queries, or the same query is answered by the next process."""
    await executor.query(source, "SELECT 1", LIMITS)
    (child,) = children()
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert (await executor.query(source, "SELECT 2", LIMITS)).rows == [[2]]


async def test_a_server_that_ends_connections_is_asked_again(
    executor: Executor, postgres: Postgres, tmp_path: Path
) -> None:
    made = shop("postgres", tmp_path, lambda: postgres)
    await executor.query(made.source, "SELECT 1", LIMITS)
    postgres.value("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragway tables'")
    assert (await executor.query(made.source, "SELECT 2", LIMITS)).rows == [[2]]


async def test_a_database_that_is_not_there_fails_until_it_is(executor: Executor, tmp_path: Path) -> None:
    file = tmp_path / "later.sqlite"
    later = DatabaseSource("sqlite", f"sqlite:///{file}")
    assert "cannot be opened" in str(await failed(executor, later, "SELECT 1"))
    sqlite3.connect(file).close()
    assert (await executor.query(later, "SELECT 1", LIMITS)).rows == [[1]]
    nobody = DatabaseSource("sql", "postgresql://anna:s3cret@127.0.0.1:9/x")
    said = str(await failed(executor, nobody, "SELECT 1"))
    assert "cannot be opened" in said
    assert "s3cret" not in said


async def test_a_database_that_is_gone_costs_each_of_many_queries_an_error(executor: Executor, tmp_path: Path) -> None:
    source = DatabaseSource("sqlite", f"sqlite:///{tmp_path}/none.sqlite")
    found = await asyncio.gather(
        *(executor.query(source, "SELECT 1", LIMITS) for _ in range(10)), return_exceptions=True
    )
    assert {type(one) for one in found} == {QueryFailed}
    sqlite3.connect(tmp_path / "none.sqlite").close()
    (tmp_path / "none.sqlite").touch()
    assert (await executor.query(source, "SELECT 1", LIMITS)).rows == [[1]]


async def test_slow_queries_of_one_key_leave_processes_to_others(executor: Executor, source: DatabaseSource) -> None:
    slow = [asyncio.create_task(executor.query(source, ENDLESS, LIMITS, owner="a")) for _ in range(6)]
    await asyncio.sleep(0.1)
    assert (await executor.query(source, "SELECT 1", LIMITS, owner="b")).rows == [[1]]
    assert not any(one.done() for one in slow[2:])
    for one in slow:
        one.cancel()


async def test_files_that_change_are_read_again(executor: Executor, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    source = DatabaseSource("files", files=(str(file),))
    for text, expected in (("a\n1\n", [[1]]), ("a\n1\n2\n", [[1], [2]])):
        file.write_text(text)
        assert (await executor.query(source, "SELECT a FROM t ORDER BY 1", LIMITS)).rows == expected


async def test_what_sqlite_writes_is_seen(executor: Executor, source: DatabaseSource) -> None:
    count = "SELECT count(*) FROM customers"
    assert (await executor.query(source, count, LIMITS)).rows == [[2]]
    with sqlite3.connect(source.url.removeprefix("sqlite:///")) as sql:
        sql.execute("INSERT INTO customers VALUES (3, 'Cora', 'x')")
    sql.close()
    assert (await executor.query(source, count, LIMITS)).rows == [[3]]


async def test_only_some_databases_stay_open(tmp_path: Path, children: Callable[[], list[BaseProcess]]) -> None:
    executor = Executor(kept=2)
    for name in "abcd":
        sqlite3.connect(tmp_path / name).close()
        await executor.query(DatabaseSource("sqlite", f"sqlite:///{tmp_path / name}"), "SELECT 1", LIMITS)
    alive = [child for child in children() if child.exitcode is None]
    for child in alive[:-2]:
        child.join(5)
    assert len([child for child in alive if child.exitcode is None]) == 2
    await executor.close()
