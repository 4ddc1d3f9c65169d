"""The benchmark's pure parts: intervals, the table of targets, the corpus, and when it refuses to run."""

import asyncio
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from benchmarks.common import corpus, machine, servers
from benchmarks.common.bootstrap import Floats, interval, median, nested_interval, ratio
from benchmarks.common.load import Connection, Mismatch, Reply, get
from benchmarks.common.mock_upstream import (
    CHUNKS,
    TEXT,
    completion,
    events,
    message,
    message_events,
    response,
    response_events,
)
from benchmarks.common.output import table
from benchmarks.common.workload import Expected, in_dialect, questions, words_lost
from benchmarks.relay import measure
from benchmarks.relay.dialects import PATHS
from benchmarks.relay.measure import Bench, Latencies, Streams, System, Turns
from benchmarks.relay.report import markdown
from benchmarks.relay.results import Results, Start, added, capacities, cpu_us, rates
from benchmarks.relay.targets import Target, figure, less, more, targets
from proxy.dialects.paths import BY_PATH

ROOT = Path(__file__).parents[2]
PACED_S = [0.02] * (CHUNKS - 1)


# Intervals


def test_an_interval_of_rounds_that_agree_is_a_point() -> None:
    assert interval(ratio, [8.0] * 5, [2.0] * 5) == (4.0, 4.0)


def test_an_interval_holds_the_statistic_and_narrows_with_more_rounds() -> None:
    random = np.random.default_rng(7)
    few, many = random.normal(10, 1, 20), random.normal(10, 1, 2000)
    (low, high), (lowest, highest) = interval(_mean, few), interval(_mean, many)
    assert low < _mean(few) < high
    assert lowest < 10 < highest
    assert (highest - lowest) * 4 < high - low


def test_rounds_stay_paired() -> None:
    """A disturbance that doubles both in some rounds leaves no doubt about their ratio."""
    disturbed = np.asarray([1.0, 2.0, 1.0, 5.0, 1.0, 3.0])
    assert interval(lambda a, b: median(a / b), disturbed * 3, disturbed) == (3.0, 3.0)


def test_streams_are_drawn_within_rounds() -> None:
    quiet, noisy = [np.asarray([1.0, 1.0])] * 3, [np.asarray([1.0]), np.asarray([9.0])]
    assert nested_interval(_mean, [quiet, quiet]) == (1.0, 1.0)
    low, high = nested_interval(_mean, [noisy, noisy])
    assert 1.0 <= low < 5.0 < high <= 9.0


def test_a_ratio_to_nothing_is_infinite_and_has_bounds() -> None:
    assert ratio(np.asarray([3.0]), np.asarray([0.0])) == float("inf")
    assert interval(ratio, [3.0, 3.0, 3.0], [0.0, 0.0, 1.0]) == (3.0, float("inf"))


# The table of targets


def test_fewer_milliseconds_than_the_peer_reach_a_multiple() -> None:
    target = less("added p50", "peer", 50, np.asarray([0.1, 0.2, 0.1]), np.asarray([10.0, 10.0, 10.0]), "ms")
    assert (target.value, target.reached, target.sure) == (100.0, True, True)
    assert target.cells() == [
        "added p50", "peer", "10.0 ms", "0.100 ms", "100 times", "50.0–100", "at least 50 times", "yes",
    ]  # fmt: skip


def test_more_requests_than_the_peer_reach_a_multiple() -> None:
    missed = more("requests/s", "peer", 6, np.asarray([500.0]), np.asarray([100.0]), "/s")
    assert missed.cells()[2:] == ["100/s", "500/s", "5.00 times", "5.00", "at least 6 times", "no"]


@pytest.mark.parametrize(
    ("value", "ends", "unit", "verdict"),
    [
        (1.7, (1.61, 1.8), "times", "yes"),
        (1.7, (1.5, 1.8), "times", "yes, but the interval spans it"),
        (1.5, (1.4, 1.59), "times", "no"),
        (1.5, (1.4, 1.7), "times", "no, but the interval spans it"),
        (1.5, (1.4, 1.59), "ms", "yes"),
        (1.7, (1.65, 1.8), "ms", "no"),
        (1.6, (1.6, 1.6), "times", "yes"),
        (1.6, (1.6, 1.6), "ms", "yes"),
    ],
)
def test_the_verdict_says_where_the_interval_leaves_doubt(
    value: float, ends: tuple[float, float], unit: str, verdict: str
) -> None:
    assert Target("m", "p", "", "", value, ends, 1.6, unit).cells()[-1] == verdict


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (float("inf"), "∞"),
        (0.1234, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345.0, "12,345"),
    ],
)
def test_a_figure_has_three_digits(value: float, told: str) -> None:
    assert figure(value) == told


def test_every_measure_of_the_issue_has_its_row() -> None:
    rows = {(t.measure, t.peer): t for t in targets(_results())}
    assert [(t.measure, t.peer, t.limit, t.reached) for t in rows.values()] == [
        ("added p50, 1 KB request, one at a time", "LiteLLM proxy", 50, True),
        ("added p50 with retrieval on, 10,000 chunks", "LiteLLM proxy without", 1, True),
        ("requests/s, 16 connections", "LiteLLM proxy", 40, True),
        ("requests/s, 16 connections", "ASGI + httpx", 6, True),
        ("requests/s, 64 connections", "LiteLLM proxy", 40, True),
        ("requests/s, 64 connections", "ASGI + httpx", 6, True),
        ("CPU per chunk, 64 paced streams", "LiteLLM proxy", 10, True),
        ("CPU per chunk, 64 paced streams", "ASGI + httpx", 2, True),
        ("duration of 256 paced streams at p99, of what was sent, server on one core", "direct", 1.05, True),
        ("frames lost in them", "direct", 0, True),
        ("gap between chunks at p99, 64 streams: above the upstream's", "direct", 2, True),
        ("gap between chunks at p99, 256 streams: above the upstream's", "direct", 2, True),
        ("start of the process to first reply", "LiteLLM proxy", 8, True),
        ("resident memory after the first reply", "LiteLLM proxy", 5, True),
        ("resident memory after all the load", "LiteLLM proxy", 5, True),
        ("requests/s of 2 workers, as measured", "ragway, 1 worker", 1.6, False),
        ("requests/s of 2 workers, as their CPU time allows", "ragway, 1 worker", 1.6, True),
    ]
    assert rows["added p50, 1 KB request, one at a time", "LiteLLM proxy"].value == pytest.approx(99)


def test_one_lost_frame_is_told() -> None:
    results = _results()
    results.streams[256]["off"].frames_lost[0] = 1
    (row,) = (t for t in targets(results) if t.measure == "frames lost in them")
    assert row.cells()[3:] == ["1", "1.00", "1.00", "at most 0", "no"]


def test_chunks_that_come_late_and_together_are_no_small_gap() -> None:
    results = _results()
    late = [0.02] * (CHUNKS - 11) + [0.06] * 3  # three times, three chunks came with the one that followed
    results.streams[64]["off"].gaps_s[:] = [[np.asarray(late)] * 4]
    (row,) = (t for t in targets(results) if t.measure.startswith("gap between chunks at p99, 64"))
    assert not row.reached
    assert row.value == pytest.approx(40)


def test_systems_left_out_leave_their_rows_out() -> None:
    results = _results()
    for key in ("litellm", "httpx", "on"):
        results.starts.pop(key), results.latency.seconds.pop(key)
        for turns in results.throughput.values():
            del turns[key]
        for streams in results.streams.values():
            del streams[key]
    results.workers.clear()
    assert {target.peer for target in targets(results)} == {"direct"}


def test_the_report_begins_with_the_targets_and_marks_what_is_not_to_be_quoted() -> None:
    results = _results()
    text = markdown(results)
    assert text.index("## What must be reached") < text.index("## Latency") < text.index("## Start and memory")
    assert "Not to be quoted" not in text
    results.conditions["warnings"] = ["taken on a loaded machine."]
    assert "**Not to be quoted: taken on a loaded machine.**" in markdown(results)


def test_the_report_compares_two_checkouts_within_a_round() -> None:
    results = _results()
    assert "the checkout before" not in markdown(results)
    results.titles["off-before"] = "before"
    for measured in (results.latency.seconds, *results.throughput.values(), *results.streams.values()):
        measured["off-before"] = measured["off"]  # type: ignore[index]
    results.throughput[16]["off-before"] = _turns(8_000, 1 / 8_000)
    rows = markdown(results)
    assert "| off: p50 ms | 0.150 | 0.150 | 1.000 | 1.000–1.000 |" in rows
    assert "| off, 16 connections: requests/s | 8,000 | 10,000 | 1.250 | 1.250–1.250 |" in rows


def test_the_raw_measurements_hold_percentiles_of_gaps_instead_of_each() -> None:
    raw = _results().raw()
    assert raw["streams"][64]["off"]["gaps_s"] == [{"p50": 0.02, "p99": 0.02, "p100": 0.02}]
    assert raw["throughput"][16]["off"]["replies"] == [10_000, 10_000]


def test_what_a_turn_says_is_computed_by_round() -> None:
    turns = Turns([100, 300], [1.0, 2.0], [{"server": 0.5, "index": 0.5}, {"server": 0.6}], [0.25, 0.3])
    assert rates(turns).tolist() == [100, 150]
    assert cpu_us(turns).tolist() == [10_000, 2_000]
    assert cpu_us(turns, per_reply=10, role="index").tolist() == [500, 0]
    assert capacities(turns).tolist() == [400, 1000]


def test_what_is_added_is_a_difference_within_a_round() -> None:
    latencies = Latencies({"direct": [[1.0, 1.0, 9.0], [5.0]], "off": [[2.0, 2.5, 2.0], [7.0]]}, {})
    assert added(latencies, "off").tolist() == [1.0, 2.0]


def test_a_table_is_markdown() -> None:
    assert table(["", "a"], [["x", "1"]]) == "|  | a |\n| --- | ---: |\n| x | 1 |"


# What is sent, and what comes back


def test_no_two_questions_are_alike() -> None:
    asked = questions(["The address is read once, at the start.", "A name is unknown."])
    first = [next(asked) for _ in range(1000)]
    assert len(set(first)) == 1000
    assert "The address is read once, at the start" in first[0]


def test_every_word_of_a_stream_is_missed_once() -> None:
    whole = b"".join(events())
    assert words_lost(whole) == 0
    assert words_lost(whole.replace(b' word17"', b'"')) == 1
    assert words_lost(b"") == CHUNKS - 2
    assert words_lost(b"".join(events()[: CHUNKS // 2])) == CHUNKS // 2 - 1


def test_a_reply_that_broke_off_is_wrong_even_when_its_bytes_are_right() -> None:
    check = Expected("ours", b"off", completion(), same_bytes=True).check()
    reply = Reply(status=200, headers={b"x-rag-status": b"off"}, body=bytearray(completion()))
    check(reply)
    reply.broken = "connection reset"
    with pytest.raises(Mismatch, match="ours: a reply broke off: connection reset"):
        check(reply)


def test_prose_is_kept_and_code_is_not() -> None:
    sentence = "The address of the server is read once, at the start, and a key that is not known is named. "
    code = ">>> serve(host, port)\nTrue\n>>> " + "print(1); " * 30
    short = "Too short to be worth a search."
    assert list(corpus.prose(f"{sentence * 3}\n\n  {code}\n\n{short}")) == [(sentence * 3).strip()]


def test_the_corpus_is_written_once_and_read_again(tmp_path: Path) -> None:
    texts = [f"The {number}th paragraph: # of things, in *one* line." for number in range(120)]
    corpus.write(corpus.documents(tmp_path, 120), texts)
    files = sorted(file.name for file in corpus.documents(tmp_path, 120).iterdir())
    assert files == ["notes-0000.md", "notes-0001.md"]
    assert corpus.passages(tmp_path, 120) == texts


@pytest.mark.parametrize("client", ["httpx", "httpx2", "aiohttp"])
async def test_a_hand_made_proxy_changes_no_byte_of_a_reply(client: str, tmp_path: Path) -> None:
    pytest.importorskip(client)
    with servers.mock_upstream(tmp_path) as mock:
        proxy = servers.asgi_proxy(tmp_path, client, mock.port)
        try:
            bench = Bench(mock, [System("direct", "", None), System(client, "", proxy)], questions(["a b"]), Random(1))
            measured = await bench.latency(2, block=3, stream=True)
        finally:
            proxy.stop()
    assert [len(block) for block in measured.seconds[client]] == [3, 3]


async def test_a_read_counts_once_however_many_chunks_it_brings() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        connection = await Connection.open(server.sockets[0].getsockname()[1])
        reply = await connection.ask(get("/"))
        connection.close()
    assert (bytes(reply.body), len(reply.reads_s)) == (b"ab", 1)
    assert reply.first_byte_s == reply.last_byte_s > 0


async def test_a_reply_without_the_promised_status_ends_the_measurement(tmp_path: Path) -> None:
    with servers.mock_upstream(tmp_path) as mock:
        bench = Bench(mock, [System("off", "ours", mock)], questions(["a b"]), Random(1))
        with pytest.raises(Mismatch, match="ours: expected x-rag-status b'off', got"):
            await bench.throughput(1, 0.1, connections=2)


async def test_streams_that_the_host_disturbed_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stolen = iter([0.2, 0.02, 0.0, 0.0])  # one more would be left
    monkeypatch.setattr(machine.Watch, "elsewhere", lambda self: machine.Elsewhere(0.0, next(stolen)))
    monkeypatch.setattr(measure, "PACED", servers.MODEL)
    monkeypatch.setattr(measure, "_PAUSE_S", 0.0)
    with servers.mock_upstream(tmp_path) as mock:
        bench = Bench(mock, [System("direct", "direct", None)], questions(["a b"]), Random(1))
        measured = await bench.streams(1, 3)
    assert list(stolen) == [0.0]
    assert measured["direct"].replies == [3]
    assert "the host took 20.0% of the CPU time: once more" in capsys.readouterr().err


# The machine


def test_a_busy_machine_is_refused_with_what_to_do() -> None:
    assert machine.refusal(1.0, 2) == ""
    assert machine.refusal(1.01, 2).startswith("the machine is busy: load average 1.01, expected at most 1.00 on 2")
    assert "--anyway" in machine.refusal(9.0, 2)


@pytest.mark.parametrize(
    ("usable", "server", "edge"), [({0}, {0}, {0}), ({0, 1}, {1}, {0}), ({2, 3, 5, 7}, {7}, {2, 3, 5})]
)
def test_the_server_has_a_core_of_its_own_where_there_are_two(
    usable: set[int], server: set[int], edge: set[int]
) -> None:
    cores = machine.Cores.of(usable)
    assert [set(cores.server), set(cores.edge), set(cores.every)] == [server, edge, usable]


def test_a_process_is_pinned_with_its_threads() -> None:
    code = "import sys,threading; threading.Thread(target=sys.stdin.read).start(); print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        core = frozenset({min(machine.usable_cores())})
        machine.pin([process.pid], core)
        statuses = list(Path(f"/proc/{process.pid}/task").glob("*/status"))
        allowed = {
            line for status in statuses for line in status.read_text("utf-8").splitlines() if "s_allowed_l" in line
        }
        process.communicate()
    assert len(statuses) == 2
    assert {line.split()[1] for line in allowed if line.startswith("Cpus")} == {str(min(core))}


def test_neither_others_nor_the_host_have_our_own_processes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    spent, own, clock = iter([(10.0, 1.0), (13.0, 1.4)]), iter([0.0, 2.0]), iter([0.0, 10.0])
    monkeypatch.setattr(machine, "_spent_s", lambda: next(spent))
    monkeypatch.setattr(machine, "_own_s", lambda: next(own))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    elsewhere = machine.Watch().elsewhere()
    assert [elsewhere.others, elsewhere.stolen] == pytest.approx([0.05, 0.02])
    assert elsewhere.disturbing
    assert not machine.Elsewhere(0.03, 0.01).disturbing


def test_the_kernel_tells_what_was_spent_and_stolen() -> None:
    busy, stolen = machine._spent_s()
    assert busy > 0
    assert stolen >= 0


def _mean(values: Floats) -> Floats:
    return np.asarray(np.mean(values, axis=-1), np.float64)


def _results() -> Results:
    """Of two rounds that say the same, all targets reached but the rate of two workers."""
    random = Random(1)
    added_s = {"direct": 0.0, "off": 0.0001, "on": 0.005, "litellm": 0.0099, "httpx": 0.0005}
    latency = Latencies({key: [[0.00005 + s] * 3] * 2 for key, s in added_s.items()}, {"on": {"embed": [4.0]}})
    rate = {"direct": 30_000, "off": 10_000, "on": 200, "litellm": 150, "httpx": 900}
    chunk_us = {"direct": 0, "off": 30, "on": 60, "litellm": 800, "httpx": 120}
    keys = random.sample(sorted(rate), len(rate))
    throughput = {n: {key: _turns(rate[key], 1 / rate[key]) for key in keys} for n in (16, 64)}
    streams = {n: {key: _streams(chunk_us[key] / 1e6) for key in keys} for n in (64, 256)}
    starts = {
        key: [Start(s, s, {"server": mb}, {"server": mb})] * 3
        for key, s, mb in (("off", 0.3, 36.0), ("on", 1.2, 300.0), ("litellm", 8.0, 330.0), ("httpx", 0.3, 45.0))
    }
    conditions: dict[str, object] = {"cores": 2, "chunks": 10_000, "warnings": []}
    return Results(
        conditions,
        {key: key for key in rate},
        starts,
        latency,
        latency,
        latency,
        throughput,
        streams,
        {"off": _turns(10_000, 1 / 10_000), "two": _turns(12_000, 1 / 24_000)},
        {key: last[-1].rss_replied_mb for key, last in starts.items()},
    )


def _turns(rate: int, busiest_s: float) -> Turns:
    return Turns(
        [rate] * 2, [1.0] * 2, [{"server": 1.0}] * 2, [busiest_s * rate] * 2, [900.0] * 2, [0.1] * 2, [0.2] * 2
    )


def _streams(chunk_s: float) -> Streams:
    return Streams(
        [4],
        [4.0],
        [{"server": chunk_s * CHUNKS * 4}],
        [chunk_s],
        [900.0],
        [4.0],
        [4.0],
        [[0.01] * 4],
        [[3.99] * 4],
        [[np.asarray(PACED_S)] * 4],
        [0],
    )


# Dialects


def test_every_dialect_is_measured_with_the_same_question() -> None:
    assert set(PATHS) == set(BY_PATH)
    sizes = []
    for path, dialect in BY_PATH.items():
        head, _, body = in_dialect(path, "Why?", stream=True).partition(b"\r\n\r\n")
        request = dialect.parse(body)
        read = [(each.role, each.text.partition(" ")[0]) for each in request.messages()]
        assert head.startswith(b"POST %b HTTP/1.1" % path.encode())
        assert (read, request.answer_tokens(), request.streamed) == ([("system", "You"), ("user", "Why?")], 400, True)
        sizes.append(len(body))
    assert max(sizes) < 1.05 * min(sizes)


@pytest.mark.parametrize(
    ("path", "whole", "pieces"),
    [
        ("/v1/chat/completions", completion(), events()),
        ("/v1/responses", response(), response_events()),
        ("/v1/messages", message(), message_events()),
    ],
)
def test_the_upstreams_replies_have_the_form_of_the_dialect(path: str, whole: bytes, pieces: list[bytes]) -> None:
    assert len(pieces) == CHUNKS
    for streamed, body in ((False, whole), (True, b"".join(pieces))):
        reader = BY_PATH[path].reader(streamed=streamed)
        reader.feed(body)
        reader.close()
        assert (reader.whole, reader.error) == (True, "")
        assert (reader.answer or "").split()[:2] == (["word0", "word1"] if streamed else TEXT.split()[:2])
