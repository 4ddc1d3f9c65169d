"""The tables of receipts, comparisons, histories, and of actions; `runtime.database` explains changes."""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()


def _receipt_table(name: str) -> Table:
    return Table(
        name,
        metadata,
        # The x-rag-id of the chat. Of histories, rounds and results: see `proxy.augment.history`,
        # `proxy.actions.memory` and `proxy.actions.shelf`.
        Column("id", String, primary_key=True),
        Column("at_s", Float, nullable=False),
        Column("bytes", Integer, nullable=False),  # of the row
        Column("content", LargeBinary, nullable=False),  # JSON; of a result, the text
        Index(f"{name}_by_time", "at_s", "bytes"),  # the index has all columns for sums, so the contents are not read
    )


# comparisons: of answers raw and with passages (`proxy.observe.shadow`).
_NAMES = ("receipts", "comparisons", "histories", "action_rounds", "action_results")
TABLES = {name: _receipt_table(name) for name in _NAMES}

schema = Schema("receipts", metadata, Path(__file__).with_name("migrations"))
