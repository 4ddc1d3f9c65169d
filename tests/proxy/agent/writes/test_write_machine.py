"""A state machine over the store: whatever people, clocks and dying gateways do, a write goes out at most once.

`WRITE_MACHINE_EXAMPLES=400 pytest --timeout=0 --hypothesis-seed=N` takes more of them, 40 steps each.
"""

import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.agent.writes.pending import Claimed, Denied, PendingStore, PendingWrite
from proxy.dialects.codes import new_code
from tests.proxy.agent.writes.writing import NOW_S, VALID_S, WHOSE, opened, request_of, write_of

_EXAMPLES = int(os.environ.get("WRITE_MACHINE_EXAMPLES", "12"))
_STEPS = 40
_DIES_S = 60.0  # a claimed write is unknown after

PEOPLE = st.sampled_from(["ann", "bob", ""])
KEYS = st.sampled_from(["key-a", "key-b", ""])
CONVERSATIONS = st.sampled_from(["c1", "c2"])
RIGHTS = st.sampled_from(["r1", "r2"])


@dataclass
class Group:
    """What the test knows of a group, by rules of its own."""

    id: str
    code: str
    writes: list[PendingWrite]
    expires_s: float
    states: dict[str, str]
    guesses: int = 0
    claimed_s: float = 0.0
    ended_s: float = 0.0  # when it became void

    @property
    def whose(self) -> dict[str, Any]:
        return {name: getattr(self.writes[0], name) for name in WHOSE}


class Writes(RuleBasedStateMachine):
    address = staticmethod(lambda: "")  # of a new database

    groups: Bundle[Group] = Bundle("groups")
    flying: Bundle[tuple[Group, str]] = Bundle("flying")  # claimed, by a gateway that lives

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ragway-writes-"))
        self.url = self.address()
        self.now_s = NOW_S
        self.known: dict[str, Group] = {}
        self.sent: list[str] = []
        self.made: list[PendingStore] = []
        self.stores: list[PendingStore] = []

    @initialize()
    def start(self) -> None:
        self.stores = [self.another() for _ in range(2)]

    def another(self) -> PendingStore:
        self.made.append(opened(self.folder, self.url, now_s=lambda: self.now_s))
        return self.made[-1]

    def teardown(self) -> None:
        if self.stores:
            assert self.another().log.verify().problems == []
        for store in self.made:
            store.close()
        shutil.rmtree(self.folder)

    # What a gateway does

    @rule(
        target=groups, at=st.integers(0, 1), count=st.integers(1, 3), key=KEYS, person=PEOPLE,
        conversation=CONVERSATIONS, rights=RIGHTS,
    )  # fmt: skip
    def ask(self, at: int, count: int, **whose: str) -> Group:
        id, code = f"gr-{len(self.known)}", new_code()
        requests = [request_of(number) for number in range(count)]
        writes = [
            write_of(request, number=number, now_s=self.now_s, group=id, **whose)
            for number, request in enumerate(requests, 1)
        ]
        self.stores[at].add(writes, requests, code)
        for other in self.known.values():  # nobody confirmed in time
            if other.expires_s <= self.now_s:
                self.end(other)
        self.known[id] = Group(id, code, writes, self.now_s + VALID_S, {one.id: "pending" for one in writes})
        return self.known[id]

    @rule(target=flying, at=st.integers(0, 1), group=groups, with_code=st.booleans(), some=st.sets(st.integers(1, 3)))
    def confirm(self, at: int, group: Group, with_code: bool, some: set[int]) -> Any:
        return self.tried(at, group, code=group.code if with_code else None, numbers=some or None)

    @rule(target=flying, at=st.integers(0, 1), group=groups, times=st.integers(0, 4))
    def guess(self, at: int, group: Group, times: int) -> Any:
        for _ in range(times):
            self.tried(at, group, code=new_code())
        return self.tried(at, group, code=new_code())

    @rule(target=flying, at=st.integers(0, 1), group=groups, other=groups)
    def confirm_with_the_code_of_another_group(self, at: int, group: Group, other: Group) -> Any:
        return self.tried(at, group, code=other.code)

    @rule(target=flying, at=st.integers(0, 1), group=groups, name=st.sampled_from([*WHOSE]))
    def confirm_as_somebody_else(self, at: int, group: Group, name: str) -> Any:
        other: dict[str, Any] = {name: f"not {group.whose[name]}"}
        return self.tried(at, group, code=group.code, **other)

    def tried(self, at: int, group: Group, *, code: str | None, numbers: set[int] | None = None, **other: Any) -> Any:
        whose = group.whose | other
        expected = self.expected(group, whose, code, numbers)
        done = self.stores[at].claim(group.id, code=code, numbers=numbers, **whose)
        why = done.why if isinstance(done, Denied) else "claimed"
        note(f"{group.id}: {why}")
        assert why == expected
        if isinstance(done, Claimed):
            return multiple(*self.taken(group, done, numbers))
        if why == "wrong_code":
            group.guesses += 1
        if why in ("expired", "rights_changed") or group.guesses == 5:
            self.end(group)
        return multiple()

    def expected(self, group: Group, whose: dict[str, Any], code: str | None, numbers: set[int] | None) -> str:
        """Who may confirm what, and when: written from the promise, not from the program."""
        other = {name for name in WHOSE if whose[name] != group.whose[name]}
        if other & {"key", "conversation"}:
            return "unknown"
        if "person" in other:
            return "other_person"
        if group.claimed_s or group.ended_s:
            return "used" if group.claimed_s else "expired" if group.ended_s >= group.expires_s else "void"
        if self.now_s >= group.expires_s:
            return "expired"
        if code not in (None, group.code):
            return "wrong_code"
        if "rights" in other:
            return "rights_changed"
        return "wrong_number" if numbers and max(numbers) > len(group.writes) else "claimed"

    def taken(self, group: Group, done: Claimed, numbers: set[int] | None) -> list[tuple[Group, str]]:
        wanted = [one for one in group.writes if numbers is None or one.number in numbers]
        assert [one.id for one in done.writes] == [one.id for one in wanted]
        assert [*done.requests] == [request_of(one.number - 1) for one in wanted]
        group.claimed_s = self.now_s
        self.sent += [one.id for one in wanted]
        for write in group.writes:
            group.states[write.id] = "claimed" if write in wanted else "void"
        return [(group, one.id) for one in wanted]

    @rule(target=flying, group=groups)
    def confirm_twice_at_the_same_time(self, group: Group) -> Any:
        expected = self.expected(group, group.whose, group.code, None)
        ready = threading.Barrier(2)

        def confirmed(store: PendingStore) -> Claimed | Denied:
            ready.wait()
            return store.claim(group.id, code=group.code, numbers=None, **group.whose)

        with ThreadPoolExecutor(2) as threads:
            done = [*threads.map(confirmed, self.stores)]
        taken = [one for one in done if isinstance(one, Claimed)]
        assert len(taken) == int(expected == "claimed")
        if expected == "expired":
            self.end(group)
        return multiple(*(self.taken(group, taken[0], None) if taken else ()))

    @rule(at=st.integers(0, 1), one=flying)
    def send(self, at: int, one: tuple[Group, str]) -> None:
        self.stores[at].sending(one[1])

    @rule(at=st.integers(0, 1), one=flying, state=st.sampled_from(["done", "failed", "unknown"]))
    def finish(self, at: int, one: tuple[Group, str], state: Any) -> None:
        """Also twice, and by a gateway that everybody thought dead."""
        group, id = one
        finished = self.stores[at].finish(id, state, 200, "answer")
        assert finished == (group.states[id] == "claimed")
        if finished:
            group.states[id] = state

    @rule(one=consumes(flying))
    def lose(self, one: tuple[Group, str]) -> None:
        """The gateway dies between any two steps: nobody ever finishes the write."""
        self.stores = [self.another() for _ in self.stores]

    @rule(at=st.integers(0, 1), later=st.booleans())
    def look_for_the_dead(self, at: int, later: bool) -> None:
        self.now_s += _DIES_S + 1 if later else 0
        dead = {
            id
            for group in self.known.values()
            for id, state in group.states.items()
            if state == "claimed" and group.claimed_s < self.now_s - _DIES_S
        }
        assert {one.id for one in self.stores[at].stale(_DIES_S)} == dead
        for group in self.known.values():
            group.states.update({id: "unknown" for id in group.states if id in dead})

    @rule(at=st.integers(0, 1), key=KEYS, conversation=CONVERSATIONS)
    def say_something_else(self, at: int, key: str, conversation: str) -> None:
        given_up = [
            one
            for one in self.known.values()
            if (one.whose["key"], one.whose["conversation"]) == (key, conversation) and "pending" in one.states.values()
        ]
        assert self.stores[at].void(key, conversation) == sum(len(one.writes) for one in given_up)
        for group in given_up:
            self.end(group)

    @rule(seconds=st.sampled_from([1.0, _DIES_S + 1, VALID_S - 1, VALID_S]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @precondition(lambda self: self.known)
    @rule(at=st.integers(0, 1))
    def start_again(self, at: int) -> None:
        """A gateway dies, with or without a word."""
        self.stores[at] = self.another()

    def end(self, group: Group) -> None:
        if "pending" in group.states.values():
            group.ended_s = self.now_s
            group.states = dict.fromkeys(group.states, "void")

    # What always holds

    @invariant()
    def nothing_went_out_twice(self) -> None:
        assert len(self.sent) == len(set(self.sent))

    @invariant()
    def the_database_knows_what_happened(self) -> None:
        if not self.stores:
            return
        for group in self.known.values():
            assert {one.id: one.state for one in self.stores[0].group(group.id, group.whose["key"])} == group.states


SETTINGS = settings(
    max_examples=_EXAMPLES, stateful_step_count=_STEPS, deadline=None, suppress_health_check=[*HealthCheck],
    print_blob=True,
)  # fmt: skip


def test_a_write_goes_out_at_most_once_and_only_as_confirmed() -> None:
    run_state_machine_as_test(Writes, settings=SETTINGS)


def test_it_does_so_on_postgresql(request: pytest.FixtureRequest) -> None:
    class OnPostgres(Writes):
        address = staticmethod(request.getfixturevalue("postgres").database)

    run_state_machine_as_test(OnPostgres, settings=settings(SETTINGS, max_examples=max(_EXAMPLES // 10, 3)))
