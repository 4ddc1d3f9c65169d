"""The tables of actions; `runtime.database` explains changes of tables."""

from pathlib import Path

from sqlalchemy import Column, Float, LargeBinary, MetaData, String, Table

from runtime.database import Schema

metadata = MetaData()

# The columns stand in the order of the fields of `ActionSet`.
action_sets = Table(
    "action_sets",
    metadata,
    Column("name", String, primary_key=True),
    Column("title", String, nullable=False),  # of the OpenAPI document
    Column("base_url", String, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("uncallable", LargeBinary, nullable=False),  # JSON: uncallable operations, with reasons
    Column("source", String, nullable=False, server_default=""),  # file or URL of the document; "" = sent by a client
    Column("document", String, nullable=False, server_default=""),  # its hash; "" = the writing is unfinished
)
actions = Table(
    "actions",
    metadata,
    Column("set", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("revision", String, nullable=False),  # a hash of the definition
    Column("definition", LargeBinary, nullable=False),  # JSON of an `Operation`
)

schema = Schema("actions", metadata, Path(__file__).with_name("migrations"))
