"""Changes for other processes."""

import sqlalchemy as sa
from alembic import op

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("writer", sa.String, nullable=False),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("what", sa.String, nullable=False),
        sa.Column("document", _NAME, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("gone", sa.Boolean, nullable=False),
    )
