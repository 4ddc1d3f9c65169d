"""The tables of receipts, comparisons, histories and rounds of actions; `runtime.database` says how to change one."""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()


def _receipt_table(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column(
            "id", String, primary_key=True
        ),  # the x-rag-id of the chat; else: `proxy.augment.history`, `proxy.actions.memory`
        Column("at_s", Float, nullable=False),
        Column("bytes", Integer, nullable=False),  # that the row takes
        Column("content", LargeBinary, nullable=False),  # JSON
        Index(f"{name}_by_time", "at_s", "bytes"),  # sums are read from it alone, and not from the contents
    )


# comparisons: of answers raw and with passages (`proxy.observe.shadow`).
TABLES = {name: _receipt_table(name) for name in ("receipts", "comparisons", "histories", "action_rounds")}

schema = Schema("receipts", metadata, Path(__file__).with_name("migrations"))
