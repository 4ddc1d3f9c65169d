"""Gateways killed by kill -9 before each statement of SQL, and before each commit: nothing is ever sent twice."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from proxy.agent.writes.pending import Claimed, PendingStore
from tests.proxy.agent.writes.writing import CODE, NOW_S, WHOSE, claim, opened, request_of, write_of

_CALL_S = 60.0
_IDS = ("pw-1", "pw-2")


def live(store: PendingStore, api: Path) -> None:
    """Ask for two writes if nobody has asked, confirm them, and send each to an API that notes each request."""
    if not store.group("gr-1", WHOSE["key"]):
        requests = [request_of(number) for number in range(len(_IDS))]
        writes = [
            write_of(request, number=number, id=id)
            for number, (id, request) in enumerate(zip(_IDS, requests, strict=True), 1)
        ]
        store.add(writes, requests, CODE)
    done = claim(store)
    for write in done.writes if isinstance(done, Claimed) else ():
        store.sending(write.id)
        with api.open("a") as requests_seen:
            requests_seen.write(f"{write.id}\n")
        store.finish(write.id, "done", 204)


def killed(folder: Path, url: str, api: Path, die_at: int) -> bool:
    """Live in a process that is killed before its `die_at`-th statement; whether it came that far."""
    child = os.fork()
    if not child:
        try:
            seen = count(1)

            def die(*_: Any) -> None:
                if next(seen) == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)

            event.listen(Engine, "before_cursor_execute", die)
            event.listen(Engine, "commit", die)
            live(opened(folder, url), api)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.fixture
def database(catalog_url: str, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Addresses of new databases."""
    if not catalog_url:
        return lambda: ""
    address: Callable[[], str] = request.getfixturevalue("postgres").database
    return address


def states_after(folder: Path, url: str, api: Path) -> tuple[str, ...]:
    """What becomes of the two writes after the death, when the person confirms again at another gateway."""
    now_s = NOW_S + 1.0
    store = opened(folder, url, now_s=lambda: now_s)
    live(store, api)
    now_s += _CALL_S + 1
    lost = {one.id for one in store.stale(_CALL_S)}
    states = {one.id: one.state for one in store.group("gr-1", WHOSE["key"])}
    assert states == {id: "unknown" if id in lost else "done" for id in _IDS}
    sent = api.read_text().split()
    assert len(sent) == len({*sent}), "nothing is sent twice"
    assert {id for id, state in states.items() if state == "done"} <= {*sent}, "what is done was sent"
    live(store, api)
    assert api.read_text().split() == sent, "what is unknown is not sent again"
    assert store.log.verify().problems == []
    store.close()
    return tuple(states.values())


def test_a_gateway_killed_anywhere_sends_nothing_twice(database: Callable[[], str], tmp_path: Path) -> None:
    ends: Counter[tuple[str, ...]] = Counter()
    for die_at in count(1):
        folder, url = tmp_path / str(die_at), database()
        folder.mkdir()
        api = folder / "api"
        api.touch()
        died = killed(folder, url, api, die_at)
        ends[states_after(folder, url, api)] += 1
        if not died:
            break
    assert {*ends} == {("done", "done"), ("done", "unknown"), ("unknown", "unknown")}
    assert ends.total() > 50
