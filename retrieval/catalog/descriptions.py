"""Attributes, groups, places and fingerprints: in tables of their own, written and deleted with their revision."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Engine, insert, select, true

from retrieval.catalog.catalog_tables import attributes, audiences, fingerprints, places, revisions
from retrieval.records.documents import Attribute, Document, Groups, Places

RevisionKey = tuple[str, int]  # document and revision


def write(sql: Any, key: RevisionKey, document: Document, fingerprint: int | None) -> None:
    """Write a new revision's description, in the transaction that staged it."""
    id, revision = key
    values = orjson.dumps(dict(document.attributes)).decode()
    sql.execute(insert(attributes).values(document=id, revision=revision, attributes=values))
    if document.groups:
        members = [{"document": id, "revision": revision, "member": group} for group in document.groups]
        sql.execute(insert(audiences), members)
    if document.places:
        listed = orjson.dumps(document.places).decode()
        sql.execute(insert(places).values(document=id, revision=revision, places=listed))
    if fingerprint is not None:
        sql.execute(insert(fingerprints).values(document=id, revision=revision, fingerprint=fingerprint))


def readable(groups: Groups) -> ColumnElement[bool]:
    """Return the SQL condition on a row of `revisions`: a member of `groups` may read it."""
    if groups is None:
        return true()
    listed = select(audiences.c.member).where(
        audiences.c.document == revisions.c.document, audiences.c.revision == revisions.c.revision
    )
    return ~listed.exists() | listed.where(audiences.c.member.in_(groups)).exists()


def readable_documents(engine: Engine, documents: Sequence[str], groups: Groups) -> set[str]:
    """Return documents whose current revision `groups` may read."""
    query = select(revisions.c.document).where(
        revisions.c.document.in_(documents), revisions.c.state == "current", readable(groups)
    )
    with engine.connect() as sql:
        return set(sql.scalars(query))


def read_places(sql: Any, key: RevisionKey) -> Places:
    id, revision = key
    found = sql.scalar(select(places.c.places).where(places.c.document == id, places.c.revision == revision))
    return tuple((start, name) for start, name in orjson.loads(found or "[]"))


def read(sql: Any, keys: Sequence[RevisionKey]) -> dict[RevisionKey, tuple[dict[str, Attribute], tuple[str, ...]]]:
    unique = dict.fromkeys(keys)
    ids = list({id for id, _ in unique})
    values = {
        (row.document, row.revision): orjson.loads(row.attributes)
        for row in sql.execute(select(attributes).where(attributes.c.document.in_(ids)))
    }
    members: dict[RevisionKey, list[str]] = {}
    for row in sql.execute(select(audiences).where(audiences.c.document.in_(ids)).order_by(audiences.c.member)):
        members.setdefault((row.document, row.revision), []).append(row.member)
    return {key: (values.get(key, {}), tuple(members.get(key, ()))) for key in unique}
