"""The tables of writes; `runtime.database` explains changes of tables."""

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

from runtime.database import Schema

metadata = MetaData()

# The columns stand in the order of the fields of `PendingWrite`; those after `language` are the store's own.
writes = Table(
    "writes", metadata,
    Column("id", String, primary_key=True),
    Column("group", String, nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("set", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("revision", String, nullable=False),
    Column("key", String, nullable=False),
    Column("person", String, nullable=False),
    Column("conversation", String, nullable=False),
    Column("rights", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("shown", Text, nullable=False),
    Column("effect_read", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
    Column("finished_s", Float, nullable=False),  # 0: waits, or is being sent
    Column("status", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("language", String, nullable=False, server_default="en"),
    Column("claimed_s", Float, nullable=False),  # 0: never
    Column("logged", BigInteger, nullable=False),  # number of its last entry in the log
    Column("code", LargeBinary, nullable=False),  # an HMAC of the code
    Column("sealed", LargeBinary, nullable=False),  # the request, until the write is finished
    Index("writes_by_conversation", "key", "conversation"),
    Index("writes_by_digest", "key", "digest"),
    Index("writes_by_state", "state", "expires_s"),
)  # fmt: skip

# The columns stand in the order of the fields of `LogEntry`; the chain covers all but the last two.
log = Table(
    "write_log", metadata,
    Column("n", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3 …, without a gap
    Column("at_s", Float, nullable=False),
    Column("event", String, nullable=False),
    Column("write", String, nullable=False),
    Column("group", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("set", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("revision", String, nullable=False),
    Column("key", String, nullable=False),
    Column("person", String, nullable=False),
    Column("state", String, nullable=False),
    Column("by", String, nullable=False),
    Column("why", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("code", String, nullable=False),
    Column("arguments", String, nullable=False),
    Column("request", String, nullable=False),
    Column("shown", String, nullable=False),
    Column("answer", String, nullable=False),
    Column("previous", String, nullable=False),
    Column("earlier", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("content", Text, nullable=False),  # "": not kept
    Index("write_log_by_write", "write", "n"),
    Index("write_log_by_time", "at_s"),
)  # fmt: skip

# One row: the random secret of this database.
secret = Table(
    "write_secret", metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", LargeBinary, nullable=False),
    Column("sealed", Integer, nullable=False),  # 1: by the master key
)  # fmt: skip

schema = Schema("writes", metadata, Path(__file__).with_name("migrations"))
