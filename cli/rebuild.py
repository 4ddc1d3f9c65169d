"""ragway rebuild: a collection's index made anew from the catalog alone."""

from collections.abc import Sequence
from pathlib import Path

import click

from cli.common import as_text, echo, knowledge, progress_bar, run, settings_of
from cli.contexts import write_contexts
from cli.options import options
from config.sections import Settings


@click.command("rebuild")
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation.")
@options
def command(collections: tuple[str, ...], yes: bool, config_file: Path | None, data: str | None) -> None:
    """Chunk and embed collections again from the catalog's text: after a lost index or with another embedder.

    The new index is built beside the one in use, then takes its place at once.
    """
    names = [as_text(collection) for collection in collections]
    run(_rebuild(settings_of(config_file, data=data), names, yes=yes))


async def _rebuild(settings: Settings, names: Sequence[str], *, yes: bool) -> int:
    async with knowledge(settings) as documents:
        for name in names:
            await write_contexts(settings, documents, [], name, yes=yes)
            chunks = await documents.writing.rebuild(name, progress_bar(f"rebuild {name}"))
            echo(f"{name}: {chunks} chunks written")
    return 0
