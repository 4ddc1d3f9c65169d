"""ragway collections: what has been ingested."""

from datetime import UTC, datetime
from pathlib import Path

import click
import orjson

from config.settings import Settings
from proxy.cli.common import knowledge, options, run, settings_of


@click.command("collections")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
@options
def command(as_json: bool, config_file: Path | None, data: str | None) -> None:
    """List the collections with their documents, chunks, language, embedder and time of the last change."""
    run(_collections(settings_of(config_file, data=data), as_json=as_json))


async def _collections(settings: Settings, *, as_json: bool) -> int:
    async with knowledge(settings) as documents:
        rows = await documents.collections(None)
    if as_json:
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return 0
    if not rows:
        click.echo("no collections yet: ragway ingest PATH --collection NAME", err=True)
    for row in rows:
        updated = datetime.fromtimestamp(row.updated_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        size = f"{row.documents} documents  {row.chunks} chunks"
        click.echo(f"{row.name}  {size}  {row.language}  {row.embedder}  {updated}")
    return 0
