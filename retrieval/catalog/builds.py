"""Builds: a collection's unfinished generations beside its current one, and each generation's embedder.

A build's row is written before its first document. The build is unfinished while the collection's own row names an
earlier generation. An interruption keeps its `ready` documents (the store holds their points), and a later build with
the same inputs continues from there. The current generation's row names its embedder if that is not the configured
one.
"""

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from retrieval.catalog.catalog import Catalog, set_state
from retrieval.catalog.catalog_tables import builds, collections, documents, revisions
from retrieval.catalog.revisions import Collection, Revision, RevisionRecord, State


class Builds:
    """One catalog's builds."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def begin(self, collection: Collection, *, embedder: str, made_with: str) -> dict[str, RevisionRecord]:
        """Return key -> ready document in the collection's next generation; empty for a new build.

        embedder: for searching this generation, as JSON; "" for the configured one.
        made_with: all inputs that must be equal for a build to continue.

        An earlier build's documents, if made with other inputs, become leftovers, for `Removal.recover` to clear.
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
        """Mark documents whose points are in the store: they stay until the build is finished or abandoned."""
        self._set(staged, "ready")

    def retire(self, records: Sequence[RevisionRecord]) -> None:
        """Retire a build's documents that have changed or disappeared."""
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
        """Return the embedder of an unfinished build (JSON), or the current one; "": as configured."""
        return {**self.embedders(), **self.unfinished()}.get(collection, "")

    def unfinished(self) -> dict[str, str]:
        """Return collection -> embedder of the unfinished build (JSON, or "")."""
        query = select(builds).join(collections, collections.c.name == builds.c.collection)
        rows = self._catalog.rows(query.where(builds.c.generation > collections.c.generation))
        return {row.collection: row.embedder for row in rows}
