"""One table in place of one for each kind; rows move."""

import sqlalchemy as sa
from alembic import op

_KINDS = ("receipts", "comparisons", "histories", "action_rounds", "action_results")
_COLUMNS = ("id", "at_s", "bytes", "content")


def upgrade() -> None:
    records = op.create_table(
        "records",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("records_by_time", "records", ["kind", "at_s", "bytes"])
    there = sa.inspect(op.get_bind()).get_table_names()
    for kind in (kind for kind in _KINDS if kind in there):
        old = sa.table(kind, *map(sa.column, _COLUMNS))
        rows = sa.select(sa.literal(kind), *(old.c[name] for name in _COLUMNS))
        op.execute(records.insert().from_select(["kind", *_COLUMNS], rows))
        op.drop_table(kind)
