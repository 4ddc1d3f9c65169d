"""The middleware's own part: what it asks for, in which order it shows it, and what it says of that."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest

from proxy.access.rights import EVERYTHING
from proxy.asgi import Receive, Scope, Send
from proxy.augment.inject import Order, Template
from proxy.augment.middleware import Augment, AugmentOptions, already
from proxy.augment.utility_requests import UtilityPrompts
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.exchange import Exchange, Lane, Target
from retrieval.knowledge import HitOptions
from retrieval.records.documents import Passage
from retrieval.records.search import PUBLIC, Context, Query, Retrieved, Turn, View
from tests.support.asgi_calls import Call, scope_of
from tests.support.unasked import Unasked

BUDGET_TOKENS = 3000


class Five(Unasked):
    """Finds five passages, and remembers the budgets it was given."""

    def __init__(self) -> None:
        self.budgets: list[int | None] = []

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        hit_options: HitOptions | None = None,
        traced: bool = False,
    ) -> Retrieved:
        self.budgets.append(budget_tokens)
        passages = tuple(Passage(f"d{i}", 1, 0, "", f"{i}.md", 0.0, (), 0, 1, f"passage {i}", 1) for i in range(1, 6))
        return Retrieved(Query(turns[-1].text, (), (), "first question"), (), Context(passages, 5, 0), {})


async def asked(
    body: dict[str, Any],
    *,
    window_tokens: int = 0,
    order: Order = "best_first",
    begun: Callable[[], Awaitable[None]] = already,
    lane: Lane = "echo",
    dialect: Dialect = CHAT,
) -> tuple[Exchange, Five]:
    knowledge, exchange = Five(), Exchange(rights=EVERYTHING, path=dialect.path, dialect=dialect)
    options = AugmentOptions(
        enabled=True,
        collections=("docs",),
        deadline_s=60.0,
        require_context=False,
        max_body_bytes=10**7,
        utility_prompts=UtilityPrompts(),
        budget_tokens=BUDGET_TOKENS,
        window_share=0.5,
        order=order,
        begun=begun,
    )

    async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the route prepares the call and does not make the call")

    app = Augment(
        upstream,
        knowledge=knowledge,
        template=Template("{passages}"),
        options=options,
        resolve=lambda name, rights: Target(name, lane, "", "", window_tokens=window_tokens),
    )
    call = Call([orjson.dumps(body)])
    await app(scope_of(exchange=exchange), call.receive, call.send)
    assert exchange.upstream is upstream
    return exchange, knowledge


def chat(text: str = "how do I connect?", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def shown(exchange: Exchange) -> list[str]:
    content = orjson.loads(exchange.body or b"")["messages"][0]["content"]
    return [line for line in content.splitlines() if line.startswith("passage")]


async def test_the_best_come_first_unless_first_and_last_is_asked_for() -> None:
    exchange, _ = await asked(chat())
    assert shown(exchange) == [f"passage {i}" for i in (1, 2, 3, 4, 5)]
    exchange, _ = await asked(chat(), order="best_first_and_last")
    assert shown(exchange) == [f"passage {i}" for i in (1, 3, 5, 4, 2)]
    assert exchange.sources == ("1.md", "2.md", "3.md", "4.md", "5.md"), "the header names the best first"


async def test_what_is_searched_waits_until_the_gateway_has_begun_and_nothing_else_does() -> None:
    opened = asyncio.Event()

    async def begun() -> None:
        await opened.wait()

    exchange, knowledge = await asked(chat(rag=False), begun=begun)
    assert (exchange.rag_status, knowledge.budgets) == ("off", [])
    waiting = asyncio.create_task(asked(chat(), begun=begun))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    opened.set()
    exchange, _ = await waiting
    assert exchange.rag_status == "augmented"


async def test_the_bytes_that_were_injected_are_counted() -> None:
    exchange, _ = await asked(chat())
    added = len(exchange.body or b"") - len(orjson.dumps(chat()))
    assert 0 <= added - exchange.injected_bytes < 40, "but for the message around them"
    assert (await asked(chat(rag={"enabled": False})))[0].injected_bytes == 0


async def test_the_same_passages_give_the_same_bytes_in_every_round() -> None:
    first, _ = await asked(chat(), order="best_first_and_last")
    again, _ = await asked(chat(), order="best_first_and_last")
    assert first.body == again.body


async def test_a_model_of_unknown_window_gets_the_budget_of_the_setting() -> None:
    _, knowledge = await asked(chat("x " * 50_000))
    assert knowledge.budgets == [BUDGET_TOKENS]


@pytest.mark.parametrize(("window_tokens", "expected"), [(128_000, BUDGET_TOKENS), (2000, 990), (400, 190)])
async def test_the_budget_is_bounded_by_a_share_of_what_the_conversation_leaves(
    window_tokens: int, expected: int
) -> None:
    _, knowledge = await asked(chat(), window_tokens=window_tokens)
    (budget,) = knowledge.budgets
    assert budget == pytest.approx(expected, abs=10)


async def test_where_the_window_is_full_nothing_is_searched_and_the_reason_is_told() -> None:
    body = chat("x " * 3000)
    exchange, knowledge = await asked(body, window_tokens=1000)
    assert knowledge.budgets == []
    assert (exchange.rag_status, exchange.rag_reason) == ("empty", "no room in the model's window")
    assert exchange.body == orjson.dumps(body)
