"""Raw measurements to Markdown: medians, percentiles, and intervals by the bootstrap over paired rounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import CONNECTIONS, IDEAL_S, Latencies, Streams, Turns
from benchmarks.mock_upstream import CHUNKS, PACE_S

_RESAMPLES = 1000
_RIVAL = "litellm"
_OF_THE_GATEWAY = ("parse", "retrieval", "upstream")  # the others are parts of retrieval, told in their order
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Start:
    """One start of a server."""

    ready_s: float
    first_reply_s: float  # from the start of the process
    rss_ready_mb: dict[str, float]  # by process: server, index
    rss_replied_mb: dict[str, float]


@dataclass(slots=True)
class Results:
    """Everything measured; `--json` writes it as it is."""

    conditions: dict[str, object]
    titles: dict[str, str]  # of the systems, in the order of the tables
    starts: dict[str, list[Start]]
    latency: Latencies
    burst: Latencies
    throughput: dict[str, Turns]
    streams: dict[str, Streams]
    rss_end_mb: dict[str, dict[str, float]]


def markdown(results: Results) -> str:
    """The tables."""
    conditions = results.conditions
    told = ", ".join(f"{name} {value}" for name, value in conditions.items() if name not in ("loaded", "seed"))
    warning = ["**Taken on a loaded machine: not to be quoted.**"] if conditions["loaded"] else []
    parts = [
        "# Relay benchmark", told, *warning, *_latency(results), *_throughput(results), *_streams(results),
        *_starts(results), *_stages(results),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _latency(results: Results) -> list[str]:
    rows = []
    for kind, measured in (("", results.latency), (f", stream of {CHUNKS} chunks at once", results.burst)):
        ms = {key: np.asarray(seconds) * 1000 for key, seconds in measured.seconds.items()}
        for key, title in results.titles.items():
            row = [title + kind, _number(np.percentile(ms[key], 50)), _number(np.percentile(ms[key], 99))]
            if key == "direct":
                rows.append([*row, "", "", ""])
                continue
            added = ms[key] - ms["direct"]
            low, high = interval(_median, added)
            p50, p99 = _number(np.median(added)), _number(np.percentile(added, 99))
            rows.append([*row, f"{p50} ({_number(low)}–{_number(high)})", p99, _ratio(ms, key)])
    rounds = len(results.latency.seconds["direct"]), len(results.burst.seconds["direct"])
    return [
        "## Latency, one request at a time",
        f"{rounds[0]} paired rounds, {rounds[1]} of streams; milliseconds to the last byte. Added: the difference to "
        "direct within a round. In brackets: 95 % interval of the bootstrap over rounds.",
        table(["", "p50", "p99", "added p50", "added p99", "LiteLLM adds, times"], rows),
    ]


def _ratio(ms: Mapping[str, Floats], key: str) -> str:
    """How many times as much LiteLLM adds, by the median."""
    if _RIVAL not in ms or key == _RIVAL:
        return ""
    rival, ours = ms[_RIVAL] - ms["direct"], ms[key] - ms["direct"]
    low, high = interval(lambda r, o: _median(r) / _median(o), rival, ours)
    if low < 0:  # what ours adds is within the noise of some resamples: a ratio to nothing
        return "not resolved"
    return f"{np.median(rival) / np.median(ours):.1f} ({low:.1f}–{high:.1f})"


def _throughput(results: Results) -> list[str]:
    rows = []
    for key, title in results.titles.items():
        turns = results.throughput[key]
        rates = [n / s for n, s in zip(turns.replies, turns.seconds, strict=True)]
        cpu = _cpu(turns, per_reply=1)
        p50, p99 = (_number(np.median(s) * 1000) for s in (turns.p50_s, turns.p99_s))
        rows.append([title, _spread(rates), p50, p99, *cpu, f"{np.median(turns.upstream_body_bytes):.0f}"])
    rounds = len(results.throughput["direct"].replies)
    return [
        f"## Throughput, {CONNECTIONS} connections",
        f"Median of {rounds} rounds of about {results.throughput['direct'].seconds[0]:.0f} s (lowest–highest). Load "
        "generator and upstream share the cores with the server, so the CPU time says more than the rate.",
        table(["", "replies/s", "p50 ms", "p99 ms", "CPU µs/request", "of it index", "bytes to upstream"], rows),
    ]


def _streams(results: Results) -> list[str]:
    rows = []
    for key, title in results.titles.items():
        turns = results.streams[key]
        first = np.asarray(turns.first_byte_s) * 1000
        stretch = np.asarray(turns.last_byte_s) / IDEAL_S
        rows.append([title, *_cpu(turns, per_reply=CHUNKS), _number(np.percentile(first, 50)),
                     _number(np.percentile(first, 99)), f"{np.percentile(stretch, 99):.3f}"])  # fmt: skip
    rounds = len(results.streams["direct"].replies)
    return [
        f"## {CONNECTIONS} streams of {CHUNKS} chunks, {PACE_S * 1000:.0f} ms apart",
        f"{rounds} rounds; the streams of a round begin {PACE_S * 1000 / CONNECTIONS:.2f} ms apart, so that their "
        f"chunks do not come in step. Stretch: duration over {IDEAL_S:.2f} s.",
        table(["", "CPU µs/chunk", "of it index", "first byte p50 ms", "p99 ms", "stretch p99"], rows),
    ]


def _cpu(turns: Turns, *, per_reply: int) -> list[str]:
    """Microseconds for each unit, of all processes and of the index process."""
    if not turns.cpu_s[0]:
        return ["", ""]
    units = [replies * per_reply for replies in turns.replies]
    whole = [sum(cpu.values()) * 1e6 / n for cpu, n in zip(turns.cpu_s, units, strict=True)]
    index = [cpu.get("index", 0.0) * 1e6 / n for cpu, n in zip(turns.cpu_s, units, strict=True)]
    return [_spread(whole), _spread(index) if any(index) else ""]


def _starts(results: Results) -> list[str]:
    rows = []
    for key, starts in results.starts.items():
        last = starts[-1]
        rows.append([results.titles[key], _spread([s.ready_s for s in starts]),
                     _spread([s.first_reply_s for s in starts]), _memory(last.rss_ready_mb),
                     _memory(last.rss_replied_mb), _memory(results.rss_end_mb[key])])  # fmt: skip
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
    rows = [[stage, *(_number(np.percentile(stages[stage], q)) for q in (50, 99))] for stage in order]
    return [
        "## Stages with retrieval on",
        "Milliseconds, one request at a time, as the `Server-Timing` header tells them. `retrieval` is the whole of "
        "the stages from `rewrite` to `pack` and the way to the index process and back.",
        table(["", "p50", "p99"], rows),
    ]


def interval(statistic: Callable[..., Floats], *samples: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of a statistic along the last axis, rounds resampled together (Efron 1979)."""
    random = np.random.default_rng(0)
    rounds = len(samples[0])
    drawn = []
    for _ in range(_RESAMPLES):
        rows = random.integers(rounds, size=rounds)
        drawn.append(float(statistic(*(sample[rows] for sample in samples))))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _median(sample: Floats) -> Floats:
    return np.asarray(np.median(sample), np.float64)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and figures to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(values: Sequence[float]) -> str:
    middle = _number(float(np.median(values)))
    return middle if len(values) == 1 else f"{middle} ({_number(min(values))}–{_number(max(values))})"


def _memory(rss_mb: Mapping[str, float]) -> str:
    return " + ".join(f"{mb:.0f}" for mb in rss_mb.values())


def _number(value: float | np.float64) -> str:
    """Three digits that mean something."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
