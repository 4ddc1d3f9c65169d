"""Stored databases, and the tables that a question is given."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.tables.cards import card, shortened, tokens_of, words_of
from proxy.tables.library import (
    COLLECTION,
    FoundTable,
    FoundTables,
    TableLibrary,
    TableStore,
    _all_tables,
    _chosen,
    scored,
)
from proxy.tables.reading import Reading, read_database
from proxy.tables.schema import Column, DatabaseSchema, DatabaseSource, ForeignKey, Grant, TableSchema
from proxy.tables.visible import granted
from retrieval.errors import RetrievalError
from retrieval.index.index import Index
from retrieval.records.search import Turn
from tests.proxy.tables.small_shop import SECRET, make_shop
from tests.support.plans import plan_for

SUBJECTS = ("invoices", "parking", "weather", "recipes", "planets", "football", "vaccines", "bridges", "songs", "taxes")


def wide() -> DatabaseSchema:
    """Tables about ten subjects, each with a key to the owner."""
    owner = TableSchema("owners", (Column("owner_id", "INTEGER"), Column("name", "TEXT")), primary_key=("owner_id",))
    key = ForeignKey(("owner_id",), "owners", ("owner_id",))
    columns = (Column("owner_id", "INTEGER"), Column("value", "INTEGER"))
    tables = (TableSchema(name, columns, comment=f"all {name}", foreign_keys=(key,)) for name in SUBJECTS)
    return DatabaseSchema("wide", "sqlite", (owner, *tables), "Money is in cents.")


@contextlib.asynccontextmanager
async def opened(data: Path) -> AsyncIterator[TableLibrary]:
    index, store = await Index.open(plan_for(data), serving=False), TableStore(data)
    try:
        yield TableLibrary(store, index)
    finally:
        store.close()
        await index.close()


SOURCE = DatabaseSource("sqlite", "sqlite:////data/wide.db")


def asked(text: str) -> list[Turn]:
    return [Turn("user", text)]


async def test_all_tables_are_given_where_they_fit_and_the_best_where_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        await library.add(SOURCE, wide())
        every = await library.find(asked("how many bridges?"), ["wide", "unknown"], budget_tokens=2_000)
        assert every.whole
        assert [one.table.name for one in every.tables] == [one.name for one in wide().tables]
        assert every.text.startswith(
            "Database wide (SQLite):\nMoney is in cents.\n\nowners\n- owner_id INTEGER primary"
        )
        assert every.tokens == tokens_of(every.text) <= 2_000
        best = await library.find(asked("how many bridges?"), ["wide"], budget_tokens=80)
        assert not best.whole
        assert [one.table.name for one in best.tables][:2] == ["bridges", "owners"], "with the table of its key"
        assert tokens_of(best.text) <= 80
        assert best.relevant
        assert best.relevance is not None


async def test_what_a_caller_may_not_see_is_not_in_the_answer(tmp_path: Path) -> None:
    shop = read_database("shop", DatabaseSource("sqlite", make_shop(tmp_path / "shop.db")), Reading(samples=True))
    async with opened(tmp_path) as library:
        await library.add(SOURCE, shop)
        for budget in (2_000, 60):
            found = await library.find(
                asked("the ssn and the salary of the staff"),
                ["shop"],
                budget_tokens=budget,
                narrow=lambda one: granted(one, {"sales": Grant(("id", "units"))}),
            )
            assert [one.table.name for one in found.tables] == ["sales"]
            assert not {"ssn", "staff", SECRET, "card_number"} & {*found.text.split()}
            assert not {"ssn", "staff", SECRET} & {*repr(found).replace("'", " ").split()}
            assert found.relevance is not None
        other = asked("the ssn of the staff")
        sales_only = await library.find(
            other, ["shop"], budget_tokens=99, narrow=lambda one: granted(one, {"sales": Grant(("id",))})
        )
        everything = await library.find(other, ["shop"], budget_tokens=99)
        assert (sales_only.relevance or 0) < (everything.relevance or 0), "tables that are not seen do not count"
        none = await library.find(asked("sales"), ["shop"], budget_tokens=100, narrow=lambda one: granted(one, {}))
        assert none.tables == ()
        assert not none.relevant


async def test_a_database_is_changed_and_removed_with_its_texts(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        assert (await library.add(SOURCE, wide())).added == 11
        assert (await library.add(SOURCE, replace(wide(), name="other"))).added == 11
        less = replace(wide(), tables=wide().tables[:5], description="")
        report = await library.add(SOURCE, less)
        assert (report.added, report.changed, report.unchanged, report.removed) == (0, 0, 5, 6)
        assert len(await library.knowledge.library.keys_under(COLLECTION, "wide/")) == 5
        assert len(await library.knowledge.library.keys_under(COLLECTION, "other/")) == 12
        assert library.store.databases()["wide"].database == less
        assert await library.remove("wide")
        assert not await library.remove("wide")
        assert [*library.store.databases()] == ["other"]
        assert await library.knowledge.library.keys_under(COLLECTION, "wide/") == []
        assert not (await library.find(asked("bridges"), ["wide"], budget_tokens=500)).tables


async def test_nothing_is_stored_at_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        assert not (await library.find(asked("bridges"), ["wide"], budget_tokens=500)).tables
        assert not await library.remove("wide")
        assert not (tmp_path / "tables.db").exists()


def test_a_store_on_each_database(tmp_path: Path, catalog_url: str) -> None:
    store, other = TableStore(tmp_path, catalog_url), TableStore(tmp_path, catalog_url)
    store.put(SOURCE, wide())
    assert store.databases()["wide"].source == SOURCE
    other.put(SOURCE, replace(wide(), description="Changed."))
    assert store.databases()["wide"].database.description == "Changed.", "another process wrote"
    assert other.remove("wide")
    assert store.databases() == {}
    store.close()
    other.close()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tables.db").write_bytes(b"no database" * 100)
    with pytest.raises(RetrievalError, match="tables.db is damaged"):
        TableStore(tmp_path).databases()


async def test_two_writers_leave_one_state(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        some = replace(wide(), tables=wide().tables[:3])
        await asyncio.gather(library.add(SOURCE, wide()), library.add(SOURCE, some))
        keys = await library.knowledge.library.keys_under(COLLECTION, "wide/")
        assert len(keys) == len(library.store.databases()["wide"].database.tables) + 1


def test_a_found_table_brings_those_along_that_its_keys_refer_to() -> None:
    keys = (ForeignKey(("author",), "authors", ("id",)), ForeignKey(("gone",), "elsewhere", ("id",)))
    papers = TableSchema("papers", (Column("id", ""),), foreign_keys=(*keys, ForeignKey(("id",), "papers", ("id",))))
    tables = (TableSchema("authors", (Column("id", ""),)), papers, TableSchema("songs", (Column("id", ""),)))
    scores = scored({"x": DatabaseSchema("x", "sqlite", tables)}, {("x", "papers"): 1.0})
    assert scores["x", "papers"] == 1.0, "not by itself"
    assert scores["x", "papers"] > scores["x", "authors"] > scores["x", "songs"] == 0.0
    assert scores.keys() == {("x", "authors"), ("x", "papers"), ("x", "songs")}


@given(st.integers(1, 400), st.integers(1, 60))
def test_a_card_is_never_longer_than_its_budget(tokens: int, columns: int) -> None:
    table = TableSchema("wide", tuple(Column(f"column {n}", "TEXT") for n in range(columns)))
    text = shortened(table, "sqlite", tokens)
    assert tokens_of(text) <= tokens
    if text and "more columns" not in text:
        assert text == card(table, "sqlite", lean=True)


@given(st.text())
def test_words_of_any_name_are_small_letters(name: str) -> None:
    assert words_of(name) == words_of(name).lower()
    assert words_of("orderItems_v2") == "order items v 2"


async def test_many_tables_cost_little(tmp_path: Path) -> None:
    """A gateway writes no card of a table that has no place."""
    columns = tuple(Column(f"column_{n}", "INTEGER", comment="a number") for n in range(30))
    many = DatabaseSchema("many", "sqlite", tuple(TableSchema(f"table_{n}", columns) for n in range(2_000)))
    written = []

    def counted(*args: object, **options: object) -> str:
        written.append(args)
        return card(*args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy.tables.library.card", counted)
        scores = {("many", one.name): 1.0 for one in many.tables}
        assert _all_tables({"many": many}, 3_000) is None
        chosen, text = _chosen({"many": many}, scores, 3_000)
    assert tokens_of(text) <= 3_000
    assert len(chosen) > 5
    assert len(written) < 100


def test_a_question_that_a_passage_answers_is_offered_only_a_better_table() -> None:
    tables = (FoundTable("wide", wide().tables[0]),)
    likely = FoundTables(tables, relevance=0.02)
    assert likely.relevant
    assert likely.relevant_beside(0.3)
    assert not likely.relevant_beside(0.9)
    assert not FoundTables(tables, relevance=0.001).relevant_beside(0.0)
    assert FoundTables(tables, relevance=None).relevant_beside(1.0), "the search is off"
    assert not FoundTables((), relevance=1.0).relevant_beside(0.0)
