"""An index that finds the current revision of a document."""

from alembic import op


def upgrade() -> None:
    op.drop_index("ix_revisions_state", "revisions")
    op.create_index("revisions_by_state", "revisions", ["state", "document", "revision"])
