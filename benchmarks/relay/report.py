"""The tables as Markdown: the targets first, then every measurement with all systems."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.common.bootstrap import Floats, interval, median, ratio
from benchmarks.common.mock_upstream import CHUNKS, PACE_S
from benchmarks.common.output import table
from benchmarks.relay.measure import IDEAL_S, Streams, Turns
from benchmarks.relay.results import (
    Results,
    added,
    block_medians,
    busy,
    capacities,
    cpu_us,
    pooled,
    rates,
)
from benchmarks.relay.targets import HEAD, figure, targets

_RIVAL = "litellm"
_OF_THE_GATEWAY = ("parse", "retrieval", "upstream")  # the other stages are parts of retrieval, in order
_CLIENTS = ("off", "httpx", "httpx2", "aiohttp")


def markdown(results: Results) -> str:
    """The tables."""
    conditions = results.conditions
    told = ", ".join(f"{name} {value}" for name, value in conditions.items() if name != "warnings")
    warnings = [f"**Not to be quoted: {warning}**" for warning in _warnings(conditions)]
    parts = [
        "# Relay benchmark", told, *warnings, *_targets(results), *_before(results), *_clients(results),
        *_latency(results), *_throughput(results), *_streams(results), *_workers(results), *_starts(results),
        *_stages(results),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _warnings(conditions: Mapping[str, object]) -> list[str]:
    warnings = conditions["warnings"]
    return list(map(str, warnings)) if isinstance(warnings, list) else []


def _targets(results: Results) -> list[str]:
    reached = targets(results)
    if not reached:
        return []
    texts = [
        "## What must be reached",
        "One worker, retrieval off where nothing else is said, every peer in this same run. Times: the peer's figure "
        "over ours, or ours over the peer's where more is better. Intervals are of the bootstrap over rounds.",
        table(HEAD, [target.cells() for target in reached]),
    ]
    if results.workers:
        texts.append(
            f"The workers' rows have no core of their own for anybody: with {results.conditions['cores']} cores, load "
            "generator and upstream take from what the workers could do, so the rate as measured is held down by "
            "them. What the CPU time allows is the replies divided by the CPU seconds of the busiest worker."
        )
    return texts


def _clients(results: Results) -> list[str]:
    """The study of HTTP clients: the same thirty lines around each, and the whole gateway around the hand-written."""
    if not {"httpx2", "aiohttp"} & results.titles.keys():
        return []
    rows = []
    for key in filter(results.titles.__contains__, _CLIENTS):
        row = [results.titles[key], figure(float(np.median(added(results.latency, key))) * 1e6)]
        row += [figure(float(np.median(rates(turns[key])))) for turns in results.throughput.values()]
        row += [_middle(cpu_us(turns[key])) for turns in results.throughput.values()]
        row += [_middle(cpu_us(streams[key], per_reply=CHUNKS)) for streams in results.streams.values()]
        rows.append([*row, *(_stretch(streams[key]) for streams in list(results.streams.values())[-1:])])
    rated, streamed = list(results.throughput), list(results.streams)
    head = ["", "added p50 µs", *(f"requests/s, {n}" for n in rated), *(f"CPU µs/request, {n}" for n in rated)]
    head += [*(f"CPU µs/chunk, {n}" for n in streamed), *(f"stretch p99, {n}" for n in streamed[-1:])]
    return [
        "## HTTP clients",
        "ragway has its hand-written client and all a gateway does; the others are thirty lines around a library's "
        "client, and do nothing but relay. The numbers in the head are connections or streams at once.",
        table(head, rows),
    ]


def _before(results: Results) -> list[str]:
    """Each figure of this checkout over the same figure of the other checkout."""
    rows = []
    for key in ("off", "on"):
        before = f"{key}-before"
        if before not in results.titles:
            continue
        kinds = {"": results.latency, ", in turn": results.alternating, ", stream": results.burst}
        for kind, measured in kinds.items():
            ms = [block_medians(measured, each) * 1000 for each in (key, before)]
            rows.append(_row(f"{key}{kind}: p50 ms", *ms))
        for connections, systems in results.throughput.items():
            now, then = systems[key], systems[before]
            name = f"{key}, {connections} connections"
            rows.append(_row(f"{name}: requests/s", rates(now), rates(then)))
            rows.append(_row(f"{name}: CPU µs/request", cpu_us(now), cpu_us(then)))
            rows += [
                _row(f"{name}: p{q} ms", np.multiply(a, 1000), np.multiply(b, 1000))
                for q, a, b in ((50, now.p50_s, then.p50_s), (99, now.p99_s, then.p99_s))
            ]
        for count, streams in results.streams.items():
            if key in streams and before in streams:
                each = [cpu_us(streams[one], per_reply=CHUNKS) for one in (key, before)]
                rows.append(_row(f"{key}, {count} streams: CPU µs/chunk", *each))
    if not rows:
        return []
    return [
        "## This checkout and the checkout before",
        "Medians over the rounds; the ratio is the median of the rounds' ratios, with its 95 % interval.",
        table(["", "before", "now", "now/before", "95 %"], rows),
    ]


def _row(name: str, now: Floats, before: Floats) -> list[str]:
    ratios = np.divide(now, before)
    low, high = interval(median, ratios)
    middles = [figure(float(np.median(values))) for values in (before, now)]
    return [name, *middles, f"{np.median(ratios):.3f}", f"{low:.3f}–{high:.3f}"]


def _latency(results: Results) -> list[str]:
    kinds = {
        "": results.latency,
        ", after another system's turn": results.alternating,
        f", stream of {CHUNKS} chunks at once": results.burst,
    }
    rows = []
    for kind, measured in kinds.items():
        ms = {key: np.concatenate(seconds) * 1000 for key, seconds in measured.seconds.items()}
        for key, title in results.titles.items():
            p50, p99 = (float(np.median(block_medians(measured, key))) * 1000, float(np.percentile(ms[key], 99)))
            row = [title + kind, figure(p50), figure(p99)]
            if key == "direct":
                rows.append([*row, "", "", ""])
                continue
            extra = added(measured, key) * 1000
            low, high = interval(median, extra)
            middle = f"{figure(float(np.median(extra)))} ({figure(low)}–{figure(high)})"
            p99_added = figure(p99 - float(np.percentile(ms["direct"], 99)))
            times = ""
            if _RIVAL in ms and key != _RIVAL:
                rival = added(measured, _RIVAL) * 1000
                low, high = interval(ratio, rival, extra)
                times = f"{figure(float(ratio(rival, extra)))} ({figure(low)}–{figure(high)})"
            rows.append([*row, middle, p99_added, times])
    shapes = [f"{len(m.seconds['direct'])} × {len(m.seconds['direct'][0])}" for m in kinds.values()]
    return [
        "## Latency, one request at a time",
        f"Rounds × requests of each system in a round: {', '.join(shapes)}. Milliseconds to the last byte. p50: the "
        "median of the rounds' medians; added: the median of the differences to direct within a round, with its 95 % "
        "interval; added p99: the difference of the percentiles of all requests. In blocks of one request, every "
        "server has been idle while the others had their turn, and its caches are cold.",
        table(["", "p50", "p99", "added p50", "added p99", "LiteLLM adds, times"], rows),
    ]


def _throughput(results: Results) -> list[str]:
    rows = []
    for connections, systems in results.throughput.items():
        for key, title in results.titles.items():
            turns = systems[key]
            p50, p99 = (figure(float(np.median(seconds)) * 1000) for seconds in (turns.p50_s, turns.p99_s))
            used = _middle(busy(turns)) if turns.cpu_s[0] else ""
            rows.append(
                [
                    f"{title}, {connections}",
                    _spread(rates(turns)),
                    p50,
                    p99,
                    *_cpu(turns, per_reply=1),
                    used,
                    f"{np.median(turns.upstream_body_bytes):.0f}",
                ]
            )
    first = next(iter(results.throughput.values()))["direct"]
    return [
        f"## Throughput, {' and '.join(map(str, results.throughput))} connections",
        f"Median of {len(first.replies)} rounds of about {first.seconds[0]:.0f} s (lowest–highest). A server that uses "
        "less than its one core has waited for load generator and upstream: its rate is theirs, and the CPU time says "
        "more.",
        table(
            ["", "requests/s", "p50 ms", "p99 ms", "CPU µs/request", "of it index", "cores used", "bytes to upstream"],
            rows,
        ),
    ]


def _streams(results: Results) -> list[str]:
    rows = [
        [f"{title}, {count}", *_stream_cells(systems[key])]
        for count, systems in results.streams.items()
        for key, title in results.titles.items()
        if key in systems and systems[key].replies
    ]
    head = ["", "CPU µs/chunk", "of it index", "first byte p50 ms", "p99 ms", "stretch p99", "gap p99 ms"]
    return [
        f"## Streams of {CHUNKS} chunks, {PACE_S * 1000:.0f} ms apart",
        f"The streams of a round begin within {PACE_S * 1000:.0f} ms, one after the other, so that their chunks do not "
        f"come in step. Stretch: duration from the request on over {IDEAL_S:.2f} s. Gap: between two reads of a "
        "stream. Reads per chunk: below 1, some chunks waited and came together, which costs less CPU: a system that "
        "cannot keep up looks cheap there. A turn in which a virtual machine's host took more than 1 % of the CPU time "
        "is measured again, five times at most, and the least disturbed counts. With retrieval on, each first byte "
        "waits for the embeddings of the questions before it.",
        table([*head, "reads per chunk", "frames lost", "rounds"], rows),
    ]


def _stream_cells(streams: Streams) -> list[str]:
    first, gaps = np.concatenate(streams.first_byte_s) * 1000, pooled(streams.gaps_s) * 1000
    count = sum(streams.replies)
    return [
        *_cpu(streams, per_reply=CHUNKS),
        *(figure(float(np.percentile(first, q))) for q in (50, 99)),
        _stretch(streams),
        figure(float(np.percentile(gaps, 99))) if len(gaps) else "",
        f"{(len(gaps) + count) / (count * CHUNKS):.2f}",
        str(sum(streams.frames_lost)),
        str(len(streams.replies)),
    ]


def _workers(results: Results) -> list[str]:
    if not results.workers:
        return ["## Workers", "Not measured: left out, or this `ragway serve` has no `--workers`."]
    titles = {"off": "1 worker", "two": "2 workers"}
    rows = [
        [titles[key], _spread(rates(turns)), _spread(capacities(turns)), _spread(cpu_us(turns)), _spread(busy(turns))]
        for key, turns in results.workers.items()
    ]
    return [
        "## Workers, 64 connections, retrieval off",
        "All cores for all: nobody is kept on a core.",
        table(["", "requests/s", "requests/s of CPU time, busiest worker", "CPU µs/request", "cores used"], rows),
    ]


def _starts(results: Results) -> list[str]:
    rows = []
    for key, starts in results.starts.items():
        last = starts[-1]
        rows.append(
            [
                results.titles[key],
                _spread([s.ready_s for s in starts]),
                _spread([s.first_reply_s for s in starts]),
                _memory(last.rss_ready_mb),
                _memory(last.rss_replied_mb),
                _memory(results.rss_end_mb[key]),
            ]
        )
    return [
        "## Start and memory",
        "Seconds from the start of the process to ready and to the first reply, median (lowest–highest); resident "
        "memory in MB, of the server + of its index process: when ready, after the first reply, after all the load.",
        table(["", "ready s", "first reply s", "MB ready", "MB first reply", "MB after load"], rows),
    ]


def _stages(results: Results) -> list[str]:
    stages = results.latency.stages_ms.get("on", {})
    if not stages:
        return []
    parts = [stage for stage in stages if stage not in _OF_THE_GATEWAY]
    order = [stage for stage in ("parse", "retrieval", *parts, "upstream") if stage in stages]
    rows = [[stage, *(figure(float(np.percentile(stages[stage], q))) for q in (50, 99))] for stage in order]
    return [
        "## Stages with retrieval on",
        "Milliseconds, one request at a time, as the `Server-Timing` header tells them. `retrieval` is the whole of "
        "the stages from `rewrite` to `pack` and the way to the index process and back.",
        table(["", "p50", "p99"], rows),
    ]


def _cpu(turns: Turns, *, per_reply: int) -> list[str]:
    """Microseconds for each unit, of all processes and of the index process."""
    if not turns.cpu_s[0]:
        return ["", ""]
    index = cpu_us(turns, per_reply=per_reply, role="index")
    return [_spread(cpu_us(turns, per_reply=per_reply)), _spread(index) if index.any() else ""]


def _stretch(streams: Streams) -> str:
    return f"{np.percentile(np.concatenate(streams.last_byte_s), 99) / IDEAL_S:.3f}"


def _middle(values: Sequence[float] | Floats) -> str:
    return figure(float(np.median(values)))


def _spread(values: Sequence[float] | Floats) -> str:
    return _middle(values) if len(values) == 1 else f"{_middle(values)} ({figure(min(values))}–{figure(max(values))})"


def _memory(rss_mb: Mapping[str, float]) -> str:
    return " + ".join(f"{mb:.0f}" for mb in rss_mb.values())
