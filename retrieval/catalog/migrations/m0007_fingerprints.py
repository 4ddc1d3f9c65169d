"""Which documents say the same."""

from alembic import op

from retrieval.catalog.catalog_tables import fingerprints


def upgrade() -> None:
    fingerprints.create(op.get_bind(), checkfirst=True)
