"""The record that travels: its steps, and the durations that `Server-Timing`, metrics and usage read from the steps."""

import time
from dataclasses import fields

from proxy.exchange import ActionTrace, Exchange, ModelRound, durations_ms
from proxy.steps import Step


def test_two_steps_of_one_kind_are_two_steps_and_one_duration() -> None:
    steps = [Step("parse", 0.0, 1.0), Step("search", 1.0, 5.0), Step("upstream", 6.0, 9.0), Step("search", 15.0, 2.0)]
    assert durations_ms(steps) == {"parse": 1.0, "search": 7.0, "upstream": 9.0}
    assert list(durations_ms(steps)) == ["parse", "search", "upstream"]


def test_a_step_starts_where_the_work_began_and_ends_now() -> None:
    exchange = Exchange()
    began = time.perf_counter()
    exchange.ended_step("upstream", began, "gpt-4o")
    (step,) = exchange.steps
    assert (step.kind, step.detail) == ("upstream", "gpt-4o")
    assert step.duration_ms is not None
    assert 0 <= step.started_ms <= step.started_ms + step.duration_ms <= exchange.elapsed_ms()


def test_the_stages_of_a_search_follow_each_other() -> None:
    exchange = Exchange()
    exchange.index_steps({"embed": 2.0, "search": 3.0}, exchange.started + 0.010, retrieval := Step("retrieval", 9.0))
    assert all(step.within is retrieval for step in exchange.steps)
    assert [(step.kind, round(step.started_ms), step.duration_ms) for step in exchange.steps] == [
        ("embed", 10, 2.0),
        ("search", 12, 3.0),
    ]


def test_steps_form_a_tree_of_rounds_and_calls() -> None:
    exchange = Exchange(action_trace=ActionTrace())
    trace = exchange.action_trace
    assert trace is not None
    waited = trace.begin_call(0.0)
    trace.rounds.append(ModelRound(exchange.elapsed_ms()))
    exchange.ended_step("upstream", time.perf_counter())
    trace.rounds[0].duration_ms = 1.0
    call = trace.begin_call(exchange.elapsed_ms())
    exchange.ended_step("action", time.perf_counter(), "shops/list", call)
    exchange.ended_step("upstream", time.perf_counter())
    assert [step.within for step in exchange.steps] == [trace.rounds[0], call, None]
    assert (call.within, trace.round_of(call), trace.round_of(waited)) == (trace.rounds[0], 1, 0)


def test_no_field_is_a_function_but_the_listeners_of_the_end() -> None:
    assert [one.name for one in fields(Exchange) if "Callable" in str(one.type)] == ["after_reply"]
