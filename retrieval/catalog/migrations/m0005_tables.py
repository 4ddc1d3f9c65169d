"""All tables, made if missing: catalogs of earlier numbers, and from before there were numbers, lack later tables.

A migration that changes one of these tables puts it into this file as it is today.
"""

from alembic import op

from retrieval.catalog.catalog_tables import metadata


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    op.drop_index("ix_revisions_state", "revisions", if_exists=True)
    op.create_index("revisions_by_state", "revisions", ["state", "document", "revision"], if_not_exists=True)
