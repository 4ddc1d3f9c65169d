"""The first tables."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "writes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("group", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("set", sa.String, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("person", sa.String, nullable=False),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("rights", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("effect_read", sa.Text, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
        sa.Column("finished_s", sa.Float, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claimed_s", sa.Float, nullable=False),
        sa.Column("logged", sa.BigInteger, nullable=False),
        sa.Column("code", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_writes_group", "writes", ["group"])
    op.create_index("writes_by_conversation", "writes", ["key", "conversation"])
    op.create_index("writes_by_digest", "writes", ["key", "digest"])
    op.create_index("writes_by_state", "writes", ["state", "expires_s"])
    op.create_table(
        "write_log",
        sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("write", sa.String, nullable=False),
        sa.Column("group", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("set", sa.String, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("person", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("why", sa.String, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("arguments", sa.String, nullable=False),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("shown", sa.String, nullable=False),
        sa.Column("answer", sa.String, nullable=False),
        sa.Column("previous", sa.String, nullable=False),
        sa.Column("earlier", sa.String, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_index("write_log_by_write", "write_log", ["write", "n"])
    op.create_index("write_log_by_time", "write_log", ["at_s"])
    op.create_table(
        "write_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.Integer, nullable=False),
    )
