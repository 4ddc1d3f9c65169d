"""All measurements of a run, and the figures computed for the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.common.bootstrap import Floats
from benchmarks.relay.measure import Latencies, Streams, Turns


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a server."""

    ready_s: float
    first_reply_s: float  # from the start of the process
    rss_ready_mb: dict[str, float]  # by role: server, index
    rss_replied_mb: dict[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """The measurements of a run, by system; `workers` has only `off` and `two`."""

    conditions: dict[str, object]
    titles: dict[str, str]  # of the systems, in the order of the tables
    starts: dict[str, list[Start]]
    latency: Latencies
    alternating: Latencies  # like `latency`, in blocks of one request
    burst: Latencies
    throughput: dict[int, dict[str, Turns]]  # by number of connections
    streams: dict[int, dict[str, Streams]]  # by number of streams
    workers: dict[str, Turns]  # all cores for all
    rss_end_mb: dict[str, dict[str, float]]

    def raw(self) -> dict[str, Any]:
        """All measurements as plain values; the gaps within streams (millions) as three percentiles per round."""
        made = asdict(self)
        for count, systems in self.streams.items():
            for key, streams in systems.items():
                pooled = [np.concatenate(gaps) for gaps in streams.gaps_s]
                made["streams"][count][key]["gaps_s"] = [
                    {f"p{q}": float(np.percentile(gaps, q)) for q in (50, 99, 100)} for gaps in pooled if len(gaps)
                ]
        return made


def block_medians(latencies: Latencies, key: str) -> Floats:
    """Seconds, one value per round."""
    return _floats([float(np.median(block)) for block in latencies.seconds[key]])


def added(latencies: Latencies, key: str) -> Floats:
    """Seconds that a system adds to direct in each round, from the medians of the round's requests."""
    return np.subtract(block_medians(latencies, key), block_medians(latencies, "direct"))


def rates(turns: Turns) -> Floats:
    """Replies a second of each round."""
    return np.divide(_floats(turns.replies), _floats(turns.seconds))


def capacities(turns: Turns) -> Floats:
    """Replies per CPU second of the busiest process: the rate of the server with the cores to itself."""
    return np.divide(_floats(turns.replies), _floats(turns.busiest_s))


def cpu_us(turns: Turns, *, per_reply: int = 1, role: str | None = None) -> Floats:
    """Microseconds of CPU time per unit, per round; of all roles or of one role."""
    spent = [sum(cpu.values()) if role is None else cpu.get(role, 0.0) for cpu in turns.cpu_s]
    return np.divide(_floats(spent), _floats(turns.replies)) * (1e6 / per_reply)


def busy(turns: Turns) -> Floats:
    """Cores the server used, of each round."""
    return np.divide(_floats([sum(cpu.values()) for cpu in turns.cpu_s]), _floats(turns.seconds))


def of_streams(rounds: Sequence[Sequence[float]]) -> list[list[Floats]]:
    """One value per stream, in the form of `bootstrap.nested_interval`."""
    return [[np.asarray([value]) for value in streams] for streams in rounds]


def pooled(rounds: Sequence[Sequence[Floats]]) -> Floats:
    """All values of all streams of all rounds."""
    return np.concatenate([values for streams in rounds for values in streams])


def total(megabytes: Mapping[str, float]) -> float:
    """Of all roles."""
    return sum(megabytes.values())


def _floats(values: Sequence[float]) -> Floats:
    return np.asarray(values, np.float64)
