"""ragway ingest: files and folders into a collection."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import click

from cli.common import (
    SECRETS,
    as_text,
    check_secrets_option,
    echo,
    echo_json,
    knowledge,
    progress_bar,
    run,
    secret_lines,
    with_settings,
)
from cli.contexts import write_contexts
from cli.jsonl import ingest_lines
from config.sections import Settings
from retrieval.knowledge import DETECTED
from retrieval.records.ingest import IngestReport
from runtime import logs

_MOST_NAMED = 10  # files named in the last line
_OF_SYNC = ("changes", "kept")  # fields of a report that only `ragway sync` fills


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--collection", help="Collection to write (default: the first of retrieval.collections).")
@click.option(
    "--exclude",
    metavar="GLOB",
    multiple=True,
    help="Leave out files and folders with this name or end of path, such as '*.csv', drafts or 'api/**/old'; may be "
    "repeated. Documents of excluded files are removed.",
)
@click.option(
    "--format",
    "lines",
    type=click.Choice(["jsonl"]),
    help="With - in place of paths: read documents from standard input, a JSON object in each line.",
)
@SECRETS
@click.option("--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: counts, notes, failures with reasons.")
@with_settings
def command(
    paths: Sequence[Path],
    collection: str | None,
    exclude: Sequence[str],
    lines: str | None,
    yes: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Read files and folders into a collection: text, pages, Office files, PDF, mail, notebooks, and archives of these.

    Run the command again after changes: unchanged files are skipped, changed files are replaced, missing files are
    deleted from the collection. The command works while `ragway serve` runs, and `serve` answers from the new documents
    without a restart.

    An unreadable file does not stop the other files: the command names the file at the end, and the exit code is 1.
    """
    if collection == "":
        raise click.UsageError("--collection is empty: give the name of a collection")
    name = collection or next(iter(settings.retrieval.collections), None)
    if name is None:
        raise click.UsageError("retrieval.collections is empty: name a collection with --collection")
    if lines is not None or Path("-") in paths:
        if lines is None or [*paths] != [Path("-")] or exclude or as_json:
            raise click.UsageError("to read documents from standard input: ragway ingest - --format jsonl")
        run(ingest_lines(settings, as_text(name)))
    if not any(os.path.lexists(path) for path in paths):  # for a mistyped name, create and load nothing
        raise click.ClickException(f"there is no {' and no '.join(logs.printable(str(path)) for path in paths)}")
    if not all(exclude):
        raise click.UsageError("--exclude is empty: name files or folders")
    patterns = [as_text(glob) for glob in exclude]
    run(_ingest(settings, paths, as_text(name), patterns, yes=yes, as_json=as_json))


async def _ingest(
    settings: Settings, paths: Sequence[Path], collection: str, exclude: Sequence[str], *, yes: bool, as_json: bool
) -> int:
    async with knowledge(settings, make=True) as documents:
        check_secrets_option(settings, documents)
        await write_contexts(settings, documents, paths, collection, yes=yes, exclude=exclude)
        report = await documents.writing.ingest(paths, collection, progress_bar(f"ingest {collection}"), exclude)
        spoken = {row.name: row.language for row in await documents.library.collections(None)}.get(collection)
    if as_json:
        echo_json({name: value for name, value in dataclasses.asdict(report).items() if name not in _OF_SYNC})
    elif _did(report) or not report.failures:
        echo(_summary(report))
    wanted = settings.ingest.languages.get(collection, settings.ingest.language)
    if wanted not in (DETECTED, spoken) and spoken is not None:
        echo(
            f"{collection} was made in the language {spoken!r} and stays so, though {wanted!r} is set: "
            f"`ragway rebuild {collection}` changes it",
            err=True,
        )
    if exclude and "excluded" not in report.skipped:
        echo("--exclude matches no file and no folder of the given paths", err=True)
    for link in report.left_out:
        echo(f"left out: {link}: the link leads out of the folder (ingest.follow_links)", err=True)
    for line in secret_lines(report.secrets):
        echo(line, err=True)
    for note in report.notes:
        echo(f"note: {note.source}: {note.text}", err=True)
    for failure in report.failures:
        echo(f"not ingested: {failure.path}: {failure.reason}", err=True)
    return 1 if report.failures else 0


def _did(report: IngestReport) -> bool:
    """Whether any document changed."""
    return bool(report.added or report.changed or report.unchanged or report.removed or report.skipped)


def _summary(report: IngestReport) -> str:
    parts = [f"{report.added} added", f"{report.changed} changed", f"{report.unchanged} unchanged"]
    parts.append(f"{report.removed} removed")
    line = f"{report.collection}: {', '.join(parts)}; {report.chunks} chunks written"
    if report.repeated:
        line += f"; {report.repeated} say the same as another"
    if report.skipped:
        skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))
        line += f"; skipped: {skipped}"
    if report.unread:
        more = " and others" if len(report.unread) > _MOST_NAMED else ""
        line += f"; not read: {', '.join(report.unread[:_MOST_NAMED])}{more}"
    return line
