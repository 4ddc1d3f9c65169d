"""ragway ingest: files and folders into a collection."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cli.common import (
    SECRETS,
    as_text,
    check_reading_options,
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
from cli.options import option, options_of
from config.sections import IngestRule, RecordFields, Settings
from retrieval.knowledge import DETECTED
from retrieval.records.ingest import IngestReport
from runtime import logs

_MOST_NAMED = 10  # files named in the last line
_OF_SYNC = ("changes", "kept")  # fields of a report that only `ragway sync` fills


@dataclass(frozen=True, slots=True)
class _IngestArgs:
    """The options."""

    # fmt: off
    paths: Sequence[Path]
    collection: str | None = option(
        "--collection", help="Collection to write (default: the first of retrieval.collections)."
    )
    exclude: Sequence[str] = option(
        "--exclude", metavar="GLOB", multiple=True,
        help="Leave out files and folders with this name or end of path, such as '*.csv', drafts or 'api/**/old'; may "
        "be repeated. Documents of excluded files are removed.",
    )
    lines: str | None = option(
        "--format", type=click.Choice(["jsonl"]),
        help="With - in place of paths: read documents from standard input, a JSON object in each line.",
    )
    fields: RecordFields | None = option(
        "--fields", metavar="KIND=FIELD,…", callback=lambda _, __, given: _record_fields(given),
        help="Read these fields of JSON records, as by `fields` in ingest.rules: text=body,title=subject,id=key.",
    )
    yes: bool = option(
        "--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation."
    )
    as_json: bool = option("--json", is_flag=True, help="A JSON object: counts, notes, failures with reasons.")
    # fmt: on


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@options_of(_IngestArgs)
@SECRETS
@with_settings
def command(args: _IngestArgs, settings: Settings) -> None:
    """Read files and folders into a collection: text, pages, Office files, PDF, mail, notebooks, and archives of these.

    Run the command again after changes: unchanged files are skipped, changed files are replaced, missing files are
    deleted from the collection. The command works while `ragway serve` runs, and `serve` answers from the new documents
    without a restart.

    An unreadable file does not stop the other files: the command names the file at the end, and the exit code is 1.
    """
    if args.collection == "":
        raise click.UsageError("--collection is empty: give the name of a collection")
    name = args.collection or next(iter(settings.retrieval.collections), None)
    if name is None:
        raise click.UsageError("retrieval.collections is empty: name a collection with --collection")
    if args.lines is not None or Path("-") in args.paths:
        if args.lines is None or [*args.paths] != [Path("-")] or args.exclude or args.fields or args.as_json:
            raise click.UsageError("to read documents from standard input: ragway ingest - --format jsonl")
        run(ingest_lines(settings, as_text(name)))
    if not any(os.path.lexists(path) for path in args.paths):  # for a mistyped name, create and load nothing
        raise click.ClickException(f"there is no {' and no '.join(logs.printable(str(path)) for path in args.paths)}")
    if not all(args.exclude):
        raise click.UsageError("--exclude is empty: name files or folders")
    patterns = [as_text(glob) for glob in args.exclude]
    if args.fields is not None:
        rules = *settings.ingest.rules, IngestRule("*", fields=args.fields)
        settings = dataclasses.replace(
            settings,
            ingest=dataclasses.replace(settings.ingest, rules=rules),
            origins={**settings.origins, "ingest.rules": "command line"},
        )
    run(_ingest(settings, args.paths, as_text(name), patterns, yes=args.yes, as_json=args.as_json))


def _record_fields(given: str | None) -> RecordFields | None:
    """Raises click.BadParameter."""
    if given is None:
        return None
    found = dict[str, list[str]]()
    for part in as_text(given).split(","):
        kind, _, name = part.strip().partition("=")
        if kind not in RecordFields.__struct_fields__ or not name:
            known = ", ".join(RecordFields.__struct_fields__)
            raise click.BadParameter(f"{part!r} is not KIND=FIELD, with one of {known} as KIND")
        found.setdefault(kind, []).append(name)
    if twice := [kind for kind, names in found.items() if len(names) > 1 and kind not in ("text", "attributes")]:
        raise click.BadParameter(f"{twice[0]} stands twice")
    if "text" not in found:
        raise click.BadParameter("text=FIELD is missing: which field is the text?")
    lists = {kind: tuple(found.pop(kind, ())) for kind in ("text", "attributes")}
    return RecordFields(**lists, **{kind: names[0] for kind, names in found.items()})  # type: ignore[arg-type]


async def _ingest(
    settings: Settings, paths: Sequence[Path], collection: str, exclude: Sequence[str], *, yes: bool, as_json: bool
) -> int:
    async with knowledge(settings, make=True) as documents:
        check_reading_options(settings, documents)
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
