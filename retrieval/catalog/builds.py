"""Builds: unfinished generations of a collection beside the current generation, and the embedder of each generation.

A build's row is written before the first document of the generation. The build is unfinished while the collection's
own row names an earlier generation. An interruption keeps the build's `ready` documents (the store holds the points),
and a later build with the same inputs continues from these. The row of the current generation names the embedder, if
the embedder differs from the configured embedder.
"""

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from retrieval.catalog.catalog import Catalog, set_state
from retrieval.catalog.catalog_tables import builds, collections, documents, revisions
from retrieval.catalog.revisions import Collection, Revision, RevisionRecord, State


class Builds:
    """The builds of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def begin(self, collection: Collection, *, embedder: str, made_with: str) -> dict[str, RevisionRecord]:
        """Return key -> ready document of the collection's next generation; empty for a new build.

        embedder: the embedder for searching the generation, as JSON; "" for the configured embedder.
        made_with: all inputs that must be equal for a build to continue.

        Documents of an earlier build with other inputs become leftovers, for `Removal.recover` to clear.
        """
        name, generation = collection.name, collection.generation + 1
        with self._catalog.writing() as sql:
            found = sql.execute(select(builds).where(builds.c.collection == name, builds.c.generation == generation))
            row = found.one_or_none()
            if row is None or row.made_with != made_with:
                of_collection = select(documents.c.id).where(documents.c.collection == name).scalar_subquery()
                sql.execute(
                    update(revisions)
                    .where(revisions.c.document.in_(of_collection), revisions.c.generation == generation)
                    .values(state="retired")
                )
                sql.execute(
                    delete(builds).where(builds.c.collection == name, builds.c.generation != collection.generation)
                )
                values = {"collection": name, "generation": generation, "embedder": embedder, "made_with": made_with}
                sql.execute(insert(builds).values(**values))
                return {}
        return self._catalog.records(name, revisions.c.generation == generation, revisions.c.state == "ready")

    def ready(self, staged: Sequence[Revision]) -> None:
        """Mark documents whose points are in the store: the documents stay until the build is finished or abandoned."""
        self._set(staged, "ready")

    def retire(self, records: Sequence[RevisionRecord]) -> None:
        """Retire documents of a build that have changed or disappeared."""
        self._set(records, "retired")

    def _set(self, rows: Sequence[Revision | RevisionRecord], state: State) -> None:
        with self._catalog.writing() as sql:
            for row in rows:
                sql.execute(set_state(row, state))

    def embedders(self) -> dict[str, str]:
        """Return collection -> its current generation's embedder (JSON), if not the configured one."""
        query = select(builds).join(
            collections, (collections.c.name == builds.c.collection) & (collections.c.generation == builds.c.generation)
        )
        return {row.collection: row.embedder for row in self._catalog.rows(query) if row.embedder}

    def embedder(self, collection: str) -> str:
        """Return the unfinished build's embedder (JSON), or the current one; "": as configured."""
        return {**self.embedders(), **self.unfinished()}.get(collection, "")

    def unfinished(self) -> dict[str, str]:
        """Return collection -> embedder of the unfinished build (JSON, or "")."""
        query = select(builds).join(collections, collections.c.name == builds.c.collection)
        rows = self._catalog.rows(query.where(builds.c.generation > collections.c.generation))
        return {row.collection: row.embedder for row in rows}
