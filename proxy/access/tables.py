"""The tables of the accounts; `runtime.database` says how to change one."""

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

from runtime.database import Schema

metadata = MetaData()
keys = Table(
    "keys", metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("team", String, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the secret
    Column("previous_hash", LargeBinary),  # of the secret before it was rotated ...
    Column("previous_until_s", Float),  # ... which is valid until then
    Column("rights", Text, nullable=False),  # JSON: what may be read, written, called, and how much
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),
    Column("revoked_s", Float),
    Column("change", Integer, nullable=False, index=True),  # counts up over the whole table
)  # fmt: skip

# A row for each request that was counted.
usage = Table(
    "usage", metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("request", String, nullable=False),  # its x-rag-id
    Column("at_s", Float, nullable=False),  # when it ended
    Column("day", String, nullable=False),  # the same in UTC, as 2026-11-22
    Column("key", String, nullable=False),  # its id; "" without one
    Column("path", String, nullable=False),
    Column("model", String, nullable=False),  # as the client named it
    Column("status", Integer, nullable=False),  # 0: the client had no answer
    Column("prompt_tokens", BigInteger, nullable=False),  # the injected ones included
    Column("completion_tokens", BigInteger, nullable=False),
    Column("injected_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("estimated", Boolean, nullable=False),  # the upstream did not say how many
    Column("cost_usd", Float),  # null: the price is not known
    Column("total_ms", Float, nullable=False),
    Column("retrieval_ms", Float),
    Column("upstream_ms", Float),  # until its reply began
    Column("stages_ms", Text, nullable=False),  # JSON: stage -> ms
    Index("usage_by_day", "day", "key"),
)  # fmt: skip
# What is used of each limit in a window that is not over; money in billionths of a dollar.
spent = Table(
    "spent", metadata,
    Column("key", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("starts_s", BigInteger, primary_key=True),
    Column("ends_s", BigInteger, nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),
)  # fmt: skip
# What a process may still use of it, or uses now.
leases = Table(
    "leases", metadata,
    Column("process", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("starts_s", BigInteger, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("expires_s", Float, nullable=False, index=True),
)  # fmt: skip

schema = Schema("accounts", metadata, Path(__file__).with_name("migrations"))
