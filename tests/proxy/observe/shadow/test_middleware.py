"""Which chats are compared, by the real ledger, database and echo: drawn or asked for, bounded, within budget."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from config.sections import BenchSettings
from proxy.access.ledger import Ledger
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.access.usage import sums, usage_query
from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.augment.gate import Chat, decide
from proxy.augment.skipped import UtilityPrompts
from proxy.caller import EVERYTHING, NOTHING, Limits, Names, Rights
from proxy.dialects.chat import CHAT
from proxy.dialects.target import Target
from proxy.exchange import Exchange, RagStatus
from proxy.model_calls import ModelCalls
from proxy.observe.metrics import Metrics
from proxy.observe.shadow.comparison import Comparison, comparison_from, serialize_comparison
from proxy.observe.shadow.middleware import ShadowComparison
from proxy.upstream.echo import Echo
from runtime.record_store import RecordStore
from runtime.write_behind import WriteBehindQueue
from tests.proxy.observe.test_metrics import value
from tests.support.asgi_calls import Call, scope_of

ANSWER = b'{"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}'
Who = Literal["admin", "all", "off"]
PLENTY = Limits(tokens_per_day=1_000_000, usd_per_day=1.0)


async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The model, with passages in front of it."""
    await send_json(send, 200, ANSWER)


class House:
    """Comparisons and what they need."""

    def __init__(self, folder: Path) -> None:
        self.accounts = SqlAccounts(folder)
        self.metrics = Metrics()
        store = SqlUsageStore(self.accounts, keep_days=9)
        # A machine with a slow disk may need seconds for a transaction: no test here is about that.
        self.ledger = Ledger(store, count=self.metrics.usage_rows, patience_s=60.0)
        self.shelf = RecordStore(folder, keep_s=1e9, max_bytes=1 << 30, kind="comparisons")
        self.keeper: WriteBehindQueue[Comparison] = WriteBehindQueue(
            self.shelf, serialize_comparison, self.metrics.comparisons
        )
        self.keeping = asyncio.gather(self.ledger.run(), self.keeper.run())
        self.comparing: ShadowComparison | None = None
        self.raw: list[bytes] = []

    def comparisons(
        self,
        upstream: App | None = None,
        *,
        share: float = 0.0,
        who: Who = "admin",
        limits: Limits = PLENTY,
        at_once: int = 4,
        draws: Iterable[float] = (),
    ) -> ShadowComparison:
        async def asked(scope: Scope, receive: Receive, send: Send) -> None:
            self.raw.append(scope["ragway.exchange"].body)
            await (upstream or Echo())(scope, receive, send)

        async def nothing() -> None:
            pass

        self.comparing = ShadowComparison(
            ModelCalls(asked, self.ledger, "with_keys"),
            nothing,
            self.keeper,
            self.metrics,
            BenchSettings(
                share, who, limits.usd_per_day or 0.0, limits.tokens_per_day or 0, at_once, keep_days=1, max_mb=1
            ),
            iter(draws).__next__,
        )
        return self.comparing

    async def chat(
        self,
        *headers: tuple[bytes, bytes],
        app: App = answers,
        rights: Rights = EVERYTHING,
        status: RagStatus = "augmented",
        target: Target | None = None,
        **fields: Any,
    ) -> Exchange:
        """One chat, to the end of its reply."""
        assert self.comparing is not None
        request = CHAT.parse(
            orjson.dumps({"model": "echo", "messages": [{"role": "user", "content": "Does it?"}], **fields})
        )
        exchange = Exchange(rights=rights, model="echo", rag_status=status, body=b'{"with": "passages"}')
        scope = scope_of(headers=headers, exchange=exchange)
        decision = decide(request, scope, enabled=True, collections=("docs",), utility_prompts=UtilityPrompts())
        one = Chat(exchange, request, target or Target("echo", "echo", "", ""), decision)
        may_be_drawn = decision.compare or decision.status == "augmented"
        middleware = self.comparing.middleware(one) if may_be_drawn else None
        call = await Call().to(app if middleware is None else middleware(app), scope)
        if app is answers:
            assert call.sent[-1]["body"] == ANSWER
        return exchange

    async def done(self) -> list[Comparison]:
        """All that was compared, once nothing is under way any more."""
        while self.comparing is not None and self.comparing.under_way:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        self.ledger.stop()
        self.keeper.stop()
        await self.keeping
        try:
            return [comparison_from(row) for row in self.shelf.every()]
        finally:
            self.shelf.close()


COMPARE = (b"x-rag", b"compare")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    if made.comparing is not None:
        await made.comparing.close()
    await made.done()


async def test_who_asks_gets_both_answers_kept_under_the_id_of_the_chat(house: House) -> None:
    house.comparisons()
    exchange = await house.chat(COMPARE, rag={"k": 3})
    assert exchange.comparison == "taken"
    (one,) = await house.done()
    assert (one.id, one.asked, one.model, one.collections) == (exchange.id, True, "echo", ["docs"])
    assert [turn.text for turn in one.turns] == ["Does it?"]
    assert one.rag.answer == "Yes."
    assert one.raw.answer is not None
    assert one.raw.answer.endswith("[user]\nDoes it?")
    assert house.raw == [b'{"model":"echo","messages":[{"role":"user","content":"Does it?"}]}'], "without `rag`"
    (row,) = sums(house.accounts, usage_query(by="team,key", since=None, until=None))
    assert (row["team"], row["key"], row["requests"]) == ("comparisons", "comparisons", 1)
    assert row["prompt_tokens"] + row["completion_tokens"] > 0


async def test_the_share_is_drawn_before_anything_of_the_chat_is_known(house: House) -> None:
    house.comparisons(share=0.01, draws=[0.5, 0.0, 0.01, 0.0099, 0.9])
    for _ in range(5):
        assert (await house.chat()).comparison == "", "nothing tells the client"
    assert [one.asked for one in await house.done()] == [False, False]


async def test_what_is_off_is_never_drawn(house: House) -> None:
    house.comparisons(share=1.0)  # a draw would raise StopIteration
    await house.chat((b"x-rag", b"off"), status="off")
    await house.chat(model="raw/echo", status="off")
    await house.chat(rag=False, status="off")
    assert (await house.chat(COMPARE, rag=False, status="off")).comparison == "nothing injected"
    assert await house.done() == []
    assert house.raw == []


@pytest.mark.parametrize(("fields", "status", "why"), [
    ({}, "empty", "nothing injected"),
    ({}, "degraded", "nothing injected"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "augmented", "unsuited"),
    ({"n": 2}, "augmented", "unsuited"),
    ({"web_search_options": {"search_context_size": "low"}}, "augmented", "unsuited"),
    ({"web_search_options": {}}, "augmented", "unsuited"),
    ({"user": "x" * 300_000}, "augmented", "unsuited"),
])  # fmt: skip
async def test_what_cannot_be_compared_is_answered_and_counted(
    house: House, fields: dict[str, Any], status: RagStatus, why: str
) -> None:
    house.comparisons(share=1.0, draws=[0.0])
    assert (await house.chat(COMPARE, status=status, **fields)).comparison == why
    assert (await house.chat(status=status, **fields)).comparison == ""
    assert value(house.metrics, "comparisons_total", outcome=why) == 2
    assert await house.done() == []


@pytest.mark.parametrize(("who", "admin", "allowed"), [
    ("admin", True, True), ("admin", False, False), ("all", False, True), ("off", True, False),
])  # fmt: skip
async def test_who_may_ask(house: House, who: Who, admin: bool, allowed: bool) -> None:
    house.comparisons(share=0.5, who=who)
    rights = EVERYTHING if admin else Rights(Names(["docs"]))
    assert (await house.chat(COMPARE, rights=rights)).comparison == ("taken" if allowed else "not allowed")
    assert len(await house.done()) == allowed


async def test_a_client_with_its_own_key_pays_only_if_it_asks(house: House) -> None:
    house.comparisons(share=1.0, who="all", draws=[0.0])
    own = Target("echo", "echo", "", "", key_of_client=True)
    await house.chat(target=own)
    await house.chat(COMPARE, target=own, rights=NOTHING)
    assert [one.asked for one in await house.done()] == [True]
    assert value(house.metrics, "comparisons_total", outcome="unsuited") == 1


async def test_no_more_than_so_many_are_under_way(house: House, caplog: pytest.LogCaptureFixture) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await release.wait()
        await Echo()(scope, receive, send)

    house.comparisons(slow, at_once=2)
    told = [(await house.chat(COMPARE)).comparison for _ in range(5)]
    assert told == ["taken", "taken", "busy", "busy", "busy"]
    await asked.wait()
    release.set()
    assert len(await house.done()) == 2
    assert value(house.metrics, "comparisons_total", outcome="busy") == 3
    assert caplog.text.count("as many as may be are under way") == 1, "not once for each"


async def test_the_budget_ends_it_for_all_and_never_the_chats(house: House) -> None:
    comparing = house.comparisons(limits=Limits(tokens_per_day=600, usd_per_day=1.0))
    told = []
    for _ in range(6):
        told.append((await house.chat(COMPARE)).comparison)
        while comparing.under_way:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
    assert told[-1] == "budget"
    done = await house.done()
    assert 0 < len(done) == len(house.raw) < 6
    (row,) = sums(house.accounts, usage_query(by="key", since=None, until=None))
    assert row["prompt_tokens"] + row["completion_tokens"] <= 600
    assert value(house.metrics, "comparisons_total", outcome="budget") == 6 - len(done)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_what_becomes_of_either_is_kept_or_counted(house: House, status: int) -> None:
    """A chat that its passages made too long is compared; one that met a fault of the upstream is not."""

    async def fails(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_json(send, 503, b'{"error": {"message": "overloaded"}}')

    async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_json(send, status, ANSWER if status == 200 else b'{"error": {"message": "too long"}}')

    house.comparisons(fails if status == 200 else None)
    await house.chat(COMPARE, app=refuses)
    done = await house.done()
    if status == 500:
        assert done == []
        assert value(house.metrics, "comparisons_total", outcome="unfinished") == 1
        return
    (one,) = done
    assert (one.rag.error, one.raw.error) == ((None, "overloaded") if status == 200 else ("too long", None))


async def test_a_chat_that_is_left_or_breaks_off_asks_nothing(house: House) -> None:
    house.comparisons(at_once=1)

    async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: ", "more_body": True})

    async def is_left(scope: Scope, receive: Receive, send: Send) -> None:
        await breaks_off(scope, receive, send)
        raise asyncio.CancelledError

    await house.chat(COMPARE, app=breaks_off)
    await house.chat(COMPARE, app=is_left)
    assert (await house.chat(COMPARE)).comparison == "taken", "their place is free again"
    assert len(await house.done()) == 1
    assert len(house.raw) == 1
    assert value(house.metrics, "comparisons_total", outcome="unfinished") == 2


async def test_the_end_of_the_gateway_drops_what_is_under_way(house: House) -> None:
    asked = asyncio.Event()

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        asked.set()
        await asyncio.Event().wait()

    comparing = house.comparisons(never)
    await house.chat(COMPARE)
    await asked.wait()
    await comparing.close()
    assert await house.done() == []
    assert value(house.metrics, "comparisons_total", outcome="unfinished") == 1


async def test_what_was_for_one_request_alone_does_not_travel_twice(house: House) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        await Echo()(scope, receive, send)

    house.comparisons(noting)
    await house.chat(
        COMPARE,
        (b"idempotency-key", b"1"),
        (b"accept-encoding", b"br"),
        (b"traceparent", b"00-1-2-01"),
        (b"user-agent", b"me"),
    )
    await house.done()
    assert seen == [COMPARE, (b"user-agent", b"me")]
