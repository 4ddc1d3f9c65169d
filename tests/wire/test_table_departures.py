"""Clients that leave while a team's database runs their query: the query ends, and its process is free again."""

import contextlib
import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import PATIENCE_S, Served, ragway, serving
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, calls, says

ENDLESS = "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x % 1000 + 1 FROM n) SELECT count(*) FROM n"
SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
tables:
  lite: {{url: "sqlite:///{folder}/lite.sqlite"}}
  duck: {{url: "duckdb:///{folder}/duck.duckdb"}}
  server: {{url_env: SERVER_URL, tables: [planets]}}
table_queries: {{max_seconds: 600}}
action_calls: {{call_s: 600, total_s: 600}}
"""
QUESTION = {"role": "user", "content": "how many planets are there?"}
PROCESSES = 4  # of a database at one time


@dataclass
class Team:
    served: Served
    recorder: Recorder
    postgres: Postgres

    def query(self, database: str, sql: str, seconds: float) -> httpx.Response:
        url = f"{self.served.url}/v1/tables/databases/{database}/query"
        return httpx.post(url, json={"sql": sql}, timeout=seconds)

    def busy(self) -> int:
        """How many processes of queries use the processor."""
        before = self._ticks()
        time.sleep(0.5)
        after = self._ticks()
        return sum(after[pid] > before[pid] + 5 for pid in before.keys() & after.keys())

    def _ticks(self) -> dict[int, int]:
        """Of each process below the gateway, other than its own workers."""
        parents: dict[int, int] = {}
        ticks: dict[int, int] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), int(fields[11])

        def below(pid: int) -> bool:
            while pid in parents:
                pid = parents[pid]
                if pid == self.served.process.pid:
                    return True
            return False

        return {pid: ticks[pid] for pid in ticks if below(pid)}

    def running(self) -> int:
        """How many queries the server runs for the gateway."""
        found = self.postgres.value(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ragway tables' AND state = 'active'"
        )
        assert isinstance(found, int)
        return found


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Team]:
    import duckdb
    import psycopg

    folder = tmp_path_factory.mktemp("departures")
    made = "CREATE TABLE planets (name text)"
    with contextlib.closing(sqlite3.connect(folder / "lite.sqlite")) as lite, lite:
        lite.execute(made)
    with duckdb.connect(str(folder / "duck.duckdb")) as duck:
        duck.execute(made)
    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute(made.encode())
    with recording() as recorder:
        settings = SETTINGS.format(model=recorder.url, folder=folder)
        (folder / "ragway.yaml").write_text(settings)
        for name in ("lite", "duck", "server"):
            done = ragway("tables", "add", name, "--data", "data", folder=folder, environ={"SERVER_URL": url})
            assert done.returncode == 0, done.stderr
        with serving(folder / "data", folder, settings, SERVER_URL=url) as served:
            yield Team(served, recorder, postgres)


def wait(until: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.parametrize("way", ["stream", "chat", "http"])
@pytest.mark.parametrize("database", ["lite", "duck", "server"])
def test_a_query_of_a_client_that_leaves_ends(team: Team, database: str, way: str) -> None:
    wait(lambda: team.busy() + team.running() == 0, "the gateway rests")
    for _ in range(PROCESSES):  # as many as could run at once
        model = ScriptedModel(team.recorder.fresh(), (calls(("query_tables", {"sql": ENDLESS})), says("Many.")))
        body = {"model": f"rage/{database}/gpt-x", "messages": [QUESTION], "stream": way == "stream"}
        path = "/v1/chat/completions"
        if way == "http":
            path, body = f"/v1/tables/databases/{database}/query", {"sql": ENDLESS}
        with leaving(team.served.url + path, body):
            if way != "http":
                wait(lambda model=model: len(model.received) == 1, "the model is asked")  # type: ignore[misc]
            wait(lambda: (team.running() if database == "server" else team.busy()) == 1, "the query runs")
        wait(lambda: team.busy() + team.running() == 0, "the query ends")
    assert team.query(database, "SELECT count(*) AS n FROM planets", PATIENCE_S).json()["rows"] == [{"n": 0}]


@contextlib.contextmanager
def leaving(url: str, body: dict[str, object]) -> Iterator[None]:
    """A client that asks, and leaves at the end of the block."""
    address, content = httpx.URL(url), json.dumps(body).encode()
    head = f"POST {address.path} HTTP/1.1\r\nhost: {address.netloc.decode()}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(content)}\r\n\r\n"
    with socket.create_connection((address.host, address.port or 80)) as connection:
        connection.sendall(head.encode() + content)
        yield
