"""Values of a column that resemble what a person wrote."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tables.executor import Executor
from proxy.tables.guard import NotAllowed, guarded
from proxy.tables.queries import QueryLimits
from proxy.tables.reading import Reading, read_database
from proxy.tables.schema import DatabaseSource, Grant
from proxy.tables.values import Ask, best_matches, matching_values
from tests.proxy.tables.small_shop import make_shop


class Asked:
    """Runs queries on the shop, and keeps them."""

    def __init__(self, file: Path) -> None:
        make_shop(file)
        self.file = file
        self.queries: list[str] = []

    async def __call__(self, query: str) -> Sequence[Sequence[object]]:
        self.queries.append(query)
        with sqlite3.connect(self.file) as sql:
            rows = sql.execute(query).fetchall()
        sql.close()
        return rows


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    return Asked(tmp_path / "shop.db")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Fedora", "Fruity Fedora"),
        ("the fruity fedora", "Fruity Fedora"),
        ("Friuty Fedroa", "Fruity Fedora"),
        ("beenie", "Beanie"),
        ("hat", "Straw hat"),
        ("Straw hat", "Straw hat"),
    ],
)
async def test_what_a_person_wrote_finds_the_value(ask: Asked, text: str, first: str) -> None:
    assert (await matching_values(ask, "sqlite", "products", "name", text))[0] == first


async def test_other_words_find_nothing(ask: Asked) -> None:
    assert await matching_values(ask, "sqlite", "products", "name", "quarterly report") == []
    assert await matching_values(ask, "sqlite", "products", "name", " %_' ") == []


async def test_a_caller_finds_only_values_of_its_own_rows(tmp_path: Path) -> None:
    """By the queries that a model's calls run, through every wall."""
    source = DatabaseSource("sqlite", make_shop(tmp_path / "shop.db"))
    database = read_database("shop", source, Reading())
    executor, limits = Executor(), QueryLimits(2_000, 30.0, 512, 2**20)

    def ask_as(team: str) -> Ask:
        grants = {"sales": Grant(("sold_at", "team"), f"team = '{team}'")}

        async def ask(query: str) -> Sequence[Sequence[object]]:
            text = guarded(query, database, grants)
            return (await executor.query(source, text, limits, grants=grants)).rows

        return ask

    try:
        for team, day in (("north", "2026-11-20 10:00:00"), ("south", "2026-11-21 11:30:00")):
            assert await matching_values(ask_as(team), "sqlite", "sales", "sold_at", "2026-11") == [day]
        with pytest.raises(NotAllowed):
            await matching_values(ask_as("north"), "sqlite", "sales", "card_number", "canary")
    finally:
        await executor.close()


@given(st.text(max_size=60))
def test_no_text_leaves_its_place_in_the_query(text: str) -> None:
    import asyncio

    import sqlglot

    queries = []

    async def ask(query: str) -> Sequence[Sequence[object]]:
        queries.append(query)
        return []

    asyncio.run(matching_values(ask, "postgres", 'odd "table"', "Unit Price", text))
    for query in queries:
        assert len(sqlglot.parse(query, dialect="postgres")) == 1
        assert query.startswith('SELECT DISTINCT "Unit Price" FROM "odd ""table""" WHERE ')
        assert query.count("'") == query.count("LIKE") * 2


@given(st.lists(st.text(max_size=30), max_size=20), st.text(min_size=1, max_size=30))
def test_a_value_itself_is_its_own_best_match(values: list[str], text: str) -> None:
    found = best_matches(text, [*values, text], 3)
    assert len(found) <= 3
    assert found[0].lower() == text.lower()
