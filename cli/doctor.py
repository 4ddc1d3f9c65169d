"""ragway doctor: find problems of settings, data folder, databases and index, and repair some."""

import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.common import echo, echo_json, options, progress_bar, run, settings_of
from config.settings import Settings
from retrieval.errors import DataInUse, RetrievalError

if TYPE_CHECKING:
    from retrieval.index.audit import Points
    from retrieval.index.index import Index

_LEAST_FREE_MB = 128  # minimum for the index, see `stores.edge_shard`
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
@options
def command(repair: bool, as_json: bool, config_file: Path | None, data: str | None) -> None:
    """Check settings, data folder, databases, every point of the index, and action sets; name problems and remedies.

    Exit code 0: no problem, or all problems repaired. The index is checked only while no `ragway serve` uses the data
    folder.
    """
    run(_doctor(Examination(settings_of(config_file, data=data), repair), as_json=as_json))


async def _doctor(seen: Examination, *, as_json: bool) -> int:
    if _folder(seen) and _databases(seen):
        _baked_in(seen)
        await _index(seen)
    await _specs(seen)
    await _sets(seen)
    if as_json:
        echo_json([asdict(one) for one in seen.findings])
        return int(seen.ill)
    for one in seen.findings:
        echo(f"{one.subject}: {one.problem}: {'repaired' if one.repaired else one.advice}")
    if not seen.findings:
        echo("nothing is wrong", err=True)
    return int(seen.ill)


def _folder(seen: Examination) -> bool:
    """Whether the data folder can be looked into."""
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
    from proxy.actions.tables import schema as actions
    from proxy.observe.receipts.tables import schema as receipts
    from retrieval.catalog.tables import schema as catalog
    from runtime.database import examined, open_file, open_server

    url, fine = seen.settings.catalog.url, True
    files = {"catalog.sqlite": catalog, "accounts.db": accounts, "receipts.db": receipts, "actions.db": actions}
    for file_name, schema in files.items():
        file = Path(seen.settings.data) / file_name
        if not url and not (file.exists() and file.stat().st_size):
            continue
        what = f"the {schema.name}"
        engine = open_server(url, what=what) if url else open_file(file, what=what, pooled=False)
        for problem in examined(engine, schema):
            seen.found(what if url else str(file), problem, _AWAY if url else _RESTORE)
            fine = fine and schema is not catalog
    return fine


async def _specs(seen: Examination) -> None:
    """Read the document of each `actions.NAME.spec`, as `ragway serve` does at the start."""
    specs = {name: row.spec for name, row in seen.settings.actions.items() if row.spec}
    if not specs:
        return
    from cli.specs import document_of
    from proxy.actions.library import read_document
    from proxy.actions.openapi.read import UnreadableSpec
    from proxy.actions.sources import shown_source

    for name, spec in specs.items():
        try:
            read_document(await document_of(seen.settings, name, spec))
        except UnreadableSpec as error:
            subject = f"actions.{name}.spec ({shown_source(spec)})"
            seen.found(subject, error, "correct the document or the setting; until then, the set stays as before")


def _baked_in(seen: Examination) -> None:
    """Check the names in `actions.NAME.always`."""
    if not any(row.always for row in seen.settings.actions.values()):
        return
    from cli.apis import action_store, always_of
    from proxy.actions.baked_in import baked_in

    store = action_store(seen.settings)
    try:
        for one in baked_in(store, always_of(seen.settings))[1]:
            seen.found(f"actions.{one.set}.always", f"{one.operation} {one.problem}", one.advice)
    except RetrievalError as error:
        seen.found("the actions", error, _AWAY if seen.settings.catalog.url else _RESTORE)
    finally:
        store.close()


async def _sets(seen: Examination) -> None:
    """Name each fault of an action set: of the reading, the address, or the fixed arguments."""
    configured, rows = seen.settings.actions, []
    unknown: list[tuple[str, str]] = []
    if seen.settings.catalog.url or (Path(seen.settings.data) / "actions.db").exists():
        from cli.apis import action_store, refused_address, unknown_fixed

        store = action_store(seen.settings)
        try:
            rows = store.sets()
            fixed = {name: row.fixed or () for name, row in configured.items()}
            unknown = [(name, one) for name in fixed for one in unknown_fixed(store, name, fixed[name])]
        except RetrievalError:  # `_databases` names the problem
            return
        finally:
            store.close()
    for row in rows:
        if not row.document:
            advice = f"`ragway actions update {row.name}`" if row.source else "put the document again"
            seen.found(f"action set {row.name}", "the last reading of the document was interrupted", advice)
        if refused := await refused_address(seen.settings, row):
            seen.found(f"action set {row.name}", refused, "until then, no operation is called")
    for name, one in unknown:
        advice = f"`ragway actions show {name} OPERATION` prints the arguments"
        seen.found(f"actions.{name}.fixed", f"no operation has the argument {one!r}", advice)
    for name in sorted(configured.keys() - {row.name for row in rows}):
        if not configured[name].spec:
            seen.found(f"action set {name}", "no OpenAPI document was read", f"`ragway actions add {name} FILE`")


async def _index(seen: Examination) -> None:
    """Check every collection's points. Opening an index also clears the rest of interrupted work."""
    from cli.build import plan
    from retrieval.index.index import Index

    data = Path(seen.settings.data)
    if not (seen.settings.catalog.url or (data / "catalog.sqlite").exists() or any((data / "index").glob("*"))):
        return
    try:
        index = await Index.open(plan(seen.settings), serving=False)
    except DataInUse as error:
        seen.found(
            "the index", f"not checked, for {error.holder} has it open", "end the process and run `ragway doctor` again"
        )
        return
    except RetrievalError as error:
        seen.found("the index", error, "search works only after the repair")
        return
    try:
        for row in await index.library.collections():
            await _collection(seen, index, row.name)
    finally:
        await index.close()


async def _collection(seen: Examination, index: "Index", name: str) -> None:
    subject = f"collection {name}"
    try:
        points = await index.audit(name)
    except RetrievalError as error:  # of another embedder
        seen.found(subject, error, "set embedder.model back, or reindex the collection")
        return
    stray = len(points.orphaned) + len(points.tenants)
    before = len(seen.findings)
    if points.missing:
        seen.found(subject, f"{points.missing} of its points are missing", f"`ragway rebuild {name}`")
    if points.damaged:
        seen.found(subject, f"{points.damaged} of its points are damaged", f"`ragway rebuild {name}`")
    if stray:
        problem = f"{len(points.orphaned)} points and {len(points.tenants)} generations belong to no document"
        seen.found(subject, problem, "`ragway doctor --repair` deletes these points")
    if points.unfinished:
        advice = f"it is searched as before; give the command again, or `ragway rebuild {name}`"
        seen.found(subject, "a rebuild or reindex was interrupted", advice)
    if seen.repair and len(seen.findings) > before:
        healed = await _repaired(seen, index, name, points)
        for finding in seen.findings[before:]:
            finding.repaired = healed


async def _repaired(seen: Examination, index: "Index", name: str, points: "Points") -> bool:
    """Whether a second check finds no problem."""
    try:
        await index.clear(name, points)
        if points.unfinished or not points.searchable:
            await index.writing.rebuild(name, progress_bar(f"rebuild {name}"), embedder=index.choice(name))
        after = await index.audit(name)
    except RetrievalError as error:
        seen.found(f"collection {name}", error, "the repair failed")
        return False
    return after.searchable and not after.orphaned and not after.tenants and not after.unfinished
