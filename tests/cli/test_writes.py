"""`ragway actions log`, pending, receipt and verify: what was written, and that nobody changed the log since."""

import base64
import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from proxy.agent.writes.pending import PendingStore
from runtime.sealing import MasterKey
from tests.proxy.agent.writes.writing import CODE, WHOSE, add, claimed, opened
from tests.support.gateway import ragway, refused

Actions = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(catalog_url: str, tmp_path: Path) -> Iterator[PendingStore]:
    """One write done, and one that waits for Bob."""
    store = opened(tmp_path, catalog_url, now_s=time.time, content=True)
    (write,) = add(store, now_s=time.time())
    claimed(store)
    store.sending(write.id)
    store.finish(write.id, "done", 204, "gone")
    add(store, group="gr-2", key="", person="bob\x1b[2J\n", now_s=time.time())
    yield store
    store.close()


@pytest.fixture
def actions(catalog_url: str, tmp_path: Path) -> Actions:
    environ: Mapping[str, str] = {"RAGWAY_CATALOG__URL": catalog_url} if catalog_url else {}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return ragway("actions", *words, "--data", str(tmp_path), folder=tmp_path, environ={**environ, **more})

    return run


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_log_has_a_line_for_each_step(store: PendingStore, actions: Actions) -> None:
    lines = printed(actions("log"))
    (first, *_, answered, _, waits) = lines
    (write, _) = sorted({entry.write: None for entry, _ in store.log.entries()}, key=lines[0].find, reverse=True)
    assert [line.split("  ")[0] for line in lines] == [str(n) for n in range(1, 8)]
    assert first.split("  ")[2:] == [write, "shop/deleteOrder", "asked", "pending", "key-a ann"]
    assert answered.split("  ")[3:] == ["shop/deleteOrder", "answered 204", "done", "key-a ann"]
    assert waits.split("  ")[4:] == ["shown", "pending", "no key bob\\x1b[2J\\n"]
    assert len(printed(actions("log", "--key", "key-a"))) == 5
    assert len(printed(actions("log", "--key", ""))) == 2
    assert printed(actions("log", "--state", "done")) == [answered]
    assert len(printed(actions("log", "--set", "shop", "--since", "2026-11-01"))) == 7
    later = actions("log", "--since", "2100-01-01T10:30")
    assert (later.stdout, later.stderr, later.returncode) == ("", "no write is in the log\n", 0)
    (row,) = map(json.loads, printed(actions("log", "--state", "done", "--json")))
    assert (row["event"], row["status"], row["content"], row["person"]) == ("answered", 204, "gone", "ann")
    assert CODE not in actions("log", "--json").stdout


def test_pending_lists_what_waits(store: PendingStore, actions: Actions) -> None:
    (line,) = printed(actions("pending"))
    assert "DELETE https://shop.example/api/orders/17  no key bob\\x1b[2J\\n  until 20" in line
    (row,) = json.loads(actions("pending", "--json").stdout)
    assert (row["state"], row["person"], row["operation"]) == ("pending", "bob\x1b[2J\n", "deleteOrder")


def test_a_changed_log_is_found(store: PendingStore, actions: Actions) -> None:
    entries, head, key = printed(actions("verify"))
    assert entries == "7 entries, none changed"
    assert printed(actions("verify", "--head", head.removeprefix("head "))) == [entries, head, key]
    assert "a head is NUMBER:HASH" in actions("verify", "--head", "7").stderr
    with store.writing() as sql:
        sql.exec_driver_sql("UPDATE write_log SET person = 'eve' WHERE n = 3")
    changed = actions("verify")
    assert changed.returncode == 1
    assert "entry 3 was changed, or was not written by this gateway" in changed.stdout
    gone = actions("verify", "--head", f"9:{'0' * 64}")
    assert "entry 9 was there, and the log ends with entry 7: the newest are gone" in gone.stdout


def test_a_receipt_is_checked_without_the_gateway(store: PendingStore, actions: Actions, tmp_path: Path) -> None:
    key = printed(actions("verify"))[2].removeprefix("public key ")
    write = json.loads(printed(actions("log", "--json"))[0])["write"]
    file = tmp_path / "receipt.jws"
    file.write_text(actions("receipt", write).stdout)
    assert [line.split("  ")[4] for line in printed(actions("verify", "receipt.jws")) if line[0] != " "] == [
        "asked", "shown", "confirmed", "sent", "answered 204",
    ]  # fmt: skip
    (elsewhere := tmp_path / "elsewhere").mkdir()
    words = ("actions", "verify", str(file), "--public-key", key)
    done = ragway(*words, folder=elsewhere)
    assert done.stderr == "the receipt is genuine and complete\n"
    assert not list(elsewhere.iterdir())
    file.write_text(file.read_text().replace(".", "x", 1))
    assert "this is not a receipt" in refused(ragway(*words, folder=elsewhere))
    assert "the log has no write 'pw-0'" in refused(actions("receipt", "pw-0"))


def test_a_gateway_that_wrote_nothing_says_so(actions: Actions) -> None:
    for words, said in ((["log"], "nothing was written yet"), (["pending"], "no write waits")):
        assert actions(*words).stderr == f"{said}\n"
    assert actions("verify").stderr == "nothing was written yet\n"


def test_the_secret_is_sealed_again_with_the_credentials(tmp_path: Path) -> None:
    add(opened(tmp_path))
    master = base64.b64encode(bytes(32)).decode()

    def keys(*words: str) -> subprocess.CompletedProcess[str]:
        return ragway(*words, "--data", ".", folder=tmp_path, environ={"RAGWAY_MASTER_KEY": master})

    assert "run `ragway keys credentials reseal` once" in refused(keys("actions", "verify"))
    assert keys("keys", "credentials", "reseal").stderr == "1 sealed with the newest master key\n"
    assert printed(keys("actions", "verify"))[0] == "2 entries, none changed"
    claimed(opened(tmp_path, master=MasterKey(master, "RAGWAY_MASTER_KEY")))
    with sqlite3.connect(tmp_path / "writes.db") as sql:
        assert sql.execute("SELECT sealed FROM write_secret").fetchall() == [(1,)]
    sql.close()
    assert WHOSE["key"] in printed(keys("actions", "log"))[-1]
