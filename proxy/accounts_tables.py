"""The tables of the accounts; `retrieval.database` says how to change one."""

from pathlib import Path

from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, String, Table, Text

from retrieval.database import Schema

metadata = MetaData()
keys = Table(
    "keys", metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("team", String, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the secret
    Column("previous_hash", LargeBinary),  # of the secret before it was rotated ...
    Column("previous_until_s", Float),  # ... which is valid until then
    Column("rights", Text, nullable=False),  # JSON: what may be read, written, called
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),
    Column("revoked_s", Float),
    Column("change", Integer, nullable=False, index=True),  # counts up over the whole table
)  # fmt: skip

schema = Schema("accounts", metadata, Path(__file__).with_name("migrations"))
