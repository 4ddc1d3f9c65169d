"""`ragway keys`: what it prints, what it keeps to itself, and what it refuses."""

import json
from pathlib import Path

import pytest

from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from tests.support.gateway import ragway, refused


def test_a_key_is_made_listed_rotated_and_revoked(tmp_path: Path) -> None:
    def keys(*words: str) -> tuple[str, str]:
        done = ragway("keys", *words, "--data", str(tmp_path / "data"), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    (tmp_path / "data").mkdir()
    assert keys("list")[1].startswith("no keys yet")
    first, told = keys(
        "create",
        "app",
        "--team",
        "search",
        "--read",
        "docs",
        "--read",
        "team-*",
        "--model",
        "gpt-*",
        "--expires",
        "90d",
    )
    assert "this is the first key" in told
    assert "reads docs,team-*  calls gpt-*  expires 2" in told
    assert "this is the first key" not in keys("create", "root", "--admin", "--write", "*")[1]
    listed, _ = keys("list")
    assert [line.split()[1:3] for line in listed.splitlines()] == [["app", "search"], ["root", "-"]]
    rows = json.loads(keys("list", "--json")[0])
    assert (rows[0]["read"], rows[0]["models"], rows[1]["admin"]) == (["docs", "team-*"], ["gpt-*"], True)
    second, _ = keys("rotate", rows[0]["id"], "--keep", "1h")
    assert "is revoked" in keys("revoke", rows[1]["id"])[1]
    assert "revoked 2" in keys("list")[0]
    assert first.removeprefix("sk-rag-") not in listed + json.dumps(rows)
    ring = Keyring(SqlAccounts(tmp_path / "data"), required=False)
    assert ring.key_of(first) is not None
    assert ring.key_of(first) == ring.key_of(second)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["create", "a"], "such a key could do nothing"),
        (["create", " ", "--admin"], "name must be text"),
        (["create", "a", "--read", "*docs"], "'*docs': letters"),
        (["create", "a", "--read", "a,b"], "'a,b': letters"),
        (["create", "a", "--model", ""], "the name of a model"),
        (["create", "a", "--model", "g*t"], "the name of a model"),
        (["create", "a", "--admin", "--expires", "soon"], "write a number with s, m, h, d or w"),
        (["rotate", "key-1", "--keep", "-1d"], "write a number"),
    ],
)
def test_what_makes_no_sense_is_refused_and_makes_nothing(tmp_path: Path, words: list[str], why: str) -> None:
    done = ragway("keys", *words, "--data", str(tmp_path / "data"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_an_unknown_key_is_named(tmp_path: Path, verb: str) -> None:
    done = ragway("keys", verb, "key-1", "--data", str(tmp_path), folder=tmp_path)
    assert "there is no key 'key-1'" in refused(done)
