"""The catalog's tables.

A table that a catalog made before does not have is made when that is opened: it must mean nothing while it is empty.
"""

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)  # fmt: skip

metadata = MetaData()
collections = Table(
    "collections", metadata,
    Column("name", String, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("embedder", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("probes", LargeBinary, nullable=False),  # (4, dimension) float32: identify the embedder
    Column("updated_s", Float, nullable=False),
)  # fmt: skip
documents = Table(
    "documents", metadata,
    Column("id", String, primary_key=True),
    Column("collection", ForeignKey("collections.name"), nullable=False),
    Column("key", String, nullable=False),  # the file's absolute path
    Column("last_revision", Integer, nullable=False),  # highest number ever given out
    UniqueConstraint("collection", "key"),
)  # fmt: skip
languages = Table(  # of a generation and those after it, until another row; without any: the default
    "languages", metadata,
    Column("collection", ForeignKey("collections.name"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("language", String, nullable=False),
)  # fmt: skip
builds = Table(  # of generations made from the catalog, finished or not; see `builds`
    "builds", metadata,
    Column("collection", ForeignKey("collections.name"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("embedder", Text, nullable=False),
    Column("made_with", Text, nullable=False),
)  # fmt: skip
revisions = Table(
    "revisions", metadata,
    Column("document", ForeignKey("documents.id"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("state", String, nullable=False, index=True),
    Column("source", String, nullable=False),
    Column("title", String, nullable=False),
    Column("format", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("modified_s", Float, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("recipe", String, nullable=False),  # how its chunks were made
    Column("chunks", Integer, nullable=False),
)  # fmt: skip
attributes = Table(  # of each revision that was written since there are any; it ends with the revision
    "attributes", metadata,
    Column("document", String, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("attributes", Text, nullable=False),  # JSON
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
audiences = Table(  # the groups of a revision that not everybody may read; they end with the revision
    "audiences", metadata,
    Column("document", String, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("member", String, primary_key=True),  # name of a group
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
