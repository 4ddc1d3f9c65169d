"""ragway actions: operations of HTTP APIs, from OpenAPI documents, and tools of MCP servers."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from cli.actions.specs import configured_address, counts_of, document_of, row_to_write, source_of, update
from cli.actions.writes import log_command, pending_command, receipt_command, verify_command
from cli.assembly.apis import (
    action_api,
    action_library,
    action_store,
    arguments_of,
    call_limits,
    mcp_address,
    policy_of,
    refused_address,
    why_not_called,
    writes_of,
)
from cli.assembly.stores import accounts, key_credentials
from cli.common import WholeNumber, arms_text, as_text, echo, echo_json, errors_as, progress_bar, run, with_settings
from cli.options import Commands
from config.sections import Settings
from config.settings import API_NAME, SettingsError, check_address
from proxy.access.usage import OPERATOR
from proxy.agent.writes.confirming import Asker, Proposed, shown_write
from proxy.agent.writes.shown import CannotShow, write_texts
from proxy.apis.call import Api, CallResult, call
from proxy.apis.library import MIN_RELEVANCE, ActionSet, ActionStore, AddReport, FoundAction
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.apis.sources import is_url, shown_source
from proxy.caller import EVERYTHING
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError
from retrieval.records.search import ALL, Turn
from runtime import logs
from runtime.public_addresses import ForbiddenAddress

_SHOWN = 10  # operations that cannot be called, in a report


@click.group("actions", cls=Commands)
def command() -> None:
    """Keep the operations of HTTP APIs, find an operation by a question, and call an operation.

    An action set is the operations of one OpenAPI document (versions 3.0 and 3.1, and Swagger 2.0; JSON or YAML). The
    setting `actions.NAME` has the address and the credentials of the API. With `actions.NAME.mcp`, the operations are
    the tools of an MCP server.
    """


for one in (log_command, pending_command, receipt_command, verify_command):
    command.add_command(one)


@command.command()
@click.argument("name")
@click.argument("source", metavar="FILE|URL", required=False)
@click.option(
    "--base-url", help="Address of the API, unless actions.NAME.base_url has one (default: as in the document)."
)
@with_settings
def add(name: str, source: str | None, base_url: str | None, settings: Settings) -> None:
    """Read an OpenAPI document into the action set NAME; run again after changes.

    The document is a file, or a URL of a host in the setting `action_calls.spec_hosts`. A set with the setting
    `actions.NAME.mcp` needs none: the MCP server lists its tools.

    A document that cannot be read changes nothing. Operations that cannot be called are listed with the reason.
    """
    if not API_NAME.fullmatch(name):
        raise click.UsageError(
            f"NAME has small letters, digits, - and _, at most 64, and is not off; got {as_text(name)!r}"
        )
    if address := mcp_address(settings, name):
        if source is not None or base_url is not None:
            raise click.UsageError(f"the setting actions.{name}.mcp names the server: run `ragway actions add {name}`")
        run(_add(settings, name, address, None))
        return
    if source is None:
        raise click.UsageError(f"name the document: ragway actions add {name} FILE")
    with errors_as(click.UsageError, SettingsError):
        check_address(base_url, "--base-url")
        check_address(source if is_url(source) else None, "URL")
    source = source if is_url(source) else str(Path(source).absolute())
    spec = settings.actions[name].spec if name in settings.actions else None
    if spec not in (None, source):
        raise click.ClickException(
            f"the setting actions.{name}.spec names another document: run `ragway actions update {name}`"
        )
    run(_add(settings, name, source, base_url))


async def _add(settings: Settings, name: str, source: str, base_url: str | None) -> int:
    with _nothing_changed(source):
        raw = await document_of(settings, name, source)
        async with action_library(settings, make=True) as library:
            progress = progress_bar(f"actions {name}", "texts")
            address = configured_address(settings, name) or base_url or ""
            report = await library.add(name, raw, base_url=address, source=source, progress=progress)
            added = library.store.find(name)
    _report(settings, name, report)
    if added is not None and (refused := await refused_address(settings, added)):
        echo(f"no operation is called yet: {refused}", err=True)
    if name not in settings.actions:
        echo(f"no chat can use the set yet: add the row `{name}: {{}}` to the setting `actions`", err=True)
    return 0


@contextlib.contextmanager
def _nothing_changed(source: str) -> Iterator[None]:
    """An unreadable document as one line."""
    try:
        yield
    except UnreadableSpec as error:
        message = f"{shown_source(source)}: {error}; nothing is changed"
        raise click.ClickException(logs.printable(message)) from error


def _report(settings: Settings, name: str, report: AddReport) -> None:
    echo(f"{name}: {counts_of(report)}")
    for one in report.uncallable[:_SHOWN]:
        echo(f"cannot be called: {one.method} {one.path}: {one.reason}", err=True)
    if row := row_to_write(settings, name, report.credentials):
        echo(f"the document asks for credentials: {logs.printable(row)}", err=True)
    if len(report.uncallable) > _SHOWN:
        echo(f"… and {len(report.uncallable) - _SHOWN} more: ragway actions show {name}", err=True)


@command.command("update")
@click.argument("name", required=False)
@with_settings
async def update_sets(name: str | None, settings: Settings) -> int:
    """Read the document of the set NAME again; without NAME, the documents of all sets.

    The document is the file or the URL in the setting `actions.NAME.spec`, else the document that `ragway actions add`
    was given. The address of the API stays.
    """
    name, failures = name and as_text(name), 0
    async with action_library(settings, make=True) as library:
        sets = {one.name: one for one in library.store.sets()}
        known = [each for each in {**settings.actions, **sets} if source_of(settings, sets.get(each), each)]
        if name is not None and name not in known:
            raise click.ClickException(_no_source(library.store, name, known))
        for each in [name] if name is not None else known:
            source = source_of(settings, sets.get(each), each)
            try:
                with _nothing_changed(source):
                    bar = functools.partial(progress_bar, f"actions {each}", "texts")
                    report = await update(library, settings, each, progress=bar)
            except click.ClickException as error:
                if name is not None:
                    raise
                failures += 1
                echo(f"{each}: {error.message}", err=True)
                continue
            assert report is not None  # asked for, changed or not
            _report(settings, each, report)
    if not known:
        echo("no action set has a file or a URL: ragway actions add NAME FILE", err=True)
    return 1 if failures else 0


def _no_source(store: ActionStore, name: str, known: Sequence[str]) -> str:
    if store.find(name) is None:
        return _no_set(store, name)
    others = f"; sets with a file or a URL: {', '.join(known)}" if known else ""
    return f"the document of {name} was sent by a client, and has no file or URL{others}"


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[ActionStore]:
    """Action sets; a database error becomes one line."""
    with contextlib.closing(action_store(settings)) as store, errors_as(click.ClickException, RetrievalError):
        yield store


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
def list_sets(as_json: bool, settings: Settings) -> None:
    """List the action sets."""
    with _opened(settings) as store:
        sets = store.sets()
    if as_json:
        echo_json([_set_row(one) for one in sets])
        return
    for one in sets:
        cannot = f", {len(one.uncallable)} cannot be called" if one.uncallable else ""
        echo(f"{one.name}  {one.count} operations{cannot}  {shown_source(one.base_url)}  {one.title}")
    if not sets:
        echo("no action set: ragway actions add NAME FILE", err=True)


@command.command()
@click.argument("name")
@click.argument("operation", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON.")
@with_settings
def show(name: str, operation: str | None, as_json: bool, settings: Settings) -> None:
    """List the operations of a set, or show one OPERATION with its arguments."""
    with _opened(settings) as store:
        found = set_of(store, name)
        operations = store.operations(name) if operation is None else [_operation_of(store, name, operation)]
    if as_json:
        echo_json([_operation_row(settings, found, one) for one in operations])
    elif operation is not None:
        one = operations[0]
        echo(f"{one.method} {one.path}\n{one.summary}\n{one.description}".strip())
        echo_json(arguments_of(settings, found, one))
    else:
        for one in operations:
            why = why_not_called(settings, found, one)
            echo(f"{one.name}  {one.method} {one.path}  {one.summary}{f'  (not called: {why})' if why else ''}")
        for bad in found.uncallable:
            echo(f"cannot be called: {bad.method} {bad.path}: {bad.reason}", err=True)


@command.command()
@click.argument("name")
@with_settings
async def remove(name: str, settings: Settings) -> int:
    """Delete an action set."""
    name = as_text(name)
    async with action_library(settings) as library:
        if not await library.remove(name):
            raise click.ClickException(_no_set(library.store, name))
    echo(f"{name} is deleted")
    if name in settings.actions and (settings.actions[name].spec or settings.actions[name].mcp):
        key = "spec" if settings.actions[name].spec else "mcp"
        echo(f"the next `ragway serve` reads the operations of actions.{name}.{key} again", err=True)
    return 0


@command.command()
@click.argument("question")
@click.option("--set", "sets", multiple=True, help="Set to search; may be repeated (default: all sets).")
@click.option("-k", type=WholeNumber(1, 50), default=8, show_default=True, help="How many operations at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
async def search(question: str, sets: Sequence[str], k: int, as_json: bool, settings: Settings) -> int:
    """Find operations by a question, the best first.

    Each operation has the rank and score of each retriever (dense: cosine, bm25: BM25 score). A producer is found
    because an operation before needs the results. The last line has the probability that an operation fits.
    """
    if not question.strip():
        raise click.UsageError("the question is empty")
    async with action_library(settings) as library:
        names = [as_text(name) for name in sets] or [one.name for one in library.store.sets()]
        rows = {name: set_of(library.store, name) for name in names}
        found = await library.find([Turn("user", as_text(question))], names, k=k, view=ALL)
    if as_json:
        echo_json([_found_row(settings, rows[one.set], one) for one in found.actions])
        return 0
    for number, one in enumerate(found.actions, 1):
        operation = one.operation
        arms = "a producer" if one.hit is None else arms_text(one.hit.ranks, one.hit.scores)
        echo(f"{number}. {one.label}  {operation.method} {operation.path}  {operation.summary}  ({arms})")
    relevance = None if found.texts is None else found.texts.relevance
    best = "" if relevance is None else f"the best is relevant with probability {relevance:.2g}"
    if not found.actions:
        echo(f"nothing found: {best}, the least is {MIN_RELEVANCE:g}" if best else "nothing found", err=True)
    elif best:
        echo(best)
    return 0


def _found_row(settings: Settings, action_set: ActionSet, one: FoundAction) -> dict[str, Any]:
    row = {"set": one.set, **_operation_row(settings, action_set, one.operation)}
    if one.hit is None:  # a producer
        return {**row, "score": None, "ranks": {}, "scores": {}}
    return {**row, "score": one.hit.score, "ranks": one.hit.ranks, "scores": one.hit.scores}


@command.command("run")
@click.argument("name")
@click.argument("operation")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--dry", is_flag=True, help="Print the request, without credentials and fixed values, and send nothing.")
@click.option("--yes", is_flag=True, help="Send a call that changes something; without it, such a call is only shown.")
@click.option("--key", help="Id of a key, whose own credentials and fixed arguments are used.")
@with_settings
def run_operation(
    name: str, operation: str, arguments: Sequence[str], dry: bool, yes: bool, key: str | None, settings: Settings
) -> None:
    """Call an OPERATION of the set NAME, and print the result as a model would read the result.

    A VALUE is JSON, else text: `limit=5`, `tags=["a","b"]`, `body={"name":"x"}`, `name=Ann`. `orgId=12` is
    text if the argument must be text. The arguments of the setting `actions.NAME.fixed` are added. A call that changes
    something needs the setting `actions.NAME.writes`, and --yes.
    """
    with _opened(settings) as store:
        found = set_of(store, name)
        called = _operation_of(store, name, operation)
    given = {key: _value(called.schema, key, text) for key, text in map(_argument, arguments)}
    api = _api(settings, found, key)
    if not dry and api.policy.effect_of(called) == "changes" and not api.why_not_called(called):
        run(_change(settings, api, called, given, key or "", yes=yes))
    else:
        run(_run(settings, api, called, given, dry=dry))


def _api(settings: Settings, found: ActionSet, key: str | None) -> Api:
    """The API as a key calls it. Raises click.ClickException."""
    with errors_as(click.ClickException, SettingsError, RetrievalError):
        own = {} if key is None else _credentials(settings, found.name, key)
        api = action_api(settings, found, os.environ, own)
    if api is None:
        why = "add --key ID" if key is None else f"ragway keys credentials set {key} {found.name} secret"
        raise click.ClickException(f"only keys with a secret of their own may call {found.name}: {why}")
    return api


def _credentials(settings: Settings, set_name: str, key: str) -> Mapping[str, str]:
    """A key's credentials for a set. Raises RetrievalError."""
    with contextlib.closing(accounts(settings)) as opened:
        opened.key(key)
        credentials = key_credentials(opened)
        return credentials.opened({one: value for one, value in credentials.sealed(key).items() if one.set == set_name})


async def _change(
    settings: Settings, api: Api, operation: Operation, arguments: dict[str, Any], key: str, *, yes: bool
) -> int:
    """Show a call that changes something; if the operator agrees, send it. key: whose credentials are used."""
    _check(api, operation, arguments)
    try:
        one = Proposed(api, operation, arguments, api.request(operation, arguments))
        echo("\n".join(write_texts([shown_write(one, key)])))
    except (BadArgument, ForbiddenAddress, CannotShow) as error:
        raise click.ClickException(api.masked_text(f"{operation.name}: {error}")) from error
    if not yes:
        raise click.ClickException("nothing was sent: the same command with --yes sends this")
    if api.refusal:
        raise click.ClickException(api.refusal)
    with errors_as(click.ClickException, RetrievalError), contextlib.closing(action_store(settings)) as store:
        writes = writes_of(settings, os.environ, store)
        assert writes is not None, "the set allows writes"
        asker = Asker(Exchange(key_name=key, rights=EVERYTHING), "")
        try:
            outcome = await writes.at_once(one, asker, approver=OPERATOR)
        finally:
            await writes.close()
            await api.close()
    return _printed(outcome)


async def _run(settings: Settings, api: Api, operation: Operation, arguments: dict[str, Any], *, dry: bool) -> int:
    _check(api, operation, arguments)
    if dry:
        try:
            request = api.shown_request(operation, arguments)
        except (BadArgument, ForbiddenAddress) as error:
            raise click.ClickException(api.masked_text(f"{operation.name}: {error}")) from error
        lines = [f"{request.method} {request.url}", *(f"{key}: {value}" for key, value in request.headers)]
        body = ["", request.body.decode("utf-8", "backslashreplace")] if request.body else []
        echo(api.masked_text("\n".join([*lines, *body])))
        if api.why_not_called(operation) == "could_change":
            echo(f"{operation.name} could change something: without --dry, nothing is sent either", err=True)
        return 0
    outcome = await call(api, operation, arguments, call_limits(settings))
    await api.close()
    return _printed(outcome)


def _check(api: Api, operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Raises click.ClickException."""
    if wrong := problems(api.schema_of(operation), arguments):
        raise click.ClickException(f"{operation.name}: {'; '.join(wrong)}")


def _printed(outcome: CallResult) -> int:
    """Print what became of a call; returns the exit code."""
    echo(outcome.text)
    echo(f"status {outcome.status or '-'}, {outcome.size:,} bytes, {outcome.ms:.0f} ms", err=True)
    return 0 if outcome.succeeded else 1


def _argument(text: str) -> tuple[str, str]:
    """A NAME=VALUE."""
    name, sign, value = as_text(text).partition("=")
    if not sign or not name:
        raise click.UsageError(f"an argument is NAME=VALUE, got {text!r}")
    return name, value


def _value(schema: Mapping[str, Any], name: str, text: str) -> Any:
    """An argument's value: JSON, but text if the argument must be text."""
    try:
        orjson.loads(text)
        value = json.loads(text)  # orjson rounds whole numbers beyond 64 bits, and json reads NaN
    except (ValueError, RecursionError):
        return text
    alone = {**schema, "required": []}
    return text if problems(alone, {name: value}) and not problems(alone, {name: text}) else value


def set_of(store: ActionStore, name: str) -> ActionSet:
    """The set with this name. Raises click.ClickException."""
    found = store.find(name)
    if found is None:
        raise click.ClickException(_no_set(store, name))
    return found


def _operation_of(store: ActionStore, name: str, operation: str) -> Operation:
    """An operation in set `name`. Raises click.ClickException."""
    for found in store.found([(name, operation)]).values():
        return found
    raise click.ClickException(f"{name} has no operation {operation!r}: ragway actions show {name} lists them")


def _no_set(store: ActionStore, name: str) -> str:
    known = ", ".join(one.name for one in store.sets()) or "none"
    return f"there is no action set {name!r}; known: {known}"


def _set_row(one: ActionSet) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "base_url": shown_source(one.base_url),
        "source": shown_source(one.source),
        "operations": one.count,
        "uncallable": [{"method": bad.method, "path": bad.path, "reason": bad.reason} for bad in one.uncallable],
    }


def _operation_row(settings: Settings, action_set: ActionSet, one: Operation) -> dict[str, Any]:
    shown = {name: getattr(one, name) for name in ("name", "method", "path", "summary")}
    reads = policy_of(settings, action_set.name).effect_of(one) == "reads"
    return {**shown, "reads": reads, "arguments": arguments_of(settings, action_set, one)}
