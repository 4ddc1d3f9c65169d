"""The tables of the accounts; `runtime.database` says how to change a table."""

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
    Column("previous_hash", LargeBinary),  # of the secret before the rotation …
    Column("previous_until_s", Float),  # … which is valid until this time
    Column("rights", Text, nullable=False),  # JSON: rights and limits
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),
    Column("revoked_s", Float),
    Column("change", Integer, nullable=False, index=True),  # counts up over the whole table
)  # fmt: skip

# A row for each request that counts.
usage = Table(
    "usage", metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("request", String, nullable=False),  # x-rag-id
    Column("at_s", Float, nullable=False),  # end of the request
    Column("day", String, nullable=False),  # UTC, as 2026-11-22
    Column("key", String, nullable=False),  # id; "" without a key
    Column("path", String, nullable=False),
    Column("model", String, nullable=False),  # the client's name
    Column("status", Integer, nullable=False),  # 0: no answer
    Column("prompt_tokens", BigInteger, nullable=False),  # injected tokens included
    Column("completion_tokens", BigInteger, nullable=False),
    Column("injected_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("estimated", Boolean, nullable=False),  # the upstream reported no usage
    Column("cost_usd", Float),  # null: the price is not known
    Column("total_ms", Float, nullable=False),
    Column("retrieval_ms", Float),
    Column("upstream_ms", Float),  # until the reply began
    Column("stages_ms", Text, nullable=False),  # JSON: stage -> ms
    Column("calls", Integer, nullable=False, server_default="0"),  # of APIs
    Column("changes", Integer, nullable=False, server_default="0"),  # of these: that change something
    Index("usage_by_day", "day", "key"),
)  # fmt: skip
# The usage of each limit in a current window; money in billionths of a dollar.
spent = Table(
    "spent", metadata,
    Column("key", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("starts_s", BigInteger, primary_key=True),
    Column("ends_s", BigInteger, nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),
)  # fmt: skip
# The units of a limit that a process may use, or uses now.
leases = Table(
    "leases", metadata,
    Column("process", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("starts_s", BigInteger, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("expires_s", Float, nullable=False, index=True),
)  # fmt: skip
# The credentials of keys for APIs of actions. Only the master key opens a value.
credentials = Table(
    "credentials", metadata,
    Column("key", String, primary_key=True),
    Column("set", String, primary_key=True),  # of actions
    Column("name", String, primary_key=True),  # secret, user or fixed.ARGUMENT
    Column("sealed", LargeBinary, nullable=False),
)  # fmt: skip

schema = Schema("accounts", metadata, Path(__file__).with_name("migrations"))
