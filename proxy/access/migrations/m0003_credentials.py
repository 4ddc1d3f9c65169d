"""The sealed credentials of keys."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "credentials",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("set", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )
