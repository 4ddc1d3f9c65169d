"""The table action_results, until `m0006_records`."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Change nothing: a table without rows would only be copied and dropped."""
