"""Keys on the disk: a hash and no secret, changes that others see, and a damaged file that opens nothing."""

import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts, UnknownKey
from proxy.caller import Acts, Names, Rights
from retrieval.errors import RetrievalError
from runtime.database import open_server
from tests.support.postgres_server import Postgres, running

RIGHTS = Rights(Names(["docs", "team-*"]), Names(["docs"]), Names(["gpt-*"]), admin=True)


def test_a_key_is_what_it_was_made_and_its_secret_is_nowhere(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    assert (accounts.version(), accounts.keys()) == (0, [])
    assert not list(tmp_path.iterdir()), "asking makes nothing"
    key, secret = accounts.create("app", RIGHTS, team="search", expires_s=2e9)
    (listed,) = accounts.keys()
    assert listed == key
    assert (key.rights, key.team, key.expires_s, key.revoked_s) == (RIGHTS, "search", 2e9, None)
    for file in tmp_path.iterdir():
        assert secret.removeprefix("sk-rag-").encode() not in file.read_bytes()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Keyring(SqlAccounts(tmp_path), required=False).key_of(secret) == key


def test_each_change_is_seen_by_others(opened: Callable[[], SqlAccounts]) -> None:
    here, there = opened(), opened()
    keyring = Keyring(there, required=False)
    assert not keyring.closed
    key, first = here.create("app", RIGHTS)
    keyring.refresh()
    assert keyring.closed
    assert keyring.key_of(first) == key
    _, second = here.rotate(key.id, keep_s=60)
    keyring.refresh()
    assert keyring.key_of(first) == keyring.key_of(second) == key
    _, third = here.rotate(key.id)
    keyring.refresh()
    assert [keyring.key_of(secret) for secret in (first, second, third)] == [None, None, key]
    here.revoke(key.id)
    keyring.refresh()
    assert keyring.key_of(third) is None
    assert keyring.closed


def test_grants_of_calls_are_replaced_and_what_else_is_granted_stays(opened: Callable[[], SqlAccounts]) -> None:
    here, there = opened(), opened()
    granted = replace(RIGHTS, act=Acts(["tickets:*=auto", "!tickets:delete*"]))
    key, secret = here.create("desk", granted)
    keyring = Keyring(there, required=False)
    assert keyring.key_of(secret) == key
    assert key.rights == granted
    here.change(key.id, {"rpm": 7}, Acts(["tickets:read"]))
    keyring.refresh()
    changed = keyring.key_of(secret)
    assert changed is not None
    assert (changed.rights, changed.limits.rpm) == (replace(RIGHTS, act=Acts(["tickets:read"])), 7)
    assert here.change(key.id, act=Acts()).rights == RIGHTS
    assert here.key(key.id).limits.rpm == 7


def test_a_rotated_secret_ends_with_its_time_and_no_later_than_the_key(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    soon = time.time() + 5
    key, _first = accounts.create("app", RIGHTS, expires_s=soon)
    accounts.rotate(key.id, keep_s=3600)
    assert {lock.until_s for lock in accounts.key_hashes()} == {soon}
    other, _ = accounts.create("other", RIGHTS)
    accounts.rotate(other.id, keep_s=60)
    kept = [lock.until_s for lock in accounts.key_hashes() if lock.key.id == other.id]
    assert max(kept) == float("inf")
    assert min(kept) == pytest.approx(time.time() + 60, abs=30)


def test_what_is_not_there_cannot_be_changed(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    for change in (accounts.revoke, accounts.rotate):
        with pytest.raises(UnknownKey, match="there is no key 'key-x'"):
            change("key-x")
    key, _ = accounts.create("app", RIGHTS)
    accounts.revoke(key.id)
    first = accounts.keys()
    assert accounts.revoke(key.id).revoked_s == first[0].revoked_s, "the first time counts"
    with pytest.raises(UnknownKey, match="is revoked"):
        accounts.rotate(key.id)


def test_a_making_that_was_interrupted_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "accounts.db").touch()
    accounts = SqlAccounts(tmp_path)
    assert accounts.version() == 0
    assert not Keyring(accounts, required=False).closed
    key, _ = accounts.create("app", RIGHTS)
    assert accounts.keys() == [key]


def test_a_damaged_file_opens_nothing_and_says_so(tmp_path: Path) -> None:
    SqlAccounts(tmp_path).create("app", RIGHTS)
    (tmp_path / "accounts.db").write_bytes(b"this is no database" * 100)
    for accounts in (SqlAccounts(tmp_path),):
        with pytest.raises(RetrievalError, match=r"the keys in .*accounts.db cannot be read"):
            Keyring(accounts, required=False)
        with pytest.raises(RetrievalError, match="is damaged"):
            accounts.create("another", RIGHTS)


def test_a_file_that_is_gone_is_no_open_gateway(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    _, secret = accounts.create("app", RIGHTS)
    keyring = Keyring(accounts, required=False)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(RetrievalError, match="does not exist any more"):
        keyring.refresh()
    assert keyring.closed
    assert keyring.key_of(secret) is not None


def test_a_writer_that_is_busy_is_waited_for_and_then_named(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    accounts.create("app", RIGHTS)
    other = sqlite3.connect(tmp_path / "accounts.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert len(accounts.keys()) == 1, "readers do not wait"
    with pytest.raises(RetrievalError, match="locked"):
        accounts.create("another", RIGHTS)
    other.rollback()
    accounts.create("another", RIGHTS)
    assert len(accounts.keys()) == 2


def test_a_server_has_the_keys_and_no_secret(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database()
    accounts = SqlAccounts(tmp_path, url)
    assert (accounts.version(), accounts.keys()) == (0, [])
    key, secret = accounts.create("app", RIGHTS, team="search", expires_s=2e9)
    assert accounts.keys() == [key]
    (note,) = tmp_path.iterdir()
    noted = note.read_text()
    assert noted.startswith("127.0.0.1:")
    assert "secret" not in noted
    assert "@" not in noted, "the data folder has nothing of it but the place"
    engine = open_server(url)
    with engine.connect() as sql:
        assert secret.removeprefix("sk-rag-") not in str(sql.execute(text("SELECT * FROM keys")).all())
    engine.dispose()
    keyring = Keyring(accounts, required=False)
    assert keyring.key_of(secret) == key
    accounts.close()


def test_changes_at_once_each_have_a_number_of_their_own(opened: Callable[[], SqlAccounts]) -> None:
    opened().create("first", RIGHTS)
    several = [opened() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: several[number % 4].create(f"app {number}", RIGHTS), range(8)))
    assert (several[0].version(), len(several[1].keys())) == (9, 9)


def test_a_server_that_goes_away_changes_no_key_and_is_used_again(tmp_path: Path) -> None:
    with running() as server:
        url = server.database()
        accounts = SqlAccounts(tmp_path, url)
        key, secret = accounts.create("app", RIGHTS)
        keyring = Keyring(accounts, required=False)
        server.stop()
        with pytest.raises(RetrievalError, match="which holds the keys, is not reachable"):
            keyring.refresh()
        assert keyring.key_of(secret) == key
        with pytest.raises(RetrievalError):
            Keyring(SqlAccounts(tmp_path, url), required=False)
        server.start()
        accounts.revoke(key.id)
        keyring.refresh()
        assert keyring.key_of(secret) is None
        accounts.close()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def without_rows(file: Path) -> None:
    with sqlite3.connect(file) as sql:
        sql.execute("DELETE FROM keys")
    sql.close()


@pytest.mark.parametrize("lose", [emptied, Path.unlink, without_rows])
def test_lost_keys_open_nothing(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    accounts, file = SqlAccounts(tmp_path), tmp_path / "accounts.db"
    accounts.create("app", RIGHTS)
    running = Keyring(accounts, required=False)
    accounts.close()
    lose(file)
    said = r"all keys are gone from .*accounts\.db: restore a backup, or delete .*keys\.made"
    with pytest.raises(RetrievalError, match=said):
        Keyring(SqlAccounts(tmp_path), required=False)
    with pytest.raises(RetrievalError, match=said):
        SqlAccounts(tmp_path).create("another", RIGHTS)
    with pytest.raises(RetrievalError):
        running.refresh()
    assert running.closed
    file.unlink(missing_ok=True)
    (tmp_path / "keys.made").unlink()
    assert not Keyring(SqlAccounts(tmp_path), required=False).closed


def test_keys_of_an_earlier_version_are_noted_at_the_first_look(tmp_path: Path) -> None:
    SqlAccounts(tmp_path).create("app", RIGHTS)
    (tmp_path / "keys.made").unlink()
    Keyring(SqlAccounts(tmp_path), required=False)
    (tmp_path / "accounts.db").unlink()
    with pytest.raises(RetrievalError, match="all keys are gone"):
        Keyring(SqlAccounts(tmp_path), required=False)


def test_an_invalid_secret_of_a_key_names_the_key_for_the_log(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    rotated, before = accounts.create("app", RIGHTS)
    _, after = accounts.rotate(rotated.id)
    revoked, ended = accounts.create("old", RIGHTS)
    accounts.revoke(revoked.id)
    expired, late = accounts.create("late", RIGHTS, expires_s=time.time() - 1)
    keyring = Keyring(accounts, required=False)
    assert [keyring.key_of(secret) for secret in (before, ended, late, "unknown", after)][:4] == [None] * 4
    assert keyring.former(before) == f"a secret of {rotated.id} before its rotation"
    assert keyring.former(ended) == f"{revoked.id} is revoked"
    assert keyring.former(late) == f"{expired.id} has expired"
    assert keyring.former("unknown") == keyring.former("") == ""
