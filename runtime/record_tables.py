"""The record table; `runtime.database` explains changes."""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()
records = Table(
    "records",
    metadata,
    Column("kind", String, primary_key=True),
    Column("id", String, primary_key=True),  # of the chat; or as the kind's own module says
    Column("at_s", Float, nullable=False),
    Column("bytes", Integer, nullable=False),  # of the row
    Column("content", LargeBinary, nullable=False),  # JSON; of a result, the text
    # The index has all columns for sums, so no content is read.
    Index("records_by_time", "kind", "at_s", "bytes"),
)

schema = Schema("receipts", metadata, Path(__file__).with_name("migrations"))
