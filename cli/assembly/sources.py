"""From settings to declared sources."""

from dataclasses import dataclass

from config.sections import DeclaredSource, Settings, seconds_of
from retrieval.records.sync import SourceSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a serving gateway syncs a source."""

    collection: str
    source: SourceSpec
    every_s: float  # 0: only when it changes
    watch: bool


def declared_sources(settings: Settings) -> dict[str, list[SourceSpec]]:
    """Collection -> its sources."""
    return {
        collection: [_spec(row, [other for other in rows if other is not row]) for row in rows]
        for collection, rows in settings.sources.items()
    }


def schedules(settings: Settings) -> list[Schedule]:
    """When a serving gateway syncs each source; those that it does not sync are left out."""
    specs = declared_sources(settings)
    found = []
    for collection, rows in settings.sources.items():
        for row, spec in zip(rows, specs[collection], strict=True):
            every_s = seconds_of(settings.server.sync_every if row.every is None else row.every)
            if every_s or row.watch:
                found.append(Schedule(collection, spec, every_s, row.watch))
    return found


def _spec(row: DeclaredSource, others: list[DeclaredSource]) -> SourceSpec:
    folders = tuple(other.folder for other in others if other.folder is not None)
    return SourceSpec(row.name or "", "folder", (row.folder or "",), row.exclude or (), folders)
