"""The table histories, until `m0006_records`."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change nothing: a table without rows would only be copied and dropped."""
