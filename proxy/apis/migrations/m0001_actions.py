"""The first tables."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.create_table(
        "action_sets",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("base_url", sa.String, nullable=False),
        sa.Column("updated_s", sa.Float, nullable=False),
        sa.Column("uncallable", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "actions",
        sa.Column("set", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("definition", sa.LargeBinary, nullable=False),
    )
