"""Usage: one row for each request that counts, and sums by team, key, model and day."""

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import orjson

from proxy.access.limits import NANO, Share
from proxy.access.prices import price_of
from proxy.access.sql import SqlAccounts
from proxy.dialects.replies import BYTES_PER_TOKEN, Tokens, estimated_tokens
from proxy.exchange import Exchange, durations_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Names in place of key and team: raw requests of shadow comparisons, and the operator's own command-line work.
COMPARISONS, OPERATOR = "comparisons", "operator"
BY = ("team", "key", "model", "day")
_MOST_CHARS = 100  # of what a client named
_UNUSED = Tokens(0, 0)
_ADDED = ("_tokens", "calls", "changes")  # ends of the names of columns that are added up

Window = tuple[str, int, int]  # a measure, begin and end in seconds since the epoch


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One request's usage."""

    request: str
    at_s: float
    key: str
    path: str
    model: str
    price_of: str | None  # upstream model name; None: free, like the built-in echo
    status: int
    tokens: Tokens
    injected_tokens: int  # part of tokens.prompt
    total_ms: float
    stages_ms: Mapping[str, float]
    money: tuple[Window, ...]  # windows in which its cost counts
    kept: bool  # False: it only counts for a limit
    tier: str = ""  # the request's service tier: not every upstream names it in the reply
    charged: Tokens = _UNUSED  # of `tokens`: whose cost was reported before
    calls: int = 0  # of APIs, which were sent
    changes: int = 0  # part of calls: those that change something


def row_of(exchange: Exchange, at_s: float, money: Sequence[Share], *, kept: bool) -> UsageRow:
    """A finished request's row."""
    target, tokens = exchange.target, exchange.tokens or _UNUSED
    tier = (exchange.fields or {}).get("service_tier")
    trace = exchange.action_trace
    calls = [one for one in trace.calls if one.sent and one.set] if trace is not None else []
    priced = None if target is not None and target.lane == "echo" else "" if target is None else target.model
    return UsageRow(
        exchange.id,
        at_s,
        exchange.key,
        exchange.path[:_MOST_CHARS],
        exchange.model[:_MOST_CHARS],
        priced,
        exchange.status,
        tokens,
        _injected(tokens.prompt, exchange),
        exchange.elapsed_ms(),
        durations_ms(exchange.steps),
        tuple((share.measure, share.starts_s, share.ends_s) for share in money),
        kept,
        tier if isinstance(tier, str) else "",
        calls=len(calls),
        changes=sum(one.changes for one in calls),
    )


def _injected(prompt_tokens: int, exchange: Exchange) -> int:
    """Prompt tokens for passages and the text around them: their share of the request's bytes.

    Only the upstream knows the tokens, and none reports those of passages. The embedder has another tokenizer, and was
    seen to count more tokens for passages than the upstream for the whole prompt.
    """
    tokens = exchange.body_tokens or (estimated_tokens(exchange.body) if exchange.body else 0)
    if not exchange.injected_bytes or not tokens:
        return 0
    share = exchange.injected_bytes / BYTES_PER_TOKEN / tokens
    return round(prompt_tokens * min(share, 1.0))


def cost_of(row: UsageRow) -> float | None:
    """Dollars; None: the model's price is not known."""
    if row.price_of is None or not (row.tokens.prompt or row.tokens.completion):
        return 0.0
    price = price_of(row.price_of)
    return None if price is None else price.of(row.tokens, row.tier) - price.of(row.charged, row.tier)


def money_spent(rows: Sequence[UsageRow]) -> dict[tuple[str, Window], int]:
    """Billionths of a dollar by key and window."""
    spent: dict[tuple[str, Window], int] = {}
    for row in rows:
        cost = cost_of(row) if row.money else None
        if cost:
            for window in row.money:
                spent[row.key, window] = spent.get((row.key, window), 0) + round(cost * NANO)
    return spent


def write(sql: "Connection", rows: Sequence[UsageRow]) -> None:
    """Add rows to the accounts."""
    from proxy.access.tables import usage

    values = [_columns(row) for row in rows if row.kept]
    if values:
        sql.execute(usage.insert(), values)


def forget(sql: "Connection", before_s: float) -> None:
    """Delete rows from days before the day of `before_s`."""
    from proxy.access.tables import usage

    sql.execute(usage.delete().where(usage.c.day < _day(before_s)))


def _columns(row: UsageRow) -> dict[str, object]:
    tokens, stages_ms = row.tokens, row.stages_ms
    plain = ("request", "at_s", "key", "status", "injected_tokens", "total_ms", "calls", "changes")
    return {name: getattr(row, name) for name in plain} | {
        "day": _day(row.at_s),
        "path": _plain(row.path),
        "model": _plain(row.model),
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "cached_tokens": tokens.cached,
        "reasoning_tokens": tokens.reasoning,
        "estimated": tokens.estimated,
        "cost_usd": cost_of(row),
        "retrieval_ms": stages_ms.get("retrieval"),
        "upstream_ms": stages_ms.get("upstream"),
        "stages_ms": orjson.dumps(stages_ms).decode(),
    }


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d")


def _plain(text: str) -> str:
    """A client's name, for database and terminal: unprintable characters become ?."""
    return "".join(char if char.isprintable() else "?" for char in text)


# --- sums ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """The wanted sums."""

    by: tuple[str, ...] = ("team", "model")
    since: str = ""  # a day, as 2026-11-22; "" = the first
    until: str = ""  # a day, included; "" = the last
    key: str | None = None  # only this key


def usage_query(*, by: str | None, since: str | None, until: str | None, key: str | None = None) -> UsageQuery:
    """A query from text. Raises ValueError with the reason."""
    parts = tuple(part.strip() for part in by.split(",")) if by is not None else UsageQuery().by
    for part in parts:
        if part not in BY or parts.count(part) > 1:
            raise ValueError(f"by must be some of {', '.join(BY)}, each once; got {by!r}")
    for name, day in (("since", since), ("until", until)):
        if day and not _is_day(day):
            raise ValueError(f"{name} must be a day like 2026-11-22, got {day!r}")
    if since and until and since > until:
        raise ValueError(f"since must not be after until; got {since} and {until}")
    return UsageQuery(parts, since or "", until or "", key)


def _is_day(text: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


COUNTED = (
    "requests", "failed", "prompt_tokens", "completion_tokens", "injected_tokens", "cached_tokens", "reasoning_tokens",
    "calls", "changes", "estimated", "cost_usd", "unpriced", "mean_total_ms", "mean_retrieval_ms", "mean_upstream_ms",
)  # fmt: skip


def sums(accounts: SqlAccounts, query: UsageQuery) -> list[dict[str, Any]]:
    """For each group, in order: names, then COUNTED columns. Raises RetrievalError.

    estimated: requests whose tokens no upstream reported. unpriced: requests for models without a known price, which
    `cost_usd` leaves out.
    """
    if not accounts.there():
        return []
    from sqlalchemy import BigInteger, case, cast, func, or_, select

    from proxy.access.tables import keys, usage

    u = usage.c
    team = case((u.key.in_((COMPARISONS, OPERATOR)), u.key), else_=func.coalesce(keys.c.team, ""))
    names = {"team": team, "key": u.key, "model": u.model, "day": u.day}
    groups = [names[name] for name in query.by]
    counts = {
        "requests": func.count(),
        "failed": func.sum(case((or_(u.status < 200, u.status >= 400), 1), else_=0)),
        **{name: cast(func.sum(u[name]), BigInteger) for name in COUNTED if name.endswith(_ADDED)},
        "estimated": func.sum(case((u.estimated, 1), else_=0)),
        "cost_usd": func.coalesce(func.sum(u.cost_usd), 0.0),
        "unpriced": func.sum(case((u.cost_usd.is_(None), 1), else_=0)),
        **{f"mean_{stage}": func.avg(u[stage]) for stage in ("total_ms", "retrieval_ms", "upstream_ms")},
    }
    columns = [group.label(name) for name, group in zip(query.by, groups, strict=True)]
    columns += [counts[name].label(name) for name in COUNTED]
    asked = select(*columns).select_from(usage.outerjoin(keys, keys.c.id == u.key))
    if query.since:
        asked = asked.where(u.day >= query.since)
    if query.until:
        asked = asked.where(u.day <= query.until)
    if query.key is not None:
        asked = asked.where(u.key == query.key)
    with accounts.reading() as sql:
        return [_read(dict(row)) for row in sql.execute(asked.group_by(*groups).order_by(*groups)).mappings()]


def _read(found: dict[str, Any]) -> dict[str, Any]:
    """The same types for every database."""
    for name in COUNTED:
        value = found[name]
        if name == "cost_usd":
            found[name] = round(float(value), 9)
        elif name.startswith("mean_"):
            found[name] = None if value is None else round(float(value), 1)
        else:
            found[name] = int(value)
    return found


def as_csv(rows: Sequence[Mapping[str, Any]], query: UsageQuery) -> str:
    """Sums as CSV (RFC 4180), with a header."""
    text = io.StringIO()
    writer = csv.writer(text)
    columns = (*query.by, *COUNTED)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return text.getvalue()


def _cell(value: object) -> object:
    """A cell that no spreadsheet reads as a formula: clients name models."""
    return "'" + value if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
