"""`ragway replay` beside a served gateway: the same today, and what changed once documents and settings did."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.record_store import RecordStore
from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, DialectClient
from tests.support.gateway import Served, ragway, refused, serving

pytestmark = pytest.mark.models
QUESTION = "How do I use TLS for the connection?"


@pytest.fixture(scope="module")
def replayable(learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(learned(), tmp_path_factory.mktemp("replay")) as served:
        yield served


def augmented(served: Served, client: DialectClient = CHAT_CLIENT) -> str:
    """The id of a chat that was augmented, with a written receipt."""
    body = client.body("echo", QUESTION, ("user", "What is Zephyr?"), ("assistant", "A server."))
    reply = client.post(served.url, body)
    assert reply.headers["x-rag-status"] == "augmented"
    id = reply.headers["x-rag-id"]
    shelf = RecordStore(served.data, keep_s=3600, max_bytes=1 << 20)
    end_s = time.monotonic() + 20
    while shelf.read(id) is None:
        assert time.monotonic() < end_s, "it was never written"
    shelf.close()
    return id


@pytest.fixture(scope="module")
def asked(replayable: Served) -> tuple[Served, str]:
    """A gateway, and the id of a chat that was augmented."""
    return replayable, augmented(replayable)


def replayed(served: Served, id: str, folder: Path, **environ: str) -> dict[str, Any]:
    done = ragway("replay", id, "--json", "--data", str(served.data), folder=folder, environ=environ)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@BY_DIALECT
def test_nothing_changed_where_nothing_did(replayable: Served, client: DialectClient, tmp_path: Path) -> None:
    served, id = replayable, augmented(replayable, client)
    told = replayed(served, id, tmp_path)
    receipt = served.get(f"/v1/knowledge/receipts/{id}").json()
    assert told["was"]["injected"] == told["now"]["injected"] == receipt["injected"]
    assert {name: value for name, value in told["changes"].items() if value} == {}
    done = ragway("replay", id, "--data", str(served.data), folder=tmp_path)
    assert "the injected text is the same" in done.stdout


def test_other_settings_are_told_with_what_they_change(asked: tuple[Served, str], tmp_path: Path) -> None:
    served, id = asked
    template = tmp_path / "mine.txt"
    template.write_text("Read this:\n{passages}", "utf-8")
    told = replayed(served, id, tmp_path, RAGWAY_INJECT__BUDGET_TOKENS="60", RAGWAY_INJECT__TEMPLATE=str(template))
    assert [(one["name"], one["now"]) for one in told["changes"]["settings"]] == [("inject.budget_tokens", 60)]
    assert told["changes"]["template"] is not None
    assert told["now"]["injected"].startswith("Read this:")
    assert told["changes"]["passages"]
    assert told["now"]["injected_tokens"] <= 60


def test_a_document_that_was_replaced_is_told_with_its_passage(asked: tuple[Served, str], tmp_path: Path) -> None:
    served, id = asked
    handbook = served.data.parent / "handbook"
    page = handbook / "connect.md"
    page.write_text(page.read_text("utf-8").replace("Pass `tls=True`", "Pass `tls='always'`"), "utf-8")
    done = ragway("ingest", str(handbook), "--collection", "docs", "--data", str(served.data), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = replayed(served, id, tmp_path)
    assert ("connect.md", "replaced") in {
        (Path(one["source"]).name, one["change"]) for one in told["changes"]["documents"]
    }
    (changed,) = [one for one in told["changes"]["passages"] if one["change"] == "changed"]
    assert changed["source"].endswith("connect.md")
    assert told["changes"]["settings"] == []
    done = ragway("replay", id, "--data", str(served.data), folder=tmp_path)
    assert done.returncode == 0
    assert "the injected text is different" in done.stdout
    assert "~ changed" in done.stdout
    assert "connect.md: replaced since" in done.stdout


def test_an_id_that_there_is_not_is_said_to_be_none(asked: tuple[Served, str], tmp_path: Path) -> None:
    done = ragway("replay", "rag-none", "--data", str(asked[0].data), folder=tmp_path)
    assert "there is no receipt 'rag-none'" in refused(done)
    (tmp_path / "nothing").mkdir()
    done = ragway("replay", "rag-none", "--data", str(tmp_path / "nothing"), folder=tmp_path)
    assert "there is no receipt 'rag-none'" in refused(done)
