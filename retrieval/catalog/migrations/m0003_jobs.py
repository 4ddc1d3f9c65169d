"""Uploaded files, and jobs that write the files."""

import sqlalchemy as sa
from alembic import op

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_ANY = sa.String().with_variant(sa.Text(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "files",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("owner", _NAME, nullable=False),
        sa.Column("name", _ANY, nullable=False),
        sa.Column("purpose", _ANY, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_files_owner", "files", ["owner"])
    op.create_table(
        "jobs",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("collection", _NAME, sa.ForeignKey("collections.name", ondelete="CASCADE"), nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("updated_s", sa.Float, nullable=False),
        sa.Column("interruptions", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("writer", sa.Text, nullable=False),
    )
    op.create_index("ix_jobs_collection", "jobs", ["collection"])
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_table(
        "tasks",
        sa.Column("job", _NAME, sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("key", _ANY, nullable=False),
        sa.Column("source", _ANY, nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("document", sa.String, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary),
    )
    op.create_index("ix_tasks_key", "tasks", ["key"])
