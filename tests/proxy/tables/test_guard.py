"""The first wall alone: what is written instead of a model's SQL, and what is refused. No database runs here."""

import contextlib
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from proxy.tables.guard import NotAllowed, guarded, readable
from proxy.tables.schema import Column, DatabaseSchema, Grant, TableSchema
from tests.proxy.tables.hostile import DIALECTS, Hostile, hostile
from tests.proxy.tables.shop import CANARY, GRANTS, database
from tests.support.rows import all_rows

HARMLESS = [  # may be written: reaches only own rows, or is a bomb that takes only time
    "other rows", "error", "bomb",
]  # fmt: skip


def written(sql: str, dialect: str = "sqlite") -> str:
    return guarded(sql, database(dialect), GRANTS)


def refused(sql: str, dialect: str = "sqlite") -> str:
    with pytest.raises(NotAllowed) as error:
        written(sql, dialect)
    return str(error.value)


@all_rows(
    ("dialect", "fence"),
    [("sqlite", " LIMIT -1"), ("duckdb", " LIMIT 9223372036854775807"), ("postgres", " OFFSET 0")],
)
def test_each_table_becomes_its_granted_columns_and_rows(dialect: str, fence: str) -> None:
    text = written("SELECT * FROM Sales WHERE units > 3", dialect)
    assert (
        f"""FROM "sales" AS "_q1" WHERE ("_q1".{"team" if dialect == "sqlite" else '"team"'} = 'a'){fence}) AS"""
        in text
    )
    assert text.startswith(
        'SELECT * FROM (SELECT "_q1"."id", "_q1"."product", "_q1"."units", "_q1"."sold", "_q1"."note" '
    )


@all_rows("dialect", DIALECTS)
def test_the_queries_that_people_ask_are_written(dialect: str) -> None:
    for text in (
        "SELECT product, SUM(units) AS n FROM sales GROUP BY product HAVING SUM(units) > 1 ORDER BY n DESC LIMIT 3",
        "WITH best AS (SELECT product, max(units) m FROM sales GROUP BY 1) "
        "SELECT s.id FROM sales s JOIN best USING (product)",
        "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM sales WHERE sales.id = c.id)",
        "SELECT id FROM sales UNION SELECT id FROM customers EXCEPT SELECT 3 ORDER BY 1",
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY product ORDER BY sold) FROM sales",
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT x FROM n",
        "SELECT CASE WHEN units > 3 THEN 'many' ELSE 'few' END, CAST(units AS TEXT) || '!' FROM sales",
        "SELECT COALESCE(note, 'none'), LOWER(product), ROUND(AVG(units), 2) FROM sales GROUP BY 1, 2",
        "SELECT COUNT(*) FILTER (WHERE units > 3), COUNT(DISTINCT product) FROM sales",
        "SELECT count FROM (SELECT COUNT(*) AS count FROM sales) AS x",
        "SELECT * FROM (sales AS s JOIN customers AS c ON s.id = c.id) LEFT JOIN sales AS t ON t.id = c.id",
        "SELECT main.sales.units FROM main.sales" if dialect != "postgres" else "SELECT sales.units FROM public.sales",
    ):
        assert written(text, dialect)


def test_with_hides_no_table_and_shows_no_other() -> None:
    text = written(
        "WITH sales AS (SELECT id FROM sales), secrets AS (SELECT 1 AS code) SELECT * FROM sales, secrets", "duckdb"
    )
    tables = [table.name for table in sqlglot.parse_one(text, dialect="duckdb").find_all(exp.Table)]
    assert sorted(tables) == ["_q1", "_q2", "sales"]


def test_names_of_ours_never_meet_names_of_tables() -> None:
    there = DatabaseSchema("x", "duckdb", (TableSchema("_q1", (Column("a", "int"),)),))
    text = guarded("WITH a AS (SELECT 1 AS a) SELECT * FROM _q1, a", there, {"_q1": Grant(("a",))})
    assert '"__q' in text
    assert 'FROM "_q1" AS "__q' in text


@all_rows("dialect", DIALECTS)
def test_absent_and_forbidden_look_alike(dialect: str) -> None:
    for forbidden, absent in (
        ("SELECT code FROM secrets", "SELECT code FROM nothing"),
        ("SELECT ssn FROM customers", "SELECT foo FROM customers"),
        ("SELECT c.ssn FROM customers AS c", "SELECT c.foo FROM customers AS c"),
        ("SELECT team FROM sales", "SELECT foo FROM sales"),
    ):
        name = {"secrets": "nothing", "ssn": "foo", "team": "foo"}
        said = refused(forbidden, dialect)
        for old, new in name.items():
            said = said.replace(f"no table {old}", f"no table {new}").replace(f"no column {old}", f"no column {new}")
        assert said == refused(absent, dialect)
        assert "secrets" not in said
        assert "team" not in said


def test_a_condition_reads_its_own_table_only() -> None:
    grants = {"sales": Grant(("id",), "sales.team = 'a' AND id IN (SELECT id FROM members WHERE who = 'x')")}
    text = guarded("SELECT 1 AS team, id FROM sales", database("postgres"), grants)
    assert """WHERE ("_q1"."team" = 'a' AND "_q1"."id" IN (SELECT "id" FROM "members" WHERE "who" = 'x'))""" in text
    assert readable("postgres", grants) == {
        "sales": frozenset({"id", "team", "who"}),
        "members": frozenset({"id", "team", "who"}),
    }


def test_a_text_in_double_quotes_is_a_text_where_sqlite_says_so() -> None:
    assert "= 'Top Hat'" in written('SELECT id FROM sales WHERE product = "Top Hat"')
    assert "no column ssn" in refused('SELECT "ssn" FROM customers')
    assert "single quotes" in refused('SELECT id FROM sales WHERE product = "Top Hat"', "postgres")


def test_a_keyword_is_a_name_if_the_query_gives_it() -> None:
    assert '"user"' in written("SELECT user FROM (SELECT id AS user FROM sales) x", "postgres")
    assert "no column user" in refused("SELECT user FROM sales", "postgres")


WIDE = DatabaseSchema(
    "wide",
    "sqlite",
    tuple(TableSchema(f"t{k}", tuple(Column(f"c{n}_{k}", "TEXT") for n in range(100))) for k in range(99)),
)
WORK = 1_000_000  # calls of functions, about 0.3 s


@all_rows("dialect", DIALECTS)
def test_the_work_for_any_query_is_bounded(dialect: str) -> None:
    grants = {one.name: Grant(tuple(c.name for c in one.columns), "c1_0 = 'a'") for one in WIDE.tables}
    wide = msgspec.structs.replace(WIDE, dialect=dialect)
    tables = ", ".join(f"t{k} AS a{k}" for k in range(99))
    written("SELECT 1", dialect)  # imports
    for text in (
        f"SELECT 1 FROM {tables}",
        f"SELECT {', '.join(f'a{k % 99}.c99_{k % 99}' for k in range(560))} FROM {tables}",
        f"SELECT 1 FROM {', '.join(f't0 AS a{k}' for k in range(99))}",
        f"SELECT {', '.join(f'no{k}' for k in range(1_400))} FROM t0",
        f"SELECT {'1,' * 1_300} 1 FROM t0{' JOIN t0' * 90}",
        f"SELECT 1 FROM {'(' * 20}t0{' JOIN t0)' * 20}",
        f"SELECT {' + '.join(['(SELECT ' * 20 + '1' + ')' * 20] * 45)}",
        f"SELECT {', '.join(['(' * 8 + '1, 2' + ')' * 8] * 150)}",
        f"SELECT {', '.join(['CASE WHEN c1_0 = 1 THEN 2 END'] * 330)} FROM t0",
        f"SELECT {', '.join(['CAST(c1_0 AS DATE)'] * 400)} FROM t0",
        f"SELECT c1_0{'::int' * 900} FROM t0",
        f"SELECT c1_0{'[1]' * 99} FROM t0",
        f"SELECT {'c1_0 BETWEEN 1 AND ' * 600} 1 FROM t0",
        f"SELECT 1{' UNION SELECT 1' * 900}",
        f"SELECT 1 FROM t0{', LATERAL (SELECT 1) AS x' * 300}",
        f"SELECT {'EXTRACT(year FROM c1_0) + ' * 380} 1 FROM t0",
        f"SELECT {'(' * 24}{'c1_0 ' * 2_000}",
    ):
        assert calls_of(functools.partial(tried_on, text, wide, grants)) < WORK, text[:60]


def calls_of(asked: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        asked()
    finally:
        sys.setprofile(None)
    return count


def tried_on(text: str, there: DatabaseSchema, grants: dict[str, Grant]) -> None:
    with contextlib.suppress(NotAllowed):
        guarded(text, there, grants)


def test_many_mentions_of_wide_tables_are_refused_early() -> None:
    columns = tuple(f"column_{number}" for number in range(2_000))
    wide = DatabaseSchema("wide", "sqlite", (TableSchema("t", tuple(Column(name, "TEXT") for name in columns)),))
    for times in (6, 500):
        with pytest.raises(NotAllowed, match="use fewer"):
            guarded(
                f"SELECT 1 FROM {', '.join(f't a{number}' for number in range(times))}", wide, {"t": Grant(columns)}
            )
    assert '"column_1999"' in guarded("SELECT * FROM t", wide, {"t": Grant(columns)})


def test_hostile_statements_are_refused_or_harmless(tmp_path: Path) -> None:
    found = list(hostile(tmp_path))
    assert len({(one.dialect, one.sql) for one in found}) >= 400
    for one in found:
        started = time.process_time()
        text, said = tried(one)
        assert time.process_time() - started < 2, one
        assert CANARY not in said, one
        assert len(said) < 1000, one
        if text:
            assert one.kind in HARMLESS, one
            assert reads_only_granted(text, one.dialect), one


def tried(one: Hostile) -> tuple[str, str]:
    """What is written, and what is said."""
    try:
        return written(one.sql, one.dialect), ""
    except NotAllowed as error:
        return "", str(error)


@given(st.text(max_size=200) | st.lists(st.sampled_from(
    "SELECT FROM WHERE ( ) * , . sales customers secrets ssn id 'x' \"x\" = ; WITH AS JOIN ON UNION "
    "-- /* */ $$ ' \" [ ] "
    "LATERAL VALUES FOR UPDATE INTO CASE WHEN THEN END :: INTERVAL EXTRACT { } ? :x @x $1 \\ FILTER OVER".split()
), max_size=40).map(" ".join), st.sampled_from(DIALECTS))  # fmt: skip
def test_any_text_is_written_or_refused(sql: str, dialect: str) -> None:
    try:
        text = written(sql, dialect)
    except NotAllowed:
        return
    assert reads_only_granted(text, dialect)


def reads_only_granted(text: str, dialect: str) -> bool:
    """Whether a text is one statement, of granted tables and of names of WITH."""
    (tree,) = sqlglot.parse(text, dialect=dialect)
    assert tree is not None
    names = {table.name for table in tree.find_all(exp.Table)}
    return all(name in GRANTS or name.startswith("_q") for name in names)
