"""Counters for `/metrics`: requests, degraded chats, upstream errors, refusals by limits, usage rows, stages, more.

Every label has a closed set of values, none from clients: models and upstreams come from the settings. So each number
has a fixed cell in one block of memory, and counting is an addition, far cheaper than prometheus_client's own counters.
That library only writes the text. Each worker has a block in a file in a shared folder, and whoever answers `/metrics`
adds all blocks up, so the numbers cover the whole gateway. A worker that replaces a dead one continues its block, so no
counter falls.
"""

import itertools
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from proxy.asgi import CLIENT_LEFT
from proxy.augment.middleware import DEGRADED
from proxy.caller import MEASURES
from proxy.dialects.target import Lane
from proxy.exchange import ActionTrace, CallOutcome, Exchange, OfferResult, RagStatus, durations_ms
from proxy.observe.processes import Processes

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
LANES = (*get_args(Lane), "none")
STATUSES = tuple(status or "none" for status in get_args(RagStatus))
CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")  # none: no answer reached the client
REASONS = tuple(reason for _, reason in DEGRADED)
UPSTREAM_ERRORS = (
    "upstream_unreachable", "upstream_timeout", "upstream_closed", "upstream_bad_reply", "upstream_cut",
    "upstream_garbled", "upstream_too_large", "upstream_redirect", "upstream_error",
)  # fmt: skip
# Kinds of `Exchange.steps` that are measured, in running order.
STAGES = (
    "parse", "history", "retrieval", "rewrite", "rewrite_model", "embed", "search", "fuse", "rerank", "pack",
    "action_search", "translate", "upstream", "action", "total",
)  # fmt: skip
LIMITED = (*MEASURES, "unavailable")  # unavailable: accounts cannot be reached
ROWS = ("written", "lost")  # usage, receipts and histories
# Comparisons: stored, lost, or not made for a reason.
COMPARISONS = (
    "written", "lost", "nothing injected", "unsuited", "not allowed", "busy", "budget", "unreadable", "unfinished",
)  # fmt: skip
# An upstream reply's; 2xx and so on for all others, none without a reply.
UPSTREAM_STATUSES = ("401", "403", "404", "408", "413", "429", "500", "502", "503", "504", *CLASSES)
_MOST_ROWS = 500  # in `models`; calls of further rows count as "other"
OFFERS = get_args(OfferResult)
OUTCOMES = get_args(CallOutcome)
ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 15)  # histogram bounds
BOUNDS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)
_CELL_BYTES = 8


@dataclass(slots=True)
class _Family:
    """A metric: cells for each combination of its label values. Without `gauge` or `bounds`, a counter."""

    name: str
    text: str
    labels: str = ""  # separated by spaces
    keys: Iterable[tuple[str, ...]] = ((),)
    sparse: bool = False  # leave out combinations never counted
    gauge: bool = False
    bounds: Sequence[float] = ()  # a histogram's: a cell per bucket, +Inf included, and the sum in thousandths
    unit: int = 1  # how many units of a bound make one written unit
    width: int = field(init=False)  # cells per combination
    places: Mapping[tuple[str, ...], int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.width = len(self.bounds) + 2 if self.bounds else 1

    def place(self, at: int) -> int:
        """Give combinations their cells, from `at` on; returns the next free cell."""
        self.places = dict(zip(self.keys, itertools.count(at, self.width), strict=False))
        return at + len(self.places) * self.width

    def collect(self, cells: Sequence[int]) -> Metric:
        written = [(key, cells[at : at + self.width]) for key, at in self.places.items()]
        written = [(key, values) for key, values in written if any(values) or not self.sparse]
        name, labels = f"ragway_{self.name}", self.labels.split()
        if self.bounds:
            histogram = HistogramMetricFamily(name, self.text, labels=labels)
            names = [*(f"{bound / self.unit:g}" for bound in self.bounds), "+Inf"]
            for key, values in written:
                counts = map(float, itertools.accumulate(values[:-1]))
                histogram.add_metric(key, [*zip(names, counts, strict=True)], values[-1] / (1000 * self.unit))
            return histogram
        family = (GaugeMetricFamily if self.gauge else CounterMetricFamily)(name, self.text, labels=labels)
        for key, (value,) in written:
            family.add_metric(key, value)
        return family


def _families(sets: Sequence[str], upstreams: Mapping[str, str]) -> Iterator[_Family]:
    """All metrics. upstreams: row of `models` -> host or provider."""
    seconds = partial(_Family, bounds=BOUNDS_MS, unit=1000)
    requests = itertools.product(LANES, STATUSES, CLASSES)
    calls = itertools.product(dict.fromkeys((*sets, "none")), OUTCOMES)  # none: the call belongs to no set
    changes = itertools.product(sets, OUTCOMES)
    rows = list(upstreams.items())
    replies = [(*row, status) for row in rows for status in UPSTREAM_STATUSES]
    yield _Family("requests", "Requests under /v1/ that are over.", "lane rag_status status", requests, sparse=True)
    yield _Family("degraded", "Chats for which retrieval failed, by x-rag-reason.", "reason", zip(REASONS))
    yield _Family("upstream_errors", "Upstreams that gave no reply or not all of it.", "code", zip(UPSTREAM_ERRORS))
    yield _Family("limited", "Requests refused for a limit of their key.", "limit", zip(LIMITED))
    yield _Family("usage_rows", "Rows of usage, by what became of them.", "outcome", zip(ROWS))
    yield _Family("receipts", "Receipts, by what became of them.", "outcome", zip(ROWS))
    yield _Family("histories", "Histories of stored conversations, by what became of them.", "outcome", zip(ROWS))
    yield _Family("comparisons", "Shadow comparisons, by outcome.", "outcome", zip(COMPARISONS))
    yield _Family("action_offers", "Chats with action sets, by whether operations were offered.", "result", zip(OFFERS))
    yield _Family("client_disconnects", "Clients that left before their reply was whole.")
    yield seconds("stage_seconds", "Time spent in each stage of a request.", "stage", zip(STAGES))
    yield _Family("action_calls", "Calls of operations, by set and outcome.", "set outcome", calls, sparse=True)
    yield _Family(
        "action_changes", "Sent calls that change something, by set and outcome.", "set outcome", changes, sparse=True
    )
    yield seconds("action_call_seconds", "Time of a call that was sent, with retries.")
    yield _Family("action_rounds", "Calls of the model in a chat with operations.", bounds=ROUNDS)
    yield _Family("requests_in_flight", "Requests being answered now.", gauge=True)
    yield _Family(
        "upstream_replies",
        "Requests for an upstream, by the row of `models` and the status of the last reply.",
        "model upstream status",
        replies,
        sparse=True,
    )
    yield seconds("upstream_seconds", "Time until an upstream's reply began.", "model upstream", rows, sparse=True)


class Metrics:
    """This process's counters, and their sums over all processes that share a folder."""

    def __init__(
        self,
        folder: Path | None = None,
        worker: int = 0,
        *,
        sets: Sequence[str] = (),
        upstreams: Mapping[str, str] | None = None,
        data: Path | None = None,
    ) -> None:
        """folder: shared by workers; None: this process is the only one. sets: configured action sets.

        upstreams: row of `models` -> host or provider. data: the data folder, for its free space.
        """
        self._folder, self._data, self._sets = folder, data, frozenset(sets)
        rows = dict(list((upstreams or {}).items())[:_MOST_ROWS])
        self._rows = {**rows, "other": "other"} if rows else {}
        self._families = {one.name: one for one in _families(sets, self._rows)}
        self._size = 0
        for one in self._families.values():
            self._size = one.place(self._size)
        self._cells = _block(None if folder is None else folder / f"{worker}.cells", self._size)
        self._in_flight = self._families["requests_in_flight"].places[()]
        self._stages = {stage: at for (stage,), at in self._families["stage_seconds"].places.items()}
        self._cells[self._in_flight] = 0
        self.usage_rows = partial(self._kept, "usage_rows")
        self.receipts = partial(self._kept, "receipts")
        self.histories = partial(self._kept, "histories")
        self.comparisons = partial(self._kept, "comparisons")

    def begun(self) -> None:
        """Count a request in flight."""
        self._cells[self._in_flight] += 1

    def ended(self, exchange: Exchange) -> None:
        """Count a request that is over."""
        self._cells[self._in_flight] -= 1
        if not exchange.path.startswith("/v1/"):
            return
        target = exchange.target
        lane = target.lane if target is not None else "none"
        self._add("requests", lane, exchange.rag_status or "none", _class_of(exchange.status))
        if exchange.rag_status == "degraded":
            self._add("degraded", exchange.rag_reason if exchange.rag_reason in REASONS else "internal error")
        if (code := exchange.error.partition(":")[0]) and code in UPSTREAM_ERRORS:
            self._add("upstream_errors", code)
        elif exchange.error == CLIENT_LEFT:
            self._add("client_disconnects")
        if exchange.limited:
            self._add("limited", exchange.limited)
        stages_ms, total_ms = durations_ms(exchange.steps), exchange.elapsed_ms()
        for stage, ms in stages_ms.items():
            if (at := self._stages.get(stage)) is not None:
                self._observe(at, ms)
        self._observe(self._stages["total"], total_ms)
        if target is not None and self._rows:
            self._upstream(exchange, target.row)
        if exchange.action_trace is not None:
            self._actions(exchange.action_trace)

    def _upstream(self, exchange: Exchange, row: str) -> None:
        """Count the upstream's last reply, and how long each reply took to begin."""
        row = row if row in self._rows else "other"
        waits = [step.duration_ms or 0.0 for step in exchange.steps if step.kind == "upstream"]
        if not waits:
            return
        status = str(exchange.upstream_status)
        status = status if status in UPSTREAM_STATUSES else _class_of(exchange.upstream_status)
        self._add("upstream_replies", row, self._rows[row], status)
        at = self._families["upstream_seconds"].places[row, self._rows[row]]
        for ms in waits:
            self._observe(at, ms)

    def _actions(self, trace: ActionTrace) -> None:
        rounds, seconds = self._families["action_rounds"], self._families["action_call_seconds"]
        if trace.offer:
            self._add("action_offers", trace.offer)
        if trace.rounds:
            self._observe(rounds.places[()], len(trace.rounds), ROUNDS)
        for call in trace.calls:
            self._add("action_calls", call.set if call.set in self._sets else "none", call.outcome)
            if call.sent and call.changes and call.set in self._sets:
                self._add("action_changes", call.set, call.outcome)
            if call.sent and call.duration_ms is not None:
                self._observe(seconds.places[()], call.duration_ms)

    def not_compared(self, why: str) -> None:
        """Count a wanted comparison that was not made, by reason."""
        self._add("comparisons", why)

    def _kept(self, name: str, *, written: int = 0, lost: int = 0) -> None:
        """Count rows: stored, or lost."""
        self._add(name, "written", number=written)
        self._add(name, "lost", number=lost)

    def _add(self, name: str, *labels: str, number: int = 1) -> None:
        self._cells[self._families[name].places[labels]] += number

    def _observe(self, at: int, value: float, bounds: Sequence[float] = BOUNDS_MS) -> None:
        """Count a value in its bucket, and add it to the sum. at: a histogram's first cell."""
        cells = self._cells
        cells[at + bisect_left(bounds, value)] += 1
        cells[at + len(bounds) + 1] += int(value * 1000 + 0.5)

    def text(self, *, ready: bool) -> bytes:
        """Everything in Prometheus' text format."""
        cells = self._sums()
        families = [one.collect(cells) for one in self._families.values()]
        readiness = GaugeMetricFamily("ragway_ready", "1 if /readyz is 200, else 0.", int(ready))
        return generate_latest(_Collected([*families, readiness, *Processes(self._data).collect()]))

    def _sums(self) -> Sequence[int]:
        if self._folder is None:
            return self._cells.tolist()
        blocks = [_block(file, self._size).tolist() for file in sorted(self._folder.glob("*.cells"))]
        return [sum(cells) for cells in zip(*blocks, strict=True)]


def _class_of(status: int) -> str:
    kind = status // 100
    return CLASSES[kind if kind < len(CLASSES) else 0]


def _block(file: Path | None, cells: int) -> "memoryview[int]":
    """A file's cells, all 0 if it is new; None: cells in memory."""
    size = cells * _CELL_BYTES
    if file is None:
        return memoryview(bytearray(size)).cast("q")
    with file.open("a+b") as opened:
        opened.truncate(size)
        return memoryview(mmap.mmap(opened.fileno(), size)).cast("q")


class _Collected(NamedTuple):
    metrics: list[Metric]

    def collect(self) -> list[Metric]:
        return self.metrics
