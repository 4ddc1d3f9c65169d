"""A table in words: the card that a model reads, and the text by which a question finds the table."""

import re
from collections.abc import Iterator

from proxy.tables.schema import Column, DatabaseSchema, TableSchema

_BYTES_PER_TOKEN = 3  # names and types have shorter tokens than sentences
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]+|\d+")
_SIMPLE = re.compile(r"[a-z_][a-z0-9_]*")
_QUOTES = {"mysql": "`", "bigquery": "`", "databricks": "`", "spark": "`", "hive": "`", "clickhouse": "`"}
# Names that must be quoted, of those that people give to tables and columns.
_RESERVED = frozenset(
    "all and any as asc between by case cast check column create cross current_date current_time default desc "
    "distinct do else end except exists false fetch for foreign from full grant group having in index inner "
    "intersect into is join key left like limit natural not null of offset on or order outer over primary references "
    "right select set some table then to true union unique user using values when where window with".split()
)
_DIALECTS = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgres": "PostgreSQL", "mysql": "MySQL", "tsql": "SQL Server"}
# A title begins every chunk; a chunk has 180 tokens, and a byte is at most one token.
_MOST_TITLE_BYTES = 120


def tokens_of(text: str) -> int:
    """About how many tokens a model reads."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def quoted(name: str, dialect: str) -> str:
    """A column's name as SQL writes it."""
    if _SIMPLE.fullmatch(name) and name not in _RESERVED:
        return name
    quote = _QUOTES.get(dialect, '"')
    return quote + name.replace(quote, quote * 2) + quote


def quoted_table(name: str, dialect: str) -> str:
    """A table's name as SQL writes it, with its schema if it has one."""
    parts = [name] if dialect == "sqlite" else name.split(".", 1)
    return ".".join(quoted(part, dialect) for part in parts)


def heading(database: DatabaseSchema) -> str:
    """What a database is, for a model: above its cards."""
    dialect = _DIALECTS.get(database.dialect, database.dialect)
    return "\n".join(filter(None, (f"Database {database.name} ({dialect}):", database.description.strip())))


def card(table: TableSchema, dialect: str, *, lean: bool = False) -> str:
    """A table in lines. lean: names and types only."""
    count = "" if table.rows is None else f" (about {table.rows:,} rows)"
    first = f"{quoted_table(table.name, dialect)}{count}"
    comment = "" if lean else _comment(table.comment)
    return "\n".join([first + comment, *(_line(one, table, dialect, lean=lean) for one in table.columns)])


def shortened(table: TableSchema, dialect: str, tokens: int) -> str:
    """A lean card, with as many columns as the tokens hold; "" if they hold none."""
    first, *lines = card(table, dialect, lean=True).split("\n")
    while lines:
        text = "\n".join([first, *lines])
        left = len(table.columns) - len(lines)
        text += f"\n… {left} more columns" if left else ""
        if tokens_of(text) <= tokens:
            return text
        del lines[-max(1, len(lines) // 10) :]
    return ""


def _line(column: Column, table: TableSchema, dialect: str, *, lean: bool) -> str:
    words = [f"- {quoted(column.name, dialect)}", column.type]
    if table.primary_key == (column.name,):
        words.append("primary key")
    for one in table.foreign_keys:
        if column.name in one.columns:
            referred = one.referred[one.columns.index(column.name)]
            words.append(f"= {quoted_table(one.table, dialect)}.{quoted(referred, dialect)}")
    line = " ".join(filter(None, words))
    if lean:
        return line
    samples = ", ".join(repr(one) for one in column.samples)
    return f"{line}{_comment(column.comment)}{f'; such as {samples}' if samples else ''}"


def _comment(text: str) -> str:
    return f": {text}" if text else ""


def words_of(name: str) -> str:
    """Words in a name: "orderItems_v2" -> "order items v 2"."""
    return " ".join(word.lower() for word in _WORDS.findall(name))


def title_of(database: str, table: TableSchema) -> str:
    """Title of the text by which a table is found."""
    title = f"{words_of(database)} / {words_of(table.name) or table.name}"
    return title.encode("utf-8", "replace")[:_MOST_TITLE_BYTES].decode("utf-8", "ignore")


def search_text(table: TableSchema) -> str:
    """Text in lines by which a question finds a table: names with their words, comments and samples."""
    return "\n".join(_search_lines(table))


def _search_lines(table: TableSchema) -> Iterator[str]:
    yield f"{_named(table.name)}{_comment(table.comment)}"
    for one in table.columns:
        samples = f" ({', '.join(one.samples)})" if one.samples else ""
        yield f"{_named(one.name)}{_comment(one.comment)}{samples}"
    referred = dict.fromkeys(words_of(one.table) for one in table.foreign_keys)
    if referred:
        yield f"of {', '.join(referred)}"


def _named(name: str) -> str:
    words = words_of(name)
    return name if words == name.lower() or not words else f"{name}: {words}"
