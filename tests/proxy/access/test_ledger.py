"""The ledger with a real database: exact in one process, never more than the limit in several, nothing leaks."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.access.ledger import Ledger
from proxy.access.metering import Metering, Record
from proxy.access.shares import LEASE_S, SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.access.usage import COMPARISONS, UsageQuery, sums
from proxy.asgi import Message, Receive, Scope, Send
from proxy.caller import EVERYTHING, UNLIMITED, Limits
from proxy.dialects.errors import ApiError
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Target
from proxy.exchange import CallMeter, Exchange, ModelCall, one_call
from proxy.observe.metrics import Metrics
from tests.proxy.observe.test_metrics import value
from tests.support.asgi_calls import Call, scope_of

NOON_S = 1_795_348_830.0  # 30 s into a minute


class Clock:
    """Both clocks of a ledger, moved by hand."""

    def __init__(self) -> None:
        self.past_s = 0.0

    def now_s(self) -> float:
        return NOON_S + self.past_s

    def clock_s(self) -> float:
        return self.past_s


class Process:
    """One process' ledger, and requests of it."""

    def __init__(self, accounts: SqlAccounts, clock: Clock, record: Record = "with_keys") -> None:
        self.metrics = Metrics()
        self.record = record
        self.store = SqlUsageStore(accounts, keep_days=400, now_s=clock.now_s)
        self.ledger = Ledger(self.store, count=self.metrics.usage_rows, now_s=clock.now_s, clock_s=clock.clock_s)

    async def ask(
        self,
        limits: Limits,
        key: str = "key-1",
        *,
        tokens: int = 0,
        used: int | None = None,
        inside: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """One request: "" if it passed, else the code of the refusal. tokens: reserved; used: settled."""
        exchange = Exchange(key=key, limits=limits, model="m", target=Target("gpt-4o", "relay", "", ""))

        async def route(_scope: Scope, _receive: Receive, _send: Send) -> ModelCall | None:
            if tokens:
                exchange.fields = {"max_tokens": tokens}
                return one_call(answer)
            await answer(_scope, _receive, _send)
            return None

        async def answer(_scope: Scope, _receive: Receive, _send: Send) -> None:
            exchange.tokens = None if used is None else Tokens(used, 0)
            if inside is not None:
                await inside()

        call, scope = Call(), scope_of(exchange=exchange)
        try:
            await Metering(route, self.ledger, self.record)(scope, call.receive, call.send)
        except ApiError as error:
            return error.code
        return ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        keeping = asyncio.create_task(self.ledger.run())
        try:
            yield self
        finally:
            self.ledger.stop()
            await keeping


def spent(accounts: SqlAccounts) -> dict[str, int]:
    with accounts.reading() as sql:
        return {
            row[0]: int(row[1]) for row in sql.execute(text("SELECT measure, sum(amount) FROM spent GROUP BY measure"))
        }


def leased(accounts: SqlAccounts) -> int:
    with accounts.reading() as sql:
        return int(sql.execute(text("SELECT coalesce(sum(amount), 0) FROM leases")).scalar_one())


@pytest.mark.parametrize("n", [1, 7, 199])
async def test_of_200_at_once_exactly_as_many_pass_as_the_limit_says(opened: Callable[[], SqlAccounts], n: int) -> None:
    clock = Clock()
    async with Process(opened(), clock).running() as process:
        told = await asyncio.gather(*(process.ask(Limits(rpm=n)) for _ in range(200)))
        assert (told.count(""), told.count("rate_limit_exceeded")) == (n, 200 - n)
        clock.past_s = 60
        assert await process.ask(Limits(rpm=n)) == "", "the next minute is another one"
    assert leased(opened()) == 0, "what was not used is given back"


async def test_slots_come_back_however_a_request_ends(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock = Limits(concurrency=3), Clock()
    held = asyncio.Event()

    async def fails() -> None:
        raise ApiError(502, "", code="upstream_closed")

    async def hangs() -> None:
        await held.wait()

    async with Process(opened(), clock).running() as process:
        waiting = [asyncio.create_task(process.ask(limits, inside=hangs)) for _ in range(200)]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 197:
            more, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert {task.result() for task in done} == {"rate_limit_exceeded"}
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        for _ in range(10):
            assert await process.ask(limits, inside=fails) == "upstream_closed"
        told = await asyncio.gather(*(process.ask(limits, inside=lambda: asyncio.sleep(0)) for _ in range(3)))
        assert told == ["", "", ""]
    assert leased(opened()) == 0


async def test_who_leaves_while_it_waits_for_a_share_holds_nothing(opened: Callable[[], SqlAccounts]) -> None:
    process = Process(opened(), Clock())
    asking = asyncio.create_task(process.ask(Limits(concurrency=1)))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    async with process.running():
        assert await process.ask(Limits(concurrency=1)) == ""


async def test_tokens_are_reserved_before_and_settled_after(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock = Limits(tokens_per_day=1000), Clock()
    async with Process(opened(), clock).running() as process:
        assert await process.ask(limits, tokens=1001) == "rate_limit_exceeded", "that never passes"
        assert await process.ask(limits, tokens=600, used=100) == ""
        assert await process.ask(limits, tokens=800, used=850) == "", "500 of the first came back"
        assert await process.ask(limits, tokens=51) == "insufficient_quota"
        assert await process.ask(limits, tokens=50, used=90) == "", "a little more than was reserved"
        assert await process.ask(limits, tokens=1) == "insufficient_quota"
    assert spent(opened()) == {"tokens_per_day": 1040}
    async with Process(opened(), clock).running() as process:
        assert await process.ask(limits) == "insufficient_quota", "also after a restart"
        assert await process.ask(limits, "key-2") == "", "each key has its own"


async def test_a_request_without_a_length_takes_the_tokens_that_another_process_leaves(
    opened: Callable[[], SqlAccounts],
) -> None:
    limits, clock = Limits(tokens_per_day=1000), Clock()
    async with Process(opened(), clock).running() as first, Process(opened(), clock).running() as second:
        assert await first.ask(limits, tokens=1001) == "rate_limit_exceeded", "and the first process holds 500 tokens"
        exchange = Exchange(key="key-1", limits=limits)
        admission = await second.ledger.admit(exchange)
        assert admission is not None
        await second.ledger.reserve(exchange, admission, 507, 7)
        assert admission.reserved_tokens == 500
        with pytest.raises(ApiError, match="try again in 1 s"):
            await second.ledger.reserve(exchange, admission, 400, 7)
        second.ledger.settle(exchange, admission, kept=False)
    assert leased(opened()) == 0


async def test_money_is_refused_once_it_is_spent(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock = Limits(usd_per_day=0.001), Clock()
    async with Process(opened(), clock).running() as process:
        assert await process.ask(limits, used=100) == ""
        assert await process.ask(limits, used=400) == ""
        clock.past_s = 2
        while await process.ask(limits) == "":
            clock.past_s += 1.5
            await process.ledger.sync()
        assert await process.ask(limits) == "insufficient_quota"
    assert spent(opened())["usd_per_day"] == 1_250_000, "500 tokens of gpt-4o at 2.5 dollars a million"


async def test_each_further_call_of_a_request_is_reserved_and_settled(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock, used = Limits(tokens_per_day=1000), Clock(), Tokens(750, 50)
    key, _ = opened().create("a", EVERYTHING)
    async with Process(opened(), clock).running() as process:
        exchange = Exchange(key=key.id, limits=limits, target=Target("gpt-4o", "relay", "", ""))
        admission = await process.ledger.admit(exchange)
        assert admission is not None
        await process.ledger.reserve(exchange, admission, 100, 100)
        await process.ledger.reserve_next(exchange, admission, Tokens(300, 50), 400, 400)
        assert await process.ask(limits, key.id, tokens=251) == "insufficient_quota", "350 used, 400 reserved"
        with pytest.raises(ApiError, match="used up"):
            await process.ledger.reserve_next(exchange, admission, used, 201, 201)
        exchange.tokens = used
        process.ledger.settle(exchange, admission, kept=True)
        assert await process.ask(limits, key.id, tokens=200, used=200) == ""
    assert spent(opened()) == {"tokens_per_day": 1000}
    (row,) = sums(opened(), UsageQuery(("key",)))
    assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (2, 950, 50)


async def test_a_call_in_place_of_one_without_an_answer_is_reserved_alone(opened: Callable[[], SqlAccounts]) -> None:
    """An upstream without chat completions is asked again in the client's dialect."""
    limits = Limits(tokens_per_day=1000)
    exchange = Exchange(key="key-1", limits=limits, target=Target("gpt-4o", "relay", "", ""))
    exchange.body, exchange.fields = b"", {"max_tokens": 600}

    async def route(_scope: Scope, _receive: Receive, _send: Send) -> ModelCall:
        return lambda meter: functools.partial(twice, meter)

    async def twice(meter: CallMeter, scope: Scope, receive: Receive, send: Send) -> None:
        with pytest.raises(LookupError):
            await meter(lacks_the_path, scope, receive, send)
        exchange.tokens = None
        await meter(answers, scope, receive, send)

    async def lacks_the_path(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise LookupError

    async def answers(_scope: Scope, _receive: Receive, _send: Send) -> None:
        exchange.tokens = Tokens(150, 50)

    async with Process(opened(), Clock()).running() as process:
        call, scope = Call(), scope_of(exchange=exchange)
        await Metering(route, process.ledger, "with_keys")(scope, call.receive, call.send)
    assert spent(opened()) == {"tokens_per_day": 200}


async def test_a_hidden_round_does_not_hide_that_a_request_failed(opened: Callable[[], SqlAccounts]) -> None:
    key, _ = opened().create("a", EVERYTHING)
    exchange = Exchange(key=key.id, target=Target("gpt-4o", "relay", "", ""))

    async def route(_scope: Scope, _receive: Receive, _send: Send) -> ModelCall:
        return lambda meter: functools.partial(rounds, meter)

    async def rounds(meter: CallMeter, scope: Scope, receive: Receive, _send: Send) -> None:
        await meter(answers, scope, receive, keeps)
        raise ApiError(502, "The second round failed.", code="upstream_error")

    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def keeps(_message: Message) -> None:
        pass

    async with Process(opened(), Clock()).running() as process:
        call, scope = Call(), scope_of(exchange=exchange)
        with pytest.raises(ApiError):
            await Metering(route, process.ledger, "with_keys")(scope, call.receive, call.send)
    (row,) = sums(opened(), UsageQuery(("key",)))
    assert (row["requests"], row["failed"]) == (1, 1)


async def test_calls_of_parallel_requests_reserve_no_more_than_the_limit(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock, passed = Limits(tokens_per_day=1000), Clock(), 0

    async def request(process: Process) -> None:
        nonlocal passed
        exchange = Exchange(key="key-1", limits=limits)
        admission = await process.ledger.admit(exchange)
        assert admission is not None
        with contextlib.suppress(ApiError):
            await process.ledger.reserve(exchange, admission, 10, 10)
            while True:
                passed += 1
                exchange.tokens = (exchange.tokens or Tokens(0, 0)).plus(Tokens(10, 0))
                await asyncio.sleep(0)
                await process.ledger.reserve_next(exchange, admission, exchange.tokens, 10, 10)
        process.ledger.settle(exchange, admission, kept=False)

    async with Process(opened(), clock).running() as process:
        await asyncio.gather(*(request(process) for _ in range(20)))
    assert passed == 100
    assert spent(opened()) == {"tokens_per_day": 1000}


async def test_the_cost_of_a_call_counts_before_the_next_call_of_any_request(opened: Callable[[], SqlAccounts]) -> None:
    """400 tokens of gpt-4o are worth the limit; two requests use 300 and 200 in the first call."""
    limits, clock = Limits(usd_per_day=0.001), Clock()
    key, _ = opened().create("a", EVERYTHING)
    async with Process(opened(), clock).running() as process:
        first, second = (
            Exchange(key=key.id, limits=limits, target=Target("gpt-4o", "relay", "", "")) for _ in range(2)
        )
        admissions = [await process.ledger.admit(each) for each in (first, second)]
        assert admissions[0] is not None
        assert admissions[1] is not None
        await process.ledger.reserve_next(first, admissions[0], Tokens(300, 0), 10, 10)
        for exchange, admission, used in ((second, admissions[1], 200), (first, admissions[0], 310)):
            with pytest.raises(ApiError, match="dollars a day"):
                await process.ledger.reserve_next(exchange, admission, Tokens(used, 0), 10, 10)
            exchange.tokens = Tokens(used, 0)
            process.ledger.settle(exchange, admission, kept=True)
    assert spent(opened())["usd_per_day"] == 510 * 2_500, "each token is charged once"
    (row,) = sums(opened(), UsageQuery(("key",)))
    assert (row["requests"], row["cost_usd"]) == (2, pytest.approx(510 * 2.5e-6))


async def test_several_processes_together_pass_what_the_limit_says(opened: Callable[[], SqlAccounts]) -> None:
    """Each is asked for all of it at once; what one holds and does not use, another gets within seconds."""
    limits, clock = Limits(tokens_per_day=50), Clock()
    processes = [Process(opened(), clock) for _ in range(3)]
    passed = 0
    async with contextlib.AsyncExitStack() as stack:
        for process in processes:
            await stack.enter_async_context(process.running())
        for _ in range(20):
            told = await asyncio.gather(*(one.ask(limits, tokens=1, used=1) for one in processes for _ in range(20)))
            passed += told.count("")
            assert passed <= 50
            clock.past_s += 1.5
            for process in processes:
                await process.ledger.sync()
    assert passed == 50
    assert spent(opened()) == {"tokens_per_day": 50}


async def test_the_lease_of_a_process_that_died_ends(opened: Callable[[], SqlAccounts]) -> None:
    limits, clock = Limits(concurrency=1), Clock()
    dead = Process(opened(), clock)
    dying = asyncio.create_task(dead.ask(limits, inside=asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await dead.ledger.sync()
    await asyncio.sleep(0)
    assert leased(opened()) == 1
    async with Process(opened(), clock).running() as other:
        assert await other.ask(limits) == "rate_limit_exceeded"
        with opened().writing() as sql:
            sql.execute(text(f"UPDATE leases SET expires_s = expires_s - {LEASE_S}"))
        clock.past_s = 1.5
        assert await other.ask(limits) == ""
    dying.cancel()


async def test_a_process_that_could_not_renew_its_lease_admits_nobody_on_it(tmp_path: Path) -> None:
    limits, clock = Limits(rpm=10), Clock()
    process = Process(SqlAccounts(tmp_path), clock)
    first = asyncio.create_task(process.ask(limits))
    await asyncio.sleep(0)
    await process.ledger.sync()
    assert await first == ""
    (tmp_path / "accounts.db").write_bytes(b"no database" * 1000)
    assert await process.ask(limits) == "", "on the lease"
    clock.past_s = 6
    late = asyncio.create_task(process.ask(limits))
    await asyncio.sleep(0)
    await process.ledger.sync()
    assert await late == "limits_unavailable"


async def test_accounts_that_cannot_be_written_are_told_once_and_refuse_keys_with_limits_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    SqlAccounts(tmp_path).create("a", EVERYTHING)
    (tmp_path / "accounts.db").write_bytes(b"no database" * 1000)
    clock = Clock()
    process = Process(SqlAccounts(tmp_path), clock)
    async with process.running():
        for _ in range(3):
            assert await process.ask(Limits(rpm=10)) == "limits_unavailable"
            assert await process.ask(UNLIMITED) == ""
            clock.past_s += 1.5
    assert caplog.text.count("cannot write usage") == 1
    assert value(process.metrics, "usage_rows_total", outcome="lost") == 0, "they are kept in memory"


async def test_rows_are_written_in_one_go_and_summed(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    key, _ = accounts.create("a", EVERYTHING, team="search")
    async with Process(opened(), Clock()).running() as process:
        for used in (10, 20, None):
            await process.ask(UNLIMITED, key.id, used=used)
    assert value(process.metrics, "usage_rows_total", outcome="written") == 3
    (row,) = sums(accounts, UsageQuery())
    assert (row["team"], row["model"], row["requests"], row["prompt_tokens"]) == ("search", "m", 3, 30)
    assert row["cost_usd"] == pytest.approx(30 * 2.5e-6)
    assert row["failed"] == 3, "nobody had an answer here"


async def test_live_comparisons_are_a_team_of_their_own(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    key, _ = accounts.create("a", EVERYTHING, team="search")
    async with Process(opened(), Clock()).running() as process:
        for of in (key.id, COMPARISONS, COMPARISONS):
            await process.ask(UNLIMITED, of, used=10)
    rows = [(row["team"], row["key"], row["requests"]) for row in sums(accounts, UsageQuery(("team", "key")))]
    assert sorted(rows) == [(COMPARISONS, COMPARISONS, 2), ("search", key.id, 1)]


@pytest.mark.parametrize(("record", "key", "rows"), [
    ("with_keys", "", 0), ("with_keys", "key-1", 1), ("always", "", 1), ("never", "key-1", 0),
])  # fmt: skip
async def test_usage_is_kept_of_whom_the_setting_says(tmp_path: Path, record: Record, key: str, rows: int) -> None:
    async with Process(SqlAccounts(tmp_path), Clock(), record).running() as process:
        await process.ask(UNLIMITED, key, used=1)
    assert sum(row["requests"] for row in sums(SqlAccounts(tmp_path), UsageQuery())) == rows
    assert (tmp_path / "accounts.db").exists() is (rows > 0), "no database appears for nothing"


async def test_memory_is_bounded_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    process = Process(SqlAccounts(tmp_path), Clock())
    for _ in range(10_003):
        await process.ask(UNLIMITED)
    assert value(process.metrics, "usage_rows_total", outcome="lost") == 3
    async with process.running():
        pass
    assert value(process.metrics, "usage_rows_total", outcome="written") == 10_000
