"""Generated queries of one team return what they return on a database that has no other team's rows."""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tables.access import unusable
from proxy.tables.engines import Ask, Engine, NoResult, opened
from proxy.tables.guard import guarded, readable
from proxy.tables.queries import QueryLimits
from proxy.tables.schema import Grant
from tests.proxy.tables.hostile import DIALECTS
from tests.proxy.tables.shop import ALL, CANARY, GRANTS, database, shop
from tests.support.postgres_server import Postgres
from tests.support.rows import all_rows

LIMITS = QueryLimits(max_rows=100_000, max_seconds=20, memory_mb=512, result_bytes=2**24)


@pytest.fixture(scope="module", params=DIALECTS)
def engines(request: pytest.FixtureRequest) -> Iterator[tuple[str, Engine, Engine]]:
    """A dialect, the shop of two teams, and the shop of one."""

    def server() -> Postgres:
        found: Postgres = request.getfixturevalue("postgres")
        return found

    with tempfile.TemporaryDirectory() as both, tempfile.TemporaryDirectory() as own:
        first = opened(shop(request.param, Path(both), server).source, 512)
        second = opened(shop(request.param, Path(own), server, own_only=True).source, 512)
        yield request.param, first, second
        first.close()
        second.close()


@st.composite
def conditions(draw: Callable[..., Any], alias: str, deep: int = 0) -> str:
    """A condition on a table's alias."""
    number = draw(st.sampled_from([0, 3, 4, 5, 987654321, 10**9]))
    simple = [
        f"{alias}.units > {number}",
        f"{alias}.units <> {number}",
        f"{alias}.product LIKE '%hat%'",
        f"{alias}.product IS NOT NULL",
        f"{alias}.id IN (SELECT id FROM sales WHERE units > {number})",
        f"{alias}.id NOT IN (SELECT id FROM sales WHERE units > {number})",
        f"EXISTS (SELECT 1 FROM sales AS x WHERE x.id = {alias}.id AND x.units >= {number})",
        f"NOT EXISTS (SELECT 1 FROM sales AS x WHERE x.units > {alias}.units)",
        f"(SELECT count(*) FROM sales AS x WHERE x.units >= {alias}.units) > 1",
        f"{alias}.units >= (SELECT avg(units) FROM sales)",
        f"{alias}.units * 2 > (SELECT max(x.units) FROM sales AS x WHERE x.product = {alias}.product)",
        # Fail on team b's rows, if a planner asks before it knows whose a row is.
        f"10 / ({alias}.units - 987654321) <= 0",
        f"CAST({alias}.units AS SMALLINT) > 3",
        "1 = 1",
    ]
    one: str = draw(st.sampled_from(simple))
    if deep < 2 and draw(st.booleans()):
        joint = draw(st.sampled_from(["AND", "OR", "AND NOT", "OR NOT"]))
        return f"({one} {joint} ({draw(conditions(alias, deep + 1))}))"
    return one


@st.composite
def sources(draw: Callable[..., Any], alias: str) -> str:
    """Something with the columns id, units and product."""
    inner = draw(conditions("y"))
    kinds = [
        f"sales AS {alias}",
        f"SALES {alias}",
        f"_q7 AS {alias}",
        f"(SELECT * FROM sales) AS {alias}",
        f"(SELECT y.id, y.units, y.product FROM sales AS y WHERE {inner}) AS {alias}",
        f"(SELECT id, units, product FROM sales UNION ALL SELECT id, units, product FROM sales) AS {alias}",
        f"(SELECT id, units, product FROM sales EXCEPT SELECT y.id, y.units, y.product FROM sales AS y WHERE {inner})"
        f" AS {alias}",
        f"(WITH _q8 AS (SELECT * FROM sales) SELECT id, units, product FROM _q8) AS {alias}",
        f"(SELECT max(id) AS id, sum(units) AS units, product FROM sales GROUP BY product) AS {alias}",
    ]
    chosen: str = draw(st.sampled_from(kinds))
    return chosen


@st.composite
def selects(draw: Callable[..., Any]) -> str:
    """A SELECT of two whole numbers."""
    text = draw(sources("a"))
    if draw(st.booleans()):
        joined = draw(sources("b"))
        joins = [
            f" JOIN {joined} ON a.id = b.id",
            f" LEFT JOIN {joined} ON a.units > b.units",
            f" LEFT JOIN {joined} ON a.id = b.id AND b.units > 3",
            f" JOIN {joined} USING (product)",
            f" CROSS JOIN {joined}",
            f", {joined}",
        ]
        text += draw(st.sampled_from(joins))
    where = draw(conditions("a"))
    heads = [
        "a.id, a.units",
        "DISTINCT a.units, 1",
        "a.units + 1, (SELECT count(*) FROM sales AS z WHERE z.id <= a.id)",
        "a.id, rank() OVER (ORDER BY a.units)",
        "count(*), sum(a.units)",
        "max(a.units), count(DISTINCT a.product)",
    ]
    head = draw(st.sampled_from(heads))
    return f"SELECT {head} FROM {text} WHERE {where}"


@st.composite
def queries(draw: Callable[..., Any]) -> str:
    text = draw(selects())
    for _ in range(draw(st.integers(0, 2))):
        text += f" {draw(st.sampled_from(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT']))} {draw(selects())}"
    first = draw(conditions("y"))
    with_ = f"WITH _q7 AS (SELECT y.id, y.units, y.product FROM sales AS y WHERE {first}) "
    if draw(st.booleans()):
        text = f"SELECT * FROM ({text}) AS whole ORDER BY 1, 2 LIMIT 3"
    return f"{with_}{text}"


@given(text=queries())
def test_a_query_sees_the_own_rows_and_all_of_them(engines: tuple[str, Engine, Engine], text: str) -> None:
    dialect, both, own = engines
    safe = guarded(text, database(dialect), GRANTS)
    allowed = readable("sqlite", GRANTS) if dialect == "sqlite" else None
    found = both.query(Ask(safe, LIMITS, allowed))
    expected = own.query(Ask(text, LIMITS))
    if isinstance(expected, NoResult) or isinstance(found, NoResult):
        assert isinstance(expected, NoResult), (found, safe)
        assert isinstance(found, NoResult), (expected, safe)
        return
    assert rows(found.rows) == rows(expected.rows), safe
    assert CANARY not in repr(found.rows)
    assert "98765432" not in repr(found.rows)


def rows(found: list[list[Any]]) -> Counter[str]:
    return Counter(json.dumps(row) for row in found)


def test_without_a_condition_all_rows_are_seen(engines: tuple[str, Engine, Engine]) -> None:
    """Guards the guard above: the other team's rows are there."""
    dialect, both, _ = engines
    found = both.query(Ask(guarded("SELECT id FROM sales", database(dialect), ALL), LIMITS))
    assert not isinstance(found, NoResult)
    assert len(found.rows) == 5


def test_a_query_fails_on_no_row_that_it_does_not_see(engines: tuple[str, Engine, Engine]) -> None:
    """A planner asks what is cheap first, here on rows for which the condition on rights is not decided yet."""
    dialect, both, _ = engines
    dear = {"sales": Grant(("id", "units"), "id IN (SELECT id FROM customers WHERE name LIKE '%n%')")}
    # abs(-2 ** 63) fails in SQLite, which casts anything.
    fails = (
        "abs(units - 987654321 - 9223372036854775807 - 1) > 0" if dialect == "sqlite" else "CAST(units AS SMALLINT) > 0"
    )
    text = guarded(f"SELECT id FROM sales WHERE {fails}", database(dialect), dear)
    found = both.query(Ask(text, LIMITS, readable("sqlite", dear) if dialect == "sqlite" else None))
    assert not isinstance(found, NoResult), (found, text)
    assert found.rows == [[1]]
    assert isinstance(both.query(Ask(f"SELECT id FROM sales WHERE {fails}", LIMITS)), NoResult)


@all_rows(
    ("rule", "usable"),
    [
        ("team = {key.team}", True),
        ("team = {key.team} AND (units > 1 OR note IS NULL)", True),
        ("team IN (SELECT name FROM customers)", True),
        ("team = {key.team} -- own rows", False),
        ("team = {key.team};", False),
        ("team = {key.team}) OR (1 = 1", False),
        ("team = {key.team} LIMIT 1", False),
    ],
)
def test_a_condition_that_is_none_is_told(rule: str, usable: bool) -> None:
    for dialect in DIALECTS:
        assert (unusable(database(dialect), {"sales": rule}) == "") is usable
        assert unusable(database(dialect), {}) == ""
