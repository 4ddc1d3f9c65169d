"""ragway keys credentials: a key's own secrets and fixed arguments for an action set."""

import contextlib
import os
import sys
from collections.abc import Iterator

import click

from cli.assembly.stores import key_credentials, write_store
from cli.common import as_text, echo, echo_json, errors_as, opened_accounts, with_settings
from cli.options import Commands
from config.sections import Settings
from proxy.access.key_credentials import FIXED, BadCredential, KeyCredentials
from retrieval.errors import RetrievalError


@click.group("credentials", cls=Commands)
def command() -> None:
    """Give a key a secret, a user and fixed arguments of its own for an action set.

    The values count before the values of the setting `actions.NAME`. The database has the values sealed by the master
    key in the environment variable RAGWAY_MASTER_KEY (`openssl rand -base64 32`); no command shows a value again.
    """


@command.command("set")
@click.argument("key_id", metavar="ID")
@click.argument("set_name", metavar="SET")
@click.argument("name")
@click.option("--env", "variable", help="Environment variable with the value (default: standard input).")
@with_settings
def setting(key_id: str, set_name: str, name: str, variable: str | None, settings: Settings) -> None:
    """Set one value of the key ID for the action set SET.

    \b
    ragway keys credentials set key-561ee2ea9f3f atlas secret < secret.txt
    ragway keys credentials set key-561ee2ea9f3f atlas fixed.groupId --env ATLAS_GROUP

    NAME is secret, user, or fixed.ARGUMENT for a fixed argument. A value is never an argument of the command: other
    users of the machine can read the arguments.
    """
    value = _from_environment(variable) if variable else _from_input()
    with _credentials(settings) as credentials:
        credentials.change(as_text(key_id), as_text(set_name), {as_text(name): value})
    echo(f"{key_id} has a {name} for {set_name}", err=True)
    known = settings.actions
    if set_name not in known:
        lacking = f"the setting actions has no row {as_text(set_name)!r}: no API is called with the value"
        echo(f"{lacking}; rows: {', '.join(known) or 'none'}", err=True)
    elif name.startswith(FIXED):
        _check_argument(settings, set_name, name.removeprefix(FIXED))


def _check_argument(settings: Settings, set_name: str, argument: str) -> None:
    """Say so if no operation has a fixed argument."""
    from cli.assembly.apis import action_store, unknown_arguments

    with contextlib.closing(action_store(settings)) as store, contextlib.suppress(RetrievalError):
        if unknown_arguments(store, set_name, [argument]):
            echo(f"no operation of {set_name} has the argument {argument!r}: the value is not sent", err=True)


@command.command("list")
@click.argument("key_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
@with_settings
def listing(key_id: str | None, as_json: bool, settings: Settings) -> None:
    """List the names of the credentials of the key ID, or of all keys, without the values."""
    with _credentials(settings) as credentials:
        names = credentials.names(key_id)
    if as_json:
        echo_json([one._asdict() for one in names])
        return
    for one in names:
        echo(f"{one.key}  {one.set}  {one.name}")
    if not names:
        echo("no credentials: ragway keys credentials set ID SET secret", err=True)


@command.command()
@click.argument("key_id", metavar="ID")
@click.argument("set_name", metavar="SET")
@click.argument("name", required=False)
@with_settings
def remove(key_id: str, set_name: str, name: str | None, settings: Settings) -> None:
    """Delete the value NAME of the key ID for the action set SET, or all values. Running gateways follow at once."""
    with _credentials(settings) as credentials:
        count = credentials.remove(key_id, set_name, name)
    if not count:
        raise click.ClickException(f"{key_id} has no such credentials for {set_name}: ragway keys credentials list")
    echo(f"{count} deleted", err=True)


@command.command()
@with_settings
def reseal(settings: Settings) -> None:
    """Seal all values, and the secret of the writes, with the newest master key.

    To change the master key: set RAGWAY_MASTER_KEY to NEW,OLD for the gateways and for this command, run this
    command, then set RAGWAY_MASTER_KEY to NEW.
    """
    with _credentials(settings) as credentials, contextlib.closing(write_store(settings)) as writes:
        count = credentials.reseal()
        with errors_as(click.ClickException, RetrievalError):
            count += writes.reseal()
    echo(f"{count} sealed with the newest master key", err=True)


@contextlib.contextmanager
def _credentials(settings: Settings) -> Iterator[KeyCredentials]:
    with opened_accounts(settings) as accounts, errors_as(click.UsageError, BadCredential):
        yield key_credentials(accounts)


def _from_environment(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise click.ClickException(f"the environment variable {variable} is not set")
    return value


def _from_input() -> str:
    """The value on standard input, without its line end; at a terminal, ask for it without echo."""
    if sys.stdin.isatty():
        value: str = click.prompt("value", hide_input=True)
        return value
    return sys.stdin.read().rstrip("\r\n")
