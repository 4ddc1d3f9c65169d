"""The catalog's tables; `database` explains how to change a table.

A table added later must have no effect while empty.
"""

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from runtime.database import Schema

_NUL = "\ufdd0"  # a noncharacter: reserved for programs, in no document


class _WithoutNul(TypeDecorator[str]):
    """Any text in PostgreSQL.

    PostgreSQL refuses NUL, so another character replaces it, and character positions stay.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value and value.replace("\0", _NUL)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return value and value.replace(_NUL, "\0")


AnyText = Text().with_variant(_WithoutNul(), "postgresql")
AnyString = String().with_variant(_WithoutNul(), "postgresql")
# Ordered by code points, as in SQLite and Python.
Name = String().with_variant(String(collation="C"), "postgresql")

metadata = MetaData()
collections = Table(
    "collections", metadata,
    Column("name", Name, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("embedder", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("probes", LargeBinary, nullable=False),  # (4, dimension) float32: vectors that identify it
    Column("updated_s", Float, nullable=False),
)  # fmt: skip
documents = Table(
    "documents", metadata,
    Column("id", Name, primary_key=True),
    Column("collection", ForeignKey("collections.name"), nullable=False),
    Column("key", Name, nullable=False),  # the file's absolute path
    Column("last_revision", Integer, nullable=False),  # the highest number ever used
    UniqueConstraint("collection", "key"),
)  # fmt: skip
languages = Table(  # language from this generation on; without a row: the default
    "languages", metadata,
    Column("collection", ForeignKey("collections.name"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("language", String, nullable=False),
)  # fmt: skip
builds = Table(  # generations made from the catalog, finished or not; see `builds`
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
    Column("state", String, nullable=False),
    Column("source", AnyString, nullable=False),
    Column("title", AnyString, nullable=False),
    Column("format", String, nullable=False),
    Column("text", AnyText, nullable=False),
    Column("modified_s", Float, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("recipe", String, nullable=False),  # how the chunks were made
    Column("chunks", Integer, nullable=False),
    # With only the state, SQLite reads all current revisions to find one document's.
    Index("revisions_by_state", "state", "document", "revision"),
)  # fmt: skip
attributes = Table(  # per revision, deleted with it; older revisions have no row
    "attributes", metadata,
    Column("document", Name, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("attributes", Text, nullable=False),  # JSON
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
places = Table(  # of revisions with pages; deleted with them
    "places", metadata,
    Column("document", Name, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("places", Text, nullable=False),  # JSON: [start, name] of each page
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
fingerprints = Table(  # of what a revision says (`said.fingerprint`); deleted with it; older revisions have no row
    "fingerprints", metadata,
    Column("document", Name, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("fingerprint", BigInteger, nullable=False),
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
audiences = Table(  # groups of a restricted revision; deleted with it
    "audiences", metadata,
    Column("document", Name, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("member", Name, primary_key=True),  # group name
    ForeignKeyConstraint(["document", "revision"], ["revisions.document", "revisions.revision"], ondelete="CASCADE"),
)  # fmt: skip
files = Table(  # uploaded by clients, in any number of collections
    "files", metadata,
    Column("id", Name, primary_key=True),
    Column("owner", Name, nullable=False, index=True),  # who may see the file
    Column("name", AnyString, nullable=False),
    Column("purpose", AnyString, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
)  # fmt: skip
jobs = Table(  # documents waiting for a collection, see `job_store`; deleted with the collection
    "jobs", metadata,
    Column("id", Name, primary_key=True),  # later ids are greater
    Column("collection", ForeignKey("collections.name", ondelete="CASCADE"), nullable=False, index=True),
    Column("state", String, nullable=False, index=True),
    Column("created_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("interruptions", Integer, nullable=False),  # unfinished attempts at the next document
    Column("reason", AnyText, nullable=False),
    Column("writer", AnyText, nullable=False),  # the client's groups, as JSON; null: all
)  # fmt: skip
tasks = Table(  # a job's documents
    "tasks", metadata,
    Column("job", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("key", AnyString, nullable=False, index=True),
    Column("source", AnyString, nullable=False),
    Column("said", AnyText, nullable=False),  # other fields of `DocumentInput`, as JSON
    Column("state", String, nullable=False),
    Column("document", String, nullable=False),
    Column("reason", AnyText, nullable=False),
    Column("content", LargeBinary),  # while waiting; NULL: that of the file with the key as id
)  # fmt: skip
changes = Table(  # in PostgreSQL: changes for other processes; see `changes`
    "changes", metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("writer", String, nullable=False),  # the process
    Column("at_s", Float, nullable=False),
    Column("what", String, nullable=False),
    Column("document", Name, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("gone", Boolean, nullable=False),
)  # fmt: skip

schema = Schema("catalog", metadata, Path(__file__).with_name("migrations"))
