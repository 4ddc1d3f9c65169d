"""Attributes and groups of documents."""

import sqlalchemy as sa
from alembic import op

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    for table, column in (
        ("attributes", sa.Column("attributes", sa.Text, nullable=False)),
        ("audiences", sa.Column("member", _NAME, primary_key=True)),
    ):
        op.create_table(
            table,
            sa.Column("document", _NAME, primary_key=True),
            sa.Column("revision", sa.Integer, primary_key=True),
            column,
            sa.ForeignKeyConstraint(
                ["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"
            ),
            if_not_exists=True,
        )
