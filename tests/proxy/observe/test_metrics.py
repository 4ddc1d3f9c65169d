"""What is counted: every request once, under labels of a closed set, and the same sums whichever worker is asked."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.asgi import CLIENT_LEFT
from proxy.dialects.target import Lane, Target
from proxy.exchange import Exchange, RagStatus
from proxy.observe.metrics import BOUNDS_MS, REASONS, UPSTREAM_ERRORS, Metrics
from proxy.steps import Step
from tests.support.rows import all_rows
from tests.test_docs import codes

Sample = tuple[str, frozenset[tuple[str, str]]]


def samples(metrics: Metrics, *, ready: bool = True) -> dict[Sample, float]:
    """Name and labels -> value, as Prometheus reads it."""
    text = metrics.text(ready=ready).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """Of one sample; 0 where it is not told."""
    return samples(metrics).get((f"ragway_{name}", frozenset(labels.items())), 0)


def exchange(
    *,
    lane: Lane | None = "relay",
    rag: RagStatus = "off",
    status: int = 200,
    error: str = "",
    reason: str = "",
    path: str = "/v1/chat/completions",
    **timings_ms: float,
) -> Exchange:
    target = None if lane is None else Target("m", lane, "", "")
    return Exchange(
        path=path,
        model="m",
        target=target,
        rag_status=rag,
        rag_reason=reason,
        status=status,
        error=error,
        steps=[Step(kind, 0.0, ms) for kind, ms in timings_ms.items()],
    )


def counted(*exchanges: Exchange) -> Metrics:
    metrics = Metrics()
    for each in exchanges:
        metrics.begun()
        metrics.ended(each)
    return metrics


@all_rows("lane", get_args(Lane))
@all_rows("rag", [status for status in get_args(RagStatus) if status])
def test_a_request_is_counted_by_lane_status_and_class(lane: Lane, rag: RagStatus) -> None:
    metrics = counted(*(exchange(lane=lane, rag=rag, status=status) for status in (200, 204, 304, 404, 502, 0)))
    for kind, expected in (("2xx", 2), ("3xx", 1), ("4xx", 1), ("5xx", 1), ("none", 1), ("1xx", 0)):
        assert value(metrics, "requests_total", lane=lane, rag_status=rag, status=kind) == expected
    assert sum(number for (name, _), number in samples(metrics).items() if name == "ragway_requests_total") == 6


def test_a_request_that_named_no_model_is_counted_without_a_lane() -> None:
    metrics = counted(exchange(lane=None, rag="", status=400), exchange(lane=None, rag="", status=999))
    assert value(metrics, "requests_total", lane="none", rag_status="none", status="4xx") == 1
    assert value(metrics, "requests_total", lane="none", rag_status="none", status="none") == 1


def test_only_requests_for_models_are_counted() -> None:
    metrics = counted(*(exchange(path=path) for path in ("/healthz", "/metrics", "/v1", "/anything")))
    assert not [name for name, _ in samples(metrics) if name == "ragway_requests_total"]


@pytest.mark.parametrize("reason", REASONS)
def test_a_degraded_chat_is_counted_by_its_reason(reason: str) -> None:
    metrics = counted(exchange(rag="degraded", reason=reason), exchange(rag="off", reason=reason))
    assert {other: value(metrics, "degraded_total", reason=other) for other in REASONS} == {
        other: float(other == reason) for other in REASONS
    }


def test_an_upstreams_error_is_counted_by_its_code() -> None:
    cut = exchange(error="upstream_cut: 127.0.0.1:1: closed the connection after 12 bytes")
    metrics = counted(*(exchange(error=code, status=502) for code in UPSTREAM_ERRORS), cut)
    for code in UPSTREAM_ERRORS:
        assert value(metrics, "upstream_errors_total", code=code) == 1 + (code == "upstream_cut")


def test_every_code_of_an_upstreams_error_is_known() -> None:
    assert {code for code in codes() if code.startswith("upstream_")} == set(UPSTREAM_ERRORS)


def test_a_client_that_left_is_counted_and_no_error_of_the_upstreams() -> None:
    metrics = counted(exchange(error=CLIENT_LEFT, status=0), exchange(error="model_not_found", status=404))
    assert value(metrics, "client_disconnects_total") == 1
    assert sum(number for (name, _), number in samples(metrics).items() if name == "ragway_upstream_errors_total") == 0


def test_upstreams_are_counted_by_row_and_status_and_by_nothing_that_a_client_chooses() -> None:
    metrics = Metrics(upstreams={"gpt-*": "api.example.com", "local": "10.0.0.1:8080"})
    for row, status in (("gpt-*", 401), ("gpt-*", 401), ("local", 418), ("local", 0), ("removed", 503), ("local", 200)):
        one = exchange(upstream=20.0, status=status or 502, error="" if status else "upstream_closed: 10.0.0.1: x")
        assert one.target is not None
        one.target = replace(one.target, row=row, model="as the client likes")
        one.upstream_status = status
        metrics.ended(one)
    metrics.ended(exchange())  # answered without the upstream
    told = {labels: number for (name, labels), number in samples(metrics).items() if name.endswith("replies_total")}
    gpt, local, other = (
        {"model": "gpt-*", "upstream": "api.example.com"},
        {"model": "local", "upstream": "10.0.0.1:8080"},
        {"model": "other", "upstream": "other"},
    )
    assert told == {
        frozenset({**gpt, "status": "401"}.items()): 2,
        frozenset({**local, "status": "4xx"}.items()): 1,
        frozenset({**local, "status": "none"}.items()): 1,
        frozenset({**local, "status": "2xx"}.items()): 1,
        frozenset({**other, "status": "503"}.items()): 1,
    }
    assert value(metrics, "upstream_seconds_count", **local) == 3
    assert value(metrics, "upstream_seconds_sum", **gpt) == pytest.approx(0.04)


def test_requests_in_flight_are_those_begun_and_not_ended() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.begun()
    metrics.ended(exchange(path="/healthz"))
    assert value(metrics, "requests_in_flight") == 2


def test_readiness_is_told() -> None:
    for ready in (True, False):
        assert samples(Metrics(), ready=ready)["ragway_ready", frozenset()] == ready


def test_stages_fill_the_buckets_at_and_above_their_time() -> None:
    metrics = counted(exchange(embed=10.0), exchange(embed=10.1), exchange(embed=1e9), exchange(embed=0.0))
    buckets = {
        float(dict(labels)["le"]): number
        for (name, labels), number in samples(metrics).items()
        if name == "ragway_stage_seconds_bucket" and dict(labels)["stage"] == "embed"
    }
    assert len(buckets) == len(BOUNDS_MS) + 1
    assert (buckets[0.001], buckets[0.005], buckets[0.01], buckets[0.025]) == (1, 1, 2, 3)
    assert (buckets[300], buckets[float("inf")]) == (3, 4)
    assert value(metrics, "stage_seconds_count", stage="embed") == 4
    assert value(metrics, "stage_seconds_sum", stage="embed") == pytest.approx(1e6 + 0.0201)
    assert value(metrics, "stage_seconds_count", stage="total") == 4


def test_nothing_of_the_client_becomes_a_label() -> None:
    secret = "canary-7Qf"
    metrics = counted(
        Exchange(
            method=secret,
            path=f"/v1/{secret}",
            model=secret,
            rag_status="degraded",
            rag_reason=secret,
            status=200,
            error=secret,
            sources=(secret,),
            steps=[Step(secret, 0.0, 1.0, secret), Step("embed", 0.0, 1.0, secret)],
            target=Target(secret, "relay", secret, secret),
        )
    )
    assert secret not in metrics.text(ready=True).decode()
    assert value(metrics, "degraded_total", reason="internal error") == 1


# Several workers


def test_every_worker_tells_the_sum_of_all(tmp_path: Path) -> None:
    workers = [Metrics(tmp_path, number) for number in range(3)]
    for number, worker in enumerate(workers):
        for _ in range(number + 1):
            worker.begun()
            worker.ended(exchange(embed=1.0))
        worker.begun()
    for worker in workers:
        assert value(worker, "requests_total", lane="relay", rag_status="off", status="2xx") == 6
        assert value(worker, "stage_seconds_count", stage="embed") == 6
        assert value(worker, "requests_in_flight") == 3


def test_a_worker_in_a_dead_ones_place_goes_on_counting_and_has_nothing_in_flight(tmp_path: Path) -> None:
    dead, other = Metrics(tmp_path, 1), Metrics(tmp_path, 2)
    dead.begun()
    dead.ended(exchange())
    dead.begun()
    again = Metrics(tmp_path, 1)
    assert value(other, "requests_in_flight") == 0
    again.begun()
    again.ended(exchange())
    assert value(other, "requests_total", lane="relay", rag_status="off", status="2xx") == 2
