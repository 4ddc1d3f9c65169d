"""The usage of requests, and the shares of limits."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "usage",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("day", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("injected_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("estimated", sa.Boolean, nullable=False),
        sa.Column("cost_usd", sa.Float),
        sa.Column("total_ms", sa.Float, nullable=False),
        sa.Column("retrieval_ms", sa.Float),
        sa.Column("upstream_ms", sa.Float),
        sa.Column("stages_ms", sa.Text, nullable=False),
    )
    op.create_index("usage_by_day", "usage", ["day", "key"])
    op.create_table(
        "spent",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("measure", sa.String, primary_key=True),
        sa.Column("starts_s", sa.BigInteger, primary_key=True),
        sa.Column("ends_s", sa.BigInteger, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_spent_ends_s", "spent", ["ends_s"])
    op.create_table(
        "leases",
        sa.Column("process", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("measure", sa.String, primary_key=True),
        sa.Column("starts_s", sa.BigInteger, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_index("ix_leases_expires_s", "leases", ["expires_s"])
