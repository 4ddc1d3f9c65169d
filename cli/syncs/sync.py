"""ragway sync: collections made equal to the sources that the settings declare."""

import contextlib
import dataclasses
from collections.abc import Sequence

import click

from cli.assembly.sources import declared_sources
from cli.common import (
    SECRETS,
    check_reading_options,
    echo,
    echo_json,
    knowledge,
    progress_bar,
    run,
    secret_lines,
    with_settings,
)
from config.sections import Settings
from retrieval.records.sync import SourceReport, SourceSpec

_Reports = dict[str, list[SourceReport]]  # by collection


@click.command("sync")
@click.argument("collections", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--allow-empty", is_flag=True, help="A source without any document removes all its documents, too.")
@SECRETS
@click.option("--json", "as_json", is_flag=True, help="A JSON object: collection -> a report for each source.")
@with_settings
def command(collections: Sequence[str], dry_run: bool, allow_empty: bool, as_json: bool, settings: Settings) -> None:
    """Make collections equal to their sources, as the setting `sources` declares them (default: all collections).

    New and changed documents are read, unchanged ones are not opened again, and missing ones are removed. Other
    documents of the collection stay. A source that is suddenly empty or cannot be reached removes nothing.

    If a document or a source cannot be read, the others go on: the command names it, and the exit code is 1.
    """
    declared = declared_sources(settings)
    if not declared:
        raise click.UsageError("no sources are declared: write them into the setting `sources`")
    if unknown := [name for name in collections if name not in declared]:
        raise click.UsageError(f"no sources are declared for {unknown[0]!r}; there are: {', '.join(declared)}")
    chosen = {name: sources for name, sources in declared.items() if not collections or name in collections}
    run(_sync(settings, chosen, dry_run=dry_run, allow_empty=allow_empty, as_json=as_json))


async def _sync(
    settings: Settings, declared: dict[str, list[SourceSpec]], *, dry_run: bool, allow_empty: bool, as_json: bool
) -> int:
    reports: _Reports = {}
    async with knowledge(settings, make=True) as documents:
        check_reading_options(settings, documents)
        for collection, sources in declared.items():
            reports[collection] = []
            for source in sources:
                with contextlib.closing(progress_bar(f"sync {collection}, {source.name}")) as progress:
                    report = await documents.writing.sync(
                        collection, source, progress, dry_run=dry_run, allow_empty=allow_empty
                    )
                _tell(collection, report, named=dry_run, as_json=as_json)
                reports[collection].append(report)
            for report in await documents.writing.remove_undeclared(collection, sources, dry_run=dry_run):
                _tell(collection, report, named=dry_run, as_json=as_json)
                reports[collection].append(report)
    if as_json:
        echo_json({name: [dataclasses.asdict(report) for report in of_one] for name, of_one in reports.items()})
    return 1 if any(failed(report) for of_one in reports.values() for report in of_one) else 0


def log_line(collection: str, report: SourceReport) -> str:
    """A sync in the log; "": nothing changed, and nothing went wrong."""
    changed = report.added or report.changed or report.moved or report.removed
    return f"sync {collection}: {summary(report)}" if changed else ""


def failed(report: SourceReport) -> bool:
    """Whether a person should look at the source."""
    return bool(report.failures) or report.outcome == "empty"


def _tell(collection: str, report: SourceReport, *, named: bool, as_json: bool) -> None:
    if not as_json:
        if report.outcome != "unreachable":
            echo(f"{collection}: {summary(report)}")
        for line in _changes(report) if named else ():
            echo(f"  {line}")
    for link in report.left_out:
        echo(f"left out: {link}: the link leads out of the folder (ingest.follow_links)", err=True)
    for problem in problems(report):
        echo(problem, err=True)


def summary(report: SourceReport) -> str:
    """A source's report in one line, without its failures."""
    counts = [f"{len(getattr(report, what))} {what}" for what in ("added", "changed", "moved", "removed")]
    line = f"{', '.join(counts)}, {report.unchanged} unchanged"
    if report.skipped:
        line += f"; skipped: {', '.join(f'{count} {reason}' for reason, count in sorted(report.skipped.items()))}"
    return f"{line}; source {report.source}" + (" (no longer declared)" if report.outcome == "undeclared" else "")


def problems(report: SourceReport) -> list[str]:
    """What went wrong with a source, and what to do."""
    if report.outcome == "unreachable":
        return [f"not synced: {failure.path}: {failure.reason}" for failure in report.failures]
    told = [f"not read: {failure.path}: {failure.reason}" for failure in report.failures]
    told += secret_lines(report.secrets)
    if report.outcome == "empty":
        told.append(
            f"{report.source} is empty: its {report.kept} documents stay; if it should be empty, "
            "`ragway sync --allow-empty` removes them"
        )
    return told


def _changes(report: SourceReport) -> list[str]:
    rows = [f"added    {source}" for source in report.added] + [f"changed  {source}" for source in report.changed]
    rows += [f"moved    {before} -> {after}" for before, after in report.moved]
    return rows + [f"removed  {source}" for source in report.removed]
