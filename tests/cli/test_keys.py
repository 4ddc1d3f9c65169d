"""`ragway keys`: what it prints, what it keeps to itself, and what it refuses."""

import base64
import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from click.testing import CliRunner

from cli.keys.keys import command as keys_command
from proxy.access.key_credentials import KeyCredentials
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from proxy.caller import Rights
from runtime.sealing import MasterKey
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
    told = keys("act", rows[0]["id"], "atlas:read", "!atlas:getSecret")[1]
    assert told.strip().endswith("app acts atlas:read,!atlas:getSecret")
    assert "acts atlas:read,!atlas:getSecret" in keys("list")[0]
    assert keys("act", rows[0]["id"], "none")[1].strip().endswith("app has no grant of calls")
    keys("create", "sums", "--query", "shop.*", "--query", "hr.open positions")
    assert "queries shop.*,hr.open positions" in keys("list")[0]
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
        (["create", "a", "--act", "atlas"], "write SET:WHAT"),
        (["create", "a", "--query", "shop"], "write DATABASE.TABLE"),
        (["create", "a", "--query", "sh*p.sales"], "the name of a table"),
        (["act", "key-1", "atlas:read=auto"], "leave =auto out"),
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


def test_credentials_are_sealed_listed_by_name_removed_and_never_printed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    master, newer = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))

    def keys(*words: str, master: str = master, **environ: str) -> CompletedProcess[str]:
        given = {"RAGWAY_MASTER_KEY": master, **environ}
        return ragway("keys", *words, "--data", str(tmp_path / "data"), folder=tmp_path, environ=given)

    keys("create", "app", "--admin")
    id = json.loads(keys("list", "--json").stdout)[0]["id"]
    said = [keys("credentials", "list").stderr]
    assert said[0].startswith("no credentials")
    for name in ("secret", "fixed.groupId"):
        done = keys("credentials", "set", id, "atlas", name, "--env", "VALUE", VALUE="canary-value")
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
    assert "the setting actions has no row 'atlas': no API is called with the value; rows: none" in said[-1]
    (tmp_path / "ragway.yaml").write_text("actions: {atlas: {}}\n")
    done = keys("credentials", "set", id, "atlas", "secret", "--env", "VALUE", VALUE="canary-value")
    assert done.stderr == f"{id} has a secret for atlas\n"
    listed = keys("credentials", "list", id, "--json")
    assert [row["name"] for row in json.loads(listed.stdout)] == ["fixed.groupId", "secret"]
    assert f"{id}  atlas  secret" in keys("credentials", "list").stdout
    assert "RAGWAY_MASTER_KEY" in refused(keys("credentials", "reseal", master=newer))
    assert "2 sealed" in keys("credentials", "reseal", master=f"{newer},{master}").stderr
    assert keys("credentials", "reseal", master=newer).returncode == 0
    assert "1 deleted" in keys("credentials", "remove", id, "atlas", "fixed.groupId").stderr
    assert "no such credentials" in refused(keys("credentials", "remove", id, "shop"))
    assert "canary" not in "".join(said) + listed.stdout


def test_a_credential_that_cannot_be_stored_is_an_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    def refusal(id: str, *words: str, **environ: str) -> CompletedProcess[str]:
        given = ("keys", "credentials", "set", id, *words, "--data", str(tmp_path / "data"))
        return ragway(*given, folder=tmp_path, environ=environ)

    ragway("keys", "create", "app", "--admin", "--data", str(tmp_path / "data"), folder=tmp_path)
    id = SqlAccounts(tmp_path / "data").keys()[0].id
    assert "variable VALUE is not set" in refused(refusal(id, "atlas", "secret", "--env", "VALUE"))
    missing = refused(refusal(id, "atlas", "secret", "--env", "VALUE", VALUE="canary"))
    assert "RAGWAY_MASTER_KEY is not set" in missing
    assert "there is no key" in refused(refusal("key-1", "atlas", "secret", "--env", "VALUE", VALUE="canary"))
    wrong = refusal(id, "atlas", "password", "--env", "VALUE", VALUE="canary")
    assert (wrong.returncode, "a credential is secret, user or fixed.ARGUMENT" in wrong.stderr) == (2, True)
    assert "canary" not in missing + wrong.stderr


def test_a_value_comes_from_standard_input(tmp_path: Path) -> None:
    accounts = SqlAccounts(tmp_path)
    key, _ = accounts.create("app", Rights(admin=True))
    master = base64.b64encode(bytes(32)).decode()
    given = ["credentials", "set", key.id, "atlas", "secret", "--data", str(tmp_path)]
    done = CliRunner().invoke(keys_command, given, input="canary value\n", env={"RAGWAY_MASTER_KEY": master})
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    credentials = KeyCredentials(accounts, MasterKey(master, "RAGWAY_MASTER_KEY"))
    assert credentials.opened(credentials.sealed(key.id)) == {"secret": "canary value"}
