"""ragway delete: remove documents or a whole collection."""

import difflib
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from cli.common import as_text, echo, knowledge, run, with_settings
from config.sections import Settings
from retrieval.errors import UnknownCollection
from retrieval.knowledge import Knowledge
from retrieval.records.documents import is_reserved

_PAGE = 1000


@click.command("delete", context_settings={"allow_extra_args": True})
@click.argument("collection")
@click.option("--source", "sources", multiple=True, help="Delete only the document with this source; may be repeated.")
@click.option("--yes", is_flag=True, help="Delete a whole collection without asking for confirmation.")
@with_settings
@click.pass_context
def command(ctx: click.Context, collection: str, sources: Sequence[str], yes: bool, settings: Settings) -> None:
    """Delete COLLECTION with all documents, or the documents named by --source.

    The command deletes only ragway's own data: the next `ragway ingest` of a folder brings a file back that is still in
    the folder. The command works while `ragway serve` runs and waits for a running ingest.
    """
    name = as_text(collection)
    if ctx.args:
        named = " ".join(f"--source {shlex.quote(as_text(source))}" for source in ctx.args)
        raise click.UsageError(f"name a document with --source: ragway delete {name} {named}")
    if is_reserved(name):
        raise click.UsageError(
            f"{name} has the operations of all action sets: delete a set with `ragway actions remove`"
        )
    if not sources and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"this command deletes all of {name!r}: say so with --yes, or name documents with --source"
            )
        click.confirm(f"Delete the collection {name!r} with all of its documents?", abort=True, err=True)
    run(_delete(settings, name, [as_text(source) for source in sources]))


async def _delete(settings: Settings, name: str, sources: Sequence[str]) -> int:
    async with knowledge(settings) as documents:
        if not sources:
            await documents.writing.delete_collection(name, None)
            echo(f"{name} is deleted", err=True)
            return 0
        ids = await _ids(documents, name)
        for source in dict.fromkeys(sources):
            for id in ids.get(source, ()):
                await documents.writing.delete_document(id, None)
            echo(f"{source} is {'deleted' if source in ids else f'not in {name}{_near(source, ids)}'}", err=True)
    return 0 if set(sources) <= set(ids) else 1


def _near(source: str, known: Iterable[str]) -> str:
    """A known source similar to this one: with the same file name, else the most similar text."""
    known = list(known)
    same = [one for one in known if Path(one).name == Path(source).name]
    near = same or difflib.get_close_matches(source, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


async def _ids(documents: Knowledge, name: str) -> dict[str, list[str]]:
    """Source -> document ids: two folders may each have a README.md. Raises UnknownCollection."""
    if name not in (known := [row.name for row in await documents.library.collections(None)]):
        raise UnknownCollection(f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}")
    ids: dict[str, list[str]] = {}
    after = ""
    while page := await documents.library.documents(name, after=after, limit=_PAGE, groups=None):
        for info in page:
            ids.setdefault(info.source, []).append(info.id)
        after = page[-1].id
    return ids
