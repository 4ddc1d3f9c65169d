"""ragway delete: take documents or a whole collection away."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from config.settings import Settings
from proxy.cli.common import as_text, knowledge, options, run, settings_of
from retrieval.errors import UnknownCollection
from retrieval.knowledge import Library

_PAGE = 1000


@click.command("delete")
@click.argument("collection")
@click.option("--source", "sources", multiple=True, help="Only this document, by its source; may be repeated.")
@click.option("--yes", is_flag=True, help="Do not ask before a whole collection is deleted.")
@options
def command(collection: str, sources: Sequence[str], yes: bool, config_file: Path | None, data: str | None) -> None:
    """Delete COLLECTION with all of its documents, or the documents named by --source.

    Nothing on the disk but ragway's own data is touched: a file that is still in its folder comes back with the next
    `ragway ingest` of it. Works while `ragway serve` runs; an ingest that runs is waited for.
    """
    name = as_text(collection)
    if not sources and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this deletes all of {name!r}: say so with --yes, or name documents with --source")
        click.confirm(f"Delete the collection {name!r} with all of its documents?", abort=True, err=True)
    run(_delete(settings_of(config_file, data=data), name, [as_text(source) for source in sources]))


async def _delete(settings: Settings, name: str, sources: Sequence[str]) -> int:
    async with knowledge(settings) as documents:
        if not sources:
            await documents.delete_collection(name, None)
            click.echo(f"{name} is deleted", err=True)
            return 0
        ids = await _ids(documents, name)
        for source in dict.fromkeys(sources):
            for id in ids.get(source, ()):
                await documents.delete_document(id, None)
            click.echo(f"{source} is {'deleted' if source in ids else 'not in ' + name}", err=True)
    return 0 if set(sources) <= set(ids) else 1


async def _ids(documents: Library, name: str) -> dict[str, list[str]]:
    """Source -> the documents of it: two folders may each have a README.md. Raises UnknownCollection."""
    if name not in (known := [row.name for row in await documents.collections(None)]):
        raise UnknownCollection(f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}")
    ids: dict[str, list[str]] = {}
    after = ""
    while page := await documents.documents(name, after=after, limit=_PAGE, groups=None):
        for info in page:
            ids.setdefault(info.source, []).append(info.id)
        after = page[-1].id
    return ids
