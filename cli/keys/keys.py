"""ragway keys: who may use the gateway, and for what. Running gateways apply changes within seconds."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from cli.common import echo, echo_json, errors_as, minute_text, opened_accounts, with_settings
from cli.keys import credentials
from cli.options import Commands
from config.sections import Settings
from proxy.access.grants import BadGrant, acts_of, duration_s, grant_of, key_json
from proxy.access.keys import Key
from proxy.access.limits import WORDS, limits_of
from proxy.caller import MEASURES

_NONE = "none"


def _limits(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option per limit."""
    for name in reversed([*MEASURES]):
        option = click.option(f"--{name.replace('_', '-')}", callback=_number, help=f"Most {WORDS[name]}.")
        command = option(command)
    return command


def _number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | float | str | None:
    """Parse a limit; "none" removes one."""
    if value is None or value == _NONE:
        return value
    assert param.name is not None
    try:
        number = float(value) if MEASURES[param.name][0] == "dollars" else int(value)
        limits_of({param.name: number})
    except ValueError as error:
        why = str(error) if param.name in str(error) else f"{value!r}: write a number"
        raise click.BadParameter(why) from error
    return number


@click.group("keys", cls=Commands)
def command() -> None:
    """Create, list, limit, revoke and rotate the keys of clients: `Authorization: Bearer KEY`, or the SDK's api_key.

    Before the first key, the gateway is open to programs on this machine and listens only on this machine. From the
    first key on, every request needs a valid key. A key may do only what the key's rights grant.
    """


command.add_command(credentials.command)


@command.command()
@click.argument("name")
@click.option("--team", default="", help="Name of the owner, for lists and accounts.")
@click.option("--read", multiple=True, help="Collection that the key may read, or actions.SET; may be repeated.")
@click.option("--write", multiple=True, help="Collection that the key may write, or actions.SET; may be repeated.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="Group whose documents the key may read, in addition to documents for all (* = all groups).",
)
@click.option("--model", "models", multiple=True, help="Model that the key may call; may be repeated.")
@click.option(
    "--act",
    multiple=True,
    metavar="GRANT",
    help="Calls of an API that the key may make, as atlas:read or tickets:createTicket=auto; with ! in front, that the "
    "key may not make; may be repeated.",
)
@click.option(
    "--query",
    multiple=True,
    metavar="TABLE",
    help="Table that the key may query, as shop.sales or shop.*; may be repeated.",
)
@click.option("--admin", is_flag=True, help="Allow calls for the whole gateway: metrics, keys, usage of all keys.")
@click.option("--metrics", is_flag=True, help="Allow to read /metrics and all of /readyz, e.g. for Prometheus.")
@click.option("--expires", help="Lifetime of the key, e.g. 90d (default: no end).")
@_limits
@with_settings
def create(settings: Settings, **fields: Any) -> None:
    """Create a key and print the key once: ragway stores only a hash.

    \b
    ragway keys create search-app --read docs --model 'gpt-4o*'
    ragway keys create desk --model 'gpt-4o*' --act 'tickets:*' --act '!tickets:delete*'
    ragway keys create everything --read '*' --write '*' --model '*' --admin

    A * at the end of a name stands for all names with that beginning.
    """
    limits = {of: None if (most := fields.pop(of)) == _NONE else most for of in MEASURES}
    with errors_as(click.UsageError, BadGrant):
        grant = grant_of({**fields, "limits": limits})
    with opened_accounts(settings, make=True) as accounts:
        first = not accounts.keys()
        key, secret = accounts.create(**grant)
    click.echo(secret)
    echo(f"{key.id} {_rights_text(key)}; store the key now: ragway cannot show the key again", err=True)
    if first:
        echo("this is the first key: from now on a running gateway answers only requests with a key", err=True)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
@with_settings
def listing(as_json: bool, settings: Settings) -> None:
    """List the keys with their rights, without the secrets."""
    with opened_accounts(settings) as accounts:
        keys = accounts.keys()
    if as_json:
        echo_json([key_json(key) for key in keys])
        return
    if not keys:
        echo("no keys yet: ragway keys create NAME --read COLLECTION --model MODEL", err=True)
    for key in keys:
        echo(f"{key.id}  {key.name}  {key.team or '-'}  {_rights_text(key)}")


@command.command()
@click.argument("key_id", metavar="ID")
@with_settings
def revoke(key_id: str, settings: Settings) -> None:
    """Revoke a key permanently. Running gateways refuse the key within five seconds."""
    with opened_accounts(settings) as accounts:
        key = accounts.revoke(key_id)
    echo(f"{key.id} {key.name} is revoked", err=True)


@command.command("limit")
@click.argument("key_id", metavar="ID")
@_limits
@with_settings
def limiting(key_id: str, settings: Settings, **given: Any) -> None:
    """Change the given limits of a key; `none` removes a limit. Running gateways apply the limits within seconds."""
    changed = {name: None if most == _NONE else most for name, most in given.items() if most is not None}
    if not changed:
        raise click.UsageError("say which limit, e.g. --rpm 60, or --rpm none")
    with opened_accounts(settings) as accounts:
        key = accounts.change(key_id, changed)
    echo(f"{key.id} {key.name} has {_limited(key) or 'no limits'}", err=True)


@command.command()
@click.argument("key_id", metavar="ID")
@click.argument("grants", metavar="GRANT...", nargs=-1, required=True)
@with_settings
def act(key_id: str, grants: Sequence[str], settings: Settings) -> None:
    """Replace the grants of calls of a key; `none` removes them all. Running gateways apply them within seconds.

    \b
    ragway keys act key-561ee2ea9f3f atlas:read tickets:write '!tickets:delete*'
    """
    with errors_as(click.UsageError, BadGrant):
        acts = acts_of(() if tuple(grants) == (_NONE,) else grants)
    with opened_accounts(settings) as accounts:
        key = accounts.change(key_id, act=acts)
    echo(f"{key.id} {key.name} {_acts_text(key) or 'has no grant of calls'}", err=True)


@command.command()
@click.argument("key_id", metavar="ID")
@click.option("--keep", help="How long the old secret still works, e.g. 24h (default: 0).")
@with_settings
def rotate(key_id: str, keep: str | None, settings: Settings) -> None:
    """Give a key a new secret and print the secret; the rights stay."""
    with errors_as(click.UsageError, BadGrant):
        keep_s = duration_s(keep, "keep") or 0.0
    with opened_accounts(settings) as accounts:
        key, secret = accounts.rotate(key_id, keep_s=keep_s)
    click.echo(secret)
    echo(f"{key.id} {key.name} has a new secret; store the key now: ragway cannot show the key again", err=True)


def _rights_text(key: Key) -> str:
    """A key's rights and expiry, in words."""
    rights = key.rights
    granted = [("reads", rights.read), ("writes", rights.write), ("calls", rights.models), ("queries", rights.query)]
    parts = [f"{verb} {','.join(names.granted)}" for verb, names in granted if names.granted]
    groups = key_json(key)["groups"]
    parts += [f"in {','.join(groups)}"] if groups else []
    parts += [_acts_text(key)] if key.rights.act.granted else []
    parts += ["admin"] if key.rights.admin else []
    parts += ["metrics"] if key.rights.metrics else []
    parts += [_limited(key)] if key.limits.given() else []
    if key.revoked_s is not None:
        parts.append(f"revoked {minute_text(key.revoked_s)}")
    elif key.expires_s is not None:
        parts.append(f"{'expired' if key.expires_s <= time.time() else 'expires'} {minute_text(key.expires_s)}")
    return "  ".join(parts)


def _acts_text(key: Key) -> str:
    return f"acts {','.join(granted)}" if (granted := key.rights.act.granted) else ""


def _limited(key: Key) -> str:
    return ", ".join(f"{most:,g} {WORDS[name]}" for name, most in key.limits.given().items())
