"""ragway reindex: make collections anew beside the index in use, which answers questions until the switch."""

from dataclasses import replace

import click

from cli.common import as_text, knowledge, progress_bar, with_settings
from cli.contexts import write_contexts
from config.sections import Settings
from retrieval.knowledge import EmbedderChoice


@click.command("reindex")
@click.argument("collections", nargs=-1, metavar="[COLLECTION]...")
@click.option(
    "--embedder", metavar="MODEL", help="An embedder other than embedder.model; the collections keep this embedder."
)
@click.option("--yes", is_flag=True, help="Pay a model for context (ingest.context) without asking for confirmation.")
@with_settings
async def command(collections: tuple[str, ...], embedder: str | None, yes: bool, settings: Settings) -> int:
    """Change the embedder or the chunking of collections (default: all collections) without an outage.

    The command chunks and embeds each collection again from the catalog's text, next to the index in use. The old index
    answers questions until the new index replaces the old index at once. After an interruption, the same command
    continues.
    """
    choice = _choice(settings, embedder and as_text(embedder))
    async with knowledge(settings) as documents:
        for name in [as_text(name) for name in collections] or [
            info.name for info in await documents.library.collections(None)
        ]:
            await write_contexts(settings, documents, [], name, yes=yes)
            chunks = await documents.writing.rebuild(name, progress_bar(f"reindex {name}"), embedder=choice)
            click.echo(f"{name}: {chunks} chunks written with {choice.model}")
    return 0


def _choice(settings: Settings, embedder: str | None) -> EmbedderChoice:
    """The configured embedder, or another one without configured prompts and address."""
    of = settings.embedder
    configured = EmbedderChoice(
        of.model, of.backend, of.precision, of.query_prompt, of.document_prompt, of.api_base.rstrip("/"), of.dimensions
    )
    if embedder is None or embedder == of.model:
        return configured
    return replace(
        configured, model=embedder, backend="auto", query_prompt=None, document_prompt=None, api_base="", dimensions=0
    )
