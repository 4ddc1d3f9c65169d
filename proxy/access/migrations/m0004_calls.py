"""The calls of APIs in the usage of requests."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    for name in ("calls", "changes"):
        op.add_column("usage", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
