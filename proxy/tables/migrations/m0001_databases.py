"""The first table."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "table_databases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("source", sa.LargeBinary, nullable=False),
        sa.Column("definition", sa.LargeBinary, nullable=False),
        sa.Column("updated_s", sa.Float, nullable=False),
    )
