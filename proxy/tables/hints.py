"""Values that a query asks for and that no row has, with similar values of the same columns."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from proxy.tables.guard import NotAllowed

if TYPE_CHECKING:
    from proxy.tables.access import Permitted, TableQueries

_MOST_VALUES = 5  # looked up for one query
_MOST_SIMILAR = 5
_LEAST_CHARS = 2


async def similar_values(queries: "TableQueries", permitted: "Permitted", sql: str) -> list[str]:
    """A line for each text in a comparison that its column does not have, if the column has similar values.

    In the time of one query; what is not looked up by then has no line.
    """
    from proxy.tables.executor import QueryFailed
    from proxy.tables.values import matching_values

    async def ask(query: str) -> Sequence[Sequence[object]]:
        return (await queries.query(permitted, query)).rows

    lines, dialect = [], permitted.database.dialect
    texts = await asyncio.to_thread(lambda: list(islice(compared_texts(sql, permitted), _MOST_VALUES)))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(queries.limits.max_seconds):
            for table, column, text in texts:
                with contextlib.suppress(NotAllowed, QueryFailed):
                    most = queries.limits.max_rows
                    similar = await matching_values(ask, dialect, table, column, text, k=_MOST_SIMILAR, most=most)
                    if similar and text not in similar:
                        values = ", ".join(repr(one) for one in similar)
                        lines.append(f"{table}.{column} has no value {text!r}. Similar values: {values}")
    return lines


def compared_texts(sql: str, permitted: "Permitted") -> Iterator[tuple[str, str, str]]:
    """Table, column and text of each comparison (=, IN, LIKE) of a column with a text."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(sql, dialect=permitted.database.dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return
    columns = {table.name: {one.name.lower(): one.name for one in table.columns} for table in permitted.database.tables}
    named = {name.lower(): name for name in columns}
    used = {
        one.alias_or_name.lower(): named[one.name.lower()]
        for one in tree.find_all(exp.Table)
        if one.name.lower() in named
    }
    seen = set()
    for node in tree.find_all(exp.EQ, exp.In, exp.Like, exp.ILike):
        column = node.this.find(exp.Column) if node.this is not None else None
        others = node.expressions if isinstance(node, exp.In) else [node.expression]
        if column is None:
            continue
        tables = [used[column.table.lower()]] if column.table.lower() in used else [] if column.table else used.values()
        for table in dict.fromkeys(tables):
            name = columns[table].get(column.name.lower())
            for other in others:
                text = other.name.strip("%_ ") if isinstance(other, exp.Literal) and other.is_string else ""
                if name and len(text) >= _LEAST_CHARS and (table, name, text) not in seen:
                    seen.add((table, name, text))
                    yield table, name, text
