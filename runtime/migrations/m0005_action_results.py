"""The whole results of calls of APIs whose results were cut."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "action_results",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("action_results_by_time", "action_results", ["at_s", "bytes"])
