"""Where the pages of a revision's text begin."""

from alembic import op

from retrieval.catalog.catalog_tables import places


def upgrade() -> None:
    places.create(op.get_bind(), checkfirst=True)
