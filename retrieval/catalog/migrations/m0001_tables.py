"""The tables before the first migration: older catalogs have all tables or only the first tables."""

import sqlalchemy as sa
from alembic import op

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_ANY = sa.String().with_variant(sa.Text(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "collections",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("embedder", sa.String, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("probes", sa.LargeBinary, nullable=False),
        sa.Column("updated_s", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "documents",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("collection", _NAME, sa.ForeignKey("collections.name"), nullable=False),
        sa.Column("key", _NAME, nullable=False),
        sa.Column("last_revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("collection", "key"),
        if_not_exists=True,
    )
    op.create_table(
        "revisions",
        sa.Column("document", _NAME, sa.ForeignKey("documents.id"), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("source", _ANY, nullable=False),
        sa.Column("title", _ANY, nullable=False),
        sa.Column("format", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("modified_s", sa.Float, nullable=False),
        sa.Column("content_hash", sa.String, nullable=False),
        sa.Column("recipe", sa.String, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_revisions_state", "revisions", ["state"], if_not_exists=True)
    op.create_table(
        "languages",
        sa.Column("collection", _NAME, sa.ForeignKey("collections.name"), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("language", sa.String, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "builds",
        sa.Column("collection", _NAME, sa.ForeignKey("collections.name"), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("made_with", sa.Text, nullable=False),
        if_not_exists=True,
    )
