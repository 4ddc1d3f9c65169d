"""ragway rebuild: a collection's index made anew from the catalog alone."""

from pathlib import Path

import click

from cli.common import as_text, echo, knowledge, options, progress_bar, run, settings_of
from cli.contexts import write_contexts
from config.settings import Settings


@click.command("rebuild")
@click.argument("collection")
@click.option("--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation.")
@options
def command(collection: str, yes: bool, config_file: Path | None, data: str | None) -> None:
    """Chunk and embed a collection again from the catalog's text: after a lost index or with another embedder.

    The new index is built beside the one in use, then takes its place at once.
    """
    run(_rebuild(settings_of(config_file, data=data), as_text(collection), yes=yes))


async def _rebuild(settings: Settings, collection: str, *, yes: bool) -> int:
    async with knowledge(settings) as documents:
        await write_contexts(settings, documents, [], collection, yes=yes)
        chunks = await documents.writing.rebuild(collection, progress_bar(f"rebuild {collection}"))
    echo(f"{collection}: {chunks} chunks written")
    return 0
