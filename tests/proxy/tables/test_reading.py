"""What is read of a database: tables, keys, comments, samples, and nothing that is hidden."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.tables.cards import card, quoted, quoted_table
from proxy.tables.files import UnreadableFile, _columns, tables_of
from proxy.tables.reading import Reading, UnreadableDatabase, read_database
from proxy.tables.schema import DatabaseSchema, DatabaseSource, ForeignKey, Grant, TableSchema
from proxy.tables.visible import granted, is_hidden, visible
from tests.proxy.tables.small_shop import SECRET, make_shop
from tests.support.postgres_server import Postgres


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return make_shop(tmp_path / "shop.db")


ALL, SAMPLES = Reading(), Reading(samples=True)


def source_of(url: str, **limits: Any) -> DatabaseSource:
    return DatabaseSource("sqlite" if url.startswith("sqlite") else "sql", url, **limits)


def read(url: str, how: Reading = ALL, **limits: Any) -> dict[str, TableSchema]:
    found = read_database("shop", source_of(url, **limits), how)
    return {table.name: table for table in found.tables}


def test_tables_with_keys_comments_and_rows_are_read(shop: str) -> None:
    tables = read(shop)
    assert [*tables] == ["best_sellers", "products", "sales", "staff"]
    sales = tables["sales"]
    assert sales.primary_key == ("id",)
    assert sales.foreign_keys == (ForeignKey(("product_id",), "products", ("id",)),)
    assert sales.rows == 2
    assert tables["best_sellers"].rows is None, "counting a view may take long"
    columns = {one.name: one for one in sales.columns}
    assert columns["units"].comment == "how many were sold at once"
    assert columns["units"].type == "INTEGER"
    assert not {one.name: one for one in tables["products"].columns}["name"].nullable
    assert all(not one.samples for table in tables.values() for one in table.columns)


def test_samples_are_read_if_wanted_but_not_of_tables_whose_rows_differ_by_key(shop: str) -> None:
    tables = read(shop, Reading(samples=True, rows=("sales",)))
    assert {one.name: one.samples for one in tables["products"].columns}["name"] == (
        "Fruity Fedora",
        "Beanie",
        "Straw hat",
    )
    assert all(not one.samples for one in tables["sales"].columns)
    assert tables["sales"].rows is None


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_view_has_no_condition_of_its_table_and_is_left_out(kind: str, tmp_path: Path) -> None:
    url = make_shop(tmp_path / "shop.db")
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        url = f"duckdb:///{tmp_path}/shop.duckdb"
        with duckdb.connect(url.removeprefix("duckdb:///")) as sql:
            sql.execute("CREATE TABLE sales AS SELECT 1 AS product_id; CREATE VIEW best_sellers AS FROM sales")
    conditions = Reading(rows=("sales",))
    assert "best_sellers" in read(url)
    assert "best_sellers" not in read(url, conditions)
    assert "best_sellers" not in read(url, conditions, tables=("best*", "sales"))
    assert "best_sellers" in read(url, conditions, tables=("best_sellers", "sales"))
    assert "best_sellers" in read(url, Reading(rows=("sales", "best_sellers")))
    later = visible(read_database("shop", source_of(url), ALL), None, (), ("sales",))
    assert "best_sellers" not in [table.name for table in later.tables]


# View -> its query, over staff (id, name, ssn) and other (id, x), and the views before it.
VIEWS = {
    "names": "SELECT id, name FROM staff",
    "counted": "SELECT count(*) AS n FROM staff",
    "joined": "SELECT o.id AS oid, s.name FROM other o JOIN staff s USING (id)",
    "nested": "SELECT name FROM names",
    "using_id": 'SELECT s.name FROM staff s JOIN other USING ("id")',
    "others": "SELECT * FROM other",
    "called_ssn": "SELECT 'ssn' AS ssn_text FROM names",
}
HIDDEN_VIEWS = {
    "renamed": "SELECT id, ssn AS number FROM staff",
    "starred": "SELECT * FROM staff",
    "computed": "SELECT lower(s.ssn) AS x FROM staff s",
    "filtered": "SELECT id FROM staff WHERE ssn LIKE '1%'",
    "sorted": "SELECT id, row_number() OVER (ORDER BY ssn) AS place FROM staff",
    "grouped": "SELECT count(*) AS n FROM staff GROUP BY ssn",
    "deep": "SELECT (SELECT max(ssn) FROM staff s WHERE s.id = o.id) AS x FROM other o",
    "through": "SELECT number FROM renamed",
    "natural_one": "SELECT a.id FROM staff a NATURAL JOIN staff b",
    "used": "SELECT a.id FROM staff a JOIN staff b USING (ssn)",
    "united": "SELECT x FROM other UNION ALL SELECT ssn FROM staff",
    "with_one": "WITH s (a, b, c) AS (SELECT * FROM staff) SELECT c FROM s",
}
WHOLE_ROWS = {
    "row_text": "SELECT CAST(s AS varchar) AS x FROM staff s",
    "row_json": "SELECT id, to_json(s) AS x FROM staff s",
    "row_compared": "SELECT a.id FROM staff a JOIN staff b ON a = b",
}
OWN = {
    "sqlite": {},
    "duckdb": {
        **WHOLE_ROWS,
        "row_one": "SELECT s FROM staff s",
        "of_columns": "SELECT concat(*COLUMNS(*)) AS x FROM staff",
        "of_macro": "SELECT ssn_of(id) AS x FROM other",
        "from_macro": "SELECT * FROM all_staff()",
        "without_select": "FROM staff",
        "placed": "SELECT #3 AS x FROM staff",
        "pivoted": "SELECT * FROM (PIVOT staff ON ssn IN ('1') USING count(*))",
        "summary": "SELECT * FROM (SUMMARIZE staff)",
        "by_name": "SELECT id FROM query_table('staff')",
        "whole_name": "SELECT main.staff.ssn AS x FROM main.staff",
    },
    "postgres": {
        **WHOLE_ROWS,
        "of_function": "SELECT ssn_of(id) AS x FROM other",
        "with_operator": "SELECT id === id AS x FROM other",
    },
}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgres"])
def test_a_view_that_reads_a_hidden_column_is_left_out(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import duckdb

    made = ["CREATE TABLE staff (id int, name varchar(9), ssn varchar(9))", "CREATE TABLE other (id int, x varchar(9))"]
    if kind == "duckdb":
        made.append("CREATE MACRO ssn_of(a) AS (SELECT ssn FROM staff WHERE staff.id = a)")
        made.append("CREATE MACRO all_staff() AS TABLE SELECT * FROM staff")
    if kind == "postgres":
        made.append(
            "CREATE FUNCTION ssn_of(int) RETURNS text LANGUAGE sql AS 'SELECT ssn FROM staff WHERE id = $1';"
            "CREATE FUNCTION same(int, int) RETURNS text LANGUAGE sql AS 'SELECT ssn FROM staff WHERE id = $1';"
            "CREATE OPERATOR === (FUNCTION = same, LEFTARG = int, RIGHTARG = int)"
        )
    hidden = HIDDEN_VIEWS | OWN[kind]
    made += [f"CREATE VIEW {name} AS {query}" for name, query in (VIEWS | hidden).items()]
    if kind == "postgres":
        made.append("CREATE MATERIALIZED VIEW stored AS SELECT ssn AS x FROM staff")
        url = request.getfixturevalue("postgres").database()
        import psycopg

        with psycopg.connect(url, autocommit=True) as server:
            for statement in made:
                server.execute(statement.encode())
    elif kind == "duckdb":
        url = f"duckdb:///{tmp_path}/staff.duckdb"
        with duckdb.connect(url.removeprefix("duckdb:///")) as file:
            for statement in made:
                file.execute(statement)
    else:
        url = f"sqlite:///{tmp_path}/staff.db"
        with sqlite3.connect(tmp_path / "staff.db") as lite:
            for statement in made:
                lite.execute(statement)
        lite.close()
    stored = {"stored"} if kind == "postgres" else set()
    own = ("staff", "other", *(f"{name}*" for name in (*VIEWS, *hidden, *stored)))
    every = read(url, tables=own)
    assert {*VIEWS, *hidden} <= {*every}
    for pattern in ("staff.SSN", "*.ssn"):
        assert {*read(url, tables=own, hide=(pattern,))} == {*VIEWS, "staff", "other"}
        later = visible(DatabaseSchema("shop", kind, tuple(every.values())), own, (pattern,))
        assert {one.name for one in later.tables} == {*VIEWS, "staff", "other"}
    named = read(url, tables=("staff", "other", "renamed"), hide=("*.ssn",))
    assert {*named} == {"staff", "other", "renamed"}, "its owner shows it"
    assert "ssn" not in msgspec.json.encode(named).decode()
    assert {*VIEWS} - {"others", "joined"} <= {*read(url, tables=own, hide=("other.x",))}
    assert "others" not in read(url, tables=own, hide=("other.x",))
    if kind == "postgres":
        everywhere = {*VIEWS, *hidden, *stored, "staff", "other"} - {*OWN["postgres"], "united"}
        assert everywhere - {"others"} == {*read(url, tables=own, hide=("other.x",))}


def test_a_virtual_table_may_show_the_rows_of_another_and_is_left_out(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as sql:
        sql.executescript(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, team TEXT, note TEXT);"
            "CREATE VIRTUAL TABLE found USING fts5 (note, content='notes', content_rowid='id')"
        )
    sql.close()
    url = f"sqlite:///{tmp_path}/x.db"
    assert {"notes", "found", "found_data"} <= {*read(url)}
    assert {*read(url, Reading(rows=("notes",)))} == {"notes"}
    assert {*read(url, hide=("notes.note",))} == {"notes"}
    assert {*read(url, Reading(rows=("notes",)), tables=("notes", "found"))} == {"notes", "found"}


def test_what_a_view_reads_is_not_known_of_other_databases(shop: str) -> None:
    whole = read_database("shop", source_of(shop), ALL)
    unread = replace(whole, tables=tuple(replace(one, reads=None) for one in whole.tables))
    assert "best_sellers" in [one.name for one in visible(unread, None, ()).tables]
    assert "best_sellers" not in [one.name for one in visible(unread, None, ("*.iban",)).tables]


def test_rows_that_tables_share_by_inheritance_have_the_same_conditions(postgres: Postgres) -> None:
    import psycopg

    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as sql:
        for statement in (
            "CREATE TABLE staff (id int, team text, ssn text)",
            "CREATE TABLE staff_eu (country text) INHERITS (staff)",
            "CREATE TABLE staff_de () INHERITS (staff_eu)",
            "CREATE TABLE alone (id int)",
            "CREATE TABLE months (month int, ssn text) PARTITION BY LIST (month)",
            "CREATE TABLE months_1 PARTITION OF months FOR VALUES IN (1)",
            "CREATE VIEW eu AS SELECT ssn AS x FROM staff_eu",
            "CREATE VIEW january AS SELECT ssn AS x FROM months_1",
        ):
            sql.execute(statement.encode())
    own = ("staff", "staff_*", "alone", "months*", "eu*", "january*")
    assert {*read(url, tables=own)} == {"staff", "staff_eu", "staff_de", "alone", "months", "eu", "january"}
    for condition, left in (
        ("staff", {"staff", "alone", "months"}),
        ("staff_eu", {"staff_eu", "alone", "months"}),
        ("staff_de", {"staff_de", "alone", "months"}),
    ):
        how = Reading(rows=(condition,))
        assert {*read(url, how, tables=own)} == left
        assert {*read(url, how, tables=("staff", "staff_eu", "staff_de", "alone", "months"))} == left
        later = visible(DatabaseSchema("x", "postgres", tuple(read(url, tables=own).values())), own, (), (condition,))
        assert {one.name for one in later.tables} == left
    assert "staff_de" in read(url, Reading(rows=("staff", "staff_de")), tables=own)
    for hidden in ("staff.ssn", "staff_eu.ssn", "staff_de.ssn"):
        tables = read(url, tables=own, hide=(hidden,))
        assert "eu" not in tables
        of = [name for name, table in tables.items() if "ssn" in [column.name for column in table.columns]]
        assert of == ["months"]
    assert "january" not in read(url, tables=own, hide=("months.ssn",))


def test_what_is_hidden_is_not_in_the_records(shop: str) -> None:
    source = DatabaseSource(
        "sqlite", shop, tables=("sales", "sta*"), hide=("*.SSN", "sales.card_number", "sales.product_id")
    )
    found = read_database("shop", source, Reading(samples=True))
    text = msgspec.json.encode(found).decode()
    assert [table.name for table in found.tables] == ["sales", "staff"]
    assert SECRET not in text
    assert "ssn" not in text
    assert "products" not in text, "the key to a table that is not listed"


@pytest.mark.parametrize(
    ("limits", "rows", "said"),
    [
        ({"tables": ("sale",)}, (), "there is no table 'sale'; did you mean 'sales'?"),
        ({"hide": ("staff.snn",)}, (), "there is no column 'staff.snn'; did you mean 'staff.ssn'?"),
        ({}, ("Sales",), "there is no table 'Sales'; did you mean 'sales'?"),
        ({"tables": ("staff",), "hide": ("staff.*",)}, (), "there is no table that can be read"),
    ],
)
def test_a_name_that_the_database_does_not_have_is_an_error(
    shop: str, limits: dict[str, Any], rows: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UnreadableDatabase, match=said.replace("?", r"\?")):
        read(shop, Reading(rows=rows), **limits)


def test_a_column_that_no_table_has_may_be_hidden_everywhere(shop: str) -> None:
    assert "staff" in read(shop, hide=("*.iban",))


@pytest.mark.parametrize("content", [None, b"no database at all " * 100])
def test_a_file_that_is_no_database_says_so(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(UnreadableDatabase, match="the database cannot be read"):
        read(f"sqlite:///{tmp_path / 'x.db'}")
    assert (tmp_path / "x.db").exists() == (content is not None), "reading makes no file"


def test_a_view_whose_table_is_gone_costs_only_views(tmp_path: Path) -> None:
    url = make_shop(tmp_path / "shop.db")
    with sqlite3.connect(tmp_path / "shop.db") as sql:
        sql.execute("CREATE VIEW broken AS SELECT * FROM nowhere")
    sql.close()
    assert "sales" in read(url)


def test_reading_does_not_write(tmp_path: Path) -> None:
    url = make_shop(tmp_path / "shop.db")
    before = (tmp_path / "shop.db").read_bytes()
    (tmp_path / "shop.db").chmod(0o400)
    read(url, Reading(samples=True))
    assert (tmp_path / "shop.db").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["shop.db"]


def test_a_server_has_comments_other_schemas_and_no_tables_that_the_role_may_not_read(postgres: Postgres) -> None:
    import psycopg

    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as sql:
        for statement in (
            "CREATE TABLE products (id int PRIMARY KEY, name text)",
            "CREATE TABLE sales (id int PRIMARY KEY, product_id int REFERENCES products, at timestamptz) ",
            "COMMENT ON TABLE sales IS 'each sale'",
            "COMMENT ON COLUMN sales.at IS 'when it was paid'",
            "CREATE TABLE months (month int, total int) PARTITION BY LIST (month)",
            "CREATE TABLE months_1 PARTITION OF months FOR VALUES IN (1)",
            "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM sales",
            "DROP SCHEMA IF EXISTS archive CASCADE",
            "CREATE SCHEMA archive",
            "CREATE TABLE archive.sales (id int)",
            "INSERT INTO products VALUES (1, 'Fruity Fedora')",
            "CREATE ROLE reader LOGIN PASSWORD 's3cret-database'",
            "GRANT USAGE ON SCHEMA archive TO reader",
            "GRANT SELECT ON archive.sales TO reader",
        ):
            sql.execute(statement.encode())
        schema = sql.execute("SELECT current_schema()").fetchone()
        assert schema is not None
        sql.execute(f"GRANT USAGE ON SCHEMA {schema[0]} TO reader; GRANT SELECT ON products TO reader".encode())
    own = ("products", "sales", "months*", "totals", "archive.*")  # other tests' schemas are there as well
    tables = read(url, Reading(samples=True), tables=own)
    assert [*tables] == ["archive.sales", "months", "products", "sales", "totals"]
    assert tables["sales"].comment == "each sale"
    assert tables["sales"].columns[2].comment == "when it was paid"
    assert tables["sales"].foreign_keys == (ForeignKey(("product_id",), "products", ("id",)),)
    assert tables["products"].rows == 1
    assert tables["products"].columns[1].samples == ("Fruity Fedora",)
    as_reader = url.replace("postgres:", "reader:")
    assert as_reader != url
    assert "totals" in read(url.replace("postgresql:", "postgres:"), tables=own)
    assert [*read(as_reader, tables=("products", "archive.sales"))] == ["archive.sales", "products"]
    with pytest.raises(UnreadableDatabase, match="no table 'sales'"):
        read(as_reader, tables=("sales",))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://reader:{SECRET}@127.0.0.1:1/x", "cannot be read"),
        (f"nosuchdb://reader:{SECRET}@host/x", "install the package"),
        (f"postgresql://reader:{SECRET}@host:port/x", "is not one of a database"),
    ],
)
def test_an_error_never_has_the_password(url: str, said: str) -> None:
    with pytest.raises(UnreadableDatabase, match=said) as raised:
        read(url)
    assert SECRET not in str(raised.value)


def test_a_caller_sees_what_is_granted(shop: str) -> None:
    whole = read_database("shop", DatabaseSource("sqlite", shop), Reading(samples=True))
    seen = granted(whole, {"sales": Grant(("id", "product_id", "units"), "team = 'north'"), "nothing": Grant(("x",))})
    assert [table.name for table in seen.tables] == ["sales"]
    assert [one.name for one in seen.tables[0].columns] == ["id", "product_id", "units"]
    assert seen.tables[0].foreign_keys == ()
    assert seen.tables[0].rows is None
    assert all(not one.samples for one in seen.tables[0].columns)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_hidden_column_is_hidden_in_every_case(table: str, column: str) -> None:
    pattern = "*.SSN"
    assert is_hidden(f"{table}.Ssn", [pattern])
    if column.casefold() != "ssn" and not column.casefold().endswith(".ssn"):
        assert not is_hidden(f"{table}.{column}", [pattern])


def test_a_duckdb_file_has_keys_and_comments_and_stays_as_it_is(tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as sql:
        for statement in (
            "CREATE TABLE products (id INTEGER PRIMARY KEY, name VARCHAR)",
            "CREATE TABLE sales (id INTEGER, product_id INTEGER REFERENCES products(id))",
            "COMMENT ON COLUMN sales.id IS 'a number'",
            "COMMENT ON TABLE sales IS 'each sale'",
            "CREATE SCHEMA archive",
            "CREATE TABLE archive.sales (id INTEGER)",
            "CREATE VIEW names AS SELECT name FROM products",
            "INSERT INTO products VALUES (1, 'Fruity Fedora')",
        ):
            sql.execute(statement)
    before = file.read_bytes()
    tables = read(f"duckdb:///{file}", SAMPLES)
    assert {*tables} == {"products", "sales", "archive.sales", "names"}
    assert tables["products"].primary_key == ("id",)
    assert tables["products"].rows == 1
    assert tables["names"].rows is None
    assert tables["names"].columns[0].samples == ("Fruity Fedora",)
    assert tables["sales"].comment == "each sale"
    assert tables["sales"].columns[0].comment == "a number"
    assert tables["sales"].foreign_keys == (ForeignKey(("product_id",), "products", ("id",)),)
    assert file.read_bytes() == before
    with pytest.raises(UnreadableDatabase, match="cannot be read"):
        read(f"duckdb:///{tmp_path / 'none.duckdb'}")
    assert not (tmp_path / "none.duckdb").exists()


# Files


def workbook(file: Path, sheets: dict[str, list[list[object]]]) -> None:
    """An XLSX file with the parts that a reader needs."""
    names = [*sheets]
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(names, 1))
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Target="xl/workbook.xml" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>',
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        + "".join(
            f'<Relationship Id="r{n}" Target="worksheets/sheet{n}.xml" '
            'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"/>'
            for n in range(1, len(names) + 1)
        )
        + "</Relationships>",
    }
    for number, rows in enumerate(sheets.values(), 1):
        cells = "".join(
            f'<row r="{r}">' + "".join(_cell(f"{chr(64 + c)}{r}", v) for c, v in enumerate(row, 1)) + "</row>"
            for r, row in enumerate(rows, 1)
        )
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
            f"<sheetData>{cells}</sheetData></worksheet>"
        )
    with zipfile.ZipFile(file, "w") as made:
        for name, text in parts.items():
            made.writestr(name, text)


def _cell(place: str, value: object) -> str:
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def read_files(*files: Path) -> DatabaseSchema:
    return read_database("files", DatabaseSource("files", files=tuple(map(str, files))), SAMPLES)


def test_each_file_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "Sales 2026.csv").write_text("product,units,sold_at\nFruity Fedora,3,2026-11-20\nBeanie,1,2026-11-21\n")
    (tmp_path / "stock.tsv").write_text("product\tleft\nBeanie\t4\n")
    (tmp_path / "events.jsonl").write_text("\n".join(json.dumps({"kind": "open", "n": n}) for n in range(3)))
    (tmp_path / "staff.json").write_text(json.dumps([{"name": "Ann"}, {"name": "Bo"}]))
    import duckdb

    duckdb.execute(f"COPY (SELECT 7 AS n) TO '{tmp_path / 'numbers.parquet'}' (FORMAT parquet)")
    found = read_files(*sorted(tmp_path.iterdir()))
    assert found.dialect == "duckdb"
    tables = {table.name: table for table in found.tables}
    assert {name: [one.name for one in table.columns] for name, table in tables.items()} == {
        "sales_2026": ["product", "units", "sold_at"],
        "stock": ["product", "left"],
        "events": ["kind", "n"],
        "staff": ["name"],
        "numbers": ["n"],
    }
    assert [one.type for one in tables["sales_2026"].columns] == ["VARCHAR", "BIGINT", "DATE"]
    assert tables["sales_2026"].columns[0].samples == ("Fruity Fedora", "Beanie")
    assert {name: table.rows for name, table in tables.items()} == {
        "sales_2026": 2, "stock": 1, "events": 3, "staff": 2, "numbers": 1
    }  # fmt: skip


def test_each_sheet_of_several_is_a_table(tmp_path: Path) -> None:
    rows: list[list[object]] = [["Product", "Units", "", "units"], ["Fedora", 3, 1.5, "x"], ["Beanie", 4, 2, "12"]]
    workbook(tmp_path / "Shop.xlsx", {"Sales": rows, "Price list": [["code"], [17]], "Empty": []})
    found = read_files(tmp_path / "Shop.xlsx")
    assert [table.name for table in found.tables] == ["shop_price_list", "shop_sales"]
    sales = {one.name: one.type for one in found.tables[1].columns}
    assert sales == {"Product": "VARCHAR", "Units": "BIGINT", "column_3": "DOUBLE", "units_2": "VARCHAR"}
    assert found.tables[1].rows == 2
    workbook(tmp_path / "one.xlsx", {"Sheet1": [["code"], [17]]})
    assert [table.name for table in read_files(tmp_path / "one.xlsx").tables] == ["one"]


def test_a_file_name_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("own\n1\n")
    (tmp_path / "a1.csv").write_text("other\n1\n")
    assert [one.name for one in read_files(tmp_path / "a[1].csv").tables[0].columns] == ["own"]


@pytest.mark.parametrize(("name", "content"), [("x.xlsx", b"PK no zip"), ("x.parquet", b"no parquet"), ("y.csv", None)])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableDatabase, match=f"{name}.* cannot be read"):
        read_files(tmp_path / name)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("sales.csv", "Sales.tsv"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(UnreadableFile, match="would both be the table sales"):
        tables_of([str(tmp_path / "sales.csv"), str(tmp_path / "Sales.tsv")])


@given(st.lists(st.one_of(st.text(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20))
def test_columns_of_a_sheet_have_names_that_differ_in_any_case(first: list[object]) -> None:
    names = [name.lower() for name in _columns(first)]
    assert len(set(names)) == len(first)
    assert all(names)


def test_a_card_says_what_a_model_needs(shop: str) -> None:
    tables = read(shop, Reading(samples=True))
    assert card(tables["products"], "sqlite").splitlines() == [
        "products (about 3 rows)",
        "- id INTEGER primary key",
        "- name TEXT: as printed on the shelf; such as 'Fruity Fedora', 'Beanie', 'Straw hat'",
        '- "Unit Price" NUMERIC',
    ]
    assert "- product_id INTEGER = products.id" in card(tables["sales"], "sqlite", lean=True)


@pytest.mark.parametrize(
    ("name", "dialect", "written"),
    [
        ("sales", "postgres", "sales"),
        ("archive.Sales", "postgres", 'archive."Sales"'),
        ("a.b", "sqlite", '"a.b"'),
        ("order", "mysql", "`order`"),
        ('a"b', "duckdb", '"a""b"'),
    ],
)
def test_a_name_is_written_as_sql_writes_it(name: str, dialect: str, written: str) -> None:
    assert quoted_table(name, dialect) == written
    assert quoted("order", "sqlite") == '"order"'
