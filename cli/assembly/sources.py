"""From settings to declared sources."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from config.sections import DeclaredSource, Settings, seconds_of
from config.settings import SettingsError
from retrieval.records.sync import SourceSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a serving gateway syncs a source."""

    collection: str
    source: SourceSpec
    every_s: float  # 0: only when it changes
    watch: bool


def declared_sources(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, list[SourceSpec]]:
    """Collection -> its sources. Raises SettingsError if a variable with credentials is not set."""
    return {
        collection: [_spec(row, [other for other in rows if other is not row], environ) for row in rows]
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


def _spec(row: DeclaredSource, others: list[DeclaredSource], environ: Mapping[str, str]) -> SourceSpec:
    name, exclude = row.name or "", row.exclude or ()
    if row.folder is not None:
        folders = tuple(other.folder for other in others if other.folder is not None)
        return SourceSpec(name, "folder", (row.folder,), exclude, folders)
    if row.bucket is not None:
        return SourceSpec(name, "bucket", (row.bucket,), exclude, options=row.options or {})
    if row.git is None:
        places = (row.sitemap or "",) if row.web is None else row.web
        return SourceSpec(
            name,
            "sitemap" if row.web is None else "web",
            places,
            exclude,
            networks=row.networks or (),
            pages=row.pages,
            per_second=row.per_second,
        )
    credentials = None
    if row.secret_env:
        variables = [row.secret_env, *([row.user_env] if row.user_env else [])]
        if missing := next((variable for variable in variables if not environ.get(variable)), None):
            raise SettingsError(f"the source {name} needs the environment variable {missing}, which is not set")
        credentials = (environ[row.user_env] if row.user_env else "git", environ[row.secret_env])
    return SourceSpec(
        name,
        "git",
        (row.git,),
        exclude,
        branch=row.branch or "",
        paths=row.paths or (),
        networks=row.networks or (),
        credentials=credentials,
    )
