"""The counters of `/metrics`: requests, degraded chats, upstream errors, refusals by limits, usage rows, stages, more.

Every label has a closed set of values, none from a client: models and upstreams are those of the settings. So each
number has a fixed cell in one block of memory, and counting is an addition: 6 µs a request, where prometheus_client's
own counters take 60. The library only writes the text. Each worker has a block in a file of a shared folder, and the
worker that answers `/metrics` adds all blocks up: the numbers are those of the gateway. A worker that replaces a dead
worker continues the dead worker's block, so no counter falls.
"""

import itertools
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from proxy.action_trace import ActionTrace, CallOutcome, OfferResult
from proxy.asgi import CLIENT_LEFT
from proxy.caller import MEASURES
from proxy.exchange import DegradedReason, Exchange, Lane, RagStatus, durations_ms
from proxy.observe.processes import Processes

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
LANES = (*get_args(Lane), "none")
STATUSES = tuple(status or "none" for status in get_args(RagStatus))
CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")  # none: no answer reached the client
REASONS = get_args(DegradedReason)
UPSTREAM_ERRORS = (
    "upstream_unreachable", "upstream_timeout", "upstream_closed", "upstream_bad_reply", "upstream_cut",
    "upstream_garbled", "upstream_too_large", "upstream_redirect", "upstream_error",
)  # fmt: skip
# Kinds of `Exchange.steps` that are measured, in the order they run.
STAGES = (
    "parse", "history", "retrieval", "rewrite", "rewrite_model", "embed", "search", "fuse", "rerank", "pack",
    "action_search", "translate", "upstream", "action", "total",
)  # fmt: skip
LIMITED = (*MEASURES, "unavailable")  # unavailable: the accounts cannot be reached
ROWS = ("written", "lost")  # of usage, receipts, and histories
# Comparisons: stored, lost, and not made for a reason.
COMPARISONS = (
    "written", "lost", "nothing injected", "unsuited", "not allowed", "busy", "budget", "unreadable", "unfinished",
)  # fmt: skip
# Of an upstream's reply; 2xx and so on for all others, none for no reply.
UPSTREAM_STATUSES = ("401", "403", "404", "408", "413", "429", "500", "502", "503", "504", *CLASSES)
_MOST_ROWS = 500  # of the setting `models`; calls of further rows count under "other"
OFFERS = get_args(OfferResult)
OUTCOMES = get_args(CallOutcome)
ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 15)  # bounds of the histogram
BOUNDS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)

_Name = TypeVar("_Name")


class _Layout:
    """Hands out consecutive cells of the block."""

    def __init__(self, cells: int = 0) -> None:
        self.cells = cells

    def place(self, names: Iterable[_Name], cells_each: int = 1) -> Mapping[_Name, int]:
        """Name -> the first of its cells."""
        places = {name: self.cells + at * cells_each for at, name in enumerate(names)}
        self.cells += len(places) * cells_each
        return places


_STAGE_CELLS = len(BOUNDS_MS) + 2  # a cell for each bucket, +Inf included, and the sum in microseconds
_layout = _Layout()
_REQUESTS = _layout.place(itertools.product(LANES, STATUSES, CLASSES))
_REASON = _layout.place(REASONS)
_ERROR = _layout.place(UPSTREAM_ERRORS)
_STAGE = _layout.place(STAGES, _STAGE_CELLS)
_LIMITED = _layout.place(LIMITED)
_ROWS = _layout.place(ROWS)
_RECEIPTS = _layout.place(ROWS)
_HISTORIES = _layout.place(ROWS)
_COMPARISONS = _layout.place(COMPARISONS)
_OFFERS = _layout.place(OFFERS)
_ROUNDS = _layout.place(("rounds",), len(ROUNDS) + 2)["rounds"]
_CALL = _layout.place(("call",), _STAGE_CELLS)["call"]
_SINGLE = _layout.place(("client left", "in flight"))
_LEFT, _IN_FLIGHT = _SINGLE["client left"], _SINGLE["in flight"]
CELLS = _layout.cells
_CELL_BYTES = 8
_LABELLED = (  # name, help text, label, value of the label -> cell
    ("ragway_degraded", "Chats for which retrieval failed, by x-rag-reason.", "reason", _REASON),
    ("ragway_upstream_errors", "Upstreams that gave no reply or not all of it.", "code", _ERROR),
    ("ragway_limited", "Requests refused for a limit of their key.", "limit", _LIMITED),
    ("ragway_usage_rows", "Rows of usage, by what became of them.", "outcome", _ROWS),
    ("ragway_receipts", "Receipts, by what became of them.", "outcome", _RECEIPTS),
    ("ragway_histories", "Histories of stored conversations, by what became of them.", "outcome", _HISTORIES),
    ("ragway_comparisons", "Shadow comparisons, by outcome.", "outcome", _COMPARISONS),
    ("ragway_action_offers", "Chats with action sets, by whether operations were offered.", "result", _OFFERS),
)


class Metrics:
    """The counters of this process, and the sums over all processes of the folder."""

    def __init__(
        self,
        folder: Path | None = None,
        worker: int = 0,
        *,
        sets: Sequence[str] = (),
        upstreams: Mapping[str, str] | None = None,
        data: Path | None = None,
    ) -> None:
        """folder: shared by the workers; None: this process is the only worker. sets: the configured action sets.

        upstreams: row of `models` -> host or provider. data: the data folder, for the free space.
        """
        self._folder, self._data = folder, data
        self._calls = _calls_of(sets)
        rows = dict(list((upstreams or {}).items())[:_MOST_ROWS])
        self._rows = {**rows, "other": "other"} if rows else {}
        layout = _Layout(CELLS + len(self._calls))
        self._replies = layout.place(itertools.product(self._rows, UPSTREAM_STATUSES))
        self._waits = layout.place(self._rows, _STAGE_CELLS)
        self._size = layout.cells
        self._cells = _block(None if folder is None else folder / f"{worker}.cells", self._size)
        self._cells[_IN_FLIGHT] = 0

    def begun(self) -> None:
        """Count a request in flight."""
        self._cells[_IN_FLIGHT] += 1

    def ended(self, exchange: Exchange) -> None:
        """Count a request that is over."""
        cells = self._cells
        cells[_IN_FLIGHT] -= 1
        if not exchange.path.startswith("/v1/"):
            return
        lane = exchange.target.lane if exchange.target is not None else "none"
        kind = exchange.status // 100
        status_class = CLASSES[kind if kind < len(CLASSES) else 0]
        cells[_REQUESTS[lane, exchange.rag_status or "none", status_class]] += 1
        if exchange.rag_status == "degraded":
            cells[_REASON.get(exchange.rag_reason, _REASON["internal error"])] += 1
        if exchange.error:
            self._fault(exchange.error)
        if exchange.limited:
            cells[_LIMITED[exchange.limited]] += 1
        for stage, ms in (*durations_ms(exchange.steps).items(), ("total", exchange.elapsed_ms())):
            at = _STAGE.get(stage)
            if at is not None:
                cells[at + bisect_left(BOUNDS_MS, ms)] += 1
                cells[at + _STAGE_CELLS - 1] += int(ms * 1000 + 0.5)
        if exchange.target is not None and self._rows:
            self._upstream(exchange, exchange.target.row)
        if exchange.action_trace is not None:
            self._actions(exchange.action_trace)

    def _upstream(self, exchange: Exchange, row: str) -> None:
        """Count the last reply of the upstream, and the time until each reply began."""
        row = row if row in self._rows else "other"
        waits = [step.duration_ms for step in exchange.steps if step.kind == "upstream"]
        if not waits:
            return
        status = str(exchange.upstream_status)
        if status not in UPSTREAM_STATUSES:
            kind = exchange.upstream_status // 100
            status = CLASSES[kind if kind < len(CLASSES) else 0]
        self._cells[self._replies[row, status]] += 1
        for ms in waits:
            at = self._waits[row]
            self._cells[at + bisect_left(BOUNDS_MS, ms)] += 1
            self._cells[at + _STAGE_CELLS - 1] += int(ms * 1000 + 0.5)

    def _actions(self, trace: ActionTrace) -> None:
        cells, rounds = self._cells, len(trace.rounds)
        if trace.offer:
            cells[_OFFERS[trace.offer]] += 1
        if rounds:
            cells[_ROUNDS + bisect_left(ROUNDS, rounds)] += 1
            cells[_ROUNDS + len(ROUNDS) + 1] += rounds
        for call in trace.calls:
            place = self._calls.get((call.set, call.outcome))
            cells[self._calls["none", call.outcome] if place is None else place] += 1
            if call.sent and call.duration_ms is not None:
                cells[_CALL + bisect_left(BOUNDS_MS, call.duration_ms)] += 1
                cells[_CALL + _STAGE_CELLS - 1] += int(call.duration_ms * 1000 + 0.5)

    def _fault(self, error: str) -> None:
        code = error.partition(":")[0]
        if code in _ERROR:
            self._cells[_ERROR[code]] += 1
        elif error == CLIENT_LEFT:
            self._cells[_LEFT] += 1

    def usage_rows(self, *, written: int = 0, lost: int = 0) -> None:
        """Count rows of usage: written to the accounts, or lost."""
        self._cells[_ROWS["written"]] += written
        self._cells[_ROWS["lost"]] += lost

    def receipts(self, *, written: int = 0, lost: int = 0) -> None:
        """Count receipts: stored, or lost."""
        self._cells[_RECEIPTS["written"]] += written
        self._cells[_RECEIPTS["lost"]] += lost

    def histories(self, *, written: int = 0, lost: int = 0) -> None:
        """Count histories: stored, or lost."""
        self._cells[_HISTORIES["written"]] += written
        self._cells[_HISTORIES["lost"]] += lost

    def comparisons(self, *, written: int = 0, lost: int = 0) -> None:
        """Count shadow comparisons: stored, or lost."""
        self._cells[_COMPARISONS["written"]] += written
        self._cells[_COMPARISONS["lost"]] += lost

    def not_compared(self, why: str) -> None:
        """Count a wanted comparison that was not made, by reason."""
        self._cells[_COMPARISONS[why]] += 1

    def text(self, *, ready: bool) -> bytes:
        """Everything in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self._sums(), self._calls, ready))
        registry.register(_Upstreams(self._sums(), self._rows, self._replies, self._waits))
        registry.register(Processes(self._data))
        return generate_latest(registry)

    def _sums(self) -> Sequence[int]:
        if self._folder is None:
            return self._cells.tolist()
        blocks = [_block(file, self._size).tolist() for file in sorted(self._folder.glob("*.cells"))]
        return [sum(cells) for cells in zip(*blocks, strict=True)]


def _calls_of(sets: Sequence[str]) -> Mapping[tuple[str, CallOutcome], int]:
    """(set, outcome) -> the cell, after the cells that every gateway has. "none": a call of no operation of a set."""
    return {pair: CELLS + at for at, pair in enumerate(itertools.product(dict.fromkeys((*sets, "none")), OUTCOMES))}


def _block(file: Path | None, cells: int) -> "memoryview[int]":
    """The cells of a file, all 0 in a new file; None: cells in memory."""
    size = cells * _CELL_BYTES
    if file is None:
        return memoryview(bytearray(size)).cast("q")
    with file.open("a+b") as opened:
        opened.truncate(size)
        return memoryview(mmap.mmap(opened.fileno(), size)).cast("q")


class _Collected:
    """The cells as metrics of prometheus_client."""

    def __init__(self, cells: Sequence[int], calls: Mapping[tuple[str, CallOutcome], int], ready: bool) -> None:
        self._cells = cells
        self._calls = calls
        self._ready = ready

    def collect(self) -> Iterator[Metric]:
        cells = self._cells
        requests = CounterMetricFamily(
            "ragway_requests", "Requests under /v1/ that are over.", labels=["lane", "rag_status", "status"]
        )
        for labels, at in _REQUESTS.items():
            if cells[at]:
                requests.add_metric(labels, cells[at])
        yield requests
        for name, help_text, label, places in _LABELLED:
            family = CounterMetricFamily(name, help_text, labels=[label])
            for value, at in places.items():
                family.add_metric([value], cells[at])
            yield family
        yield CounterMetricFamily(
            "ragway_client_disconnects", "Clients that left before their reply was whole.", cells[_LEFT]
        )
        yield self._stages()
        called = CounterMetricFamily(
            "ragway_action_calls", "Calls of operations, by set and outcome.", labels=["set", "outcome"]
        )
        for names, at in self._calls.items():
            if cells[at]:
                called.add_metric(names, cells[at])
        yield called
        seconds = HistogramMetricFamily("ragway_action_call_seconds", "Time of a call that was sent, with retries.")
        seconds.add_metric([], *_histogram(cells, _CALL))
        yield seconds
        rounds = HistogramMetricFamily("ragway_action_rounds", "Calls of the model in a chat with operations.")
        rounds.add_metric([], _buckets(cells, _ROUNDS, map(str, ROUNDS)), cells[_ROUNDS + len(ROUNDS) + 1])
        yield rounds
        yield GaugeMetricFamily("ragway_requests_in_flight", "Requests being answered now.", cells[_IN_FLIGHT])
        yield GaugeMetricFamily("ragway_ready", "1 where /readyz is 200, else 0.", int(self._ready))

    def _stages(self) -> Metric:
        stages = HistogramMetricFamily(
            "ragway_stage_seconds", "Time spent in each stage of a request.", labels=["stage"]
        )
        for stage, at in _STAGE.items():
            stages.add_metric([stage], *_histogram(self._cells, at))
        return stages


class _Upstreams:
    """The cells of each row of `models`."""

    def __init__(
        self,
        cells: Sequence[int],
        rows: Mapping[str, str],
        replies: Mapping[tuple[str, str], int],
        waits: Mapping[str, int],
    ) -> None:
        self._cells, self._rows, self._replies, self._waits = cells, rows, replies, waits

    def collect(self) -> Iterator[Metric]:
        labels = ["model", "upstream"]
        replies = CounterMetricFamily(
            "ragway_upstream_replies",
            "Requests for an upstream, by the row of `models` and the status of the last reply.",
            labels=[*labels, "status"],
        )
        for (row, status), at in self._replies.items():
            if self._cells[at]:
                replies.add_metric([row, self._rows[row], status], self._cells[at])
        yield replies
        seconds = HistogramMetricFamily(
            "ragway_upstream_seconds", "Time until an upstream's reply began.", labels=labels
        )
        for row, at in self._waits.items():
            if any(self._cells[at : at + _STAGE_CELLS]):
                seconds.add_metric([row, self._rows[row]], *_histogram(self._cells, at))
        yield seconds


def _histogram(cells: Sequence[int], at: int) -> tuple[list[tuple[str, float]], float]:
    """The buckets and the sum, in seconds."""
    bounds = (f"{bound / 1000:g}" for bound in BOUNDS_MS)
    return _buckets(cells, at, bounds), cells[at + _STAGE_CELLS - 1] / 1e6


def _buckets(cells: Sequence[int], at: int, bounds: Iterable[str]) -> list[tuple[str, float]]:
    """The upper bounds, +Inf included, each with the number of values up to the bound."""
    named = [*bounds, "+Inf"]
    sums = itertools.accumulate(cells[at : at + len(named)])
    return [(bound, float(count)) for bound, count in zip(named, sums, strict=True)]
