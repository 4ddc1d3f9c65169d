"""Attributes and groups of revisions, beside them in the catalog: written with a revision, and gone with it."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import insert, select

from retrieval.catalog_tables import attributes, audiences
from retrieval.records import Attribute, Document

Place = tuple[str, int]  # document and revision


def write(sql: Any, place: Place, document: Document) -> None:
    """Of a revision that was just staged, in the same transaction."""
    id, revision = place
    said = orjson.dumps(dict(document.attributes)).decode()
    sql.execute(insert(attributes).values(document=id, revision=revision, attributes=said))
    if document.groups:
        members = [{"document": id, "revision": revision, "member": group} for group in document.groups]
        sql.execute(insert(audiences), members)


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
