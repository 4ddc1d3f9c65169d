"""The table of the receipts; `retrieval.database` says how to change one."""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

from retrieval.database import Schema

metadata = MetaData()
receipts = Table(
    "receipts", metadata,
    Column("id", String, primary_key=True),  # the x-rag-id of the chat
    Column("at_s", Float, nullable=False),
    Column("bytes", Integer, nullable=False),  # that the row takes
    Column("content", LargeBinary, nullable=False),  # zlib of JSON
    Index("receipts_by_time", "at_s", "bytes"),  # sums are read from it alone, and not from the contents
)  # fmt: skip

schema = Schema("receipts", metadata, Path(__file__).with_name("migrations"))
