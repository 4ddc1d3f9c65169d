"""What a model reads of tables and of a query's rows."""

from proxy.agent.tools.query_tables import QueryTables, distinct, table_text
from proxy.tables.access import Permitted
from proxy.tables.cards import heading
from proxy.tables.queries import QueryResult
from proxy.tables.schema import DatabaseSchema, DatabaseSource


def result(*rows: list[object]) -> QueryResult:
    return QueryResult(("a", "b"), [*rows], cut=False, ms=1.0)


def test_the_rows_that_fit_are_counted() -> None:
    rows = [[number, "x" * 20] for number in range(10)]
    text, shown = table_text(result(*rows), 100)
    assert (shown, text.count("\n")) == (3, 3)
    assert table_text(result(*rows), 10_000)[1] == 10


def test_a_first_row_that_is_cut_is_not_counted() -> None:
    text, shown = table_text(result([1, ["x" * 90]], [2, "y"]), 50)
    assert (len(text), shown) == (50, 0)


def test_columns_of_one_name_become_different_members() -> None:
    assert distinct(["id", "id", "id_2", "id"]) == ["id", "id_2", "id_2_2", "id_3"]


def test_a_description_stands_once_in_the_tool() -> None:
    database = DatabaseSchema("shop", "sqlite", (), "revenue is units times price")
    permitted = {"shop": Permitted(database, {}, DatabaseSource("sqlite"), "")}
    tool = QueryTables(None, permitted, heading(database), retries=2)  # type: ignore[arg-type]
    assert tool.definition("query_tables").count(b"revenue") == 1
