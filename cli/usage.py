"""ragway usage: sums up the usage rows that gateways write."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cli.common import echo, echo_json, errors_as, opened_accounts, with_settings
from config.sections import Settings
from evaluation.text_tables import aligned
from proxy.access.usage import COMPARISONS, UsageQuery, as_csv, sums, usage_query

# Table columns next to group names; CSV and JSON have all columns.
_SHOWN = {
    "requests": "requests", "failed": "failed", "prompt_tokens": "prompt", "completion_tokens": "completion",
    "injected_tokens": "injected", "calls": "calls", "changes": "changes",
    "estimated": "estimated", "cost_usd": "dollars", "mean_total_ms": "mean ms",
}  # fmt: skip
_ADDED_UP = [name for name in _SHOWN if not name.startswith("mean_")]


@click.command("usage")
@click.option("--by", help="Names of a sum: some of team, key, model, day, with commas (default: team,model).")
@click.option("--since", help="First day, as 2026-11-01, in UTC (default: the first recorded day).")
@click.option("--until", help="Last day, included (default: the last recorded day).")
@click.option("--key", help="Only the key with this id.")
@click.option("--csv", "as_", flag_value="csv", help="CSV, with a header.")
@click.option("--json", "as_", flag_value="json", help="A JSON list.")
@with_settings
def command(
    by: str | None, since: str | None, until: str | None, key: str | None, as_: str | None, settings: Settings
) -> None:
    """Sum up requests, tokens, dollars and times, by team, key, model or day.

    \b
    ragway usage --by day,key --since 2026-11-01
    ragway usage --by team,model --csv > november.csv

    A gateway writes usage within a second or two and may run meanwhile.
    """
    with errors_as(click.UsageError, ValueError):
        query = usage_query(by=by, since=since, until=until, key=key)
    with opened_accounts(settings) as accounts:
        if key and key != COMPARISONS:
            accounts.key(key)  # raises UnknownKey
        rows = sums(accounts, query)
    if as_ == "json":
        echo_json(rows)
    elif as_ == "csv":
        click.echo(as_csv(rows, query), nl=False)
    elif rows:
        _print(rows, query)
    elif since or until or key:
        echo("no usage was recorded for this key and these days", err=True)
    else:
        echo(
            "no usage was recorded yet: by default (usage.record) only requests with a key (ragway keys) are recorded",
            err=True,
        )


def _print(rows: Sequence[Mapping[str, Any]], query: UsageQuery) -> None:
    """A table with a line for totals."""
    lines = [[*query.by, *_SHOWN.values()]]
    lines += [[*(row[name] or "-" for name in query.by), *_numbers(row)] for row in rows]
    total = {name: sum(row[name] for row in rows) for name in (*_ADDED_UP, "unpriced")}
    whole = sum(row["mean_total_ms"] * row["requests"] for row in rows)
    if len(rows) > 1:
        total["mean_total_ms"] = whole / total["requests"]
        lines.append(["all", *[""] * (len(query.by) - 1), *_numbers(total)])
    for line in aligned(lines, left=len(query.by)):
        echo(line.rstrip())
    if unpriced := sum(row["unpriced"] for row in rows):
        echo(f"without {unpriced} requests for models whose price is not known", err=True)


def _numbers(row: Mapping[str, Any]) -> list[str]:
    shapes = {"cost_usd": ",.4f", "mean_total_ms": ",.0f"}
    cells = {name: format(row[name], shapes.get(name, ",")) for name in _SHOWN}
    if row["unpriced"]:  # a file may take this table without the line on standard error
        cells["cost_usd"] = f"{cells['cost_usd']}+?" if row["unpriced"] < row["requests"] else "?"
    return list(cells.values())
