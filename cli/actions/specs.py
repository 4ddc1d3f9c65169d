"""Reads documents and lists of tools into action sets: for `ragway actions update`, and when `ragway serve` starts.

The tables of databases, too, are read when `ragway serve` starts.

`main` runs in a process beside the gateway, because a large document takes one core for seconds.
"""

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping

import click
import orjson

from cli.assembly.apis import action_library, mcp_address, mcp_server
from cli.common import progress_bar
from config.sections import ActionsApi, Settings
from config.settings import SettingsError, load
from proxy.apis.library import ActionLibrary, ActionSet, AddReport
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.sources import read_source, shown_source
from proxy.apis.specs import document_hash
from retrieval.errors import RetrievalError
from retrieval.knowledge import Progress
from runtime import logs
from runtime.public_addresses import networks_of

log = logging.getLogger("ragway")
_UNCALLABLE = 10  # operations named in the log
_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0  # before an MCP server that was away is asked again


async def document_of(settings: Settings, name: str, source: str) -> bytes:
    """A set's document, from a file or a URL, or its MCP server's list of tools. Raises UnreadableSpec."""
    if mcp_address(settings, name):
        try:
            async with mcp_server(settings, name, os.environ) as (server, api):
                return await server.listing(api)
        except SettingsError as error:
            raise UnreadableSpec(str(error)) from error
    row = settings.actions.get(name, ActionsApi())
    networks = networks_of(row.networks or ())
    return await read_source(source, hosts=settings.action_calls.spec_hosts, networks=networks, api=name)


def source_of(settings: Settings, found: ActionSet | None, name: str) -> str:
    """The file or URL of a set's document: as set, else as given to `ragway actions add`; "": unknown."""
    if address := mcp_address(settings, name):
        return address
    return settings.actions.get(name, ActionsApi()).spec or (found.source if found is not None else "")


async def update(
    library: ActionLibrary,
    settings: Settings,
    name: str,
    *,
    progress: Callable[[], Progress | None] = lambda: None,
    changed_only: bool = False,
    raw: bytes = b"",
) -> AddReport | None:
    """Read a set's document again; its API's address stays.

    A URL from the settings is stored without its query, which may have a key.
    changed_only: for an unchanged document, write nothing and return None. raw: the document, where it is read already.
    Raises UnreadableSpec, RetrievalError.
    """
    found = await asyncio.to_thread(library.store.find, name)
    source = source_of(settings, found, name)
    raw = raw or await document_of(settings, name, source)
    if changed_only and found is not None and found.document == document_hash(raw):
        return None
    base_url = configured_address(settings, name) or (found.base_url if found is not None else "")
    stored = shown_source(source) if name in settings.actions and settings.actions[name].spec else source
    return await library.add(name, raw, base_url=base_url, source=stored, progress=progress())


def configured_address(settings: Settings, name: str) -> str:
    """The configured address, to be stored: without its query, which may have a key; "": none is configured."""
    return mcp_address(settings, name) or (settings.actions.get(name, ActionsApi()).base_url or "").partition("?")[0]


async def _read_specs(settings: Settings) -> int:
    """Read changed `actions.NAME.spec` documents; a faulty one costs only its own set."""
    names = [name for name, row in settings.actions.items() if row.spec]
    servers = [name for name, row in settings.actions.items() if row.mcp]
    try:
        async with action_library(settings, make=True) as library:
            for name in names:
                await _read_spec(library, settings, name)
    except (RetrievalError, click.ClickException) as error:
        log.error("the documents of %s are not read: %s", ", ".join(names), logs.printable(str(error)))
        return 1
    if settings.tables:
        await _read_databases(settings)
    writing = asyncio.Lock()
    await asyncio.gather(*(_follow(settings, name, writing) for name in servers))
    return 0


async def _read_databases(settings: Settings) -> None:
    """Read the tables of each database of the settings; a fault costs only its own database."""
    from cli.assembly.tables import read_tables, table_library, table_source
    from proxy.tables.reading import UnreadableDatabase

    for name, row in settings.tables.items():
        try:
            async with table_library(settings, make=True) as library:
                stored = (await asyncio.to_thread(library.store.databases)).get(name)
                source = table_source(row, None if stored is None else stored.source, os.environ, name)
                if source is None:
                    log.warning("tables.%s says not where the database is: set url, url_env or files", name)
                    continue
                report = await read_tables(library, settings, name, source)
        except (UnreadableDatabase, SettingsError, RetrievalError, click.ClickException) as error:
            log.error("tables.%s: %s; its tables stay as before", name, logs.printable(str(error)))
            continue
        level = logging.INFO if report.added or report.changed or report.removed else logging.DEBUG
        log.log(
            level, "tables.%s: %d added, %d changed, %d removed", name, report.added, report.changed, report.removed
        )


async def _follow(settings: Settings, name: str, writing: asyncio.Lock) -> None:
    """Write a set again after each change of its MCP server's tools, also after the server was away."""
    pause_s, failure = _PAUSE_S, ""

    async def took(listing: bytes) -> bool:
        nonlocal pause_s, failure
        pause_s, failure = _PAUSE_S, ""
        try:
            async with writing, action_library(settings, make=True) as library:
                await _read_spec(library, settings, name, listing)
        except (RetrievalError, click.ClickException) as error:
            log.error("actions.%s.mcp: %s; the set stays as before", name, logs.printable(str(error)))
        return True

    while True:
        try:
            async with mcp_server(settings, name, os.environ) as (server, api):
                await server.follow(api, took)
        except (UnreadableSpec, SettingsError) as error:
            if (said := logs.printable(str(error))) != failure:
                log.error("actions.%s.mcp: %s; the set stays as before", name, said)
            failure = said
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)


async def _read_spec(library: ActionLibrary, settings: Settings, name: str, raw: bytes = b"") -> None:
    source = shown_source(source_of(settings, None, name))
    where = f"actions.{name}.{'mcp' if raw else 'spec'} ({source})"
    try:
        report = await update(
            library,
            settings,
            name,
            progress=lambda: progress_bar(f"actions {name}", "texts"),
            changed_only=True,
            raw=raw,
        )
    except (UnreadableSpec, RetrievalError) as error:
        log.error("%s: %s; the set stays as before", where, logs.printable(str(error)))
        return
    if report is None:
        log.debug("%s: unchanged", where)
        return
    log.info("%s: %s", where, counts_of(report))
    if row := row_to_write(settings, name, report.credentials):
        log.warning("actions.%s: the document asks for credentials: %s", name, logs.printable(row))
    for one in report.uncallable[:_UNCALLABLE]:
        log.warning("actions.%s: cannot be called: %s", name, logs.printable(f"{one.method} {one.path}: {one.reason}"))
    if len(report.uncallable) > _UNCALLABLE:
        more = len(report.uncallable) - _UNCALLABLE
        log.warning("actions.%s: %d more cannot be called: ragway actions show %s", name, more, name)


def row_to_write(settings: Settings, name: str, asked: Mapping[str, str]) -> str:
    """What to write into the settings for credentials that a document asks for; "": nothing."""
    if not asked or settings.actions.get(name, ActionsApi()).auth != "none":
        return ""
    members = ", ".join(f"{key}: {_written(value)}" for key, value in asked.items())
    return f"write `{name}: {{{members}}}` into the setting `actions`, with the names of your variables"


def _written(value: str) -> str:
    """A value in YAML."""
    return value if re.fullmatch(r"[A-Za-z_][\w-]*", value) else orjson.dumps(value).decode()


def counts_of(report: AddReport) -> str:
    """What `add` changed, in one line."""
    return (
        f"{report.added} added, {report.changed} changed, {report.unchanged} unchanged, {report.removed} removed; "
        f"called at {shown_source(report.base_url)}"
    )


def _end_with_gateway() -> None:
    """End this process as soon as the gateway is killed: its next start would wait for the data folder.

    Standard input ends with the gateway. Writing may break off at any moment: the next reading completes the set.
    """
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> int:
    """Read settings from the first line of standard input, then the documents."""
    with os.fdopen(os.dup(0), "rb", buffering=0) as unbuffered:
        settings = load(environ={}, flags=orjson.loads(unbuffered.readline()))
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    logs.to_stderr(settings.server.log_level, logs.TIMED)
    return asyncio.run(_read_specs(settings))
