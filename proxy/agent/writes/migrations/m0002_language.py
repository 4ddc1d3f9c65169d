"""The language in which a write was shown."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.add_column("writes", sa.Column("language", sa.String, nullable=False, server_default="en"))
