"""ragway rebuild: make a collection's index anew, from the catalog alone."""

import click

from cli.common import as_text, echo, knowledge, progress_bar, with_settings
from cli.contexts import write_contexts
from config.sections import Settings


@click.command("rebuild")
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation.")
@with_settings
async def command(collections: tuple[str, ...], yes: bool, settings: Settings) -> int:
    """Chunk and embed collections again from the catalog's text: after a lost index or with another embedder.

    The new index is built beside the one in use, then takes its place at once.
    """
    async with knowledge(settings) as documents:
        for name in map(as_text, collections):
            await write_contexts(settings, documents, [], name, yes=yes)
            chunks = await documents.writing.rebuild(name, progress_bar(f"rebuild {name}"))
            echo(f"{name}: {chunks} chunks written")
    return 0
