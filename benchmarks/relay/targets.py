"""The gateway's targets: each measure with the peer in the same run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.common.bootstrap import Floats, Interval, interval, nested_interval, ratio
from benchmarks.common.mock_upstream import CHUNKS
from benchmarks.relay.measure import IDEAL_S, Turns
from benchmarks.relay.results import Results, added, capacities, cpu_us, of_streams, pooled, rates, total

PEERS = {"litellm": "LiteLLM proxy", "httpx": "ASGI + httpx"}
HEAD = ["measure", "peer", "peer's", "ours", "comparison", "95 % interval", "must reach", "reached"]
_ADDED_TIMES = 50.0
_RATE_TIMES = {"litellm": 40.0, "httpx": 6.0}
_CHUNK_TIMES = {"litellm": 10.0, "httpx": 2.0}
_STRETCH = 1.05
_GAP_MS = 2.0
_START_TIMES = 8.0
_MEMORY_TIMES = 5.0
_WORKERS_TIMES = 1.6


@dataclass(frozen=True, slots=True)
class Target:
    """One measure. `value` compares ragway with the peer; `limit` is the target."""

    measure: str
    peer: str
    theirs: str
    ours: str
    value: float
    interval: Interval
    limit: float
    unit: str  # "times": at least; any other unit: at most

    @property
    def reached(self) -> bool:
        """Whether the value reaches the limit."""
        return self._reaches(self.value)

    @property
    def sure(self) -> bool:
        """Whether all of the interval is on the value's side of the limit."""
        return all(self._reaches(end) == self.reached for end in self.interval)

    def cells(self) -> list[str]:
        """As a row under HEAD."""
        unit = f" {self.unit}" if self.unit else ""
        low, high = (figure(end) for end in self.interval)
        must = f"{'at least' if self.unit == 'times' else 'at most'} {self.limit:g}{unit}"
        verdict = ("yes" if self.reached else "no") + ("" if self.sure else ", but the interval spans it")
        span = low if low == high else f"{low}–{high}"
        return [self.measure, self.peer, self.theirs, self.ours, f"{figure(self.value)}{unit}", span, must, verdict]

    def _reaches(self, value: float) -> bool:
        return value >= self.limit if self.unit == "times" else value <= self.limit


def targets(results: Results) -> list[Target]:
    """The targets with measurements of all needed systems, in the order of the table."""
    return [
        *_latency(results),
        *_throughput(results),
        *_chunks(results),
        *_stretch(results),
        *_gaps(results),
        *_starts(results),
        *_workers(results.workers),
    ]


def more(measure: str, peer: str, limit: float, ours: Floats, theirs: Floats, unit: str) -> Target:
    """ragway must reach a multiple of the peer; item i of both belongs to round i."""
    times, ends = float(ratio(ours, theirs)), interval(ratio, ours, theirs)
    return Target(measure, peer, _median(theirs, unit), _median(ours, unit), times, ends, limit, "times")


def less(measure: str, peer: str, limit: float, ours: Floats, theirs: Floats, unit: str) -> Target:
    """The peer must need a multiple of ragway."""
    times, ends = float(ratio(theirs, ours)), interval(ratio, theirs, ours)
    return Target(measure, peer, _median(theirs, unit), _median(ours, unit), times, ends, limit, "times")


def figure(value: float) -> str:
    """Three significant digits."""
    if value in (0, float("inf")):
        return "∞" if value else "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _latency(results: Results) -> Iterator[Target]:
    seconds = results.latency
    if not {"off", "litellm"} <= seconds.seconds.keys():
        return
    ms = {key: added(seconds, key) * 1000 for key in seconds.seconds}
    peer = PEERS["litellm"]
    yield less("added p50, 1 KB request, one at a time", peer, _ADDED_TIMES, ms["off"], ms["litellm"], "ms")
    if "on" in ms:
        what = f"added p50 with retrieval on, {results.conditions['chunks']:,} chunks"
        yield less(what, peer + " without", 1.0, ms["on"], ms["litellm"], "ms")


def _throughput(results: Results) -> Iterator[Target]:
    for connections, turns in results.throughput.items():
        for peer, times in _RATE_TIMES.items():
            if {"off", peer} <= turns.keys():
                what = f"requests/s, {connections} connections"
                yield more(what, PEERS[peer], times, rates(turns["off"]), rates(turns[peer]), "/s")


def _chunks(results: Results) -> Iterator[Target]:
    streams = results.streams.get(64, {})
    for peer, times in _CHUNK_TIMES.items():
        if {"off", peer} <= streams.keys():
            ours, theirs = (cpu_us(streams[key], per_reply=CHUNKS) for key in ("off", peer))
            yield less("CPU per chunk, 64 paced streams", PEERS[peer], times, ours, theirs, "µs")


def _stretch(results: Results) -> Iterator[Target]:
    streams = results.streams.get(256, {})
    if not {"off", "direct"} <= streams.keys():
        return
    rounds = {key: of_streams(streams[key].last_byte_s) for key in ("off", "direct")}
    ours, theirs = (_p99(pooled(rounds[key])) / IDEAL_S for key in ("off", "direct"))
    low, high = nested_interval(_p99, rounds["off"])
    yield Target(
        "duration of 256 paced streams at p99, of what was sent, server on one core",
        "direct",
        f"{theirs:.3f}",
        f"{ours:.3f}",
        ours,
        (low / IDEAL_S, high / IDEAL_S),
        _STRETCH,
        "",
    )
    lost = [sum(streams[key].frames_lost) for key in ("off", "direct")]
    yield Target("frames lost in them", "direct", str(lost[1]), str(lost[0]), lost[0], (lost[0], lost[0]), 0, "")


def _gaps(results: Results) -> Iterator[Target]:
    for count, streams in results.streams.items():
        if not {"off", "direct"} <= streams.keys():
            continue
        ours, theirs = (streams[key].gaps_s for key in ("off", "direct"))
        p99s = [_p99(pooled(rounds)) * 1000 for rounds in (theirs, ours)]
        low, high = nested_interval(lambda o, t: _p99(o) - _p99(t), ours, theirs)
        yield Target(
            f"gap between chunks at p99, {count} streams: above the upstream's",
            "direct",
            f"{p99s[0]:.2f} ms",
            f"{p99s[1]:.2f} ms",
            p99s[1] - p99s[0],
            (low * 1000, high * 1000),
            _GAP_MS,
            "ms",
        )


def _starts(results: Results) -> Iterator[Target]:
    if not {"off", "litellm"} <= results.starts.keys():
        return
    peer, starts = PEERS["litellm"], results.starts
    first_s = {key: np.asarray([start.first_reply_s for start in starts[key]]) for key in starts}
    yield less("start of the process to first reply", peer, _START_TIMES, first_s["off"], first_s["litellm"], "s")
    first_mb = {key: np.asarray([total(start.rss_replied_mb) for start in starts[key]]) for key in starts}
    what = "resident memory after the first reply"
    yield less(what, peer, _MEMORY_TIMES, first_mb["off"], first_mb["litellm"], "MB")
    end_mb = {key: np.asarray([total(results.rss_end_mb[key])]) for key in starts}
    yield less("resident memory after all the load", peer, _MEMORY_TIMES, end_mb["off"], end_mb["litellm"], "MB")


def _workers(turns: Mapping[str, Turns]) -> Iterator[Target]:
    if not {"off", "two"} <= turns.keys():
        return
    measures: dict[str, Callable[[Turns], Floats]] = {
        "requests/s of 2 workers, as measured": rates,
        "requests/s of 2 workers, as their CPU time allows": capacities,
    }
    for what, of in measures.items():
        yield more(what, "ragway, 1 worker", _WORKERS_TIMES, of(turns["two"]), of(turns["off"]), "/s")


def _p99(values: Floats) -> float:
    return float(np.percentile(values, 99))


def _median(values: Floats, unit: str) -> str:
    return figure(float(np.median(values))) + ("/s" if unit == "/s" else f" {unit}")
