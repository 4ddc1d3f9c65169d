"""Two gateways over one PostgreSQL and one Qdrant that declare the same source: one syncs it at a time."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.gateway import Served, serving
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import recording
from tests.support.served_qdrant import SharedQdrant

SETTINGS = """
retrieval: {{min_relevance: 0}}
qdrant: {{url: "{qdrant}"}}
sources:
  docs: [{{web: ["{site}/one", "{site}/two"], name: site, every: 1h, per_second: 100, networks: [127.0.0.0/8]}}]
"""
_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
_FIRST = ["/robots.txt", "/one", "/two"]


@dataclass(slots=True)
class Site:
    """Two pages. The answer for /two ends only once `released`."""

    asked: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, site: Site, *args: object) -> None:
        self._site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._site.asked.append(self.path)
        with contextlib.suppress(OSError):  # who asked may be dead
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<h1>Page</h1><p>This is page {self.path[1:]}.</p>".encode())
            while self.path == "/two" and not self._site.released.wait(0.2):
                self.wfile.write(b" ")  # or the gateway gives the page up

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(site: Site) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, site)) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            site.released.set()
            server.shutdown()


@dataclass(slots=True)
class Replica:
    site: Site  # that only this gateway asks
    gateway: Served


@pytest.fixture
def replicas(tmp_path: Path, postgres: Postgres) -> Iterator[list[Replica]]:
    """Two gateways, started at the same time: a sync gives up a page that takes too long."""
    with contextlib.ExitStack() as stack:
        qdrant, database = SharedQdrant().serve(stack.enter_context(recording())), postgres.database()
        sites, starting = [Site(), Site()], []
        for name, site in zip(("one", "two"), sites, strict=True):
            (tmp_path / name / "data").mkdir(parents=True)
            settings = SETTINGS.format(qdrant=qdrant, site=stack.enter_context(served(site)))
            starting.append(serving(tmp_path / name / "data", tmp_path / name, settings, RAGWAY_CATALOG__URL=database))
        with ThreadPoolExecutor() as threads:
            gateways = [*threads.map(lambda context: context.__enter__(), starting)]
        for context in starting:
            stack.push(context)
        yield [Replica(site, gateway) for site, gateway in zip(sites, gateways, strict=True)]


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 180  # as in test_replicas: two gateways, and the machine may be slow
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(0.05)


def found(gateway: Served) -> int:
    body = b'{"collections": ["docs"], "query": "page"}'
    return len(gateway.post(body, "/v1/knowledge/search").json().get("data", []))


@pytest.mark.parametrize("killed", [False, True])
def test_one_syncs_at_a_time_and_the_other_goes_on_if_it_is_killed(
    replicas: list[Replica], postgres: Postgres, killed: bool
) -> None:
    until(lambda: any("/two" in one.site.asked for one in replicas))
    until(lambda: postgres.value(_WAITING) == 1)
    syncing, waiting = sorted(replicas, key=lambda one: len(one.site.asked), reverse=True)
    assert (syncing.site.asked, waiting.site.asked) == (_FIRST, [])
    if killed:
        syncing.gateway.kill()
    for one in replicas:
        one.site.released.set()
    until(lambda: found(waiting.gateway) == 2 and postgres.value(_WAITING) == 0)
    assert waiting.site.asked == (_FIRST if killed else [])  # what was just synced is not due
    assert "another gateway" not in waiting.gateway.log.read_text()
