"""The table comparisons, until `m0006_records`."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change nothing: a table without rows would only be copied and dropped."""
