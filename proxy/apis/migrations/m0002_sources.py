"""The source and the hash of a set's document."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    for name in ("source", "document"):
        op.add_column("action_sets", sa.Column(name, sa.String, nullable=False, server_default=""))
