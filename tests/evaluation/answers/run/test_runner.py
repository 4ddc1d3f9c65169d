"""Runs against a scripted upstream: every question answered once, whatever happens on the way."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import orjson
import pytest

from evaluation.answers.client.budget import Budget, Cost, spend
from evaluation.answers.client.gateway_client import GatewayClient, wait_s
from evaluation.answers.client.sender import Outcome
from evaluation.answers.records import BenchError, Question, Variant
from evaluation.answers.run.matrix import variants
from evaluation.answers.run.runner import Runner, RunOptions, WholeText, order_of
from evaluation.answers.run_folder import Run, RunManifest
from proxy.access.prices import Price, Size
from proxy.dialects.replies import Tokens
from tests.support.completions import asked_of, cut_short, question_of, refusal, streamed
from tests.support.dialect_clients import BY_DIALECT, DialectClient
from tests.support.upstream_servers import Received, Wire, upstream

PRICE = Price(1e-6, 2e-6, 1e-6, 2e-6)
QUESTIONS = [Question(str(n), [{"role": "user", "content": f"What is {n}?"}]) for n in range(4)]
RAW = variants(["m"], ["raw"], [], [])
NOW = b"retry-after: 0"
Answer = Callable[[Received, int], Sequence[bytes]]  # a request, and which it is of its question -> what is sent


@asynccontextmanager
async def asking(answer: Answer, *, concurrency: int = 2) -> AsyncIterator[tuple[GatewayClient, list[Received]]]:
    """A gateway that is a script, and the requests it got."""
    seen: Counter[str] = Counter()

    async def script(wire: Wire) -> None:
        while True:
            received = await wire.request()
            if received.line.startswith(b"GET "):
                await wire.send(refusal(404, code="unknown_path"))
                continue
            seen[question_of(received)] += 1
            await wire.send(*answer(received, seen[question_of(received)]))

    async with upstream(script) as server:
        gateway = GatewayClient(f"{server.url}/v1/", "sk-1", timeout_s=20, concurrency=concurrency)
        try:
            yield gateway, server.requests
        finally:
            await gateway.close()


def begun(folder: Path, ways: Sequence[Variant] = RAW, *, repeats: int = 1) -> Run:
    return Run.create(folder, RunManifest("r", 0.0, "q.jsonl", "http://x", repeats, 7, ways), QUESTIONS)


def runner(
    run: Run,
    gateway: GatewayClient,
    *,
    budget: Budget | None = None,
    retries: int = 2,
    wholes: Mapping[str, WholeText] = MappingProxyType({}),
) -> Runner:
    terms = RunOptions(2, retries, 100, lambda _model: PRICE, lambda _model: Size(1000, 50), wholes)
    return Runner(run, gateway, budget or Budget(None, None), terms, progress=lambda _done, _total, _more: None)


async def test_every_question_is_asked_of_every_variant_as_often_as_wanted(tmp_path: Path) -> None:
    ways = variants(["m"], ["raw", "rag"], ["docs"], ["k=3"])
    run = begun(tmp_path, ways, repeats=2)
    async with asking(lambda received, _nth: [streamed(question_of(received), " yes")]) as (gateway, requests):
        assert await runner(run, gateway).go() == Outcome(16, 16, "")
    replies = run.replies()
    assert len(replies) == len(requests) == 16
    for (question, _, _), reply in replies.items():
        assert (reply.answer, reply.finish_reason, reply.error) == (f"What is {question}? yes", "stop", None)
        assert reply.usage == Tokens(100, 10)
        assert reply.cost_usd == pytest.approx(120e-6)
        assert reply.first_ms is not None
        assert reply.total_ms is not None
        assert 0 < reply.first_ms <= reply.total_ms
    modes = Counter((request.header(b"x-rag"), "rag" in asked_of(request)) for request in requests)
    assert modes == {(b"off", False): 8, (b"on", True): 8}
    assert {request.header(b"authorization") for request in requests} == {b"Bearer sk-1"}
    cost = spend(run, lambda _model: PRICE).cost
    assert cost.usd == pytest.approx(16 * 120e-6)
    assert cost.tokens == 16 * 110


@BY_DIALECT
async def test_every_dialect_is_asked_and_read_and_a_broken_stream_is_asked_again(
    client: DialectClient, tmp_path: Path
) -> None:
    ways = variants(["m"], ["raw", "rag", "whole"], ["docs"], [], [client.name])
    whole = {ways[2].name: WholeText("The whole handbook.", "whole.txt")}

    async def script(wire: Wire) -> None:
        while True:
            received = await wire.request()
            first = [one.body for one in server.requests].count(received.body) == 1
            await wire.send(client.stream("I ", "know.", tokens=None if first else Tokens(100, 10), ends=not first))

    run = begun(tmp_path, ways)
    async with upstream(script) as server:
        gateway = GatewayClient(server.url, "sk-1", timeout_s=20, concurrency=1)
        outcome = await runner(run, gateway, wholes=whole).go()
        await gateway.close()
    assert outcome == Outcome(12, 12, "")
    assert {request.line for request in server.requests} == {b"POST %b HTTP/1.1" % client.path.encode()}
    assert len(server.requests) == 24
    errors = [attempt.error for attempt in run.attempts() if attempt.error]
    assert errors == ["the reply broke off before its end"] * 12
    for (id, name, _), reply in run.replies().items():
        assert (reply.answer, reply.error, reply.usage) == ("I know.", None, Tokens(100, 10))
        prompt = client.prompt_of(orjson.dumps(reply.request))
        assert f"What is {id}?" in prompt
        assert ("rag" in reply.request) == (name == ways[1].name)
        assert ("whole.txt" in str(reply.request)) == (name == ways[2].name), "the text is in the file"
    assert sum(b"The whole handbook." in request.body for request in server.requests) == 8


async def test_what_the_gateway_tells_of_retrieval_is_kept(tmp_path: Path) -> None:
    told = [
        b"x-rag-status: augmented",
        b"x-rag-id: rag-1",
        b"x-rag-sources: a%20b.md,c.md",
        b"x-rag-reason: as asked",
        b"server-timing: parse;dur=0.5, retrieval;dur=9",
    ]

    def answer(received: Received, _nth: int) -> list[bytes]:
        first, _, rest = streamed("yes").partition(b"\r\n")
        return [first + b"\r\n" + b"\r\n".join(told) + b"\r\n" + rest]

    run = begun(tmp_path)
    async with asking(answer) as (gateway, _):
        await runner(run, gateway).go()
    reply = run.replies()["0", "m raw", 0]
    assert (reply.rag.status, reply.rag.reason, reply.rag.id) == ("augmented", "as asked", "rag-1")
    assert (reply.rag.sources, reply.rag.passages) == (["a b.md", "c.md"], None)
    assert reply.stages_ms == {"parse": 0.5, "retrieval": 9.0}


async def test_the_tokens_of_the_model_that_rewrites_count_in_the_answers(tmp_path: Path) -> None:
    told = b"x-rag-rewrite-tokens: 331, 12; model=small"

    def answer(received: Received, _nth: int) -> list[bytes]:
        first, _, rest = streamed("yes").partition(b"\r\n")
        return [first + b"\r\n" + told + b"\r\n" + rest]

    run = begun(tmp_path)
    async with asking(answer) as (gateway, _):
        await runner(run, gateway).go()
    reply = run.replies()["0", "m raw", 0]
    assert (reply.usage, reply.rewriting) == (Tokens(431, 22), Tokens(331, 12))
    assert reply.cost_usd == pytest.approx(120e-6 + 355e-6)
    cost = spend(run, lambda _model: PRICE).cost
    assert cost.tokens == 4 * 453
    assert cost.usd == pytest.approx(4 * 475e-6)


async def test_a_chat_that_ended_after_a_round_of_operations_is_not_free(tmp_path: Path) -> None:
    def answer(_received: Received, _nth: int) -> list[bytes]:
        first, _, rest = refusal(400, "above the ceiling", code="max_tokens_reached").partition(b"\r\n")
        return [first + b"\r\nserver-timing: round-1;dur=5.0\r\n" + rest]

    run = begun(tmp_path)
    async with asking(answer) as (gateway, _):
        await runner(run, gateway).go()
    worst = [max_cost for _, _, max_cost in run.sent_requests()]
    cost = spend(run, lambda _model: PRICE).cost
    assert cost.tokens == sum(one.prompt_tokens + (one.answer_tokens or 0) for one in worst) > 0


@pytest.mark.parametrize(
    "bad", [refusal(503, "busy", NOW), refusal(429, "slow down", NOW), refusal(500, "oh", NOW)]
)  # fmt: skip
async def test_what_may_pass_is_asked_again_and_every_attempt_is_kept(bad: bytes, tmp_path: Path) -> None:
    run = begun(tmp_path)
    async with asking(lambda _received, nth: [bad if nth == 1 else streamed("yes")]) as (gateway, _):
        assert (await runner(run, gateway).go()).done == 4
    attempts = list(run.attempts())
    assert [attempt.error is None for attempt in attempts].count(False) == 4
    assert all(reply.answer == "yes" for reply in run.replies().values())
    assert all(attempt.cost_usd == 0.0 for attempt in attempts if attempt.error)


async def test_a_refusal_that_would_be_the_same_again_stands(tmp_path: Path) -> None:
    run = begun(tmp_path)
    async with asking(lambda _received, _nth: [refusal(400, "too long", code="context_length_exceeded")]) as (
        gateway,
        all_,
    ):
        assert await runner(run, gateway).go() == Outcome(4, 4, "")
        assert len(all_) == 4
        assert await runner(run, gateway).go() == Outcome(4, 4, "")
        assert len(all_) == 4
    assert {reply.error for reply in run.replies().values()} == {"400: too long"}


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_that_would_meet_all_ends_the_run_and_is_asked_again_by_the_next(
    status: int, tmp_path: Path
) -> None:
    run = begun(tmp_path)
    async with asking(lambda _received, _nth: [refusal(status, "Incorrect key")]) as (gateway, requests):
        outcome = await runner(run, gateway).go()
        assert (outcome.done, outcome.stopped) == (0, f"m raw: {status}: Incorrect key")
        assert len(requests) <= 2
    async with asking(lambda _received, _nth: [streamed("yes")]) as (gateway, _):
        assert (await runner(run, gateway).go()).done == 4


async def test_a_wait_that_is_too_long_ends_the_run(tmp_path: Path) -> None:
    async with asking(lambda _received, _nth: [refusal(429, "a day", b"retry-after: 3600")]) as (gateway, _):
        outcome = await runner(begun(tmp_path), gateway).go()
    assert "asked to wait 3600 s" in outcome.stopped


async def test_a_gateway_that_answers_nothing_ends_the_run(tmp_path: Path) -> None:
    async with asking(lambda _received, _nth: [refusal(500, "broken", NOW)]) as (gateway, requests):
        outcome = await runner(begun(tmp_path, repeats=3), gateway, retries=0).go()
    assert "5 in a row got no answer, the last: 500: broken" in outcome.stopped
    assert len(requests) <= 6


async def test_a_stream_that_broke_off_counts_at_its_worst_and_is_asked_again(tmp_path: Path) -> None:
    run, budget = begun(tmp_path), Budget(None, None)
    async with asking(lambda _received, _nth: [cut_short("ha")]) as (gateway, _):
        outcome = await runner(run, gateway, budget=budget, retries=0).go()
    assert (outcome.done, outcome.stopped) == (0, "")
    assert {reply.error for reply in run.replies().values()} == {"the reply broke off before its end"}
    assert budget.spent.tokens > 4 * 50
    assert spend(run, lambda _model: PRICE).cost == budget.spent
    async with asking(lambda _received, _nth: [streamed("yes")]) as (gateway, _):
        assert (await runner(run, gateway).go()).done == 4


async def test_an_upstream_that_refuses_to_tell_usage_is_not_asked_for_it(tmp_path: Path) -> None:
    def answer(received: Received, _nth: int) -> list[bytes]:
        if "stream_options" in asked_of(received):
            return [refusal(400, "Unknown parameter: stream_options")]
        return [streamed("four tokens, about", usage=None)]

    run = begun(tmp_path)
    async with asking(answer) as (gateway, requests):
        assert (await runner(run, gateway).go()).done == 4
    assert len(requests) <= 6
    for reply in run.replies().values():
        assert reply.usage is not None
        assert (reply.usage.estimated, reply.usage.completion) == (True, 5)


@pytest.mark.parametrize("kind", ["usd", "tokens"])
async def test_a_ceiling_is_not_passed_and_a_higher_one_goes_on(kind: str, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 80, "completion_tokens": 40}
    run = begun(tmp_path, repeats=3)
    low = Budget(9e-4, None) if kind == "usd" else Budget(None, 800)
    async with asking(lambda _received, _nth: [streamed("yes", usage=usage)]) as (gateway, requests):
        outcome = await runner(run, gateway, budget=low).go()
        assert outcome.stopped.startswith(
            "the ceiling does not allow for another request: the next request may use up to $0."
        )
        assert 1 <= outcome.done == len(requests) < 12
        assert low.spent.usd <= 9e-4 or kind == "tokens"
        assert low.spent.tokens <= 800 or kind == "usd"
        high = Budget(1.0, None)
        assert (await runner(run, gateway, budget=high).go()).done == len(requests) == 12
    assert high.spent.usd == pytest.approx(12 * 160e-6)
    assert high.spent.tokens == 12 * 120


async def test_a_run_that_is_stopped_lets_what_is_in_flight_end_and_goes_on_with_the_rest(tmp_path: Path) -> None:
    run = begun(tmp_path)
    running: list[Runner] = []

    def answer(_received: Received, _nth: int) -> list[bytes]:
        running[0].stop("interrupted")
        return [streamed("yes")]

    async with asking(answer) as (gateway, requests):
        running.append(runner(run, gateway))
        outcome = await running[0].go()
        assert (outcome.stopped, 1 <= outcome.done <= 2) == ("interrupted", True)
        running[0] = runner(run, gateway)
        while (await running[0].go()).done < 4:
            running[0] = runner(run, gateway)
        assert Counter(map(question_of, requests)) == {f"What is {n}?": 1 for n in range(4)}


async def test_a_run_that_is_cancelled_leaves_its_folder_whole(tmp_path: Path) -> None:
    run, arrived = begun(tmp_path), asyncio.Event()

    def answer(_received: Received, _nth: int) -> list[bytes]:
        arrived.set()
        return []

    async with asking(answer) as (gateway, _):
        going = asyncio.create_task(runner(run, gateway).go())
        await arrived.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
    assert run.replies() == {}
    assert spend(run, lambda _model: PRICE).cut_off in (1, 2)
    async with asking(lambda _received, _nth: [streamed("yes")]) as (gateway, _):
        assert (await runner(run, gateway).go()).done == 4


async def test_a_gateway_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    async with asking(lambda _received, _nth: []) as (gateway, _):
        pass
    gone, budget = GatewayClient(str(gateway.client.base_url), "", timeout_s=5, concurrency=1), Budget(None, None)
    outcome = await runner(begun(tmp_path), gone, budget=budget, retries=0).go()
    await gone.close()
    assert (outcome.done, budget.spent) == (0, Cost(0.0, 0))


async def test_a_whole_collection_is_sent_and_kept_once(tmp_path: Path) -> None:
    (way,) = variants(["m"], ["whole"], ["docs"], [])
    run = begun(tmp_path, [way])
    async with asking(lambda _received, _nth: [streamed("yes")]) as (gateway, requests):
        await runner(run, gateway, wholes={way.name: WholeText("All of it.", "whole-docs.txt")}).go()
    for request in requests:
        assert asked_of(request)["messages"][0] == {"role": "system", "content": "All of it."}
        assert request.header(b"x-rag") == b"off"
    for reply in run.replies().values():
        assert reply.request["messages"][0] == {"role": "system", "content": {"file": "whole-docs.txt"}}


def test_the_order_is_the_seeds_and_mixes_variants() -> None:
    ways = variants(["a", "b"], ["raw", "rag"], [], [])
    order = order_of(QUESTIONS, ways, 2, 1)
    assert len(set(order)) == len(order) == 32
    assert order == order_of(QUESTIONS, ways, 2, 1) != order_of(QUESTIONS, ways, 2, 2)
    assert len({variant for _, variant, _ in order[:8]}) > 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2", 2.0), ("0.5", 0.5), ("-1", 0.0), ("Sun, 06 Nov 1994 08:49:37 GMT", 7.0), ("soon", None), ("", None)],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert wait_s(header, 784111770.0) == seconds


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://key@host/v1", "http://x:port"])
def test_what_is_no_address_of_a_gateway_is_refused(url: str) -> None:
    with pytest.raises(BenchError, match="--base-url"):
        GatewayClient(url, "", timeout_s=1, concurrency=1)
