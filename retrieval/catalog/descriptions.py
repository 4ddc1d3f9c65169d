"""Attributes and groups of revisions, beside them in the catalog: written with a revision, and gone with it."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Engine, insert, select, true

from retrieval.catalog.tables import attributes, audiences, revisions
from retrieval.records.documents import Attribute, Document, Groups

Place = tuple[str, int]  # document and revision


def write(sql: Any, place: Place, document: Document) -> None:
    """Of a revision that was just staged, in the same transaction."""
    id, revision = place
    said = orjson.dumps(dict(document.attributes)).decode()
    sql.execute(insert(attributes).values(document=id, revision=revision, attributes=said))
    if document.groups:
        members = [{"document": id, "revision": revision, "member": group} for group in document.groups]
        sql.execute(insert(audiences), members)


def readable(groups: Groups) -> ColumnElement[bool]:
    """Of a row of `revisions`: whether who is in these groups may read it."""
    if groups is None:
        return true()
    listed = select(audiences.c.member).where(
        audiences.c.document == revisions.c.document, audiences.c.revision == revisions.c.revision
    )
    return ~listed.exists() | listed.where(audiences.c.member.in_(groups)).exists()


def readable_ones(engine: Engine, documents: Sequence[str], groups: Groups) -> set[str]:
    """Those of the documents whose current revision may be read."""
    query = select(revisions.c.document).where(
        revisions.c.document.in_(documents), revisions.c.state == "current", readable(groups)
    )
    with engine.connect() as sql:
        return set(sql.scalars(query))


def read(sql: Any, places: Sequence[Place]) -> dict[Place, tuple[dict[str, Attribute], tuple[str, ...]]]:
    """Attributes and groups of each of these revisions."""
    wanted = dict.fromkeys(places)
    ids = list({id for id, _ in wanted})
    said = {
        (row.document, row.revision): orjson.loads(row.attributes)
        for row in sql.execute(select(attributes).where(attributes.c.document.in_(ids)))
    }
    members: dict[Place, list[str]] = {}
    for row in sql.execute(select(audiences).where(audiences.c.document.in_(ids)).order_by(audiences.c.member)):
        members.setdefault((row.document, row.revision), []).append(row.member)
    return {place: (said.get(place, {}), tuple(members.get(place, ()))) for place in wanted}
