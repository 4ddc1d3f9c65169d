"""The SQL table of what is known of databases; `runtime.database` explains how tables change."""

from pathlib import Path

from sqlalchemy import Column, Float, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()

databases = Table(
    "table_databases",
    metadata,
    Column("name", String, primary_key=True),
    Column("source", LargeBinary, nullable=False),  # a `DatabaseSource` as JSON, without a password
    Column("definition", LargeBinary, nullable=False),  # a `DatabaseSchema` as JSON
    Column("updated_s", Float, nullable=False),
)

schema = Schema("tables", metadata, Path(__file__).with_name("migrations"))
