"""Databases: made, adopted from before there were migrations, brought up to date, refused where they are newer."""

import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, inspect, text

from proxy.access import tables as accounts_tables
from proxy.agent.writes import tables as write_tables
from retrieval.catalog import catalog_tables as tables
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.errors import IndexDown, RetrievalError
from runtime import record_tables
from runtime.database import Schema, _upgrade, exclusive, open_file, open_server, prepare
from tests.support.first_writer import first_writer
from tests.support.postgres_server import Postgres

SCHEMAS = [tables.schema, accounts_tables.schema, record_tables.schema, write_tables.schema]
# What SQLAlchemy made of the tables before there were migrations; the last two came later than the others.
BEFORE = """
CREATE TABLE collections (
    name VARCHAR NOT NULL, generation INTEGER NOT NULL, embedder VARCHAR NOT NULL, dimension INTEGER NOT NULL,
    probes BLOB NOT NULL, updated_s FLOAT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE documents (
    id VARCHAR NOT NULL, collection VARCHAR NOT NULL, "key" VARCHAR NOT NULL, last_revision INTEGER NOT NULL,
    PRIMARY KEY (id), UNIQUE (collection, "key"), FOREIGN KEY(collection) REFERENCES collections (name)
);
CREATE TABLE revisions (
    document VARCHAR NOT NULL, revision INTEGER NOT NULL, generation INTEGER NOT NULL, state VARCHAR NOT NULL,
    source VARCHAR NOT NULL, title VARCHAR NOT NULL, format VARCHAR NOT NULL, text TEXT NOT NULL,
    modified_s FLOAT NOT NULL, content_hash VARCHAR NOT NULL, recipe VARCHAR NOT NULL, chunks INTEGER NOT NULL,
    PRIMARY KEY (document, revision), FOREIGN KEY(document) REFERENCES documents (id)
);
CREATE INDEX ix_revisions_state ON revisions (state);
CREATE TABLE languages (
    collection VARCHAR NOT NULL, generation INTEGER NOT NULL, language VARCHAR NOT NULL,
    PRIMARY KEY (collection, generation), FOREIGN KEY(collection) REFERENCES collections (name)
);
CREATE TABLE builds (
    collection VARCHAR NOT NULL, generation INTEGER NOT NULL, embedder TEXT NOT NULL, made_with TEXT NOT NULL,
    PRIMARY KEY (collection, generation), FOREIGN KEY(collection) REFERENCES collections (name)
);
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, file: Path) -> Iterator[Engine]:
    """An empty database."""
    if request.param == "sqlite":
        opened = open_file(file)
    else:
        opened = open_server(request.getfixturevalue("postgres").database())
    yield opened
    opened.dispose()


def version(engine: Engine, schema: Schema) -> list[str]:
    with engine.connect() as sql:
        return list(sql.scalars(text(f"SELECT version_num FROM {schema.name}_version")))


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_all_migrations_make_the_tables_that_the_program_uses(engine: Engine, schema: Schema) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with engine.begin() as sql:
        _upgrade(sql, schema, None)
        context = MigrationContext.configure(sql, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []
    files = [file.name for file in sorted(schema.migrations.glob("m*.py"))]
    assert [f"m{number:04}" for number in schema.files()] == [name.partition("_")[0] for name in files]
    assert len(schema.files()) == len(files)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_new_database_is_made_and_stamped_once(engine: Engine, schema: Schema) -> None:
    for _ in range(2):
        prepare(engine, schema)
        assert version(engine, schema) == [f"{schema.head():04}"]
    assert set(schema.metadata.tables) <= set(inspect(engine).get_table_names())


def test_both_may_be_in_one_database(engine: Engine) -> None:
    for schema in SCHEMAS:
        prepare(engine, schema)
    assert [version(engine, schema) for schema in SCHEMAS] == [[f"{schema.head():04}"] for schema in SCHEMAS]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_database_of_a_later_version_is_refused_and_left_as_it_is(engine: Engine, schema: Schema) -> None:
    prepare(engine, schema)
    with engine.begin() as sql:
        sql.execute(text(f"UPDATE {schema.name}_version SET version_num = '9000'"))
    with pytest.raises(RetrievalError, match=r"later version of ragway \(schema 9000, .* update ragway"):
        prepare(engine, schema)
    assert version(engine, schema) == ["9000"]


@pytest.mark.parametrize("without", [(), ("builds",), ("builds", "languages")])
def test_a_catalog_from_before_there_were_migrations_is_adopted_with_all_it_has(
    file: Path, without: tuple[str, ...]
) -> None:
    with sqlite3.connect(file) as sql:
        sql.executescript(BEFORE + "".join(f"DROP TABLE {table};" for table in without))
        probes = np.ones((4, 3), "<f4").tobytes()
        sql.execute("INSERT INTO collections VALUES ('docs', 1, 'tiny', 3, ?, 5.5)", (probes,))
        sql.execute("INSERT INTO documents VALUES ('d', 'docs', '/page.md', 1)")
        sql.execute(
            "INSERT INTO revisions VALUES ('d', 1, 1, 'current', 'page.md', 'Page', 'markdown', 'Use TLS.', 1.5, 'h', "
            "'r', 2)"
        )
    sql.close()
    for _ in range(2):
        catalog = Catalog.open(file)
        assert catalog.collection("docs").tenant == "docs@1"
        assert catalog.current(["d"]) == {"d": 1}
        assert DocumentReader(catalog).read("d").text == "Use TLS."
        assert version(catalog.engine, tables.schema) == [f"{tables.schema.head():04}"]
        with catalog.engine.connect() as opened:
            assert opened.scalar(text("PRAGMA foreign_keys")) == 1
        catalog.close()


@pytest.mark.parametrize("number", [1, 3, 5])
def test_records_of_a_table_for_each_kind_move_into_one_table(engine: Engine, number: int) -> None:
    kinds = ["receipts", "comparisons", "histories", "action_rounds", "action_results"][:number]
    content = "BYTEA" if engine.dialect.name == "postgresql" else "BLOB"
    with engine.begin() as sql:
        for kind in kinds:
            sql.execute(
                text(
                    f"CREATE TABLE {kind} (id VARCHAR NOT NULL PRIMARY KEY, at_s FLOAT NOT NULL, "
                    f"bytes INTEGER NOT NULL, content {content} NOT NULL)"
                )
            )
            sql.execute(text(f"CREATE INDEX {kind}_by_time ON {kind} (at_s, bytes)"))
            for id in ("rag-1", "rag-2"):
                row = {"id": id, "content": f"{kind} {id}".encode()}
                sql.execute(text(f"INSERT INTO {kind} VALUES (:id, 5.5, 201, :content)"), row)
        sql.execute(text("CREATE TABLE receipts_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        sql.execute(text(f"INSERT INTO receipts_version VALUES ('{number:04}')"))
    for _ in range(2):
        prepare(engine, record_tables.schema)
    with engine.connect() as sql:
        rows = sql.execute(text("SELECT kind, id, at_s, bytes, content FROM records")).all()
    assert {(kind, id, at_s, size, bytes(content)) for kind, id, at_s, size, content in rows} == {
        (kind, id, 5.5, 201, f"{kind} {id}".encode()) for kind in kinds for id in ("rag-1", "rag-2")
    }
    assert set(inspect(engine).get_table_names()) == {"records", "receipts_version"}


def test_a_migration_that_fails_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    schema = tables.schema
    prepare(engine, schema)
    for file in schema.migrations.glob("m*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    head = schema.head()
    (tmp_path / f"m{head + 1:04}_broken.py").write_text(
        '''"""Broken."""
from alembic import op
import sqlalchemy as sa
def upgrade() -> None:
    op.add_column("documents", sa.Column("colour", sa.String))
    op.create_table("pictures", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("SELECT colour FROM nowhere")
'''
    )
    broken = Schema(schema.name, schema.metadata, tmp_path)
    with pytest.raises(Exception, match="nowhere"):
        prepare(engine, broken)
    assert "pictures" not in inspect(engine).get_table_names()
    assert "colour" not in {column["name"] for column in inspect(engine).get_columns("documents")}
    assert version(engine, schema) == [f"{head:04}"]


def test_a_table_with_rows_that_others_refer_to_can_be_changed(engine: Engine, tmp_path: Path) -> None:
    schema = tables.schema
    prepare(engine, schema)
    with engine.begin() as sql:
        sql.execute(
            tables.collections.insert().values(
                name="docs", generation=1, embedder="tiny", dimension=3, probes=b"", updated_s=1.0
            )
        )
        sql.execute(tables.documents.insert().values(id="d", collection="docs", key="k", last_revision=1))
    for file in schema.migrations.glob("m*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    head = schema.head()
    (tmp_path / f"m{head + 1:04}_colour.py").write_text(
        '''"""A column that must not be null."""
from alembic import op
import sqlalchemy as sa
def upgrade() -> None:
    with op.batch_alter_table("collections", recreate="auto") as table:
        table.add_column(sa.Column("colour", sa.String, nullable=False, server_default="red"))
        table.alter_column("embedder", nullable=True)
'''
    )
    prepare(engine, Schema(schema.name, schema.metadata, tmp_path))
    with engine.connect() as sql:
        assert sql.execute(text("SELECT name, colour FROM collections")).all() == [("docs", "red")]
        assert sql.scalar(text("SELECT collection FROM documents")) == "docs"
    assert version(engine, schema) == [f"{head + 1:04}"]


def test_opening_what_is_up_to_date_imports_no_migrations(file: Path) -> None:
    Catalog.open(file).close()
    script = (
        "import sys; from pathlib import Path; from retrieval.catalog.catalog import Catalog\n"
        "Catalog.open(Path(sys.argv[1])); "
        "print({'alembic', 'psycopg'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("url", ["postgresql://", "postgresql://anna:s3cret@[::1/x", "postgresql://u:s3cret@h:port/x"])
def test_an_address_that_is_none_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(RetrievalError) as refused:
        Catalog.connect(url)
    assert "catalog.url" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_server_that_is_away_is_one_line_without_the_password() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        _refused_at(taken.getsockname()[1])


def _refused_at(unused_port: int) -> None:
    with pytest.raises(IndexDown) as refused:
        Catalog.connect(f"postgresql://anna:s3cret@127.0.0.1:{unused_port}/ragway")
    said = str(refused.value)
    assert f"PostgreSQL at 127.0.0.1:{unused_port}/ragway" in said
    assert "catalog.url" in said
    assert "s3cret" not in said
    assert "\n" not in said


def test_a_wrong_password_is_one_line_without_it(postgres: Postgres) -> None:
    wrong = postgres.database().replace("s3cret-database", "s3cret-other")
    with pytest.raises(IndexDown, match="password authentication failed") as refused:
        Catalog.connect(wrong)
    assert "s3cret" not in str(refused.value)


def test_only_one_at_a_time_writes_what_is_exclusive(postgres: Postgres) -> None:
    url = postgres.database()
    one, other = open_server(url), open_server(url)
    with exclusive(one, "accounts"), exclusive(other, "something else"), other.connect() as sql:
        sql.execute(text("SET lock_timeout = '50ms'"))
        with pytest.raises(IndexDown, match="lock timeout"):
            _take_again(sql)
    with exclusive(other, "accounts"):
        pass
    one.dispose()
    other.dispose()


def _take_again(sql: Any) -> None:
    from runtime.locks import lock_number

    sql.execute(text(f"SELECT pg_advisory_xact_lock({lock_number('accounts')} + hashtext(current_schema()))"))


def test_a_server_that_comes_back_is_used_again() -> None:
    from tests.support.postgres_server import running

    with running() as server:
        catalog = Catalog.connect(server.database())
        assert catalog.collections() == []
        server.stop()
        for _ in range(2):
            with pytest.raises(IndexDown, match="which holds the catalog, is not reachable"):
                catalog.collections()
        server.start()
        assert catalog.collections() == []
        catalog.close()


def test_a_new_file_can_have_a_first_writer_while_a_connection_opens(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    engine = open_file(file, pooled=False)
    with first_writer(file), engine.connect() as second:
        assert second.scalar(text("SELECT count(*) FROM t")) == 0
        assert second.scalar(text("PRAGMA journal_mode")) == "wal"


_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT * FROM t").fetchall()
print("read", flush=True)
sys.stdin.read()
"""


def test_a_second_connection_of_the_process_costs_the_first_no_commit(tmp_path: Path) -> None:
    """To close a file ends all locks of the process on the file. Another process that closes the database would then
    take itself for the last one, and delete the log to which this process writes.
    """
    file = tmp_path / "a.db"
    engine, reader = open_file(file, pooled=False), [sys.executable, "-c", _READER, str(file)]
    with engine.connect() as first:
        first.execute(text("CREATE TABLE t (n INTEGER)"))
        first.commit()
        with engine.connect() as second:
            assert second.scalar(text("SELECT count(*) FROM t")) == 0
        subprocess.run(reader, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with subprocess.Popen(reader, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "read\n"
            first.execute(text("INSERT INTO t VALUES (1)"))
            first.commit()
            first.close()
            with closing(sqlite3.connect(file)) as after:
                found = after.execute("SELECT n FROM t").fetchall()
            other.communicate()
    assert found == [(1,)]
