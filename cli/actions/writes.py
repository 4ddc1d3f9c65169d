"""ragway actions log, pending, receipt and verify: the calls that change something."""

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from cli.assembly.stores import write_store
from cli.common import as_text, echo, echo_json, errors_as, minute_text, must_exist, with_settings
from config.sections import Settings
from proxy.agent.writes.audit import Head, LogEntry
from proxy.agent.writes.pending import PendingStore, State
from retrieval.errors import RetrievalError
from runtime import logs

_STATES: Sequence[State] = ("pending", "claimed", "done", "failed", "unknown", "void")


@click.command("log")
@click.option("--since", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]), metavar="TIME",
              help="First day or minute, as 2026-11-01 or 2026-11-01T14:30, in UTC.")  # fmt: skip
@click.option("--key", help="Only the key with this id.")
@click.option("--set", "set_name", metavar="SET", default="", help="Only this action set.")
@click.option("--state", type=click.Choice(_STATES), default=None, help="Only steps that led to this state.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per line, with hashes and contents.")
@with_settings
def log_command(
    since: datetime | None,
    key: str | None,
    set_name: str,
    state: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Print the log of writes: a line for each step of each call that changes something.

    \b
    ragway actions log --since 2026-11-01 --state unknown
    """
    since_s = 0.0 if since is None else since.replace(tzinfo=UTC).timestamp()
    with _opened(settings) as store:
        none = True
        for entry, content in store.log.entries(since_s=since_s, key=key, set=as_text(set_name), state=state or ""):
            none = False
            if as_json:
                row = msgspec.structs.asdict(entry) | ({"content": content} if content else {})
                click.echo(msgspec.json.encode(row))
            else:
                echo(_line(entry))
    if none:
        echo("no write is in the log" if since or key or set_name or state else "nothing was written yet", err=True)


def _line(entry: LogEntry) -> str:
    status = f" {entry.status}" if entry.status else ""
    what = f"{entry.event}{f' ({entry.why})' if entry.why else ''}{status}"
    who = " ".join(filter(None, [entry.key or "no key", entry.person, entry.by and f"by {entry.by}"]))
    when = datetime.fromtimestamp(entry.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    row = f"{entry.n}  {when}  {entry.write}  {entry.set}/{entry.operation}  {what}  {entry.state}  {who}"
    return logs.printable(row)  # one line, whatever a client calls a person


@click.command("pending")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
def pending_command(as_json: bool, settings: Settings) -> None:
    """List the writes that wait for a person's confirmation."""
    with _opened(settings) as store:
        found = store.waiting()
    if as_json:
        echo_json([msgspec.to_builtins(one) for one in found])
        return
    for one in found:
        first = one.shown.splitlines()[0] if one.shown else f"{one.set}/{one.operation}"
        who = " ".join(filter(None, [one.key or "no key", one.person]))
        echo(logs.printable(f"{one.id}  {first}  {who}  until {minute_text(one.expires_s)}"))
    if not found:
        echo("no write waits", err=True)


@click.command("receipt")
@click.argument("id")
@with_settings
def receipt_command(id: str, settings: Settings) -> None:
    """Print the signed receipt of the write ID: what was asked, shown, confirmed, sent and answered.

    \b
    ragway actions receipt pw-3f6c5d0e9a1b7c2d4e8f6a0b > receipt.jws
    """
    from proxy.agent.writes.signed_receipts import receipt_of

    with _opened(settings) as store:
        receipt = receipt_of(store.log, as_text(id))
    if receipt is None:
        raise click.ClickException(f"the log has no write {as_text(id)!r}: `ragway actions log` lists all")
    click.echo(receipt)


@click.command("verify")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--public-key", help="Key that signed the receipt (default: this gateway's own).")
@click.option("--head", "heads", multiple=True, metavar="HEAD",
              help="Head that an earlier check printed; may be repeated.")  # fmt: skip
@with_settings
def verify_command(file: Path | None, public_key: str | None, heads: Sequence[str], settings: Settings) -> None:
    """Check the log of writes, or the receipt in FILE.

    Without FILE: finds entries that were changed, removed or reordered, and prints the head of the log and the public
    key. Note the head elsewhere: with --head, a later check also finds that the newest entries are gone.

    With FILE and --public-key, neither a gateway nor its database is needed. Exit code 1: something is wrong.
    """
    if file is None:
        _verify_log([_head(one) for one in heads], settings)
    else:
        _verify_receipt(file, public_key, settings)


def _head(text: str) -> Head:
    n, _, hash = text.partition(":")
    if not n.isdecimal() or not hash:
        raise click.UsageError(f"a head is NUMBER:HASH, as `ragway actions verify` prints it; got {as_text(text)!r}")
    return Head(int(n), hash)


def _verify_log(heads: Sequence[Head], settings: Settings) -> None:
    from proxy.agent.writes.signed_receipts import key_text

    with _opened(settings) as store:
        found = store.log.verify(heads)
        key = store.log.signing_key()
    for problem in found.problems:
        echo(problem)
    if found.problems:
        raise click.exceptions.Exit(1)
    if key is None:
        echo("nothing was written yet", err=True)
    else:
        echo(f"{found.head.n} entries, none changed\nhead {found.head}\npublic key {key_text(key.public_key())}")


def _verify_receipt(file: Path, public_key: str | None, settings: Settings) -> None:
    from proxy.agent.writes.signed_receipts import BadReceipt, checked, key_of_text

    with errors_as(click.ClickException, BadReceipt):
        if public_key is not None:
            key = key_of_text(public_key)
        else:
            with _opened(settings) as store:
                own = store.log.signing_key()
            if own is None:
                raise click.ClickException("this gateway has written nothing yet: name the key with --public-key")
            key = own.public_key()
        receipt = checked(file.read_bytes().decode("latin-1"), key)
    for step in receipt.steps:
        echo(_line(step.entry))
        if step.content:
            echo(textwrap.indent(step.content, "    "))
    echo("the receipt is genuine and complete", err=True)


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[PendingStore]:
    """The writes; an error of the database becomes one line."""
    must_exist(settings)
    with contextlib.closing(write_store(settings)) as store, errors_as(click.ClickException, RetrievalError):
        yield store
