"""Builds: generations of a collection that are being made beside the one in use, and the embedder each is made with.

A row stands here before the first document of a generation is written. While the collection's own row still names an
earlier generation, the build is unfinished: documents of it that are `ready` (their points are in the store) are kept
over an interruption, and a build that is to be made with the same things goes on from them. The row of the generation
in use says which embedder it needs, where that is not the configured one.
"""

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, Known, Revision
from retrieval.catalog.tables import builds, collections, documents, revisions


class Builds:
    """The builds of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def begin(self, collection: Collection, *, embedder: str, made_with: str) -> dict[str, Known]:
        """The documents of the collection's next generation that are ready, by key: none if it is begun anew.

        embedder: the one that is needed to search it, as JSON; "" for the configured one. made_with: all that must be
        the same for a build to go on.
        What an earlier build with other things left becomes a leftover, for `Removal.recover` to clear.
        """
        name, generation = collection.name, collection.generation + 1
        with self._catalog.writing() as sql:
            found = sql.execute(select(builds).where(builds.c.collection == name, builds.c.generation == generation))
            row = found.one_or_none()
            if row is not None and row.made_with == made_with:
                return self._ready(sql, name, generation)
            ours = select(documents.c.id).where(documents.c.collection == name).scalar_subquery()
            sql.execute(
                update(revisions)
                .where(revisions.c.document.in_(ours), revisions.c.generation == generation)
                .values(state="retired")
            )
            sql.execute(delete(builds).where(builds.c.collection == name, builds.c.generation != collection.generation))
            sql.execute(
                insert(builds).values(collection=name, generation=generation, embedder=embedder, made_with=made_with)
            )
        return {}

    @staticmethod
    def _ready(sql: object, collection: str, generation: int) -> dict[str, Known]:
        query = (
            select(documents.c.key, *revisions.c["document", "revision", "content_hash", "recipe"])
            .join(revisions, revisions.c.document == documents.c.id)
            .where(
                documents.c.collection == collection, revisions.c.generation == generation, revisions.c.state == "ready"
            )
        )
        rows = sql.execute(query)  # type: ignore[attr-defined]
        return {row.key: Known(row.document, row.revision, row.content_hash, row.recipe) for row in rows}

    def ready(self, staged: Sequence[Revision]) -> None:
        """Their points are in the store: they are kept until the build is finished, or given up."""
        self._set(staged, "ready")

    def retire(self, known: Sequence[Known]) -> None:
        """Documents of a build that changed meanwhile, or are gone."""
        self._set(known, "retired")

    def _set(self, rows: Sequence[Revision | Known], state: str) -> None:
        with self._catalog.writing() as sql:
            for row in rows:
                this = (revisions.c.document == row.document) & (revisions.c.revision == row.revision)
                sql.execute(update(revisions).where(this).values(state=state))

    def embedders(self) -> dict[str, str]:
        """Collection -> the embedder its generation in use needs (JSON), for those that do not take the configured."""
        query = select(builds).join(
            collections, (collections.c.name == builds.c.collection) & (collections.c.generation == builds.c.generation)
        )
        with self._catalog.engine.connect() as sql:
            return {row.collection: row.embedder for row in sql.execute(query) if row.embedder}

    def embedder(self, collection: str) -> str:
        """The embedder of its unfinished build, or else of its generation in use (JSON); "" for the configured one."""
        return {**self.embedders(), **self.unfinished()}.get(collection, "")

    def unfinished(self) -> dict[str, str]:
        """Collection -> the embedder of its unfinished build (JSON, or "")."""
        query = select(builds).join(collections, collections.c.name == builds.c.collection)
        with self._catalog.engine.connect() as sql:
            rows = sql.execute(query.where(builds.c.generation > collections.c.generation))
            return {row.collection: row.embedder for row in rows}
