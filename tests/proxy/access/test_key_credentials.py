"""The credentials of keys in the database: sealed, bound to the place, deleted with the key."""

import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.access.key_credentials import BadCredential, CredentialName, KeyCredentials
from proxy.access.sql import SqlAccounts, UnknownKey
from proxy.caller import Rights
from runtime.sealing import MasterKey, SealingError

KEY, OTHER = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
RIGHTS = Rights(admin=True)


def credentials_of(accounts: SqlAccounts, text: str = KEY) -> KeyCredentials:
    return KeyCredentials(accounts, MasterKey(text, "THE_VARIABLE"))


def test_a_value_is_sealed_listed_by_name_and_opened(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    assert credentials_of(accounts).names() == []
    key, _ = accounts.create("app", RIGHTS)
    credentials_of(accounts).change(key.id, "atlas", {"secret": "canary", "user": "u", "fixed.groupId": "5f"})
    there = credentials_of(opened())
    assert [one.name for one in there.names(key.id)] == ["fixed.groupId", "secret", "user"]
    assert there.opened(there.sealed(key.id)) == {"secret": "canary", "user": "u", "fixed.groupId": "5f"}
    there.change(key.id, "atlas", {"user": None, "secret": "other"})
    assert there.opened(there.sealed(key.id)) == {"secret": "other", "fixed.groupId": "5f"}
    assert (there.remove(key.id, "shop"), there.remove(key.id, "atlas"), there.names()) == (0, 2, [])
    assert there.sealed("") == {}


def test_a_value_stands_nowhere_in_the_clear(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    key, _ = accounts.create("app", RIGHTS)
    credentials_of(accounts).change(key.id, "atlas", {"secret": "canary-secret", "fixed.a": "canary-fixed"})
    assert not [file for file in tmp_path.iterdir() if b"canary" in file.read_bytes()]


def test_a_row_copied_to_another_key_set_or_name_does_not_open(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    (one, _), (two, _) = accounts.create("one", RIGHTS), accounts.create("two", RIGHTS)
    credentials_of(accounts).change(one.id, "atlas", {"secret": "canary"})
    with sqlite3.connect(tmp_path / "accounts.db") as sql:
        for place in ((two.id, "atlas", "secret"), (two.id, "shop", "secret"), (two.id, "atlas", "user")):
            sql.execute("INSERT INTO credentials SELECT ?, ?, ?, sealed FROM credentials LIMIT 1", place)
    sql.close()
    there = credentials_of(accounts)
    for place, sealed in there.sealed(two.id).items():
        with pytest.raises(SealingError, match="THE_VARIABLE"):
            there.opened({place: sealed})
    assert there.opened(there.sealed(one.id)) == {"secret": "canary"}


def test_a_revoked_key_has_no_credentials_and_gets_none(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    key, _ = accounts.create("app", RIGHTS)
    credentials = credentials_of(accounts)
    credentials.change(key.id, "atlas", {"secret": "canary"})
    accounts.revoke(key.id)
    assert credentials.names() == []
    for id in (key.id, "key-1"):
        with pytest.raises(UnknownKey):
            credentials.change(id, "atlas", {"secret": "canary"})
    assert credentials.names() == []


def test_the_master_key_is_changed_by_a_second_key_and_a_new_seal(opened: Callable[[], SqlAccounts]) -> None:
    accounts = opened()
    key, _ = accounts.create("app", RIGHTS)
    credentials_of(accounts).change(key.id, "atlas", {"secret": "canary"})
    with pytest.raises(SealingError, match="THE_VARIABLE"):
        credentials_of(accounts, OTHER).reseal()
    sealed = credentials_of(accounts).sealed(key.id)
    assert credentials_of(accounts, f"{OTHER},{KEY}").opened(sealed) == {"secret": "canary"}
    assert credentials_of(accounts, f"{OTHER},{KEY}").reseal() == 1
    newest = credentials_of(accounts, OTHER)
    assert newest.opened(newest.sealed(key.id)) == {"secret": "canary"}
    with pytest.raises(SealingError):
        credentials_of(accounts).opened(newest.sealed(key.id))


@pytest.mark.parametrize(
    ("set_name", "name", "value"),
    [
        ("Atlas", "secret", "x"),
        ("a/b", "secret", "x"),
        ("atlas", "password", "x"),
        ("atlas", "fixed.", "x"),
        ("atlas", "fixed.\ud800", "x"),
        ("atlas", "secret", ""),
        ("atlas", "secret", "canary\r\nx: y"),
        ("atlas", "secret", "canary\ud800"),
        ("atlas", "secret", "canary" * 2000),
    ],
)
def test_a_credential_that_makes_no_sense_is_refused_and_not_quoted(
    tmp_path: Path, set_name: str, name: str, value: str
) -> None:
    accounts = SqlAccounts(tmp_path)
    key, _ = accounts.create("app", RIGHTS)
    with pytest.raises(BadCredential) as error:
        credentials_of(accounts).change(key.id, set_name, {name: value})
    assert "canary" not in str(error.value)
    assert credentials_of(accounts).names() == []


def test_no_value_is_in_a_repr(tmp_path: Path) -> None:
    key, _ = SqlAccounts(tmp_path).create("app", RIGHTS)
    credentials = credentials_of(SqlAccounts(tmp_path))
    credentials.change(key.id, "atlas", {"secret": "canary"})
    assert KEY not in repr(credentials) + repr(MasterKey(KEY, "V"))
    assert credentials.names() == [CredentialName(key.id, "atlas", "secret")]
