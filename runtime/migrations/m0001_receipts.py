"""The first table."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "receipts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("receipts_by_time", "receipts", ["at_s", "bytes"])
