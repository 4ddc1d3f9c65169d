"""The table action_rounds, until `m0006_records`."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Change nothing: a table without rows would only be copied and dropped."""
