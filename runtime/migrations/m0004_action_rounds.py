"""The hidden messages of conversations with calls of APIs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "action_rounds",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("action_rounds_by_time", "action_rounds", ["at_s", "bytes"])
