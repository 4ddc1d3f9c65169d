"""Documents of the setting `actions.NAME.spec`: read by `ragway serve` at the start, where the document changed."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.asgi import Receive, Scope, Send
from tests.support.gateway import PATIENCE_S, Served, ragway, runs, serving
from tests.support.served_app import served

SETTINGS = """
models: {{echo: {{lane: echo}}}}
server: {{log_level: debug, workers: {workers}}}
actions:
  shop: {{spec: shop.json, base_url: "https://shop.example"}}
  atlas: {{spec: "{atlas}", base_url: "https://atlas.example"}}
"""


def document(*names: str) -> str:
    paths = {f"/{name}": {"get": {"operationId": name}} for name in names}
    return json.dumps({"openapi": "3.1.0", "info": {"title": "Shop"}, "paths": paths})


def logged(gateway: Served, words: str) -> str:
    """The last line of the log with the words; waits for the line."""
    until = time.monotonic() + PATIENCE_S
    while words not in gateway.log.read_text():
        assert time.monotonic() < until, gateway.log.read_text()
        time.sleep(0.05)
    return next(line for line in reversed(gateway.log.read_text().splitlines()) if words in line)


def sets(folder: Path) -> dict[str, Any]:
    done = ragway("actions", "list", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row["operations"] for row in json.loads(done.stdout)}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_reads_each_changed_document_once_and_survives_a_document_with_a_fault(
    tmp_path: Path, workers: int
) -> None:
    (tmp_path / "shop.json").write_text(document("listShirts", "listHats"))
    (tmp_path / "atlas.json").write_text('{"openapi": "3.1.0",\n"paths": {]}')
    settings = SETTINGS.format(atlas="atlas.json", workers=workers)
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        line = logged(gateway, f"actions.shop.spec ({tmp_path}/shop.json)")
        assert "2 added, 0 changed, 0 unchanged, 0 removed; called at https://shop.example" in line
        assert "ERROR" in logged(gateway, f"actions.atlas.spec ({tmp_path}/atlas.json): line 2, column 11")
        assert gateway.ask("Hello").status_code == 200
        assert sets(tmp_path) == {"shop": 2}

    (tmp_path / "atlas.json").write_text(document("listUsers"))
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        assert "1 added" in logged(gateway, f"actions.atlas.spec ({tmp_path}/atlas.json): 1 added")
        assert "DEBUG" in logged(gateway, f"actions.shop.spec ({tmp_path}/shop.json): unchanged")
        assert sets(tmp_path) == {"shop": 2, "atlas": 1}

    (tmp_path / "shop.json").write_text("[]")
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        assert "the set stays as before" in logged(
            gateway, f"actions.shop.spec ({tmp_path}/shop.json): the document is"
        )
        assert sets(tmp_path) == {"shop": 2, "atlas": 1}
        assert gateway.log.read_text().count("1 added") == 1, "one process reads the documents"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Served]:
    """A gateway whose document does not come."""
    asked = threading.Event()

    async def never(_scope: Scope, receive: Receive, _send: Send) -> None:
        asked.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    with served(never) as port:
        settings = f"""
models: {{echo: {{lane: echo}}}}
actions: {{shop: {{spec: "http://127.0.0.1:{port}/openapi.json", networks: [127.0.0.0/8]}}}}
action_calls: {{spec_hosts: [127.0.0.1]}}
"""
        with serving(tmp_path / "data", tmp_path, settings) as gateway:
            assert asked.wait(PATIENCE_S)
            yield gateway


def test_a_gateway_ends_while_a_document_does_not_come(waiting: Served) -> None:
    assert waiting.ask("Hello").status_code == 200
    assert waiting.stop() == 0


def test_the_reading_of_documents_ends_with_a_killed_gateway(waiting: Served) -> None:
    (reading,) = waiting.children("cli.actions.specs")
    waiting.process.kill()
    until = time.monotonic() + PATIENCE_S / 10
    while runs(reading):
        assert time.monotonic() < until, "a process without a gateway goes on"
        time.sleep(0.05)


def test_a_gateway_without_documents_starts_no_process(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, "models: {echo: {lane: echo}}\nactions: {shop: {}}") as gateway:
        assert gateway.ask("Hello").status_code == 200
        assert gateway.children("cli.actions.specs") == []
