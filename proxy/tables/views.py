"""Which columns the views of a database read, also through other views: a view may show what is hidden elsewhere.

What reads in a way that cannot be told, such as through a function of one's own, has no entry.
"""

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proxy.tables.grammar import NODES

if TYPE_CHECKING:
    from sqlglot import exp

Place = tuple[str, str]  # table, column; "" for the table itself
Reads = Mapping[str, frozenset[Place]]  # by view

# Without functions and operators, other than an extension's: they may read anything.
POSTGRES_VIEWS = """
SELECT n.nspname, v.relname, pg_get_viewdef(v.oid)
FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace
WHERE v.relkind IN ('v', 'm') AND NOT EXISTS (
    SELECT FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    WHERE r.ev_class = v.oid AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND NOT EXISTS (
        SELECT FROM pg_depend e WHERE e.classid = d.refclassid AND e.objid = d.refobjid AND e.deptype = 'e'
    )
)
"""
POSTGRES_READS = """
SELECT vn.nspname, v.relname, tn.nspname, t.relname, coalesce(a.attname, '')
FROM pg_rewrite r JOIN pg_class v ON v.oid = r.ev_class JOIN pg_namespace vn ON vn.oid = v.relnamespace
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class t ON t.oid = d.refobjid AND t.oid <> v.oid JOIN pg_namespace tn ON tn.oid = t.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid AND d.refobjsubid <> 0
WHERE v.relkind IN ('v', 'm')
"""
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_WHOLE_ROW = re.compile(r"\w\.\*")  # as PostgreSQL writes it; pg_depend does not always have its columns

_DUCKDB_VIEWS = "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = current_database()"
_DUCKDB_MACROS = "SELECT function_name FROM duckdb_functions() WHERE NOT internal"
_WORD = re.compile(r"\w+")
_DUCKDB_NODES = NODES | {"Dot", "Lambda", "PropertyEQ", "Slice", "Ordered", "Distinct"}


def sqlite_reads(sql: sqlite3.Connection, views: Collection[str]) -> Reads:
    """As SQLite itself finds them, with names as stored; a view whose table is gone has no entry."""
    found: dict[str, frozenset[Place]] = {}
    for view in views:
        read: set[Place] = set()

        def note(action: int, table: Any, column: Any, *_: Any, read: set[Place] = read) -> int:
            if action == sqlite3.SQLITE_READ:
                read.add((str(table), str(column)))
            return sqlite3.SQLITE_OK

        sql.set_authorizer(note)
        try:
            sql.execute('EXPLAIN SELECT * FROM "{}"'.format(view.replace('"', '""'))).close()
            found[view] = frozenset(read)
        except sqlite3.Error:
            pass
        finally:
            sql.set_authorizer(None)
    return found


def with_joined(reads: Reads, texts: Mapping[str, str]) -> Reads:
    """With the columns of USING, which SQLite does not tell of. texts: of the views."""
    from sqlglot.errors import SqlglotError

    direct: dict[str, frozenset[Place]] = {}
    for view, read in reads.items():
        try:
            names = _joined(texts[view])
        except SqlglotError:
            continue
        if names is not None:
            direct[view] = read | {(table, name) for table, _ in read for name in names}
    return _through(direct, texts.keys())


def _joined(text: str) -> set[str] | None:
    """The names in USING; None: a NATURAL JOIN compares columns that the text does not name."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokenizer_core import TokenType

    found, within = set(), False
    for token in Dialect.get_or_raise("sqlite").tokenize(text):
        if token.token_type == TokenType.NATURAL:
            return None
        if within:
            found.add(token.text)
        within = token.token_type == TokenType.USING or (within and token.token_type != TokenType.R_PAREN)
    return found


def postgres_reads(definitions: Mapping[str, str], read: Sequence[tuple[str, str, str]]) -> Reads:
    """By the rows of `POSTGRES_VIEWS`, view -> definition, and of `POSTGRES_READS`: view, table, column."""
    direct: dict[str, set[Place]] = {
        view: set() for view, text in definitions.items() if not _WHOLE_ROW.search(_QUOTED.sub("x", text))
    }
    for view, table, column in read:
        if view in direct:
            direct[view].add((table, column))
    return _through(direct, {view for view, *_ in read} | {*definitions})


def duckdb_reads(sql: Any, columns: Mapping[Place, Sequence[str]]) -> Reads:
    """By the views' texts, in lower case. columns: of each table and view, by schema and name."""
    from sqlglot.errors import SqlglotError

    schema: dict[str, Any] = {}
    for (place, name), own in columns.items():
        schema.setdefault(place, {})[name] = dict.fromkeys(own, "TEXT")
    macros = {name.lower() for (name,) in sql.execute(_DUCKDB_MACROS).fetchall()}
    (catalog,) = sql.execute("SELECT current_database()").fetchone()
    direct, views = {}, set()
    for place, name, text in sql.execute(_DUCKDB_VIEWS).fetchall():
        view = _name(place, name)
        views.add(view)
        if macros.isdisjoint(_WORD.findall(text.lower())):
            try:
                read = _duckdb_read(text, place, schema, catalog.lower())
            except (SqlglotError, RecursionError):
                continue
            if read is not None:
                direct[view] = read
    return _through(direct, views)


def _name(schema: str, table: str) -> str:
    return (table if schema in ("", "main") else f"{schema}.{table}").lower()


def _duckdb_read(text: str, schema: str, columns: dict[str, Any], catalog: str) -> set[Place] | None:
    import sqlglot
    from sqlglot import exp
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import traverse_scope

    made = sqlglot.parse_one(text, dialect="duckdb")
    query = made.expression if isinstance(made, exp.Create) else None
    if not isinstance(query, exp.Query):
        return None
    for table in query.find_all(exp.Table):
        if table.catalog.lower() not in ("", catalog) or not isinstance(table.this, exp.Identifier):
            return None
        table.set("catalog", None)
    whole = qualify(query.copy(), dialect="duckdb", schema=columns, db=schema, validate_qualify_columns=True)
    if not all(map(_is_plain, whole.walk())):
        return None
    read: set[Place] = set()
    for scope in traverse_scope(whole):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                read.add((_name(source.db, source.name), ""))
        for column in scope.columns:
            of = scope.sources.get(column.table)
            if of is None:
                return None
            if isinstance(of, exp.Table):
                read.add((_name(of.db, of.name), column.name.lower()))
    return read


def _is_plain(node: "exp.Expr") -> bool:
    """Whether a node of a qualified query reads nothing but the columns that it names."""
    from sqlglot import exp

    if isinstance(node, exp.Star):
        return isinstance(node.parent, exp.Count)
    if isinstance(node, exp.Column):
        return bool(node.table)
    return type(node).__name__ in _DUCKDB_NODES or (isinstance(node, exp.Func) and not isinstance(node, exp.Columns))


def _through(direct: Mapping[str, Collection[Place]], views: Collection[str]) -> Reads:
    """What views read, with what is read by the views that they read. direct: without views that cannot be told."""
    found: dict[str, frozenset[Place]] = {}
    for view in direct:
        reached = [view]
        for one in reached:
            reached += {table for table, _ in direct.get(one, ()) if table in views}.difference(reached)
        if direct.keys() >= {*reached}:
            found[view] = frozenset(place for one in reached for place in direct[one])
    return found
