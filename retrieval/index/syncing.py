"""Collections made equal to their declared sources, one source at a time."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import time

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.source_states import SourceStates
from retrieval.catalog.writers import Writers
from retrieval.errors import Unreachable
from retrieval.index.vector_spaces import VectorSpaces
from retrieval.ingest.removal import Removal
from retrieval.ingest.sources.opening import opened, owner
from retrieval.knowledge import Plan, Progress
from retrieval.records.ingest import Failure, IngestReport
from retrieval.records.sync import SourceReport, SourceSpec, SourceState

_MOST_NAMED = 250_000  # documents of each kind in a report: a message holds 64 MB
_MOST_FAILURES = 50  # remembered
_AT_A_TIME = 500  # removed


class Syncing:
    """Syncs sources. Only one process at a time syncs a collection."""

    def __init__(self, plan: Plan, catalog: Catalog, spaces: VectorSpaces, writers: Writers, removal: Removal) -> None:
        self.states = SourceStates(Path(plan.data), plan.catalog_url)
        self._plan = plan
        self._catalog = catalog
        self._spaces = spaces
        self._writers = writers
        self._removal = removal

    async def sync(
        self,
        collection: str,
        spec: SourceSpec,
        progress: Progress,
        *,
        dry_run: bool,
        allow_empty: bool,
        due_after_s: float | None,
    ) -> SourceReport:
        """As in `Writing.sync`."""
        async with self._writers.turn("sync", collection):
            before = await asyncio.to_thread(self.states.read, collection, spec.name)
            tried_s = time()
            if before is not None and due_after_s is not None and tried_s < before.tried_s + due_after_s:
                return SourceReport(spec.name, "not due")
            state = before or SourceState(collection, spec.name, spec.kind, spec.places, 0.0, 0.0)
            state = replace(state, places=spec.places, tried_s=tried_s, failures=())
            kept = await asyncio.to_thread(self.states.marks, collection, spec.name)
            marks = dict(kept)
            ingester = self._spaces.of(collection).ingester
            try:
                async with opened(spec, self._plan) as source:
                    if dry_run:
                        planned = await ingester.preview(
                            source, collection, progress, marks=marks, allow_empty=allow_empty
                        )
                        return _named(spec, planned)
                    done = await ingester.ingest(
                        source, collection, progress, marks=marks, allow_empty=allow_empty, named=True
                    )
                report = _named(spec, done)
                state = replace(state, synced_s=time(), documents=_documents(report))
            except Unreachable as error:
                report = SourceReport(spec.name, "unreachable", failures=[Failure(spec.name, str(error))])
            finally:  # also if it is interrupted: what was read is not opened again
                if not dry_run and marks != kept:
                    await asyncio.to_thread(self.states.write_marks, state, marks)
            if not dry_run:
                state = replace(state, failed=len(report.failures), failures=report.failures[:_MOST_FAILURES])
                await asyncio.to_thread(self.states.write, state)
            return report

    async def remove_undeclared(
        self, collection: str, declared: Sequence[SourceSpec], *, dry_run: bool
    ) -> list[SourceReport]:
        """As in `Writing.remove_undeclared`."""
        kept = {spec.name for spec in declared}
        async with self._writers.turn("sync", collection):
            states = [state for state in await asyncio.to_thread(self.states.of, collection) if state.name not in kept]
            if not states:
                return []
            known = self._catalog.current_revisions(collection)
            others = [owner(spec.kind, spec.name, spec.places) for spec in declared]
            reports = []
            for state in states:
                owned = owner(state.kind, state.name, state.places)
                keys = [key for key in known if owned(key) and not any(other(key) for other in others)]
                gone = [known.pop(key) for key in keys]
                names = [self._catalog.source(one.document, one.revision) for one in gone[:_MOST_NAMED]]
                if not dry_run:
                    for start in range(0, len(gone), _AT_A_TIME):
                        ids = [one.document for one in gone[start : start + _AT_A_TIME]]
                        await self._removal.documents(collection, ids, None)
                    await asyncio.to_thread(self.states.forget, state)
                reports.append(SourceReport(state.name, "undeclared", removed=names))
            return reports


def _documents(report: SourceReport) -> int:
    return len(report.added) + len(report.changed) + len(report.moved) + report.unchanged


def _named(spec: SourceSpec, report: IngestReport) -> SourceReport:
    """Pair each removed document with an added one of the same content: it was moved."""
    left = defaultdict[str, list[str]](list)
    for change in report.changes:
        if change.what == "removed":
            left[change.content].append(change.source)
    named = defaultdict[str, list[str]](list)
    moved = []
    for change in report.changes:
        if change.what == "added" and left[change.content]:
            moved.append((left[change.content].pop(), change.source))
        elif change.what != "removed":
            named[change.what].append(change.source)
    removed = [source for sources in left.values() for source in sources]
    return SourceReport(
        spec.name,
        "empty" if report.kept else "synced",
        named["added"][:_MOST_NAMED],
        named["changed"][:_MOST_NAMED],
        moved[:_MOST_NAMED],
        removed[:_MOST_NAMED],
        report.unchanged,
        report.kept,
        report.chunks,
        report.skipped,
        report.failures,
        report.left_out,
        report.secrets,
    )
