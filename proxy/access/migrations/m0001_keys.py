"""The table from before the first migration."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("team", sa.String, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("previous_hash", sa.LargeBinary),
        sa.Column("previous_until_s", sa.Float),
        sa.Column("rights", sa.Text, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float),
        sa.Column("revoked_s", sa.Float),
        sa.Column("change", sa.Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_keys_change", "keys", ["change"], if_not_exists=True)
