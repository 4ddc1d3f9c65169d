"""Two teams' shop with canaries in what team a must not read, on three engines."""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.tables.queries import QueryLimits
from proxy.tables.schema import Column, DatabaseSchema, DatabaseSource, ForeignKey, Grant, TableSchema
from tests.support.postgres_server import Postgres

CANARY = "kanarie"  # begins every value that team a must not read
LIMITS = QueryLimits(max_rows=500, max_seconds=1.0, memory_mb=256, result_bytes=2**20, max_cost=1e7)

SALES = [  # id, team, product, units, sold, note
    (1, "a", "Fruity Fedora", 3, "2026-11-20", "gift"),
    (2, "a", "Top Hat", 5, "2026-11-21", None),
    (3, "a", "Fruity Fedora", 4, "2026-11-22", "7"),
    (4, "b", f"{CANARY}-product", 987654321, "2026-11-22", f"{CANARY}-note"),
    (5, "b", f"{CANARY}-hat", 987654322, "2026-11-23", f"{CANARY}-note2"),
]
CUSTOMERS = [  # id, name, ssn
    (1, "Anna", f"{CANARY}-ssn1"),
    (2, "Bert", f"{CANARY}-ssn2"),
]
SECRETS = [(1, f"{CANARY}-secret")]

_TABLES: dict[str, tuple[str, Sequence[tuple[object, ...]]]] = {
    "sales": ("id INTEGER, team TEXT, product TEXT, units BIGINT, sold DATE, note TEXT", SALES),
    "customers": ("id INTEGER, name TEXT, ssn TEXT", CUSTOMERS),
    "secrets": ("id INTEGER, code TEXT", SECRETS),
}
GRANTS = {
    "sales": Grant(("id", "product", "units", "sold", "note"), "team = 'a'"),
    "customers": Grant(("id", "name")),
}
ALL = {"sales": Grant(("id", "product", "units", "sold", "note")), "customers": Grant(("id", "name"))}


def database(dialect: str) -> DatabaseSchema:
    """What is known of the shop: neither secrets, nor the columns that grants leave out, but for the team."""
    return DatabaseSchema(
        "shop",
        dialect,
        (
            TableSchema(
                "sales",
                tuple(Column(name, "TEXT") for name in ("id", "team", "product", "units", "sold", "note")),
                foreign_keys=(ForeignKey(("id",), "customers", ("id",)),),
            ),
            TableSchema("customers", (Column("id", "INTEGER"), Column("name", "TEXT"), Column("ssn", "TEXT"))),
            TableSchema("secrets", (Column("id", "INTEGER"), Column("code", "TEXT"))),
        ),
    )


def statements(*, own_only: bool) -> list[tuple[str, str, list[tuple[object, ...]]]]:
    """CREATE TABLE, INSERT with `?`, and rows. own_only: without team b's rows."""
    made = []
    for name, (columns, rows) in _TABLES.items():
        kept = [row for row in rows if not (own_only and name == "sales" and row[1] == "b")]
        marks = ", ".join("?" * (columns.count(",") + 1))
        made.append((f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} VALUES ({marks})", list(kept)))
    return made


@dataclass(frozen=True, slots=True)
class Shop:
    """An open shop: where it is, and who may look at all of it."""

    dialect: str
    source: DatabaseSource
    folder: Path
    admin: str = ""  # of PostgreSQL

    @property
    def database(self) -> DatabaseSchema:
        return database(self.dialect)

    def state(self) -> str:
        """A digest of all that a statement could change: the database, and the files beside it."""
        digest = hashlib.sha256()
        if self.admin:
            import psycopg

            with psycopg.connect(self.admin, autocommit=True) as sql:
                for query in _CONTENT:
                    digest.update(repr(sql.execute(query.encode()).fetchall()).encode())
        for file in sorted(self.folder.rglob("*")):
            if file.is_file():
                digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()


def shop(dialect: str, folder: Path, server: Callable[[], Postgres], *, own_only: bool = False) -> Shop:
    """Make one. own_only: with team a's rows alone."""
    made = statements(own_only=own_only)
    if dialect == "postgres":
        return _on_postgres(made, folder, server())
    sql: Any
    if dialect == "sqlite":
        file = folder / "shop.sqlite"
        sql = sqlite3.connect(file)
        source = DatabaseSource("sqlite", f"sqlite:///{file}")
    else:
        import duckdb

        file = folder / "shop.duckdb"
        sql = duckdb.connect(str(file))
        source = DatabaseSource("sql", f"duckdb:///{file}")
    for create, insert, rows in made:
        sql.execute(create)
        sql.executemany(insert, rows)
    sql.commit()
    sql.close()
    return Shop(dialect, source, folder)


def _on_postgres(made: list[tuple[str, str, list[tuple[object, ...]]]], folder: Path, server: Postgres) -> Shop:
    """With a role that only reads, and neither the secrets."""
    import psycopg

    admin = server.database()
    with psycopg.connect(admin, autocommit=True) as sql:
        for create, insert, rows in made:
            sql.execute(create.encode())
            with sql.cursor() as cursor:
                cursor.executemany(insert.replace("?", "%s").encode(), rows)
        (schema,) = sql.execute("SELECT current_schema()").fetchone() or ("",)
        for text in (
            f"CREATE SEQUENCE {schema}.shop_seq",
            f"CREATE ROLE {schema}_reader LOGIN PASSWORD 'reads-only'",
            f"GRANT USAGE ON SCHEMA {schema} TO {schema}_reader",
            f"GRANT SELECT ON sales, customers TO {schema}_reader",
        ):
            sql.execute(text.encode())
    url = admin.replace("postgres:s3cret-database", f"{schema}_reader:reads-only")
    return Shop("postgres", DatabaseSource("sql", url), folder, admin)


_CONTENT = (
    "SELECT * FROM sales ORDER BY 1",
    "SELECT * FROM customers ORDER BY 1",
    "SELECT * FROM secrets ORDER BY 1",
    "SELECT count(*) FROM pg_class",
    "SELECT count(*) FROM pg_proc",
    "SELECT count(*) FROM pg_roles",
    "SELECT count(*) FROM pg_largeobject_metadata",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
    "SELECT count(*) FROM pg_db_role_setting",
    "SELECT relname, last_value FROM pg_sequences JOIN pg_class ON relname = sequencename ORDER BY 1",
)
