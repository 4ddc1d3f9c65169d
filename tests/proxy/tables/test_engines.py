"""The second wall alone: engines refuse by themselves what the guard would have refused."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import structs

from proxy.tables.engines import Ask, Engine, NoResult, _value, opened
from proxy.tables.guard import readable
from proxy.tables.queries import QueryResult
from proxy.tables.schema import DatabaseSource
from tests.proxy.tables.hostile import DIALECTS, hostile
from tests.proxy.tables.shop import CANARY, GRANTS, LIMITS, Shop, shop
from tests.support.postgres_server import Postgres
from tests.support.rows import all_rows

SECRET = (f"{CANARY}-secret", f"{CANARY}-ssn")
READ = readable("sqlite", GRANTS)


@pytest.fixture(scope="module", params=DIALECTS)
def open_shop(request: pytest.FixtureRequest) -> Iterator[tuple[Shop, Engine]]:
    def server() -> Postgres:
        found: Postgres = request.getfixturevalue("postgres")
        return found

    with tempfile.TemporaryDirectory() as folder:
        made = shop(request.param, Path(folder), server)
        engine = opened(made.source, 256)
        yield made, engine
        engine.close()


def test_hostile_statements_have_no_effect_without_the_guard(open_shop: tuple[Shop, Engine]) -> None:
    made, engine = open_shop
    before = made.state()
    tried = 0
    for one in hostile(made.folder):
        if one.dialect != made.dialect or one.kind in {"bomb", "memory"}:
            continue
        tried += 1
        found = engine.query(Ask(one.sql, LIMITS, READ if made.dialect == "sqlite" else None))
        if made.dialect != "duckdb":  # whose file has no rights within it: there, the guard alone knows of tables
            assert not any(secret in repr(found) for secret in SECRET[: 1 if made.dialect == "postgres" else 2]), one
        if isinstance(found, NoResult):
            assert CANARY not in found.text, one
    assert tried > 100
    assert made.state() == before
    assert isinstance(engine.query(Ask("SELECT id FROM sales", LIMITS)), QueryResult)


def test_a_function_that_the_database_lacks_is_named(open_shop: tuple[Shop, Engine]) -> None:
    _, engine = open_shop
    found = engine.query(Ask("SELECT fortnight(id) FROM sales", LIMITS))
    assert isinstance(found, NoResult)
    assert "fortnight" in found.text
    assert CANARY not in found.text


def test_columns_and_tables_that_sqlite_must_not_read(tmp_path: Path) -> None:
    made = shop("sqlite", tmp_path, Postgres)  # type: ignore[arg-type]
    engine = opened(made.source, 256)
    for forbidden, absent in (
        ("SELECT ssn FROM customers", "SELECT foo FROM customers"),
        ("SELECT code FROM secrets", "SELECT code FROM foo"),
        ("SELECT count(*) FROM secrets", "SELECT count(*) FROM foo"),
        ("SELECT name FROM customers WHERE ssn LIKE 'k%'", "SELECT name FROM customers WHERE foo LIKE 'k%'"),
        ("SELECT name FROM sqlite_master", "SELECT name FROM foo"),
    ):
        assert engine.query(Ask(forbidden, LIMITS, READ)) == engine.query(Ask(absent, LIMITS, READ))
    engine.close()


def test_what_a_source_hides_is_hidden_without_grants(tmp_path: Path) -> None:
    made = shop("sqlite", tmp_path, Postgres)  # type: ignore[arg-type]
    engine = opened(DatabaseSource("sqlite", made.source.url, tables=("sales", "cust*"), hide=("*.SSN",)), 256)
    assert isinstance(engine.query(Ask("SELECT id FROM customers", LIMITS)), QueryResult)
    assert isinstance(engine.query(Ask("SELECT ssn FROM customers", LIMITS)), NoResult)
    assert isinstance(engine.query(Ask("SELECT code FROM secrets", LIMITS)), NoResult)
    engine.close()


def test_a_view_reads_its_own_tables(tmp_path: Path) -> None:
    import sqlite3

    made = shop("sqlite", tmp_path, Postgres)  # type: ignore[arg-type]
    with sqlite3.connect(tmp_path / "shop.sqlite") as sql:
        sql.execute("CREATE VIEW best AS SELECT product, units FROM sales WHERE team = 'a' AND units > 3")
    sql.close()
    engine = opened(made.source, 256)
    only = {"best": frozenset({"product", "units"})}
    found = engine.query(Ask("SELECT b.product FROM best AS b ORDER BY units", LIMITS, only))
    assert isinstance(found, QueryResult)
    assert found.rows == [["Fruity Fedora"], ["Top Hat"]]
    assert isinstance(engine.query(Ask("SELECT product FROM sales", LIMITS, only)), NoResult)
    engine.close()


def test_a_role_that_may_write_is_told(postgres: Postgres, tmp_path: Path) -> None:
    made = shop("postgres", tmp_path, lambda: postgres)
    reader, owner = opened(made.source, 256), opened(DatabaseSource("sql", made.admin), 256)
    assert reader.warnings() == ()
    assert "superuser" in owner.warnings()[0]
    reader.close()
    owner.close()


# To plan a join of twelve tables takes seconds on a busy machine.
PATIENT = structs.replace(LIMITS, max_seconds=60.0)


def test_an_expensive_query_is_not_begun(postgres: Postgres, tmp_path: Path) -> None:
    engine = opened(shop("postgres", tmp_path, lambda: postgres).source, 256)
    found = engine.query(Ask("SELECT 1 FROM " + ", ".join(f"sales s{n}" for n in range(12)), PATIENT))
    assert isinstance(found, NoResult)
    assert found.kind == "too_expensive"
    assert engine.query(Ask("SELECT 1", LIMITS)) != found
    engine.close()


def test_what_a_database_estimates_is_not_told(postgres: Postgres, tmp_path: Path) -> None:
    """The estimate comes from statistics of all rows."""
    engine = opened(shop("postgres", tmp_path, lambda: postgres).source, 256)
    found = engine.query(Ask("SELECT 1 FROM " + ", ".join(f"sales s{n}" for n in range(12)), PATIENT))
    engine.close()
    assert isinstance(found, NoResult)
    assert not any(char.isdigit() for char in found.text)


def sqlite_file(file: Path, *statements: str) -> Engine:
    with contextlib.closing(sqlite3.connect(file)) as sql, sql:
        for one in statements:
            sql.execute(one)
    return opened(DatabaseSource("sqlite", f"sqlite:///{file}"), 256)


def test_a_row_above_the_limit_is_an_error_and_not_no_rows(tmp_path: Path) -> None:
    engine = sqlite_file(tmp_path / "x", "CREATE TABLE t (a)", "INSERT INTO t VALUES (hex(zeroblob(1000000)))")
    found = engine.query(Ask("SELECT a FROM t", LIMITS))
    assert isinstance(found, NoResult)
    assert "too large" in found.text
    assert engine.query(Ask("SELECT substr(a, 1, 2) FROM t", LIMITS)).rows == [["00"]]  # type: ignore[union-attr]
    engine.close()


def test_a_text_that_is_no_utf_8_is_a_text(tmp_path: Path) -> None:
    engine = sqlite_file(tmp_path / "x", "CREATE TABLE t (a)", "INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    assert engine.query(Ask("SELECT a FROM t", LIMITS)).rows == [["\ufffdA"]]  # type: ignore[union-attr]
    engine.close()


def test_tables_that_were_made_later_are_there(tmp_path: Path) -> None:
    engine = sqlite_file(tmp_path / "x", "CREATE TABLE t (a)")
    assert isinstance(engine.query(Ask("SELECT a FROM later", LIMITS)), NoResult)
    sqlite_file(tmp_path / "x", "CREATE TABLE later (a)", "CREATE VIEW v AS SELECT a FROM later").close()
    for name in ("later", "v"):
        grants = {name: frozenset({"a"})}
        assert isinstance(engine.query(Ask(f"SELECT a FROM {name}", LIMITS, grants)), QueryResult)
    engine.close()


def test_files_are_tables_that_reach_no_file(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("id,units\n1,3\n2,5\n")
    engine = opened(DatabaseSource("files", files=(str(tmp_path / "sales.csv"),)), 256)
    found = engine.query(Ask("SELECT sum(units) AS n FROM sales", LIMITS))
    assert isinstance(found, QueryResult)
    assert (found.columns, found.rows) == (("n",), [[8]])
    assert isinstance(engine.query(Ask(f"SELECT * FROM read_csv('{tmp_path}/sales.csv')", LIMITS)), NoResult)
    engine.close()


def test_any_database_of_sqlalchemy(tmp_path: Path) -> None:
    from proxy.tables.engines import OtherEngine

    made = shop("sqlite", tmp_path, Postgres)  # type: ignore[arg-type]
    engine = OtherEngine(made.source)
    before = made.state()
    found = engine.query(Ask("SELECT id FROM sales ORDER BY id", LIMITS))
    assert isinstance(found, QueryResult)
    assert found.rows[0] == [1]
    assert isinstance(engine.query(Ask("DELETE FROM sales", LIMITS)), NoResult)
    assert engine.warnings()
    engine.close()
    assert made.state() == before


@all_rows(
    ("value", "expected"),
    [
        (Decimal("12.50"), 12.5),
        (Decimal("7.00"), 7),
        (Decimal("12345678901234567890.25"), "12345678901234567890.25"),
        (Decimal("NaN"), "NaN"),
        (float("inf"), "inf"),
        (b"\x01\xff", "01ff"),
        ([Decimal(1), {"a": b"\x00"}], [1, {"a": "00"}]),
        (2**63 - 1, 2**63 - 1),
        (2**70, str(2**70)),
        (True, True),
        (None, None),
    ],
)
def test_values_are_json(value: object, expected: object) -> None:
    assert _value(value) == expected
