"""Writes that wait: what is claimed, once, by whom, and what the database shows of them."""

import base64
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import text

from proxy.agent.writes.pending import Claimed, Denied, PendingStore, SentBefore
from proxy.agent.writes.sealer import Sealer
from retrieval.errors import RetrievalError
from runtime.sealing import MasterKey, SealingError
from tests.proxy.agent.writes.writing import (
    CODE,
    NOW_S,
    OTHER_CODE,
    VALID_S,
    WHOSE,
    add,
    claim,
    claimed,
    opened,
    request_of,
    write_of,
)

MASTER = MasterKey(base64.b64encode(bytes(32)).decode(), "RAGWAY_MASTER_KEY")


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(catalog_url: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[[], PendingStore]]:
    """Opens the same writes each time."""
    made: list[PendingStore] = []

    def another() -> PendingStore:
        made.append(opened(tmp_path, catalog_url, now_s=clock))
        return made[-1]

    yield another
    for store in made:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], PendingStore]) -> PendingStore:
    return open_store()


def test_a_question_to_an_empty_store_makes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert claim(store) == Denied("unknown")
    assert (store.group_of("", ""), store.group("", ""), store.waiting(), store.stale(0)) == ([], [], [], [])
    assert (store.void("", ""), store.sent_lately("", "", 1)) == (0, None)
    assert store.log.verify().problems == []
    assert not list(tmp_path.iterdir())


def test_exactly_the_sealed_bytes_come_out_once(store: PendingStore) -> None:
    request = request_of(17, bytes(range(256)))
    write = write_of(request)
    store.add([write], [request], CODE)
    assert store.group_of(WHOSE["key"], WHOSE["conversation"]) == store.group("gr-1", WHOSE["key"]) == [write]
    done = claim(store)
    assert isinstance(done, Claimed)
    assert [*done.requests] == [request]
    assert [one.state for one in done.writes] == ["claimed"]
    assert claim(store) == Denied("used")
    store.sending(write.id)
    assert store.finish(write.id, "done", 204)
    assert not store.finish(write.id, "failed", 500)
    (ended,) = store.group("gr-1", WHOSE["key"])
    assert (ended.state, ended.status, ended.finished_s) == ("done", 204, NOW_S)
    assert claim(store) == Denied("used")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"code": OTHER_CODE}, "wrong_code"), ({"key": "key-b"}, "unknown"), ({"conversation": "d"}, "unknown"),
        ({"group": "gr-2"}, "unknown"), ({"person": "bob"}, "other_person"), ({"person": ""}, "other_person"),
        ({"rights": "r2"}, "rights_changed"), ({"numbers": (1, 3)}, "wrong_number"), ({"numbers": ()}, "wrong_number"),
    ],
)  # fmt: skip
def test_only_the_person_who_was_asked_confirms(store: PendingStore, given: dict[str, Any], why: str) -> None:
    add(store, 2)
    denied = claim(store, **given)
    assert isinstance(denied, Denied)
    assert denied.why == why
    again = claim(store)
    assert again == Denied("void") if why == "rights_changed" else isinstance(again, Claimed)


def test_some_are_claimed_and_the_others_are_void(store: PendingStore) -> None:
    add(store, 3)
    assert [one.number for one in claimed(store, numbers=(1, 3))] == [1, 3]
    assert [one.state for one in store.group("gr-1", WHOSE["key"])] == ["claimed", "void", "claimed"]
    assert claim(store, numbers=(2,)) == Denied("used")


def test_a_code_is_guessed_five_times(store: PendingStore) -> None:
    add(store, 2)
    guesses = [claim(store, code=OTHER_CODE) for _ in range(6)]
    assert guesses == [*(Denied("wrong_code", left) for left in (4, 3, 2, 1, 0)), Denied("void")]
    assert claim(store) == Denied("void")


def test_a_code_opens_its_own_group_alone(store: PendingStore) -> None:
    add(store, group="gr-1", code=CODE)
    add(store, group="gr-2", code=OTHER_CODE)
    assert claim(store, "gr-1", code=OTHER_CODE) == Denied("wrong_code", 4)
    assert isinstance(claim(store, "gr-2", code=OTHER_CODE), Claimed)


def test_a_code_waits_for_its_key_until_it_is_used_or_late(store: PendingStore, clock: Clock) -> None:
    key = WHOSE["key"]
    assert not store.waits(key, CODE)
    add(store)
    add(store, code=OTHER_CODE, group="gr-2", conversation="d" * 64)
    asked = [(key, CODE), (key, OTHER_CODE), (key, "BBBB-2222"), ("key-b", CODE)]
    assert [store.waits(*one) for one in asked] == [True, True, False, False]
    claimed(store)
    assert [store.waits(*one) for one in asked] == [False, True, False, False]
    clock.now_s += VALID_S + 1
    assert not store.waits(key, OTHER_CODE)


def test_nothing_is_sent_after_the_time(store: PendingStore, clock: Clock) -> None:
    add(store)
    clock.now_s += VALID_S
    assert store.waiting() == []
    assert claim(store) == claim(store) == Denied("expired")
    clock.now_s = NOW_S  # a clock that was set back makes nothing valid again
    assert claim(store) == Denied("expired")


def test_what_was_given_up_is_not_sent(store: PendingStore) -> None:
    add(store, 2)
    assert store.void(WHOSE["key"], "other") == 0
    assert store.void(WHOSE["key"], WHOSE["conversation"]) == 2
    assert store.void(WHOSE["key"], WHOSE["conversation"]) == 0
    assert claim(store) == Denied("void")


def test_a_write_whose_gateway_died_is_unknown_and_never_sent_again(
    open_store: Callable[[], PendingStore], clock: Clock
) -> None:
    add(open_store())
    (write,) = claimed(open_store())
    later = open_store()
    assert later.stale(60) == []
    clock.now_s += 61
    assert [(one.id, one.state) for one in later.stale(60)] == [(write.id, "unknown")]
    assert later.stale(60) == []
    assert claim(later) == Denied("used")
    assert not later.finish(write.id, "done", 200)


def test_of_confirmations_at_the_same_time_one_counts(open_store: Callable[[], PendingStore]) -> None:
    stores = [open_store() for _ in range(6)]
    add(stores[0], 2)
    ready = threading.Barrier(len(stores))

    def confirm(store: PendingStore) -> Claimed | Denied:
        ready.wait()
        return claim(store)

    with ThreadPoolExecutor(len(stores)) as threads:
        done = [*threads.map(confirm, stores)]
    assert sorted(type(one).__name__ for one in done) == ["Claimed", *["Denied"] * 5]
    assert stores[0].log.verify().problems == []


def test_the_same_request_again_is_noticed_for_a_while(store: PendingStore, clock: Clock) -> None:
    (write,) = add(store)
    again = (WHOSE["key"], write.digest, 300.0)
    assert store.sent_lately(*again) is None
    claimed(store)
    clock.now_s += 40
    assert store.sent_lately(*again) == SentBefore(40, done=False)
    store.finish(write.id, "failed", 409)
    assert store.sent_lately(*again) is None
    ends: list[tuple[Literal["done", "failed", "unknown"], int]] = [("unknown", 0), ("failed", 500), ("done", 200)]
    for state, status in ends:
        add(store, group=state, now_s=clock.now_s)
        (second,) = claimed(store, group=state)
        store.finish(second.id, state, status)
        clock.now_s += 300
        assert store.sent_lately(*again) == SentBefore(300, done=state == "done")
    assert store.sent_lately("key-b", write.digest, 300.0) is None
    clock.now_s += 1
    assert store.sent_lately(*again) is None


def test_the_newest_group_of_a_conversation_is_found(store: PendingStore, clock: Clock) -> None:
    add(store, group="gr-1")
    add(store, 2, group="gr-2", now_s=NOW_S + 1)
    assert [one.group for one in store.group_of(WHOSE["key"], WHOSE["conversation"])] == ["gr-2", "gr-2"]
    assert [one.group for one in store.waiting()] == ["gr-1", "gr-2", "gr-2"]
    assert store.group("gr-1", "key-b") == []


def test_texts_that_no_database_stores_are_stored_readable(store: PendingStore) -> None:
    add(store, person="a\0b", arguments='{"x": "\ud83d"}', shown="\0")
    (write,) = store.group("gr-1", WHOSE["key"])
    assert (write.person, write.arguments, write.shown) == ("a\ufffdb", '{"x": "?"}', "\ufffd")
    claimed(store, person="a\0b")
    assert store.finish(write.id, "done", 200, "\0\udc00")


def test_a_write_of_another_request_is_a_mistake(store: PendingStore) -> None:
    with pytest.raises(ValueError, match="not a pending write of this request"):
        store.add([write_of(request_of(17))], [request_of(18)], CODE)
    assert store.waiting() == []


def test_a_finished_write_is_deleted_in_the_end_and_its_log_stays(store: PendingStore, clock: Clock) -> None:
    add(store)
    add(store, group="gr-2", person="bob")
    claimed(store)
    clock.now_s += 3600
    add(store, group="gr-3", now_s=clock.now_s)
    assert [one.state for one in store.group("gr-2", WHOSE["key"])] == ["void"]
    clock.now_s += 31 * 86_400
    add(store, group="gr-4", now_s=clock.now_s)
    assert store.group("gr-2", WHOSE["key"]) == []
    assert [one.state for one in store.group("gr-1", WHOSE["key"])] == ["claimed"], "nobody has looked yet"
    assert len({entry.write for entry, _ in store.log.entries()}) == 4
    assert store.log.verify().problems == []


# What the database shows


def test_the_file_has_no_code_and_no_request(tmp_path: Path) -> None:
    store = opened(tmp_path, master=MASTER)
    request = request_of(17, b"canary-body")
    store.add([write_of(request, shown="a text")], [request], CODE)
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"shop.example" not in raw
    assert b"canary-body" not in raw
    assert CODE.encode() not in raw
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE writes SET expires_s = expires_s + 1", "UPDATE writes SET person = 'bob'",
        "UPDATE writes SET key = 'k'",
        "UPDATE writes SET operation = 'payOrder'", "UPDATE writes SET revision = 'x'", "UPDATE writes SET shown = 'x'",
        "UPDATE writes SET digest = 'x'", "UPDATE writes SET arguments = '{}'", "UPDATE writes SET rights = 'r2'",
        "UPDATE writes SET sealed = zeroblob(40)", "UPDATE writes SET conversation = 'x'",
        "UPDATE writes SET sealed = (SELECT sealed FROM writes ORDER BY number DESC LIMIT 1)",
    ],
)  # fmt: skip
def test_a_row_that_was_changed_by_hand_is_not_sent(tmp_path: Path, change: str) -> None:
    store = opened(tmp_path)
    add(store, 2)
    store.close()
    with sqlite3.connect(tmp_path / "writes.db") as sql:
        sql.execute(change)
    sql.close()
    (row, *_) = opened(tmp_path).waiting()
    given: dict[str, Any] = {
        "key": row.key,
        "person": row.person,
        "conversation": row.conversation,
        "rights": row.rights,
    }
    with pytest.raises(RetrievalError, match="was changed in the database, and is not sent"):
        claim(store, **given)
    assert {one.state for one in store.waiting()} == {"pending"}


def test_the_master_key_that_made_the_database_is_needed(tmp_path: Path) -> None:
    add(opened(tmp_path, master=MASTER))
    with pytest.raises(SealingError, match="set RAGWAY_MASTER_KEY again"):
        claim(opened(tmp_path))
    other = base64.b64encode(b"o" * 32).decode()
    with pytest.raises(SealingError, match="does not open with the master key in RAGWAY_MASTER_KEY"):
        claim(opened(tmp_path, master=MasterKey(other, "RAGWAY_MASTER_KEY")))
    both = MasterKey(f"{other}, {base64.b64encode(bytes(32)).decode()}", "RAGWAY_MASTER_KEY")
    store = opened(tmp_path, master=both)
    with store.writing() as sql:
        assert Sealer(both).reseal(sql) == 1
    claimed(opened(tmp_path, master=MasterKey(other, "RAGWAY_MASTER_KEY")))


def test_a_secret_from_before_the_master_key_is_sealed_first(tmp_path: Path) -> None:
    add(opened(tmp_path))
    store = opened(tmp_path, master=MASTER)
    with pytest.raises(RetrievalError, match="reseal"):
        claim(store)
    with store.writing() as sql:
        assert Sealer(MASTER).reseal(sql) == 1
    claimed(store)
    with store.reading() as sql:
        assert sql.execute(text("SELECT sealed FROM write_secret")).scalar_one() == 1
