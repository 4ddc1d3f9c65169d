"""The histories of stored conversations."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "histories",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("histories_by_time", "histories", ["at_s", "bytes"])
