"""Calls of operations with a limit an hour."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from proxy.access.call_counts import CallCounts
from proxy.access.sql import SqlAccounts
from proxy.caller import UNLIMITED, Limits

HOUR_S = 3600


def test_a_limit_counts_for_each_key_operation_and_hour(opened: Callable[[], SqlAccounts]) -> None:
    now = [10.5 * HOUR_S]
    here, there = (CallCounts(opened(), now_s=lambda: now[0]) for _ in range(2))
    assert [one.take("key-1", "atlas/a", 2) for one in (here, there, here, there)] == [0, 0, HOUR_S / 2, HOUR_S / 2]
    assert (here.take("key-2", "atlas/a", 2), here.take("key-1", "atlas/b", 2)) == (0, 0)
    now[0] = 11 * HOUR_S
    assert there.take("key-1", "atlas/a", 2) == 0


def test_calls_that_change_something_have_a_limit_a_day(opened: Callable[[], SqlAccounts]) -> None:
    now = [12.5 * HOUR_S]
    here, there = (CallCounts(opened(), now_s=lambda: now[0]) for _ in range(2))
    limits = Limits(changes_per_day=2)
    why = "this key may make 2 calls a day that change something, and again in 11.5 h"
    assert [one.over_changes("key-1", limits) for one in (here, there, here)] == ["", "", why]
    assert [here.over_changes("key-2", limits), here.over_changes("key-1", UNLIMITED)] == ["", ""]
    now[0] = 24 * HOUR_S
    assert here.over_changes("key-1", limits) == ""


def test_calls_at_once_do_not_pass_a_limit(opened: Callable[[], SqlAccounts]) -> None:
    replicas = [CallCounts(opened(), now_s=lambda: 1.0) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda n: replicas[n % 4].take("", "atlas/a", 5), range(24)))
    assert taken.count(0) == 5
