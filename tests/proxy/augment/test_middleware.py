"""The middleware's own part: what it asks for, in which order it shows it, and what it says of that."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from config.settings import SMALL_TALK, load
from proxy.asgi import Receive, Scope, Send
from proxy.augment.history import Histories, row_id
from proxy.augment.middleware import Augment, Passages, already
from proxy.augment.skipped import SmallTalk, UtilityPrompts
from proxy.caller import EVERYTHING
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.quoting import Order, Template
from proxy.dialects.responses import RESPONSES
from proxy.dialects.target import Lane, Target
from proxy.exchange import Exchange
from proxy.observe.metrics import Metrics
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import Passage
from retrieval.records.search import Context, Query, Retrieved, Turn
from runtime.record_store import RecordStore
from tests.support.asgi_calls import Call, called, scope_of
from tests.support.unasked import Unasked

BUDGET_TOKENS = 3000
DEFAULTS = load(environ={})


class Five(Unasked):
    """Finds five passages, and remembers the budgets it was given."""

    def __init__(self) -> None:
        self.budgets: list[int | None] = []
        self.turns: Sequence[Turn] = ()

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        self.budgets.append(request.budget_tokens)
        self.turns = request.turns
        passages = tuple(Passage(f"d{i}", 1, 0, "", f"{i}.md", 0.0, (), 0, 1, f"passage {i}", 1) for i in range(1, 6))
        return Retrieved(Query(request.turns[-1].text, (), (), "first question"), (), Context(passages, 5, 0), {})


async def asked(
    body: dict[str, Any],
    *,
    window_tokens: int = 0,
    order: Order = "best_first",
    begun: Callable[[], Awaitable[None]] = already,
    lane: Lane = "echo",
    dialect: Dialect = CHAT,
    histories: Histories | None = None,
    deadline_s: float = 60.0,
    tapped: bool = False,
) -> tuple[Exchange, Five]:
    knowledge, exchange = Five(), Exchange(rights=EVERYTHING, path=dialect.path, dialect=dialect)

    async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the route prepares the call and does not make the call")

    app = Augment(
        upstream=upstream,
        resolve=lambda name, rights: Target(name, lane, "", "", window_tokens=window_tokens),
        passages=Passages(
            knowledge,
            Template("{passages}"),
            replace(DEFAULTS.retrieval, collections=("docs",), deadline_s=deadline_s),
            replace(DEFAULTS.inject, budget_tokens=BUDGET_TOKENS, window_share=0.5, order=order),
            begun=begun,
        ),
        max_body_bytes=10**7,
        utility_prompts=UtilityPrompts(),
        small_talk=SmallTalk.read(SMALL_TALK),
        histories=histories,
    )
    call = Call([orjson.dumps(body)])
    prepared = await app(scope_of(exchange=exchange), call.receive, call.send)
    assert (called(prepared) is not upstream) is tapped
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


def conversation(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


async def test_small_talk_is_not_searched_for() -> None:
    body = chat(messages=conversation("how do I connect?", "With TLS.", "ok, thanks!"))
    exchange, knowledge = await asked(body)
    assert (exchange.rag_status, exchange.rag_reason) == ("skipped", "small talk")
    assert knowledge.budgets == []
    assert orjson.loads(exchange.body or b"") == body


@pytest.mark.parametrize(
    ("texts", "more"),
    [
        (("how do I connect?", "With TLS.", "thanks, and what if it fails?"), {}),
        (("how do I connect?", "Shall I show the steps?", "ok, please"), {}),
        (("how do I connect?", "With TLS.", "thanks"), {"rag": True}),
    ],
)
async def test_what_may_be_a_question_is_searched_for(texts: tuple[str, ...], more: dict[str, Any]) -> None:
    exchange, _ = await asked(chat(messages=conversation(*texts), **more))
    assert exchange.rag_status == "augmented"


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


BEFORE = [Turn("user", "What is Moby-Dick?"), Turn("assistant", "A book.")]
FOLLOW_UP = {"model": "m", "input": "Who wrote it?", "previous_response_id": "resp_1"}
ALONE = [Turn("user", "Who wrote it?")]


def shelved(folder: Path, kind: type[RecordStore] = RecordStore) -> tuple[RecordStore, Histories]:
    """A store with one history, and a queue before the store."""
    kept = kind(folder, keep_s=3600, max_bytes=1 << 20, kind="histories")
    kept.put([(row_id("", "resp_1"), time.time(), orjson.dumps(BEFORE))])
    return kept, Histories(kept, Metrics().histories)


async def test_small_talk_in_a_stored_conversation_is_kept_and_not_searched_for(tmp_path: Path) -> None:
    """Agreement is small talk by the stored answer; the next question leans on the turns before."""
    kept, histories = shelved(tmp_path)
    body = {"model": "m", "input": "ok, got it", "previous_response_id": "resp_1"}
    exchange, knowledge = await asked(body, dialect=RESPONSES, histories=histories, tapped=True)
    assert (exchange.rag_status, exchange.rag_reason, knowledge.budgets) == ("skipped", "small talk", [])
    kept.close()


async def test_a_response_that_continues_by_an_id_is_searched_with_the_stored_turns(tmp_path: Path) -> None:
    kept, histories = shelved(tmp_path)
    exchange, knowledge = await asked(FOLLOW_UP, dialect=RESPONSES, histories=histories, tapped=True)
    assert list(knowledge.turns) == [*BEFORE, *ALONE]
    body = orjson.loads(exchange.body or b"")
    assert (body["input"], body["previous_response_id"]) == ("Who wrote it?", "resp_1")
    assert "history" in [step.kind for step in exchange.steps]
    kept.close()


@pytest.mark.parametrize(
    ("body", "dialect", "lane"),
    [
        (chat(store=True, previous_response_id="resp_1"), CHAT, "echo"),
        ({"model": "m", "input": "Who wrote it?", "store": False}, RESPONSES, "echo"),
        ({"model": "m", "input": "Who wrote it?", "rag": False}, RESPONSES, "echo"),
        ({"model": "m", "input": "Who wrote it?"}, RESPONSES, "translated"),
    ],
)
async def test_a_reply_that_no_later_request_continues_does_not_pass_through_the_tap(
    tmp_path: Path, body: dict[str, Any], dialect: Dialect, lane: Lane
) -> None:
    kept, histories = shelved(tmp_path)
    exchange, _ = await asked(body, dialect=dialect, histories=histories, lane=lane, tapped=False)
    assert "history" not in [step.kind for step in exchange.steps]
    kept.close()


async def test_where_the_database_is_damaged_the_question_is_searched_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept, histories = shelved(tmp_path)
    kept.close()
    (tmp_path / "receipts.db").write_bytes(b"no database " * 1000)
    exchange, knowledge = await asked(FOLLOW_UP, dialect=RESPONSES, histories=histories, tapped=True)
    assert (exchange.rag_status, list(knowledge.turns)) == ("augmented", ALONE)
    assert "the history is not read" in caplog.text
    assert "Who wrote" not in caplog.text


async def test_where_the_database_hangs_the_question_is_searched_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()

    class Hanging(RecordStore):
        def read(self, id: str) -> bytes | None:
            answers.wait()
            return super().read(id)

    kept, histories = shelved(tmp_path, Hanging)
    exchange, knowledge = await asked(FOLLOW_UP, dialect=RESPONSES, histories=histories, tapped=True, deadline_s=2.0)
    answers.set()
    assert (exchange.rag_status, list(knowledge.turns)) == ("augmented", ALONE)
    assert "the database takes too long" in caplog.text
    kept.close()


@pytest.mark.parametrize(
    ("passages", "expected"),
    [
        ((), ("empty", "nothing relevant found, not in the documents' language")),
        ((Passage("d", 1, 0, "", "a.md", 0.0, (), 0, 1, "x", 1),), ("augmented", "first question, a note")),
    ],
)
def test_a_note_on_the_question_is_told_with_the_reason(
    passages: tuple[Passage, ...], expected: tuple[str, str]
) -> None:
    note = expected[1].rpartition(", ")[2]
    retrieved = Retrieved(Query("q", (), (), "first question"), (), Context(passages, 1, 0), {}, note=note)
    exchange = Exchange(rights=EVERYTHING, path=CHAT.path, dialect=CHAT)
    finding = Passages(Five(), Template("{passages}"), DEFAULTS.retrieval, DEFAULTS.inject)
    finding._rendered(retrieved, exchange)
    assert (exchange.rag_status, exchange.rag_reason) == expected
