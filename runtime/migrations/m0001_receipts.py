"""The table receipts, until `m0006_records`."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Change nothing: a table without rows would only be copied and dropped."""
