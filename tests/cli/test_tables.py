"""`ragway tables`: databases and files, read, shown, searched and forgotten."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.proxy.tables.small_shop import SECRET, make_shop
from tests.support.gateway import ragway, refused

SETTINGS = "embedder: {model: hash}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_shop(tmp_path / "shop.db")
    (tmp_path / "ragway.yaml").write_text(SETTINGS)
    return tmp_path


def tables(folder: Path, *words: str, **environ: str) -> tuple[str, str]:
    done = ragway("tables", *words, folder=folder, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_database_is_added_shown_found_changed_and_forgotten(folder: Path) -> None:
    out, err = tables(folder, "add", "shop", "sqlite:///shop.db")
    assert out == "shop: 4 added, 0 changed, 0 unchanged, 0 removed"
    assert "add the row `shop: {}` to the setting `tables`" in err
    assert tables(folder, "list")[0] == f"shop  4 tables  sqlite  sqlite:///{folder}/shop.db"
    assert "- product_id INTEGER = products.id" in tables(folder, "show", "shop")[0]
    shown = json.loads(tables(folder, "show", "shop", "products", "--json")[0])
    assert shown[0]["columns"][1] == {
        "name": "name", "type": "TEXT", "comment": "as printed on the shelf", "nullable": False, "samples": []
    }  # fmt: skip
    first, *_, last = tables(folder, "search", "what is on the shelf?", "--tokens", "40")[0].splitlines()
    assert first.startswith("1. shop/products  3 columns  (bm25 #1 ")
    assert last.startswith("the best tables, about ")
    found = json.loads(tables(folder, "search", "salary of staff", "--json")[0])
    assert [one["name"] for one in found] == ["best_sellers", "products", "sales", "staff"]
    assert max(found, key=lambda one: one["score"])["name"] == "staff"

    with sqlite3.connect(folder / "shop.db") as sql:
        sql.execute("ALTER TABLE staff ADD COLUMN team TEXT")
        sql.execute("DROP VIEW best_sellers")
    sql.close()
    assert tables(folder, "add", "shop")[0] == "shop: 0 added, 1 changed, 2 unchanged, 1 removed"
    assert tables(folder, "remove", "shop")[0].startswith("shop is forgotten")
    assert (folder / "shop.db").exists()
    assert tables(folder, "list") == ("", "no database: ragway tables add NAME URL\n")


def test_the_settings_say_where_a_database_is_and_what_is_seen(folder: Path) -> None:
    (folder / "shop.md").write_text("A sale is *paid* once its time is set.")
    row = (
        "url_env: SHOP_URL, tables: [sales, staff], hide: ['*.ssn', sales.card_number], description: shop.md, "
        "samples: true, rows: {sales: 'team = {key.team}'}"
    )
    (folder / "ragway.yaml").write_text(f"{SETTINGS}tables:\n  shop: {{{row}}}\n")
    url = f"sqlite:///{folder / 'shop.db'}"
    assert "the environment variable SHOP_URL is not set" in refused(ragway("tables", "add", "shop", folder=folder))
    out, err = tables(folder, "add", "shop", SHOP_URL=url)
    assert out == "shop: 2 added, 0 changed, 0 unchanged, 0 removed"
    assert "no chat" not in err
    shown, _ = tables(folder, "show", "shop")
    assert "A sale is *paid*" in shown
    assert "'Ann'" in shown
    assert "north" not in shown, "a sample of a table whose rows differ by key"
    assert not {SECRET, "ssn", "card_number", "products"} & {*shown.split()}
    assert tables(folder, "list")[0] == "shop  2 tables  sqlite  $SHOP_URL"
    for file in (folder / "data").rglob("*.db*"):
        assert url.encode() not in file.read_bytes(), "what a variable says is not stored"

    mistyped = row.replace("rows: {sales", "rows: {Sales")
    (folder / "ragway.yaml").write_text(f"{SETTINGS}tables:\n  shop: {{{mistyped}}}\n")
    words = refused(ragway("tables", "show", "shop", folder=folder))
    assert "tables.shop.rows: there is no table 'Sales'; did you mean 'sales'?" in words, "else all rows were shown"

    (folder / "ragway.yaml").write_text(f"{SETTINGS}tables:\n  shop: {{{row.replace('key.team}', 'key.team} --')}}}\n")
    assert "rows: sales: the SQL cannot be read" in refused(
        ragway("tables", "add", "shop", folder=folder, environ={"SHOP_URL": url})
    )

    hidden = row.replace("'*.ssn'", "'*.ssn', staff.name").replace("samples: true", "samples: false")
    (folder / "ragway.yaml").write_text(f"{SETTINGS}tables:\n  shop: {{{hidden}}}\n")
    shown, _ = tables(folder, "show", "shop")
    assert "- name" not in shown, "hidden from now on, before the database is read again"
    assert "such as" not in shown


def test_files_are_a_database(folder: Path) -> None:
    (folder / "stock.csv").write_text("product,left\nBeanie,4\n")
    (folder / "prices.tsv").write_text("product\tprice\nBeanie\t9.5\n")
    assert tables(folder, "add", "store", "stock.csv", "prices.tsv")[0].startswith("store: 2 added")
    shown = tables(folder, "show", "store", "prices")[0]
    assert shown == "prices (about 1 rows)\n- product VARCHAR\n- price DOUBLE"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["add", "shop", f"postgresql://me:{SECRET}@host/x"], "URL must not hold a password"),
        (["add", "shop", "notes.txt"], "FILE must be files with one of the endings .csv, .tsv"),
        (["add", "shop"], "give a URL or files, or set tables.shop.url"),
        (["add", "shop", "sqlite:///nowhere.db"], "nothing is changed"),
        (["add", "Shop", "sqlite:///shop.db"], "a name has small letters"),
        (["add", "placed", "sqlite:///shop.db"], "the setting tables.placed says where the database is"),
        (["show", "nope"], "there is no database 'nope'; known: none"),
        (["remove", "nope"], "there is no database 'nope'"),
        (["search", "x", "--database", "nope"], "there is no database 'nope'"),
        (["search", " "], "the question is empty"),
    ],
)
def test_what_cannot_be_done_says_why(folder: Path, words: list[str], reason: str) -> None:
    (folder / "data").mkdir()
    (folder / "ragway.yaml").write_text(SETTINGS + "tables: {placed: {url: 'sqlite:///shop.db'}}\n")
    done = ragway("tables", *words, folder=folder)
    assert done.returncode in (1, 2)
    assert reason in done.stderr
    assert SECRET not in done.stderr


def test_a_mistyped_name_of_a_hidden_column_shows_nothing(folder: Path) -> None:
    (folder / "ragway.yaml").write_text(SETTINGS + "tables: {shop: {url: 'sqlite:///shop.db', hide: [staff.snn]}}\n")
    words = refused(ragway("tables", "add", "shop", folder=folder))
    assert "hide: there is no column 'staff.snn'; did you mean 'staff.ssn'?; nothing is changed" in words
    assert tables(folder, "list")[0] == ""


def test_a_database_is_asked_without_what_is_hidden(folder: Path) -> None:
    (folder / "ragway.yaml").write_text(SETTINGS + "tables: {shop: {url: 'sqlite:///shop.db', hide: ['*.ssn']}}\n")
    tables(folder, "add", "shop")
    out, err = tables(
        folder, "query", "shop", "SELECT name, units FROM sales JOIN products ON product_id = products.id"
    )
    assert out.splitlines() == ["name           units", "Fruity Fedora  3", "Beanie         1"]
    assert err.startswith("2 rows, ")
    row = json.loads(tables(folder, "query", "shop", "SELECT sum(units) AS n FROM sales", "--json")[0])
    assert (row["columns"], row["rows"], row["cut"]) == (["n"], [[4]], False)
    for sql in ("SELECT ssn FROM staff", "DELETE FROM staff", "SELECT * FROM nowhere"):
        done = ragway("tables", "query", "shop", sql, folder=folder)
        assert done.returncode == 1
        assert SECRET not in done.stdout + done.stderr
    everything = json.loads(tables(folder, "query", "shop", "SELECT * FROM staff", "--json")[0])
    assert everything["columns"] == ["id", "name", "salary"]


def test_doctor_names_what_is_wrong_with_a_database(folder: Path) -> None:
    def told(row: str) -> list[str]:
        (folder / "ragway.yaml").write_text(f"{SETTINGS}tables: {{shop: {{{row}}}}}\n")
        done = ragway("doctor", "--json", folder=folder)
        rows = [one for one in json.loads(done.stdout) if one["subject"].startswith("tables")]
        assert done.returncode == int(bool(rows))
        return [f"{one['problem']}: {one['advice']}" for one in rows]

    fine = "url: 'sqlite:///shop.db', samples: true, rows: {sales: 'team = {key.team}'}"
    (folder / "ragway.yaml").write_text(f"{SETTINGS}tables: {{shop: {{{fine}}}}}\n")
    (folder / "data").mkdir()
    assert told("") == ["nothing says where the database is: set tables.shop.url, or `ragway tables add shop URL`"]
    assert told(fine) == ["no table was read: `ragway tables add shop`"]
    tables(folder, "add", "shop")
    assert told(fine) == []
    assert "there is no table 'Sales'" in told(fine.replace("sales", "Sales"))[0]
    assert told("url_env: NO_SUCH_URL")[0].startswith("the environment variable NO_SUCH_URL is not set")
    with sqlite3.connect(folder / "shop.db") as sql:
        sql.execute("INSERT INTO staff VALUES (2, 'Bo', '', 1)")
        assert told(fine) == [], "rows are no change"
        sql.execute("ALTER TABLE staff ADD COLUMN team TEXT")
    sql.close()
    assert told(fine) == ["the tables are others than those that were read: `ragway tables add shop`"]
