"""Keys and usage over HTTP: two workers that learn what the other was told, and callers who may not ask."""

import base64
import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.access.sql import SqlAccounts
from proxy.caller import Names, Rights
from tests.support.described import described
from tests.support.gateway import Served, serving

SETTINGS = """
server: {workers: 2, cors_origins: ["https://page.example"]}
retrieval: {enabled: false}
models: {echo: {lane: echo}}
"""
ALL = Names(["*"])
EVERY_CALL = [
    ("GET", "/v1/admin/keys"),
    ("POST", "/v1/admin/keys"),
    ("GET", "/v1/admin/keys/ID"),
    ("PATCH", "/v1/admin/keys/ID"),
    ("DELETE", "/v1/admin/keys/ID"),
    ("POST", "/v1/admin/keys/ID/rotate"),
    ("GET", "/v1/admin/keys/ID/credentials"),
    ("PATCH", "/v1/admin/keys/ID/credentials/atlas"),
    ("DELETE", "/v1/admin/keys/ID/credentials/atlas"),
    ("GET", "/v1/admin/usage"),
]
MASTER = base64.b64encode(bytes(range(32))).decode()


class Administered:
    """A gateway of two workers, and an admin's key to it."""

    def __init__(self, served: Served, admin: str) -> None:
        self.served = served
        self.admin = admin
        self.accounts = SqlAccounts(served.data)

    def call(self, method: str, path: str, secret: str = "", body: Any = None, **headers: str) -> httpx.Response:
        """One request on a connection of its own: the workers take turns."""
        sent = {"authorization": f"Bearer {secret or self.admin}", **headers}
        return described(httpx.request(method, self.served.url + path, headers=sent, json=body, timeout=30))

    def make(self, **fields: Any) -> dict[str, Any]:
        """A new key, as it is told the one time."""
        made = self.call("POST", "/v1/admin/keys", body={"name": "app", "models": ["echo"], **fields})
        assert made.status_code == 201, made.text
        told: dict[str, Any] = made.json()
        return told

    def statuses(self, secret: str) -> set[int]:
        """What chats with this key get at both workers."""
        body = {"model": "echo", "messages": [{"role": "user", "content": "Hi"}]}
        return {self.call("POST", "/v1/chat/completions", secret, body).status_code for _ in range(6)}

    def until(self, secret: str, status: int) -> None:
        until(lambda: self.statuses(secret) == {status})


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; within five seconds is promised, and the machine may be slow."""
    end_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def administered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    folder = tmp_path_factory.mktemp("admin")
    _, admin = SqlAccounts(folder / "data").create("admin", Rights(admin=True))
    with serving(folder / "data", folder, SETTINGS, RAGWAY_MASTER_KEY=MASTER) as served:
        yield Administered(served, admin)


def test_a_key_made_changed_and_revoked_over_http_is_so_at_every_worker(administered: Administered) -> None:
    made = administered.make(team="search", limits={"rpm": 1000}, expires="90d")
    assert made["secret"].startswith("sk-rag-")
    administered.until(made["secret"], 200)
    path = f"/v1/admin/keys/{made['id']}"
    assert administered.call("GET", path).json() == {name: value for name, value in made.items() if name != "secret"}
    changed = administered.call("PATCH", path, body={"limits": {"rpm": None, "tokens_per_day": 1}})
    assert (changed.status_code, changed.json()["limits"]) == (200, {"tokens_per_day": 1})
    assert administered.call("PATCH", path, body={"act": ["atlas:read"]}).json()["act"] == ["atlas:read"]
    turned = administered.call("POST", path + "/rotate", body={"keep": "1h"}).json()
    assert turned["secret"] != made["secret"]
    assert administered.call("PATCH", path, body={"limits": {"tokens_per_day": None}}).json()["limits"] == {}
    for secret in (made["secret"], turned["secret"]):
        administered.until(secret, 200)
    revoked = administered.call("DELETE", path)
    assert (revoked.status_code, revoked.json()["revoked_s"] > time.time() - 60) == (200, True)
    for secret in (made["secret"], turned["secret"]):
        administered.until(secret, 401)
    assert administered.call("POST", path + "/rotate").status_code == 404
    told = administered.served.log.read_text()
    for what in ("created", "limited", "granted other calls", "rotated", "revoked"):
        assert f"{made['id']} was {what} by key-" in told


def test_a_list_has_the_keys_and_no_secret(administered: Administered) -> None:
    made = administered.make(name="listed", read=["docs", "team-*"])
    listed = administered.call("GET", "/v1/admin/keys")
    assert listed.headers["cache-control"] == "no-store"
    (row,) = [row for row in listed.json()["data"] if row["id"] == made["id"]]
    assert (row["name"], row["read"], row["admin"], row["limits"]) == ("listed", ["docs", "team-*"], False, {})
    assert set(row) == set(made) - {"secret"}
    assert "hash" not in listed.text
    assert made["secret"].removeprefix("sk-rag-") not in listed.text + administered.served.log.read_text()


def test_credentials_are_written_over_http_and_never_read(administered: Administered) -> None:
    path = f"/v1/admin/keys/{administered.make()['id']}/credentials"
    assert administered.call("GET", path).json() == {"object": "list", "data": []}
    given = {"secret": "canary-secret", "user": "canary-user", "fixed": {"groupId": "canary-group"}}
    replies = [administered.call("PATCH", f"{path}/atlas", body=given)]
    replies.append(administered.call("PATCH", f"{path}/atlas", body={"user": None}))
    replies.append(administered.call("GET", path))
    names = [{"set": "atlas", "name": name} for name in ("fixed.groupId", "secret")]
    assert [reply.json()["data"] for reply in replies[1:]] == [names, names]
    for wrong in ({}, {"secret": 7}, {"secret": "canary\n"}, {"fixed": ["canary"]}, {"fixed": {"": "canary"}}):
        replies.append(administered.call("PATCH", f"{path}/atlas", body=wrong))
        assert replies[-1].status_code == 400
    replies.append(administered.call("PATCH", f"{path}/Atlas", body=given))
    assert replies[-1].status_code == 400
    assert administered.call("PATCH", "/v1/admin/keys/key-1/credentials/atlas", body=given).status_code == 404
    assert administered.call("DELETE", f"{path}/atlas").json()["data"] == []
    written = [file.read_bytes() for file in administered.served.data.iterdir() if file.is_file()]
    seen = b"".join([reply.content for reply in replies] + written) + administered.served.log.read_bytes()
    assert b"canary" not in seen


@pytest.mark.parametrize(("method", "path"), EVERY_CALL)
def test_who_is_no_admin_is_refused_and_changes_nothing(administered: Administered, method: str, path: str) -> None:
    """Also with every other right, without a key, and from a web page with an admin's key."""
    victim, _ = administered.accounts.create("victim", Rights(models=ALL))
    _, secret = administered.accounts.create("all but admin", Rights(ALL, ALL, ALL))
    until(lambda: administered.statuses(secret) == {200})
    before = administered.accounts.keys()
    asked, body = path.replace("ID", victim.id), {"name": "mine", "admin": True, "limits": {"rpm": 1}}
    sent = body if method in ("POST", "PATCH") else None
    refused = administered.call(method, asked, secret, sent)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert administered.call(method, asked, "sk-rag-guess", sent).status_code == 401
    page = administered.call(method, asked, administered.admin, sent, origin="https://page.example")
    assert (page.status_code, page.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert administered.accounts.keys() == before


@pytest.mark.parametrize(
    ("fields", "param", "why"),
    [
        ({"name": "a"}, "read", "Such a key could do nothing"),
        ({"name": " ", "admin": True}, "name", "Name must be text"),
        ({"admin": True}, "name", "Name must be text that can be printed"),
        ({"name": "a\n", "admin": True}, "name", "can be printed"),
        ({"name": "a", "team": 7, "admin": True}, "team", "Team must be text"),
        ({"name": "a", "read": ["*docs"]}, "read", "'*docs': letters"),
        ({"name": "a", "read": "docs"}, "read", "must be a list of names"),
        ({"name": "a", "write": [1]}, "write", "must be a list of names"),
        ({"name": "a", "models": ["g*t"]}, "models", "the name of a model"),
        ({"name": "a", "act": ["atlas"]}, "act", "write SET:WHAT"),
        ({"name": "a", "act": "atlas:read"}, "act", "must be a list of grants"),
        ({"name": "a", "act": ["a:b"] * 201}, "act", "at most 200 grants"),
        ({"name": "a", "admin": "yes"}, "admin", "must be true or false"),
        ({"name": "a", "admin": True, "expires": 90}, "expires", "write a number with s, m, h, d or w"),
        ({"name": "a", "admin": True, "limits": {"rpm": 0}}, "limits", "Rpm must be a whole number above 0"),
        ({"name": "a", "admin": True, "limits": {"rps": 1}}, "limits", "There is no limit 'rps'"),
        ({"name": "a", "admin": True, "limits": []}, "limits", "Limits must be an object"),
        ({"name": "a", "admin": True, "hash": "x"}, "hash", "There is no parameter 'hash'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_makes_nothing(
    administered: Administered, fields: dict[str, Any], param: str, why: str
) -> None:
    before = administered.accounts.keys()
    refused = administered.call("POST", "/v1/admin/keys", body=fields)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (400, "invalid_parameter", param)
    assert why in error["message"]
    assert administered.accounts.keys() == before


def test_a_body_that_a_form_could_send_is_refused(administered: Administered) -> None:
    sent = {"authorization": f"Bearer {administered.admin}", "content-type": "text/plain"}
    body = json.dumps({"name": "a", "admin": True})
    refused = httpx.post(administered.served.url + "/v1/admin/keys", content=body, headers=sent)
    assert (refused.status_code, refused.json()["error"]["code"]) == (415, "unsupported_content_type")


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/rotate")])
def test_an_unknown_key_is_named(administered: Administered, method: str, path: str) -> None:
    body = {"limits": {"rpm": 1}} if method == "PATCH" else None
    refused = administered.call(method, f"/v1/admin/keys/key-1{path}", body=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "key_not_found")
    assert "'key-1'" in refused.json()["error"]["message"]


def test_other_methods_and_paths_are_not_there(administered: Administered) -> None:
    refused = administered.call("DELETE", "/v1/admin/keys")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST, HEAD")
    assert administered.call("GET", "/v1/admin").status_code == 404


def test_usage_is_told_of_all_to_admins_and_of_itself_to_each_key(administered: Administered) -> None:
    blue, red = administered.make(team="blue"), administered.make(team="red")
    for made in (blue, red):
        administered.until(made["secret"], 200)
    by_key = "/v1/admin/usage?by=team,key&key=" + blue["id"]

    def there() -> bool:
        rows = administered.call("GET", by_key).json()["data"]
        return bool(rows) and rows[0]["requests"] >= 6

    until(there)
    (row,) = administered.call("GET", by_key).json()["data"]
    assert (row["team"], row["key"], row["failed"]) == ("blue", blue["id"], 0)
    teams = {row["team"] for row in administered.call("GET", "/v1/admin/usage?by=team").json()["data"]}
    assert {"blue", "red"} <= teams
    own = administered.call("GET", "/v1/usage?by=team,key,model", blue["secret"]).json()
    assert own["key"] == blue["id"]
    assert {(row["team"], row["key"], row["model"]) for row in own["data"]} == {("blue", blue["id"], "echo")}
    for asked in ("/v1/usage?key=" + red["id"], "/v1/usage?by=user", "/v1/usage?since=today", "/v1/usage?format=xml"):
        assert administered.call("GET", asked, blue["secret"]).status_code == 400
    assert administered.call("GET", "/v1/admin/usage?key=key-1").json()["error"]["code"] == "key_not_found"


def test_usage_comes_as_csv_where_that_is_wanted(administered: Administered) -> None:
    made = administered.make()
    administered.until(made["secret"], 200)
    until(lambda: bool(administered.call("GET", "/v1/usage", made["secret"]).json()["data"]))
    asked = [
        administered.call("GET", "/v1/usage?format=csv", made["secret"]),
        administered.call("GET", "/v1/usage", made["secret"], accept="text/csv"),
    ]
    for reply in asked:
        assert reply.headers["content-type"] == "text/csv; charset=utf-8"
        (row,) = csv.DictReader(io.StringIO(reply.text))
        assert row["model"] == "echo"
    as_json = administered.call("GET", "/v1/usage?format=json", made["secret"], accept="text/csv")
    assert as_json.json()["object"] == "usage"


@pytest.mark.parametrize("settings", ["", "auth: {open: true}\n"])
def test_no_first_key_is_made_over_an_open_port(tmp_path: Path, settings: str) -> None:
    with serving(tmp_path / "data", tmp_path, settings + "retrieval: {enabled: false}") as served:
        assert served.get("/v1/admin/keys").json() == {"object": "list", "data": []}
        assert served.get("/v1/admin/usage").json()["data"] == []
        refused = served.post(b'{"name": "a", "admin": true}', "/v1/admin/keys")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert "ragway keys create" in refused.json()["error"]["message"]
        assert served.post(b"{}", "/v1/admin/keys/key-1/rotate").status_code == 403
        assert not list((tmp_path / "data").glob("accounts.db"))


def test_accounts_that_cannot_be_read_are_said_to_be_so(tmp_path: Path) -> None:
    _, admin = SqlAccounts(tmp_path / "data").create("admin", Rights(admin=True))
    with serving(tmp_path / "data", tmp_path, "retrieval: {enabled: false}") as served:
        (tmp_path / "data" / "accounts.db").write_bytes(b"no database" * 1000)
        for path in ("/v1/admin/keys", "/v1/usage"):
            refused = httpx.get(served.url + path, headers={"authorization": f"Bearer {admin}"}, timeout=30)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert refused.json()["error"]["code"] == "accounts_unavailable"
