"""ragway collections: what has been ingested."""

import dataclasses
from contextlib import closing
from pathlib import Path

import click

from cli.common import echo, echo_json, knowledge, minute_text, must_exist, with_settings
from config.sections import Settings
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.source_states import SourceStates
from retrieval.index.pairing import Pairing
from retrieval.records.documents import CollectionInfo, is_reserved
from retrieval.records.sync import SourceState


@click.command("collections")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
@with_settings
async def command(name: str | None, as_json: bool, settings: Settings) -> int:
    """List the collections with the number of documents and chunks, language, embedder and time of the last change.

    With a name, also how many documents say the same as another, and its sources (see `ragway sync`): documents, time
    of the last sync, and failures.
    """
    must_exist(settings)
    rows = await _rows(settings)
    sources: list[SourceState] = []
    repeated = 0
    if name is not None:
        if name not in {row.name for row in rows}:
            todo = f": `ragway sync {name}` makes it" if name in settings.sources else ""
            there = f"; there are: {', '.join(row.name for row in rows)}" if rows and not todo else ""
            raise click.ClickException(f"there is no collection {name!r}{there}{todo}")
        rows = [row for row in rows if row.name == name]
        with closing(SourceStates(Path(settings.data), settings.catalog.url)) as states:
            sources = states.of(name)
        repeated = _repeated(settings, name)
    if as_json:
        of_name = {} if name is None else {"repeated": repeated, "sources": sources}
        echo_json([dataclasses.asdict(row) | of_name for row in rows])
        return 0
    if not rows:
        echo("no collections yet: ragway ingest PATH --collection NAME", err=True)
    for row in rows:
        size = f"{row.documents} documents  {row.chunks} chunks"
        mark = "  (operations: ragway actions list)" if is_reserved(row.name) else ""
        echo(f"{row.name}  {size}  {row.language}  {row.embedder}  {minute_text(row.updated_s)}{mark}")
    if repeated:
        echo(f"  {repeated} of them say the same as another, and are shown once")
    if name is not None:
        _tell_sources(name, sources, [row.name or "" for row in settings.sources.get(name, ())])
    return 0


def _tell_sources(collection: str, sources: list[SourceState], declared: list[str]) -> None:
    for source in sources:
        when = f"synced {minute_text(source.synced_s)}" if source.synced_s else "never synced"
        if source.tried_s > source.synced_s:
            when += f", last tried {minute_text(source.tried_s)}"
        if source.name not in declared:
            when += ", no longer declared"
        echo(f"  {source.name}  {source.documents} documents, {source.failed} failed, {when}")
        for failure in source.failures:
            echo(f"    {failure.path}: {failure.reason}")
        if source.failed > len(source.failures):
            echo(f"    and {source.failed - len(source.failures)} more: `ragway sync --json {collection}` names all")
    for missing in [one for one in declared if one not in {source.name for source in sources}]:
        echo(f"  {missing}  never synced")


def _repeated(settings: Settings, collection: str) -> int:
    file, url = Path(settings.data) / "catalog.sqlite", settings.catalog.url
    with closing(Catalog.connect(url) if url else Catalog.open(file)) as catalog:
        return catalog.repeated(collection)


async def _rows(settings: Settings) -> list[CollectionInfo]:
    """Read only the catalog, without waiting for a running ingest or for an embedder to load.

    Raises RetrievalError if catalog and index do not belong together.
    """
    file, url = Path(settings.data) / "catalog.sqlite", settings.catalog.url
    pairing = None if url else Pairing(Path(settings.data))
    if not url and not file.exists():
        return []
    if Catalog.is_current(file, url):
        with closing(Catalog.connect(url) if url else Catalog.open(file)) as catalog:
            if pairing is not None:
                pairing.check(catalog)
            return DocumentReader(catalog).collections(None)
    async with knowledge(settings) as documents:  # migrates an earlier version's catalog
        return await documents.library.collections(None)
