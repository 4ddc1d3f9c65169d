"""Tables for actions; `runtime.database` explains how tables change."""

from pathlib import Path

from sqlalchemy import Column, Float, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()

# Columns are in the order of `ActionSet`'s fields.
action_sets = Table(
    "action_sets",
    metadata,
    Column("name", String, primary_key=True),
    Column("title", String, nullable=False),  # the OpenAPI document's
    Column("base_url", String, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("uncallable", LargeBinary, nullable=False),  # JSON: uncallable operations, with reasons
    Column("source", String, nullable=False, server_default=""),  # document's file or URL; "" = sent by a client
    Column("document", String, nullable=False, server_default=""),  # its hash; "" = a write is unfinished
)
actions = Table(
    "actions",
    metadata,
    Column("set", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("revision", String, nullable=False),  # definition's hash
    Column("definition", LargeBinary, nullable=False),  # an `Operation` as JSON
)

schema = Schema("actions", metadata, Path(__file__).with_name("migrations"))
