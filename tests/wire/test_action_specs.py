"""Documents of the setting `actions.NAME.spec`: read by `ragway serve` at the start, where the document changed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import PATIENCE_S, Served, ragway, serving

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


def logged(served: Served, words: str, times: int = 1) -> str:
    """The line of the log with the words, once it is there."""
    until = time.monotonic() + PATIENCE_S
    while served.log.read_text().count(words) < times:
        assert time.monotonic() < until, served.log.read_text()
        time.sleep(0.05)
    return next(line for line in reversed(served.log.read_text().splitlines()) if words in line)


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
    with serving(tmp_path / "data", tmp_path, settings) as served:
        line = logged(served, f"actions.shop.spec ({tmp_path}/shop.json)")
        assert "2 added, 0 changed, 0 unchanged, 0 removed; called at https://shop.example" in line
        assert "ERROR" in logged(served, f"actions.atlas.spec ({tmp_path}/atlas.json): line 2, column 11")
        assert served.ask("Hello").status_code == 200
        assert sets(tmp_path) == {"shop": 2}

    (tmp_path / "atlas.json").write_text(document("listUsers"))
    with serving(tmp_path / "data", tmp_path, settings) as served:
        assert "1 added" in logged(served, f"actions.atlas.spec ({tmp_path}/atlas.json): 1 added")
        assert "DEBUG" in logged(served, f"actions.shop.spec ({tmp_path}/shop.json): unchanged")
        assert sets(tmp_path) == {"shop": 2, "atlas": 1}

    (tmp_path / "shop.json").write_text("[]")
    with serving(tmp_path / "data", tmp_path, settings) as served:
        assert "the set stays as before" in logged(served, f"actions.shop.spec ({tmp_path}/shop.json): the document is")
        assert sets(tmp_path) == {"shop": 2, "atlas": 1}
        assert served.log.read_text().count("1 added") == 1, "one process reads the documents"


def test_a_gateway_without_documents_starts_no_process_for_them(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, "models: {echo: {lane: echo}}\nactions: {shop: {}}") as served:
        assert served.ask("Hello").status_code == 200
        assert served.children("cli.specs") == []
