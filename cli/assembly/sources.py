"""From settings to declared sources."""

from config.sections import DeclaredSource, Settings
from retrieval.records.sync import SourceSpec


def declared_sources(settings: Settings) -> dict[str, list[SourceSpec]]:
    """Collection -> its sources."""
    return {
        collection: [_spec(row, [other for other in rows if other is not row]) for row in rows]
        for collection, rows in settings.sources.items()
    }


def _spec(row: DeclaredSource, others: list[DeclaredSource]) -> SourceSpec:
    folders = tuple(other.folder for other in others if other.folder is not None)
    return SourceSpec(row.name or "", "folder", (row.folder or "",), row.exclude or (), folders)
