"""The first wall: SQL of a model is parsed, held against a list of what is allowed, and written anew.

The database never sees the model's text. Each table stands in the written query as a subquery with the columns and rows
that the caller may read; whatever the query does around it, there is nothing else to reach. Names of WITH become names
that no table has, so a wrong guess about which of the two a name means ends in an error and not in foreign rows.
"""

import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from proxy.tables.grammar import FUNCTIONS, NODES, PARTS, TYPES, named
from proxy.tables.schema import DatabaseSchema, Grant

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect

_MOST_CHARS = 20_000
_MOST_TOKENS = 3_000
_DEEPEST = 24  # brackets within brackets, of which sqlglot's parser takes about 50 within Python's limit of calls
_MOST_BRACKETS = 100  # [ ], for each of which sqlglot copies what stands before it
_STEPS = 8  # of the parser for each token: it tries again from an earlier token, at worst exponentially often
_MOST_NAMES = 40  # in a message
_MOST_MENTIONS = 100  # of tables, each of which becomes a subquery
_MOST_COLUMNS = 10_000  # in these subqueries

_CONTROL = re.compile(r"[^\S \t\r\n\f]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_WORD = re.compile(r"[A-Za-z_]+")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_SHAPE = "write one SELECT (WITH, UNION, EXCEPT, INTERSECT and VALUES are fine)"
_UNTITLED = re.compile(r"(_?col(umn)?_?\d+|expr\d*|count_star\(\)|\?column\?)", re.IGNORECASE)

# Ends a subquery so that the planner evaluates nothing of the outer query on its rows: a condition that fails on some
# value, such as a division by zero, would otherwise tell that rows exist which the caller may not read.
_FENCES = {
    "sqlite": "LIMIT -1",
    "duckdb": "LIMIT 9223372036854775807",
    "postgres": "OFFSET 0",
    "mysql": "LIMIT 18446744073709551615",
}


logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings quote queries


class NotAllowed(Exception):
    """A query that is not run; the text tells the model why, and what to do."""


def guarded(sql: str, database: DatabaseSchema, grants: Mapping[str, Grant]) -> str:
    """The query to run instead of `sql`. Raises NotAllowed.

    What is not in `grants` looks as if it were not in the database.
    """
    from sqlglot.errors import SqlglotError

    try:
        return _Rewriting(database, grants).rewritten(sql)
    except (RecursionError, SqlglotError):  # while it is written: what cannot be read is told before
        raise NotAllowed("the query is nested too deeply: use WITH and fewer levels") from None


def readable(dialect: str, grants: Mapping[str, Grant]) -> dict[str, frozenset[str]]:
    """Table -> columns that guarded queries read, in lower case; those of conditions on rows, too."""
    import sqlglot
    from sqlglot import exp

    found = {name.lower(): {column.lower() for column in grant.columns} for name, grant in grants.items()}
    for name, grant in grants.items():
        if grant.rows:
            condition = sqlglot.parse_one(grant.rows, dialect=dialect)
            columns = {column.name.lower() for column in condition.find_all(exp.Column)}
            for table in [name, *(table.name for table in condition.find_all(exp.Table))]:
                found.setdefault(table.lower(), set()).update(columns)
    return {name: frozenset(columns) for name, columns in found.items()}


class _Granted:
    """A table that the caller may read."""

    def __init__(self, name: str, columns: tuple[str, ...], rows: str, dialect: str) -> None:
        self.name = name
        self.columns = columns
        self.rows = rows
        schema, dot, own = name.partition(".") if dialect != "sqlite" else ("", "", name)
        self.schema, self.own = (schema, own) if dot else ("", name)
        self.stored: frozenset[str] = frozenset()  # columns as the database compares them


class _Rewriting:
    """One query's way from a model's text to the text that is run."""

    def __init__(self, database: DatabaseSchema, grants: Mapping[str, Grant]) -> None:
        from sqlglot.dialects.dialect import Dialect

        self._name = database.dialect
        self._dialect: Dialect = Dialect.get_or_raise(self._name)
        self._tables: dict[tuple[str, str], _Granted] = {}
        for table in database.tables:
            grant = grants.get(table.name)
            known = {column.name for column in table.columns}
            columns = tuple(column for column in grant.columns if column in known) if grant else ()
            if grant and columns:
                one = _Granted(table.name, columns, grant.rows, self._name)
                one.stored = frozenset(map(self._stored, columns))
                self._tables[self._stored(one.schema), self._stored(one.own)] = one
        self._prefix = "_q"
        while any(table.name.lower().startswith(self._prefix) for table in database.tables):
            self._prefix = f"_{self._prefix}"
        self._count = 0
        self._columns_left = _MOST_COLUMNS
        self._fresh: set[str] = set()  # names of WITH, as written
        self._mark = f"_w{secrets.token_hex(16)}_"  # of names in place of our subqueries, which no query can have
        self._wrappers: dict[_Granted, str] = {}
        self._aliases: dict[str, _Granted | None] = {}  # in the query -> its table; None: more than one, or none
        self._names: set[str] = set()  # that a column may have somewhere in the query

    def rewritten(self, sql: str) -> str:
        from sqlglot import exp

        tree = _parsed(sql, self._dialect)
        if sum(1 for _ in tree.find_all(exp.Table)) > _MOST_MENTIONS:
            raise NotAllowed(f"the query names tables more than {_MOST_MENTIONS} times: use fewer subqueries and joins")
        self._check(tree)
        columns = list(tree.find_all(exp.Column))
        self._collect(tree)
        self._wrap(tree)
        for column in columns:
            self._check_column(column)
        text = self._written(tree)
        self._check_written(text)
        wrappers = [*self._wrappers.values()]
        return re.sub(rf"\W{self._mark}(\d+)\W", lambda match: wrappers[int(match[1])], text)

    # 1. What the query is made of.

    def _check(self, tree: "exp.Expr") -> None:
        """Refuse what is not on the lists."""
        from sqlglot import exp

        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery | exp.Values):
            raise NotAllowed(f"this is not a query: {_SHAPE}")
        functions = named(self._name)
        for node in tree.walk():
            kind = type(node).__name__
            if isinstance(node, exp.Anonymous):
                if not isinstance(node.this, str) or node.this.lower() not in functions:
                    raise NotAllowed(f"there is no function {str(node.name).lower()} here: use another")
            elif kind not in NODES and kind not in FUNCTIONS:
                raise NotAllowed(_refusal(node))
            if kind in PARTS and (more := {part for part, value in node.args.items() if value} - PARTS[kind]):
                raise NotAllowed(f"{_words(kind)} with {', '.join(map(_words, sorted(more)))} is not allowed: {_SHAPE}")
            if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
                raise NotAllowed(f"a function cannot stand for a table here: {_SHAPE}")
            if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
                raise NotAllowed("LATERAL takes a subquery here")
            if isinstance(node, exp.Var) and not _WORD.fullmatch(node.name):
                raise NotAllowed(f"{node.name[:40]!r} is not allowed")
            if isinstance(node, exp.DataType) and _type_name(node) not in TYPES:
                raise NotAllowed(f"a cast to {node.sql(self._name)[:40]} is not allowed: use a usual type")
            if isinstance(node, exp.With) and node.recursive and self._name in {"tsql", "oracle"}:
                raise NotAllowed("a recursive WITH is not allowed")

    # 2. What its names mean.

    def _stored(self, name: str) -> str:
        """A name as the database compares it, for a name that is written as it is stored."""
        from sqlglot import exp

        return self._compared(exp.Identifier(this=name, quoted=True))

    def _compared(self, name: "exp.Identifier") -> str:
        return str(self._dialect.normalize_identifier(name.copy()).this)

    def _collect(self, tree: "exp.Expr") -> None:
        """Note every name that the query itself gives to a column."""
        from sqlglot import exp

        for node in tree.walk():
            if isinstance(node, exp.Alias) and isinstance(alias := node.args.get("alias"), exp.Identifier):
                self._names.add(self._compared(alias))
            elif isinstance(node, exp.TableAlias):
                for part in [node.this, *(node.args.get("columns") or ())]:
                    if isinstance(part, exp.Identifier):
                        self._names.add(self._compared(part))
            elif isinstance(node, exp.Table):
                self._names.add(self._compared(node.this))
            elif isinstance(node, exp.Anonymous):
                self._names.add(str(node.this).lower())
            elif isinstance(node, exp.Func):
                self._names.update(name.lower() for name in node.sql_names())
            elif isinstance(node, exp.Star):
                for renamed in node.args.get("rename") or ():
                    self._names.update(self._compared(part) for part in renamed.find_all(exp.Identifier))

    def _wrap(self, tree: "exp.Expr") -> None:
        """Rename what WITH names, and put a subquery in the place of every table."""
        from sqlglot import exp

        waiting: list[tuple[exp.Expr, dict[str, str]]] = [(tree, {})]
        while waiting:
            node, names = waiting.pop()
            with_ = node.args.get("with_")
            if with_:
                names = dict(names)
                given = [(cte, self._compared(cte.args["alias"].this), self._new()) for cte in with_.expressions]
                self._fresh.update(fresh for _, _, fresh in given)
                # SQLite also lets a name refer to itself, and to later ones, without RECURSIVE.
                early = with_.recursive or self._name == "sqlite"
                for _, name, fresh in given:
                    if early and (with_.recursive or ("", name) not in self._tables):
                        names[name] = fresh
                for cte, name, fresh in given:
                    waiting.append((cte.this, dict(names)))
                    cte.args["alias"].set("this", exp.Identifier(this=fresh, quoted=True))
                    self._aliases[name] = None
                    names[name] = fresh
            for child in list(node.iter_expressions()):
                if child is with_:
                    continue
                if isinstance(child, exp.TableAlias):
                    if child.this and not isinstance(node, exp.Table):
                        self._aliases[self._compared(child.this)] = None
                    continue
                waiting.append((child, names))
                if isinstance(child, exp.Table):
                    self._place(child, names)

    def _place(self, table: "exp.Table", names: Mapping[str, str]) -> None:
        """Put what a name stands for into its place; the joins that hang on it are visited with it."""
        from sqlglot import exp

        name = self._compared(table.this)
        alias = table.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", table.this.copy())
        shown = self._compared(alias.this)
        if not table.args.get("db") and name in names:
            table.set("this", exp.Identifier(this=names[name], quoted=True))
            table.set("alias", alias)
            self._aliases[shown] = None
            return
        granted = self._granted(table)
        self._columns_left -= len(granted.columns)
        if self._columns_left < 0:
            raise NotAllowed("the query names wide tables too often: use fewer subqueries and joins")
        self._names |= granted.stored
        known = shown in self._aliases and self._aliases[shown] is not granted
        self._aliases[shown] = None if known or alias.args.get("columns") else granted
        if granted not in self._wrappers:
            self._wrappers[granted] = self._wrapper(granted)
        number = [*self._wrappers].index(granted)
        table.set("this", exp.Identifier(this=f"{self._mark}{number}", quoted=True))
        table.set("db", None)
        table.set("alias", alias)

    def _granted(self, table: "exp.Table") -> _Granted:
        schema = table.args.get("db")
        place = (self._compared(schema) if schema else "", self._compared(table.this))
        found = None
        if not table.args.get("catalog"):
            found = self._tables.get(place)
            if found is None and place[0] in _DEFAULT_SCHEMAS.get(self._name, ()):
                found = self._tables.get(("", place[1]))
        if found is None:
            raise NotAllowed(
                f"there is no table {table.this.name}; there are: {self._listed(t.name for t in self._tables.values())}"
            )
        return found

    def _wrapper(self, granted: _Granted) -> str:
        """(SELECT its columns FROM the table WHERE the caller may read the row)."""
        from sqlglot import exp

        inner = self._new()

        def quoted(name: str) -> exp.Identifier:
            return exp.Identifier(this=name, quoted=True)

        table = exp.Table(
            this=quoted(granted.own),
            db=quoted(granted.schema) if granted.schema else None,
            alias=exp.TableAlias(this=quoted(inner)),
        )
        wrapper = exp.Select(expressions=[exp.Null()], from_=exp.From(this=table))
        if granted.rows:
            condition: Any = _parsed(f"SELECT 1 WHERE ({granted.rows}) {_FENCES.get(self._name, '')}", self._dialect)
            if not isinstance(condition.args["where"].this, exp.Paren):  # its brackets close ours
                raise NotAllowed("the condition is not one condition")
            for column in list(condition.find_all(exp.Column)):
                of = column.args.get("table")
                own = of is not None and self._compared(of) == self._stored(granted.own)
                if own or (of is None and column.parent_select is condition):
                    column.set("table", quoted(inner))
                    column.set("db", None)
            for part in ("where", "limit", "offset"):
                wrapper.set(part, condition.args.get(part))
        write, of = self._dialect.generator(), quoted(inner)
        columns = ", ".join(f"{write.sql(of)}.{write.sql(quoted(one))}" for one in granted.columns)
        return f"({self._written(wrapper).replace('NULL', columns, 1)})"

    def _check_column(self, column: "exp.Column") -> None:
        """Refuse a name that no column has; the database refuses what is out of its place."""
        from sqlglot import exp

        column.set("db", None)
        column.set("catalog", None)
        if isinstance(column.this, exp.Star):
            return
        name = self._compared(column.this)
        of = column.args.get("table")
        if of is not None:
            source = self._compared(of)
            if source not in self._aliases and source not in self._names:  # a column, of which this is a field
                raise NotAllowed(f"there is no table {of.name} in this query")
            granted = self._aliases.get(source)
            if granted and name not in granted.stored:
                raise NotAllowed(
                    f"there is no column {column.name} in {granted.name}; there are: {self._listed(granted.columns)}"
                )
        elif name not in self._names and not _UNTITLED.fullmatch(name):
            if self._name == "sqlite" and column.this.args.get("quoted") and not _is_shown(column):
                column.replace(exp.Literal.string(column.name))  # as SQLite reads it
                return
            known = dict.fromkeys(c for t in self._aliases.values() if t for c in t.columns)
            there = f"; there are: {self._listed(known)}" if known else ""
            raise NotAllowed(f"there is no column {column.name}{there}. Write texts in single quotes")

    # 3. What is run.

    def _new(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _written(self, tree: "exp.Expr") -> str:
        """The text. Names are quoted, so that none is a keyword, but for SQLite, where an unknown one were a text."""
        from sqlglot.errors import ErrorLevel, UnsupportedError

        if self._name != "sqlite":
            self._quote(tree)
        try:
            return tree.sql(self._dialect, copy=False, comments=False, unsupported_level=ErrorLevel.RAISE)
        except UnsupportedError as error:
            raise NotAllowed(f"this database cannot do it: {error}") from None

    def _quote(self, tree: "exp.Expr") -> None:
        from sqlglot import exp

        for name in tree.find_all(exp.Identifier):
            if not name.args.get("quoted"):
                if self._name != "duckdb":  # sees no case, but shows it
                    self._dialect.normalize_identifier(name)
                name.set("quoted", True)

    def _check_written(self, text: str) -> None:
        """Read what was written as a database will: each table must be a name of ours."""
        from sqlglot import exp

        try:
            tree = _parsed(text, self._dialect, ours=True)
        except NotAllowed:
            raise NotAllowed("the query cannot be written safely: write it in a simpler way") from None
        for table in tree.find_all(exp.Table):
            if table.args.get("db") or not (table.name in self._fresh or table.name.startswith(self._mark)):
                raise NotAllowed("the query cannot be written safely: write it in a simpler way")

    def _listed(self, names: Iterable[str]) -> str:
        own = sorted({name if _PLAIN.fullmatch(name) or self._name != "postgres" else f'"{name}"' for name in names})
        return ", ".join(own[:_MOST_NAMES]) + (" …" if len(own) > _MOST_NAMES else "") or "none"


_DEFAULT_SCHEMAS = {"sqlite": ("main",), "duckdb": ("main",), "postgres": ("public",)}


def _parsed(sql: str, dialect: "Dialect", *, ours: bool = False) -> "exp.Expr":
    """The one statement, within bounds. ours: of the text that this module wrote, which is longer."""
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.tokenizer_core import TokenType

    if len(sql) > _MOST_CHARS * (5 if ours else 1):
        raise NotAllowed(f"the query is longer than {_MOST_CHARS:,} characters: shorten it")
    if _CONTROL.search(sql):
        raise NotAllowed("the query has a control character or an unusual space: use usual characters")
    try:
        tokens = dialect.tokenize(sql)
        if len(tokens) > _MOST_TOKENS * (5 if ours else 1):
            raise NotAllowed("the query is too long: shorten it")
        opening = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
        closing = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
        depth = deepest = 0
        for token in tokens:
            depth += (token.token_type in opening) - (token.token_type in closing)
            deepest = max(deepest, depth)
        if sum(token.token_type == TokenType.L_BRACKET for token in tokens) > _MOST_BRACKETS:
            raise NotAllowed("the query has too many [ ]: use fewer")
        if deepest > _DEEPEST + (8 if ours else 0):
            raise NotAllowed("the query is nested too deeply: use WITH and fewer levels")
        parser = _bounded(dialect.parser_class)(dialect=dialect, steps=_STEPS * (len(tokens) + 50))
        found: list[exp.Expr] = [one for one in parser.parse(tokens, sql) if one is not None]
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise NotAllowed(f"the SQL cannot be read: {first.get('description', 'wrong syntax')}{near}") from None
    except SqlglotError:
        raise NotAllowed(f"the SQL cannot be read: {_SHAPE}") from None
    if len(found) != 1:
        raise NotAllowed(f"there are {len(found)} statements: {_SHAPE}")
    return found[0]


@cache
def _bounded(parser: type[Any]) -> type[Any]:
    """A parser that gives up after a number of steps."""

    class Bounded(parser):  # type: ignore[misc]
        def __init__(self, *, steps: int, **options: Any) -> None:
            self._left = steps
            super().__init__(**options)

        def _advance(self, times: int = 1) -> None:
            self._left -= 1
            if self._left < 0:
                raise NotAllowed("the query is too complicated: give each JOIN its ON, and use fewer levels")
            super()._advance(times)

        def _parse_term(self, parse_mod: bool = True) -> Any:
            # sqlglot takes LIMIT 2 - n % 2 for a percentage, which of these only DuckDB has.
            return super()._parse_term(parse_mod or self.dialect.__class__.__name__ != "DuckDB")

    return Bounded


def _is_shown(column: "exp.Expr") -> bool:
    from sqlglot import exp

    return isinstance(column.parent, exp.Select | exp.Alias | exp.Ordered | exp.Group)


def _type_name(node: "exp.DataType") -> str:
    return str(getattr(node.this, "value", node.this)).upper()


def _refusal(node: "exp.Expr") -> str:
    from sqlglot import exp

    if isinstance(node, exp.Func):
        return f"there is no function {node.sql_name().lower()} here: use another"
    return f"{_words(type(node).__name__)} is not allowed: {_SHAPE}"


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).strip().upper()
