"""The tables of receipts, comparisons, histories and rounds of actions; `runtime.database` explains changes."""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()


def _receipt_table(name: str) -> Table:
    return Table(
        name,
        metadata,
        # The x-rag-id of the chat; of histories and rounds: see `proxy.augment.history`, `proxy.actions.memory`.
        Column("id", String, primary_key=True),
        Column("at_s", Float, nullable=False),
        Column("bytes", Integer, nullable=False),  # of the row
        Column("content", LargeBinary, nullable=False),  # JSON
        Index(f"{name}_by_time", "at_s", "bytes"),  # the index has all columns for sums, so the contents are not read
    )


# comparisons: of answers raw and with passages (`proxy.observe.shadow`).
TABLES = {name: _receipt_table(name) for name in ("receipts", "comparisons", "histories", "action_rounds")}

schema = Schema("receipts", metadata, Path(__file__).with_name("migrations"))
