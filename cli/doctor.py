"""ragway doctor: find problems with settings, data folder, databases and index, and repair some."""

import contextlib
import os
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.common import echo, echo_json, progress_bar, with_settings
from config.sections import Settings
from config.settings import SettingsError
from retrieval.errors import DataInUse, IndexDown, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retrieval.knowledge import EmbedderChoice, Knowledge
    from retrieval.records.points import PointFaults

_LEAST_FREE_MB = 128  # the index's minimum, see `stores.edge_shard`
_AWAY = "see to the server of catalog.url"
_RESTORE = "stop `ragway serve` and restore the file from a backup, or move the file away and start again"


@dataclass(slots=True)
class Finding:
    """A problem."""

    subject: str
    problem: str
    advice: str
    repaired: bool = False


@dataclass(slots=True)
class Examination:
    """All problems."""

    settings: Settings
    repair: bool
    findings: list[Finding] = field(default_factory=list)

    def found(self, subject: str, problem: object, advice: str, *, repaired: bool = False) -> None:
        self.findings.append(Finding(subject, str(problem), advice, repaired))

    @property
    def ill(self) -> bool:
        return any(not finding.repaired for finding in self.findings)


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Repair: rebuild damaged collections, delete stray points.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list.")
@with_settings
async def command(repair: bool, as_json: bool, settings: Settings) -> int:
    """Check settings, data folder, databases, every point of the index, action sets and tables; name problems and
    remedies.

    Exit code 0: no problem, or all problems repaired. While `ragway serve` uses the data folder, its index is checked
    through it, but for points without a document and interrupted rebuilds.
    """
    seen = Examination(settings, repair)
    if _folder(seen) and _databases(seen):
        _baked_in(seen)
        await _index(seen)
    await _specs(seen)
    await _sets(seen)
    _tools(seen)
    await _tables(seen)
    if as_json:
        echo_json([asdict(one) for one in seen.findings])
        return int(seen.ill)
    for one in seen.findings:
        echo(f"{one.subject}: {one.problem}: {'repaired' if one.repaired else one.advice}")
    if not seen.findings:
        echo("nothing is wrong", err=True)
    return int(seen.ill)


def _folder(seen: Examination) -> bool:
    """Whether we can look into the data folder."""
    data = Path(seen.settings.data)
    if not data.is_dir():
        seen.found(
            str(data), "the data folder does not exist", "name another folder with --data, or run `ragway ingest`"
        )
        return False
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        seen.found(str(data), "the data folder cannot be read and written", "give this user access")
        return False
    free_mb = shutil.disk_usage(data).free // 2**20
    if free_mb < _LEAST_FREE_MB:
        seen.found(str(data), f"its disk has {free_mb} MB free, {_LEAST_FREE_MB} are needed", "free some")
        return False
    for broken in sorted(data.glob("index/*.broken")):
        advice = "delete the shard after rebuilding the collections"
        if seen.repair:
            shutil.rmtree(broken)
        seen.found(str(broken), "a shard set aside", advice, repaired=seen.repair)
    return True


def _databases(seen: Examination) -> bool:
    """Whether the catalog can be used."""
    from proxy.access.tables import schema as accounts
    from proxy.agent.writes.tables import schema as writes
    from proxy.apis.tables import schema as actions
    from proxy.tables.stored import schema as tables
    from retrieval.catalog.catalog_tables import schema as catalog
    from runtime.database import examined, open_file, open_server
    from runtime.record_tables import schema as receipts

    url, fine = seen.settings.catalog.url, True
    files = {"catalog.sqlite": catalog, "accounts.db": accounts, "receipts.db": receipts, "actions.db": actions}
    files |= {"writes.db": writes, "tables.db": tables}
    for file_name, schema in files.items():
        file = Path(seen.settings.data) / file_name
        if not url and not (file.exists() and file.stat().st_size):
            continue
        what = f"the {schema.name}"
        engine = open_server(url, what=what) if url else open_file(file, what=what, pooled=False)
        for problem in examined(engine, schema):
            seen.found(what if url else str(file), problem, _AWAY if url else _RESTORE)
            fine = fine and schema is not catalog
    _keys(seen)
    return fine


def _keys(seen: Examination) -> None:
    """Find out whether all keys are lost: then `ragway serve` does not start."""
    from proxy.access.sql import KeysLost, SqlAccounts

    with closing(SqlAccounts(Path(seen.settings.data), seen.settings.catalog.url)) as accounts:
        try:
            accounts.version()
        except KeysLost as error:
            problem, _, advice = str(error).partition(": ")
            seen.found("the keys", problem, advice)
        except RetrievalError:  # an unreadable database was found before
            pass


async def _specs(seen: Examination) -> None:
    """Read each `actions.NAME.spec` document and MCP server's list of tools, as `ragway serve` does when it starts."""
    named = [name for name, row in seen.settings.actions.items() if row.spec or row.mcp]
    if not named:
        return
    from cli.actions.specs import configured_address, document_of, row_to_write, source_of
    from proxy.apis.openapi.read import UnreadableSpec
    from proxy.apis.sources import shown_source
    from proxy.apis.specs import Spec, SpecReader

    reader = SpecReader(seen.settings.ingest)
    for name in named:
        spec = source_of(seen.settings, None, name)
        try:
            raw = await document_of(seen.settings, name, spec)
            rows = await reader.run(Spec(name, raw, configured_address(seen.settings, name), spec))
            if row := row_to_write(seen.settings, name, rows.credentials):
                seen.found(f"actions.{name}.auth", "the document asks for credentials", row)
        except UnreadableSpec as error:
            subject = f"actions.{name}.{'mcp' if seen.settings.actions[name].mcp else 'spec'} ({shown_source(spec)})"
            seen.found(subject, error, "correct the document or the setting; until then, the set stays as before")


def _baked_in(seen: Examination) -> None:
    """Check names in `actions.NAME.always`."""
    if not any(row.always for row in seen.settings.actions.values()):
        return
    from cli.assembly.apis import action_store
    from proxy.apis.library import baked_in

    with closing(action_store(seen.settings)) as store:
        try:
            for one in baked_in(store, seen.settings.actions)[1]:
                seen.found(f"actions.{one.set}.always", f"{one.operation} {one.problem}", one.advice)
        except RetrievalError as error:
            seen.found("the actions", error, _AWAY if seen.settings.catalog.url else _RESTORE)


async def _sets(seen: Examination) -> None:
    """Name each fault in an action set: in reading, address, or named arguments."""
    configured, rows = seen.settings.actions, []
    unknown: list[tuple[str, str, str]] = []
    if seen.settings.catalog.url or (Path(seen.settings.data) / "actions.db").exists():
        from cli.assembly.apis import action_store, refused_address, unknown_arguments, unknown_names

        with closing(action_store(seen.settings)) as store:
            try:
                rows = store.sets()
                for name, api in configured.items():
                    for setting, named in (("fixed", api.fixed), ("ask", api.ask), ("allowed", api.allowed)):
                        unknown += [(name, setting, one) for one in unknown_arguments(store, name, named or ())]
                    for setting, one in unknown_names(store, name, api):
                        advice = f"`ragway actions show {name}` lists the operations"
                        seen.found(f"actions.{name}.{setting}", f"{one} is not an operation of the set", advice)
            except RetrievalError:  # `_databases` names the problem
                return
    for row in rows:
        if not row.document:
            advice = f"`ragway actions update {row.name}`" if row.source else "put the document again"
            seen.found(f"action set {row.name}", "the last reading of the document was interrupted", advice)
        if refused := await refused_address(seen.settings, row):
            seen.found(f"action set {row.name}", refused, "until then, no operation is called")
    for name, setting, one in unknown:
        advice = f"`ragway actions show {name} OPERATION` prints the arguments"
        seen.found(f"actions.{name}.{setting}", f"no operation has the argument {one!r}", advice)
    for name in sorted(configured.keys() - {row.name for row in rows}):
        if not configured[name].spec:
            seen.found(f"action set {name}", "no OpenAPI document was read", f"`ragway actions add {name} FILE`")


def _tools(seen: Examination) -> None:
    """Load the tools of the setting `tools`, as `ragway serve` does when it starts."""
    if not seen.settings.tools:
        return
    from cli.assembly.tools import chat_tools

    try:
        chat_tools(seen.settings.tools)
    except SettingsError as error:
        seen.found("tools", str(error).removeprefix("tools: "), "correct the setting `tools`, or the package")


async def _tables(seen: Examination) -> None:
    """Read each database of the settings."""
    if not seen.settings.tables:
        return
    from cli.tables.problems import problems

    with contextlib.suppress(RetrievalError):  # `_databases` names the problem
        async for problem in problems(seen.settings):
            seen.found(*problem)


async def _index(seen: Examination) -> None:
    """Check every collection's points. Opening an index also clears up interrupted work."""
    from cli.assembly.index import plan
    from retrieval.index.index import Index

    data = Path(seen.settings.data)
    if not (seen.settings.catalog.url or (data / "catalog.sqlite").exists() or any((data / "index").glob("*"))):
        return
    try:
        index = await Index.open(plan(seen.settings), serving=False)
    except DataInUse as error:
        await _served_index(seen, error.holder)
        return
    except RetrievalError as error:
        seen.found("the index", error, "search works only after the repair")
        return
    try:
        for problem in index.curve_problems:
            seen.found("relevance", problem, "run `ragway calibrate`; until then, the built-in curve counts")
        for row in await index.library.collections():
            await _collection(seen, index, row.name, index.clear, index.choice)
    finally:
        await index.close()


async def _served_index(seen: Examination, holder: str) -> None:
    """Check the index through the process that has the data folder open."""
    from retrieval.rpc.client import IndexClient

    client = IndexClient(Path(seen.settings.data))
    try:
        await client.search.check()
        for row in await client.library.collections(None):
            await _collection(seen, client, row.name)
    except IndexDown as error:
        advice = "wait and run `ragway doctor` again, or read the log of that process"
        seen.found(
            "the index", f"not checked, for {holder} has it open and its index does not answer ({error})", advice
        )
    except RetrievalError as error:
        seen.found("the index", error, "until then, chats go on without passages")
    finally:
        await client.close()


async def _collection(
    seen: Examination,
    knowledge: "Knowledge",
    name: str,
    clear: "Callable[[str, PointFaults], Awaitable[None]] | None" = None,
    choice: "Callable[[str], EmbedderChoice | None]" = lambda _name: None,
) -> None:
    """clear, choice: for an index that no other process uses. While `ragway serve` runs, points without a document may
    belong to one being written, and a rebuild may be running.
    """
    subject = f"collection {name}"
    try:
        points = await knowledge.library.audit(name)
    except IndexDown:
        raise
    except RetrievalError as error:  # by another embedder
        seen.found(subject, error, "set embedder.model back, or reindex the collection")
        return
    alone = clear is not None
    stray = len(points.orphaned) + len(points.tenants)
    before = len(seen.findings)
    if points.missing:
        seen.found(subject, f"{points.missing} of its points are missing", f"`ragway rebuild {name}`")
    if points.damaged:
        seen.found(subject, f"{points.damaged} of its points are damaged", f"`ragway rebuild {name}`")
    if stray and alone:
        problem = f"{len(points.orphaned)} points and {len(points.tenants)} generations belong to no document"
        seen.found(subject, problem, "`ragway doctor --repair` deletes these points")
    if points.unfinished and alone:
        advice = f"it is searched as before; give the command again, or `ragway rebuild {name}`"
        seen.found(subject, "a rebuild or reindex was interrupted", advice)
    if not seen.repair or len(seen.findings) == before:
        return
    healed = False
    try:
        if clear is not None:
            await clear(name, points)
        if not points.searchable or (points.unfinished and alone):
            await knowledge.writing.rebuild(name, progress_bar(f"rebuild {name}"), embedder=choice(name))
        after = await knowledge.library.audit(name)
        strays = after.orphaned or after.tenants or after.unfinished
        healed = after.searchable and not (strays and alone)
    except RetrievalError as error:
        seen.found(subject, error, "the repair failed")
    for finding in seen.findings[before:]:
        finding.repaired = healed
