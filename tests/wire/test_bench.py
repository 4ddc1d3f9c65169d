"""`ragway bench` as a process, against a gateway with a scripted upstream: asked once, whatever interrupts it."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.dialects.replies import Tokens
from tests.evaluation.answers import made
from tests.support.completions import asked_of, question_of, refusal, streamed
from tests.support.dialect_clients import BY_DIALECT, DialectClient
from tests.support.gateway import Served, environment, ragway, refused, serving
from tests.support.recording_upstream import Answer, Recorder
from tests.support.upstream_servers import Received, Wire

SETTINGS = "models: {{small: {{api_base: '{url}/v1', window_tokens: 100000}}, echo: {{lane: echo}}}}"
QUESTIONS = ["How do I use TLS?", "Who is Bruno?", "What is the Kotlin driver called?"]
GOLD = {QUESTIONS[2]: ["handbook/kotlin.md"]}
PRICE = ("--price", "small=1,2")


@pytest.fixture
def upstream(upstream: Recorder) -> Recorder:
    """It says yes, and what it took."""
    upstream.answer = _yes
    return upstream


@pytest.fixture(scope="module")
def gateway(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, _upstream: Recorder
) -> Iterator[Served]:
    """A gateway with the corpus as its collection `docs`."""
    folder = tmp_path_factory.mktemp("gateway")
    with serving(learned(), folder, SETTINGS.format(url=_upstream.url)) as served:
        yield served


async def _yes(wire: Wire, _received: Received) -> None:
    await wire.send(streamed("yes"))


async def _judges(wire: Wire, _received: Received) -> None:
    """A judge whose every reply can be read, whatever it was asked."""
    await wire.send(streamed('{"score": 5, "better": "first", "claims": [{"supported": true}]}'))


class Held:
    """The upstream's request of a number, from 1, held until it is told to go on or the client leaves."""

    def __init__(self, recorder: Recorder, number: int, then: Answer | None = None) -> None:
        """then: how it answers."""
        self._recorder = recorder
        self._then = then or _yes
        self._number = number
        self._arrived = threading.Event()
        self._go = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        recorder.answer = self._answer

    async def _answer(self, wire: Wire, received: Received) -> None:
        if len(self._recorder.requests) == self._number:
            self._loop = asyncio.get_running_loop()
            self._arrived.set()
            left = asyncio.ensure_future(wire.gone())
            told = asyncio.ensure_future(self._go.wait())
            await asyncio.wait({left, told}, return_when=asyncio.FIRST_COMPLETED)
            for waiting in (left, told):
                waiting.cancel()
            await asyncio.wait({left, told})
        await self._then(wire, received)

    def wait(self) -> None:
        """Return when it has come."""
        assert self._arrived.wait(60)

    def go(self) -> None:
        """Have it answered."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._go.set)


def wanted(folder: Path, *more: str, questions: Sequence[str] = QUESTIONS) -> list[str]:
    """The arguments of a bench of the questions, written into the folder."""
    file = folder / "questions.jsonl"
    asked = [{"question": text, **({"gold": GOLD[text]} if text in GOLD else {})} for text in questions]
    file.write_text("".join(json.dumps(one) + "\n" for one in asked), "utf-8")
    return ["bench", str(file), "--model", "small", "--run", str(folder / "run"), "--yes", *PRICE, *more]


def started(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *args],
        cwd=folder,
        text=True,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def rows(folder: Path, name: str = "replies.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / name).read_text("utf-8").splitlines()]


def asked(requests: Sequence[Received]) -> Counter[tuple[str, bool]]:
    """How often each question came, without and with passages."""
    return Counter((question_of(one), len(asked_of(one)["messages"]) > 1) for one in requests)


EACH_ONCE = Counter({(text, passages): 1 for text in QUESTIONS for passages in (False, True)})


def test_each_question_is_asked_raw_and_with_passages_and_kept(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    args = wanted(tmp_path, "--base-url", gateway.url + "/v1", "--collection", "docs")
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small rag docs against small raw\n    No verdict"), done.stdout
    assert "all 6 replies are there" in done.stderr
    assert asked(upstream.requests) == EACH_ONCE
    replies = {(row["question"], row["variant"]): row for row in rows(tmp_path)}
    for number in "123":
        raw, rag = replies[number, "small raw"], replies[number, "small rag docs"]
        assert (raw["rag"]["status"], raw["rag"]["sources"]) == ("off", [])
        assert rag["rag"]["status"] == "augmented"
        assert {passage["source"] for passage in rag["rag"]["passages"]} == set(rag["rag"]["sources"]) != set()
        assert rag["rag"]["injected_tokens"] > 0
        assert "retrieval" in rag["stages_ms"]
        assert (rag["answer"], rag["usage"]["prompt"], rag["cost_usd"]) == ("yes", 100, pytest.approx(120e-6))
        assert 0 < rag["first_ms"] <= rag["total_ms"]
    head = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert [one["name"] for one in head["variants"]] == ["small raw", "small rag docs"]
    assert [one["id"] for one in head["gateway"]["collections"]] == ["docs"]
    report = json.loads((tmp_path / "run" / "report.json").read_text("utf-8"))
    raw, rag = (one["scores"] for one in report["variants"])
    assert "ndcg" not in raw
    assert rag["context_recall"] == 1
    assert 0 < rag["context_precision"] <= 1
    assert 0 < rag["ndcg"] <= 1
    again = ragway(*args, folder=tmp_path)
    assert (again.returncode, len(upstream.requests)) == (0, 6)
    assert "is complete" in again.stderr


@BY_DIALECT
def test_each_dialect_is_asked_with_passages_and_a_run_mixes_no_dialects(
    gateway: Served, upstream: Recorder, tmp_path: Path, client: DialectClient
) -> None:
    async def yes(wire: Wire, _received: Received) -> None:
        await wire.send(client.stream("yes", tokens=Tokens(100, 10)))

    upstream.answer = yes
    args = wanted(tmp_path, "--base-url", gateway.url + "/v1", "--collection", "docs")
    done = ragway(*args, "--dialect", client.name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "all 6 replies are there" in done.stderr
    assert {request.line.split()[1].decode() for request in upstream.requests} == {client.path}
    prompts = Counter(client.prompt_of(request.body).count("passages below") for request in upstream.requests)
    assert prompts == {0: 3, 1: 3}
    for row in rows(tmp_path):
        rag = " rag " in row["variant"]
        assert row["rag"]["status"] == ("augmented" if rag else "off")
        assert bool(row["rag"]["passages"]) == rag
        assert (row["answer"], row["usage"]["prompt"], row["usage"]["estimated"]) == ("yes", 100, False)
        assert row["cost_usd"] == pytest.approx(120e-6)
        assert 0 < row["first_ms"] <= row["total_ms"]
    head = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert {variant["dialect"] for variant in head["variants"]} == {client.name}
    (other,) = {"chat", "responses"} - {client.name} if client.name != "messages" else {"chat"}
    assert "holds another run" in refused(ragway(*args, "--dialect", other, folder=tmp_path))
    assert len(upstream.requests) == 6


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_run_that_was_interrupted_goes_on_and_asks_nothing_again(
    number: signal.Signals, gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    """The request in flight: killed, it is asked again, since nobody knows its reply; else it ends first."""
    args = wanted(tmp_path, "--base-url", gateway.url, "--concurrency", "1")
    held = Held(upstream, 4)
    process = started(tmp_path, *args)
    try:
        held.wait()
        process.send_signal(number)
        if number != signal.SIGKILL:
            assert process.stderr is not None
            while "stopping" not in (line := process.stderr.readline()):
                assert line, "it ended without a word"
        held.go()
        said, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (said, list((tmp_path / "run").glob("report.*"))) == ("", [])
    if number != signal.SIGKILL:
        assert "no verdict before every request is answered; the same command goes on from here" in told
    cut_off = list(asked(upstream.requests[3:])) if number == signal.SIGKILL else []
    assert process.returncode == (-9 if number == signal.SIGKILL else 130), told
    assert len(rows(tmp_path)) == (3 if number == signal.SIGKILL else 4)
    upstream.answer = _yes
    again = ragway(*args, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert ("1 requests were cut off in flight" in again.stderr) == (number == signal.SIGKILL)
    assert asked(upstream.requests) == EACH_ONCE + Counter(cut_off)
    assert sum(row["error"] is None for row in rows(tmp_path)) == 6


def test_a_second_signal_ends_what_is_in_flight(gateway: Served, upstream: Recorder, tmp_path: Path) -> None:
    args = wanted(tmp_path, "--base-url", gateway.url, "--concurrency", "1")
    held = Held(upstream, 2)
    process = started(tmp_path, *args)
    try:
        held.wait()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "stopping" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, len(rows(tmp_path)), "Traceback" in told) == (130, 1, False), told
    assert "1 of 6 replies are there; interrupted" in told


def test_a_run_that_differs_is_refused_and_nothing_is_asked(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    base = ("--base-url", gateway.url)
    assert ragway(*wanted(tmp_path, *base, "--mode", "raw"), folder=tmp_path).returncode == 0
    upstream.fresh()
    other = wanted(tmp_path, *base, "--repeats", "2", questions=["Who is Bruno?", *QUESTIONS[1:]])
    line = refused(ragway(*other, folder=tmp_path))
    for told in ("--repeats was 1, now 2", "'small rag' is new", "question '1' has another messages", "--run"):
        assert told in line
    assert upstream.requests == []


def test_a_ceiling_stops_a_run_before_it_is_passed(gateway: Served, upstream: Recorder, tmp_path: Path) -> None:
    args = wanted(tmp_path, "--base-url", gateway.url, "--mode", "raw", "--set", "max_tokens=50")
    done = ragway(*args, "--max-usd", "0.0004", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.search(
        r"the next request may use up to \$0\.0\d+ \([\d,]+ tokens in and 50 out\), and \$0\.0\d+ are left", done.stderr
    )
    assert "no verdict before every request is answered" in done.stderr
    assert (done.stdout, list((tmp_path / "run").glob("report.*"))) == ("", [])
    assert 0 < sum(row["cost_usd"] for row in rows(tmp_path)) <= 0.0004
    assert 0 < len(upstream.requests) < 3
    done = ragway(*args, "--max-usd", "0.01", folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (0, 3), done.stderr


def test_a_gateway_is_begun_for_the_run_beside_one_that_serves_the_same_documents(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(SETTINGS.format(url=upstream.url), "utf-8")
    args = wanted(
        tmp_path,
        "--collection",
        "docs",
        "--mode",
        "raw",
        "--mode",
        "rag",
        "--mode",
        "whole",
        "--config",
        str(config),
        "--data",
        str(gateway.data),
    )
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path)) == len(upstream.requests) == 9
    modes = {row["variant"]: row for row in rows(tmp_path)}
    assert modes["small rag docs"]["rag"]["status"] == "augmented"
    (text,) = (tmp_path / "run").glob("whole-docs-*.txt")
    assert modes["small whole docs"]["request"]["messages"][0]["content"] == {"file": text.name}
    leads = [asked_of(one)["messages"][0]["content"] for one in upstream.requests]
    assert leads.count(text.read_text("utf-8")) == 3
    assert "office dog is called Bruno" in text.read_text("utf-8")
    assert "Kotlin" in text.read_text("utf-8")


def test_a_collection_that_does_not_fit_is_left_out_and_told(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    args = wanted(
        tmp_path,
        "--base-url",
        gateway.url,
        "--collection",
        "docs",
        "--mode",
        "raw",
        "--mode",
        "whole",
        "--window",
        "small=200",
    )
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "small whole docs is left out: about" in done.stderr
    assert "small has room for" in done.stderr
    assert len(upstream.requests) == 3
    assert ragway(*args, folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--set", "stream=false"), "the bench sets stream itself"), (("--price", "small=1"), "MODEL=IN,OUT"),
        (("--window", "small"), "MODEL=TOKENS"), (("--base-url", "localhost"), "http://HOST:PORT/v1"),
        (("--base-url", "http://127.0.0.1:9"), "does not answer"),
        (("--max-tokens", "10", "--base-url", "GATEWAY"), "--set max_tokens=NUMBER"),
        (("--model", "unknown"), "'unknown' is not configured"),
        (("--collection", "nowhere"), "the collection 'nowhere' cannot be read: 404"),
        (("--collection", "docs,nowhere", "--base-url", "GATEWAY"), "the collection 'nowhere' cannot be read: 404"),
        (("--max-usd", "0.00001", "--set", "max_tokens=50"), "--max-usd 1e-05 is too small for one request of small"),
        (("--max-tokens", "60", "--set", "max_tokens=50", "--mode", "raw"), "which may use up to $"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_one_line(
    more: Sequence[str], told: str, gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(SETTINGS.format(url=upstream.url), "utf-8")
    more = [gateway.url if each == "GATEWAY" else each for each in more]
    args = wanted(tmp_path, "--config", str(config), "--data", str(gateway.data), *more)
    assert told in refused(ragway(*args, folder=tmp_path))
    assert not (tmp_path / "run").exists()
    assert upstream.requests == []


def test_a_collection_without_documents_is_refused_before_anything_is_asked(upstream: Recorder, tmp_path: Path) -> None:
    """Named, or the gateway's own."""
    config = SETTINGS.format(url=upstream.url)
    with serving(tmp_path / "data", tmp_path, config) as served:
        made_ = httpx.post(f"{served.url}/v1/knowledge/collections", json={"name": "bare"})
        assert made_.status_code == 201
        for more, told in (
            (("--collection", "bare"), "the collection 'bare' has no documents"),
            ((), "there are no documents in bare"),
        ):
            args = wanted(tmp_path, "--base-url", served.url, *more)
            assert told in refused(ragway(*args, folder=tmp_path))
    assert upstream.requests == []


def test_questions_that_stand_in_the_documents_are_told_before_and_after(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    args = wanted(tmp_path, "--base-url", gateway.url, "--collection", "docs")
    document = next(
        row
        for row in map(json.loads, gateway.get("/v1/knowledge/collections/docs/export").text.splitlines())
        if "office dog" in row["text"]
    )
    sentence = next(part for part in document["text"].split("\n") if "office dog" in part)
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps({"question": text, "must": ["Bruno"]}) + "\n" for text in (sentence, QUESTIONS[0])), "utf-8"
    )
    done = ragway(*args, folder=tmp_path)
    source = document["source"]
    about = "Leak: 1 of 2 questions stand in the documents nearly word for word, 1 of them with the answer "
    about += f"(1 in {source})"
    assert about in done.stderr, done.stderr
    assert done.stdout.startswith(about)
    head = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert head["leaked"] == {"1": {"source": source, "answer": True}}
    again = ragway("bench", "report", str(tmp_path / "run"), folder=tmp_path)
    assert again.stdout.startswith(about)


def test_a_judge_that_was_killed_goes_on_and_what_was_in_flight_counts_towards_its_ceiling(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    """Seven judgements of two answers; the third request is in flight when it is killed."""
    run = made.folder(tmp_path / "run", made.only_with_the_passage, count=1)
    args = ["bench", "judge", str(run), "--model", "small", "--base-url", gateway.url, "--concurrency", "1", "--set",
            "max_tokens=100", "--yes", *PRICE]  # fmt: skip
    held = Held(upstream, 3, _judges)
    process = started(tmp_path, *args)
    try:
        held.wait()
    finally:
        process.kill()
        process.communicate(timeout=60)
    held.go()
    asked, said = rows(tmp_path, "judge_asked.jsonl"), rows(tmp_path, "judgements.jsonl")
    assert (len(asked), len(said)) == (3, 2)
    used = sum(row["usage"]["prompt"] + row["usage"]["completion"] for row in said)
    used += asked[-1]["prompt_tokens"] + asked[-1]["answer_tokens"]
    upstream.answer = _judges
    done = ragway(*args, "--max-tokens", str(used + 150), folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (1, 3), done.stderr
    assert (
        "2 of 7 are judged; the ceiling does not allow for another request: the next request may use up to $"
        in done.stderr
    )
    done = ragway(*args, folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (0, 8), done.stderr
    assert "1 requests were cut off in flight" in done.stderr
    assert "small is asked 5 times" in done.stderr
    assert "all 7 are judged" in done.stderr
    assert "Does the judge agree" in (run / "report.md").read_text("utf-8")


def test_answers_that_failed_are_told_first_and_decide_whether_there_is_a_verdict(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    """25 of 60 requests with passages are too long for the model; whatever it can answer it answers right."""
    facts = [str(5000 + number) for number in range(60)]
    rows_ = [{"question": f"How do I use TLS on port {fact}?", "must": [fact]} for fact in facts]

    async def answer(wire: Wire, received: Received) -> None:
        (fact,) = re.findall(r"port (\d+)", question_of(received).rpartition("How do I use TLS")[2])
        if len(asked_of(received)["messages"]) > 1 and fact in facts[:25]:
            text = "This model's maximum context length is 512 tokens."
            await wire.send(refusal(400, text, code="context_length_exceeded"))
        else:
            await wire.send(streamed(f"It is {fact}."))

    upstream.answer = answer
    args = wanted(tmp_path, "--base-url", gateway.url, "--collection", "docs")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_), "utf-8")
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith(
        "small rag docs: 25 of 60 answers are failures (25 failed; 25 times: 400: This model's"
    )
    assert "no verdict, it depends on the failures" in done.stdout
    assert "counted as wrong: -0.417" in done.stdout
    assert "does not help" not in done.stdout
    assert "95 of 120 replies are there; 25 failed" in done.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text("utf-8"))
    assert report["variants"][1]["faults"] == {"failed": 25}
    assert (report["complete"], report["many_failures"]) == (True, True)
    again = ragway("bench", "report", str(tmp_path / "run"), folder=tmp_path)
    assert (again.returncode, again.stdout) == (3, done.stdout)


def test_a_judge_that_always_refuses_has_judged_nothing(gateway: Served, upstream: Recorder, tmp_path: Path) -> None:
    async def refuses(wire: Wire, _received: Received) -> None:
        await wire.send(streamed("I'm sorry, but I can't help with that."))

    upstream.answer = refuses
    run = made.folder(tmp_path / "run", made.only_with_the_passage, count=4)
    args = ["bench", "judge", str(run), "--model", "small", "--base-url", gateway.url, "--yes", *PRICE]
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    judged = len(upstream.requests)
    assert judged == 28
    assert f"The judge small: {judged} of {judged} judgements have no score ({judged} refused)." in done.stdout
    assert f"0 of {judged} are judged; {judged} failed" in done.stderr
    assert " all " not in done.stderr
    again = ragway(*args, folder=tmp_path)
    assert (again.returncode, len(upstream.requests)) == (3, judged)


def test_failed_judgements_of_an_earlier_command_are_counted_among_all(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    async def refuses(wire: Wire, _received: Received) -> None:
        await wire.send(streamed("I'm sorry, but I can't help with that."))

    upstream.answer = refuses
    run = made.folder(tmp_path / "run", made.only_with_the_passage, count=4)
    args = ["bench", "judge", str(run), "--model", "small", "--base-url", gateway.url, "--yes", *PRICE]
    first = ragway(*args, "--kind", "correctness", folder=tmp_path)
    assert "0 of 8 are judged; 8 failed" in first.stderr
    second = ragway(*args, "--kind", "preference", folder=tmp_path)
    judged = len(upstream.requests)
    assert judged > 8
    assert f"0 of {judged} are judged; {judged} failed" in second.stderr


def test_nothing_is_asked_where_nobody_agrees(gateway: Served, upstream: Recorder, tmp_path: Path) -> None:
    args = [arg for arg in wanted(tmp_path, "--base-url", gateway.url) if arg != "--yes"]
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 1
    assert "tokens in" in done.stderr
    assert "--yes" in done.stderr
    assert not (tmp_path / "run").exists()
    assert upstream.requests == []


# Questions drafted by a model


def test_questions_are_drafted_of_a_collection_and_never_asked_silently_beside_others(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    upstream.answer = _drafts
    args = draft(tmp_path, "--base-url", gateway.url)
    done = ragway(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "docs gives 5 passages, fewer than --count 20" in done.stderr
    assert "docs-questions.jsonl: 5 questions drafted of 5 passages" in done.stderr
    out = tmp_path / "docs-questions.jsonl"
    drafted = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len({row["gold"][0] for row in drafted}) == len(upstream.requests) == 5
    for row in drafted:
        assert row["drafted"]["by"] == "small"
        assert row["must"][0] in row["drafted"]["passage"]
    assert {len(asked_of(one)["messages"]) for one in upstream.requests} == {1}

    upstream.fresh().answer = _yes
    asked_now = ("bench", str(out), "--model", "small", "--base-url", gateway.url, "--mode", "raw", "--yes", *PRICE)
    done = ragway(*asked_now, "--run", str(tmp_path / "all"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    about = "Drafted by a model (small), not checked by a person: 5 of 5 questions."
    assert about in done.stderr
    assert about in done.stdout
    del drafted[0]["drafted"]
    out.write_text("".join(json.dumps(row) + "\n" for row in drafted), "utf-8")
    mixed = ragway(*asked_now, "--run", str(tmp_path / "mixed"), folder=tmp_path)
    assert "4 of 5 questions" in refused(mixed)
    assert "--mix-drafted" in mixed.stderr
    done = ragway(*asked_now, "--run", str(tmp_path / "mixed"), "--mix-drafted", folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (0, 10), done.stderr


def test_a_draft_that_was_killed_goes_on_and_a_finished_one_asks_nothing(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    args = draft(tmp_path, "--base-url", gateway.url, "--concurrency", "1")
    held = Held(upstream, 3, _drafts)
    process = started(tmp_path, *args)
    try:
        held.wait()
        process.kill()
        held.go()
    finally:
        process.kill()
        process.communicate(timeout=60)
    out = tmp_path / "docs-questions.jsonl"
    before = out.read_text("utf-8").replace("What is named", "What, please, is named")
    assert before.count("please") == 2
    out.write_text(before, "utf-8")
    upstream.answer = _drafts
    again = ragway(*args, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "1 requests were cut off in flight" in again.stderr
    assert len(upstream.requests) == 6
    assert out.read_text("utf-8").startswith(before)
    assert len(out.read_text("utf-8").splitlines()) == 5
    done = ragway(*args, folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (0, 6)
    assert "is complete" in done.stderr
    line = refused(ragway(*args, "--seed", "5", "--count", "2", folder=tmp_path))
    for told in ("--seed was 0, now 5", "count was 20, now 2", "--run"):
        assert told in line
    assert "holds drafted questions" in refused(ragway("bench", "report", str(tmp_path / "run"), folder=tmp_path))


def test_a_draft_stays_below_its_ceiling_and_goes_on_with_a_higher_one(
    gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    upstream.answer = _drafts
    args = draft(tmp_path, "--base-url", gateway.url, "--set", "max_tokens=50", "--concurrency", "1")
    done = ragway(*args, "--max-usd", "0.0018", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the ceiling does not allow for another request: the next request may use up to $" in done.stderr
    assert "are left; the same command goes on" in done.stderr
    there = len(upstream.requests)
    assert 0 < there < 5
    assert sum(row["cost_usd"] for row in rows(tmp_path)) <= 0.0018
    done = ragway(*args, "--max-usd", "1", folder=tmp_path)
    assert (done.returncode, len(upstream.requests)) == (0, 5), done.stderr


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("nowhere",), "the collection 'nowhere' cannot be read: 404"), (("docs", "--model", "unknown"), "404"),
        (("docs", "--max-usd", "1", "--price", "other=1,2"), "--set max_tokens=NUMBER"),
        (("docs", "--out", "there.jsonl"), "name another file with --out"),
        (("docs", "--prompt", "there.jsonl"), "must contain {title} exactly once"),
    ],
)  # fmt: skip
def test_what_cannot_be_drafted_is_told_and_writes_nothing(
    more: Sequence[str], told: str, gateway: Served, upstream: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "there.jsonl").write_text("mine", "utf-8")
    args = ["bench", "draft", *more, "--base-url", gateway.url, "--run", str(tmp_path / "run"), "--yes"]
    done = ragway(*args, *(() if "--model" in more else ("--model", "small")), *PRICE, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert (tmp_path / "there.jsonl").read_text("utf-8") == "mine"
    assert upstream.requests == []


def draft(folder: Path, *more: str) -> list[str]:
    """The arguments of a draft of the corpus."""
    return ["bench", "draft", "docs", "--model", "small", "--run", str(folder / "run"), "--yes", *PRICE, *more]


async def _drafts(wire: Wire, received: Received) -> None:
    """A model that asks for the longest word of the passage, which no other passage has."""
    passage = question_of(received).rpartition("<passage>")[2].partition("</passage>")[0]
    fact = max(re.findall(r"[A-Za-z]+", passage), key=len)
    source = question_of(received).rpartition("<source>")[2].partition("</source>")[0].strip()
    row = {"question": f"What is named in {source}?", "reference": f"It is {fact}.", "facts": [fact]}
    await wire.send(streamed(json.dumps(row)))
