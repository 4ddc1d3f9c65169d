"""The ledger: this process's limits and usage, synchronised with the accounts outside requests.

In memory it has a `Meter` for each key with limits, and unwritten usage rows. Once a second, or as soon as a share of a
limit is used up, one transaction in a thread reports usage, writes rows and leases new shares. A request waits for it
only if this process has too small a share and more may be left elsewhere.

A lease lasts some seconds. A process that cannot renew one stops admitting requests on it; a dead process's share
returns to the others. A crash loses the last second.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from proxy.access.limits import Admission, LeaseGrant, Meter, Share, refusal
from proxy.access.shares import SqlUsageStore
from proxy.access.usage import UsageRow, row_of
from proxy.caller import UNLIMITED
from proxy.dialects.errors import ApiError
from proxy.dialects.replies import Tokens
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError
from runtime.write_behind import Count

log = logging.getLogger("ragway")
_VALID_S = 5.0  # of a lease, for its holder; process clocks may differ by the rest of LEASE_S
_EVERY_S = 1.0
_DRY_S = 1.0  # after a refused lease, until the next attempt
_KEEP_S = 2.0  # an unused share
_KEEP_ALONE_S = 60.0  # an unused share, where no other process has shares
_PATIENCE_S = 2.0  # a request's longest wait for a share
_MOST_ROWS = 10_000  # unwritten; further rows are lost, and counted
_ROWS_AT_ONCE = 500  # unwritten rows that start a write before a second is over
_RETRY_AFTER_S = 2

_Claimed = Sequence[tuple[Share, Share]]  # shares, each with its claim


class Ledger:
    """This process's meters and unwritten rows. All methods run in the event loop."""

    def __init__(
        self,
        store: SqlUsageStore,
        *,
        count: Count,
        now_s: Callable[[], float] = time.time,
        clock_s: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """now_s: since the epoch, for windows. clock_s: a monotonic clock. patience_s: longest wait for a share."""
        self._store = store
        self._count = count
        self._now_s = now_s
        self._clock_s = clock_s
        self._patience_s = patience_s
        self._meters: dict[str, Meter] = {}
        self._active: set[Meter] = set()  # meters with something to report
        self._rows: list[UsageRow] = []
        self._holding = False  # the accounts have leases of this process
        self._keep_s = _KEEP_S
        self._valid_until_s = self._failed_until_s = -inf
        self._wake = asyncio.Event()
        self._next: asyncio.Future[None] | None = None  # next synchronisation, awaited by requests
        self._leaving = False
        self.trouble = ""  # why the accounts cannot be written now

    # --- for a request ----------------------------------------------------------------------------------------------

    async def admit(self, exchange: Exchange) -> Admission | None:
        """An admission for one more request within the key's limits; None for a caller without limits.

        A call that the gateway makes by itself does not count as a request. Raises ApiError 429, 503.
        """
        if exchange.limits is UNLIMITED:
            return None
        meter = await self._until_enough(exchange, None)
        self._active.add(meter)
        return meter.enter(self._clock_s(), _requests(exchange))

    async def reserve(self, exchange: Exchange, admission: Admission, wanted_tokens: int, least_tokens: int) -> None:
        """Reserve tokens before a model call: as many as wanted, or as the smallest limit holds.

        If another process holds the rest of a limit, fewer than wanted, but at least `least_tokens`. Raises ApiError
        429, 503.
        """
        meter = self._meter(exchange)
        tokens = max(least_tokens, min([wanted_tokens, *(share.limit for share in meter.of_tokens())]))
        meter = await self._until_enough(exchange, tokens, least_tokens)
        meter.reserve(admission, min([tokens, *(share.left for share in meter.of_tokens())]))

    async def reserve_next(
        self, exchange: Exchange, admission: Admission, used: Tokens, wanted_tokens: int, least_tokens: int
    ) -> None:
        """Settle a request's calls so far, and reserve tokens for the next one.

        used: by all calls so far. For a key with a dollar limit, the cost so far is reported and the rest read, so that
        all its requests know the cost. Raises ApiError 429, 503.
        """
        admission.settle(used.prompt + used.completion)
        meter = self._meter(exchange)
        money = [share for share in meter.shares.values() if share.money]
        if money:
            self._charge(exchange, admission, used, money)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await self._more_of(meter, [(share, 0) for share in money])
        await self.reserve(exchange, admission, wanted_tokens, least_tokens)

    def settle(self, exchange: Exchange, admission: Admission | None, *, kept: bool) -> None:
        """Count what an ended request used.

        kept: it gets a usage row, unless a limit refused it before its first model call.
        """
        tokens = exchange.tokens
        money: Sequence[Share] = ()
        if admission is not None:
            admission.settle(tokens.prompt + tokens.completion if tokens is not None else 0)
            admission.close()
            self._active.add(admission.meter)
            money = [share for share in admission.meter.shares.values() if share.money]
            if money and tokens is not None and admission.charged.prompt + admission.charged.completion:
                self._charge(exchange, admission, tokens, money)
                money = ()
        if (not exchange.limited or tokens is not None) and (money or kept):
            self._add(row_of(exchange, self._now_s(), money, kept=kept))

    def _charge(self, exchange: Exchange, admission: Admission, used: Tokens, money: Sequence[Share]) -> None:
        """Report what unreported tokens cost. used: by all calls of this request so far."""
        row = row_of(exchange, self._now_s(), money, kept=False)
        self._add(replace(row, tokens=used, charged=admission.charged))
        admission.charged = used

    def _add(self, row: UsageRow) -> None:
        if len(self._rows) >= _MOST_ROWS:
            self._count(lost=1)
            return
        self._rows.append(row)
        if len(self._rows) == _ROWS_AT_ONCE:
            self._wake.set()

    def _meter(self, exchange: Exchange) -> Meter:
        meter = self._meters.get(exchange.key)
        if meter is None:
            meter = self._meters[exchange.key] = Meter(exchange.key, exchange.limits)
        return meter.at(self._now_s(), exchange.limits)

    def _valid(self) -> bool:
        """Whether this process's leases are valid."""
        return self._clock_s() < self._valid_until_s

    async def _until_enough(self, exchange: Exchange, tokens: int | None, least_tokens: int | None = None) -> Meter:
        """The key's meter, once enough is left. Raises ApiError 429: used up; 503: the accounts do not answer.

        least_tokens: enough if another process holds the rest.
        """
        meter = self._meter(exchange)
        if self._valid() and meter.enough(tokens, _requests(exchange)):
            return meter
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                while self._clock_s() >= self._failed_until_s:
                    meter = self._meter(exchange)
                    wanted = meter.wanted(tokens, _requests(exchange))
                    short = [pair for pair in wanted if not (self._valid() and pair[0].has(pair[1]))]
                    if not short:
                        return meter
                    if least_tokens is not None and meter.enough(least_tokens) and self._others_hold(short):
                        return meter
                    self._refuse_what_cannot_be(exchange, short)
                    await self._more_of(meter, short)
        exchange.limited = "unavailable"
        message = "The accounts of this gateway cannot be reached, and this key has limits: try again later."
        again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
        raise ApiError(503, message, code="limits_unavailable", type="server_error", headers=again)

    def _others_hold(self, short: Sequence[tuple[Share, int]]) -> bool:
        """Whether other processes hold units that these shares lack."""
        clock_s = self._clock_s()
        return self._valid() and all(clock_s < share.dry_until_s and share.rests(amount) for share, amount in short)

    def _refuse_what_cannot_be(self, exchange: Exchange, short: Sequence[tuple[Share, int]]) -> None:
        hopeless = [pair for pair in short if pair[1] > pair[0].limit]
        dry = hopeless or [pair for pair in short if self._clock_s() < pair[0].dry_until_s]
        if dry:
            share, amount = max(dry, key=lambda pair: (not pair[0].at_once, pair[0].ends_s))
            exchange.limited = share.measure
            raise refusal(share, amount, now_s=self._now_s())

    async def _more_of(self, meter: Meter, short: Sequence[tuple[Share, int]]) -> None:
        """Ask the accounts for larger shares, and wait."""
        for share, amount in short:
            share.need += max(amount, 1)
            share.used_s = self._clock_s()
        self._active.add(meter)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        self._wake.set()
        await asyncio.shield(self._next)

    # --- beside requests ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Synchronise every second until `stop`; then write the last rows and return all shares."""
        while not self._leaving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            await self.sync()
        self._keep_s = -inf
        await self.sync()

    def stop(self) -> None:
        """End `run`."""
        self._leaving = True
        self._wake.set()

    async def sync(self) -> None:
        """Report usage, write rows, and lease wanted shares."""
        waiting, self._next = self._next, None
        began_s = self._clock_s()
        claimed, rows = self._claims(), self._rows
        try:
            if claimed or rows or self._holding:
                self._rows = []
                claims = [claim for _, claim in claimed]
                self._granted(claimed, rows, *await asyncio.to_thread(self._store.sync, claims, rows))
            self._valid_until_s = began_s + _VALID_S
        except RetrievalError as error:
            self._failed(claimed, rows, error)
        finally:
            if waiting is not None:
                waiting.set_result(None)

    def _claims(self) -> _Claimed:
        clock_s = self._clock_s()
        # A share whose lease was not renewed in time may belong to another process.
        keep_s = self._keep_s if self._valid() else -inf
        claimed: list[tuple[Share, Share]] = []
        for meter in tuple(self._active):
            found = list(meter.claims(clock_s, keep_s=keep_s))
            claimed += found
            if not found:
                self._active.discard(meter)
        return claimed

    def _granted(self, claimed: _Claimed, rows: Sequence[UsageRow], grants: Sequence[LeaseGrant], alone: bool) -> None:
        clock_s = self._clock_s()
        for (share, claim), grant in zip(claimed, grants, strict=True):
            share.left = grant.extra if claim.money else share.left + grant.extra
            share.rest = grant.rest
            if claim.need and grant.extra < (1 if claim.money else claim.need - claim.left):
                share.dry_until_s = clock_s + _DRY_S
        self._holding = bool(claimed)
        self._keep_s = _KEEP_ALONE_S if alone else _KEEP_S
        self._count(written=sum(row.kept for row in rows))
        self.trouble = ""

    def _failed(self, claimed: _Claimed, rows: list[UsageRow], error: RetrievalError) -> None:
        """Take the report back. Returned shares stay returned, because the accounts may have got it."""
        for share, claim in claimed:
            share.used += claim.used
        kept = rows + self._rows
        self._count(lost=len(kept[_MOST_ROWS:]))
        self._rows = kept[:_MOST_ROWS]
        self._failed_until_s = self._clock_s() + _EVERY_S
        if str(error) != self.trouble:
            log.error("cannot write usage; limits hold with the shares that this process has: %s", error)
        self.trouble = str(error)


def _requests(exchange: Exchange) -> int:
    """As how many of the key's requests an exchange counts."""
    return 0 if exchange.by_gateway else 1
