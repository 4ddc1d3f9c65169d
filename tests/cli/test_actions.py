"""`ragway actions`: sets from documents, found by a question, shown and deleted."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.apis.library import ActionSet, ActionStore
from proxy.asgi import Receive, Scope, Send
from tests.support.gateway import ragway, refused
from tests.support.served_app import served

ATLAS = """openapi: 3.0.3
info: {title: Atlas, version: "1"}
servers: [{url: "https://cloud.example.com"}]
paths:
  /orgs/{orgId}/users:
    get:
      operationId: listOrganizationUsers
      summary: Return all users of an organization
      parameters:
        - {name: orgId, in: path, required: true, schema: {type: string}}
        - {name: itemsPerPage, in: query, schema: {type: integer, maximum: 500}}
  /orgs/{orgId}/invoices:
    get:
      operationId: listInvoices
      summary: Return all invoices of an organization
      parameters: [{name: orgId, in: path, required: true, schema: {type: string}}]
    put:
      summary: Upload
      requestBody: {required: true, content: {application/xml: {}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "atlas.yaml").write_text(ATLAS)
    (tmp_path / "ragway.yaml").write_text("embedder: {model: hash}\n")
    return tmp_path


def actions(folder: Path, *words: str) -> tuple[str, str]:
    done = ragway("actions", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_set_is_added_found_changed_and_removed(folder: Path) -> None:
    out, err = actions(folder, "add", "atlas", "atlas.yaml")
    assert out == "atlas: 2 added, 0 changed, 0 unchanged, 0 removed; called at https://cloud.example.com"
    assert "cannot be called: PUT /orgs/{orgId}/invoices" in err
    assert "2 operations, 1 cannot be called" in actions(folder, "list")[0]
    found = json.loads(actions(folder, "search", "who are the users in my organization?", "--json")[0])
    assert found[0]["name"] == "listOrganizationUsers"
    assert found[0]["score"] > found[1]["score"]
    assert found[0]["scores"].keys() == found[0]["ranks"].keys() == {"bm25", "dense"}
    first, *_, last = actions(folder, "search", "who are the users in my organization?")[0].splitlines()
    assert "bm25 #1 " in first
    assert last.startswith("the best is relevant with probability 0.")
    shown: dict[str, Any] = json.loads(actions(folder, "show", "atlas", "listInvoices", "--json")[0])[0]
    assert shown["arguments"]["required"] == ["orgId"]

    changed = ATLAS.replace("all invoices of", "every bill of").replace("listOrganizationUsers", "listMembers")
    (folder / "atlas.yaml").write_text(changed)
    assert actions(folder, "add", "atlas", "atlas.yaml")[0].startswith(
        "atlas: 1 added, 1 changed, 0 unchanged, 1 removed"
    )
    names = [row["name"] for row in json.loads(actions(folder, "search", "users", "--json")[0])]
    assert "listMembers" in names
    assert "listOrganizationUsers" not in names
    assert actions(folder, "add", "atlas", "atlas.yaml")[0].startswith("atlas: 0 added, 0 changed, 2 unchanged")

    actions(folder, "remove", "atlas")
    assert actions(folder, "list") == ("", "no action set: ragway actions add NAME FILE\n")


def test_a_document_that_cannot_be_read_changes_nothing(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    (folder / "atlas.yaml").write_text("openapi: 3.0.3\npaths: {/a: [}\n")
    words = refused(ragway("actions", "add", "atlas", "atlas.yaml", folder=folder))
    assert "atlas.yaml: line 2, column" in words
    assert "nothing is changed" in words
    assert "2 operations" in actions(folder, "list")[0]


def test_the_words_of_a_document_give_a_terminal_no_orders(folder: Path) -> None:
    (folder / "atlas.yaml").write_text('openapi: "9\\e[2J\\u202e"\npaths: {}\n')
    assert r"`openapi: 9\x1b[2J\u202e`" in refused(ragway("actions", "add", "atlas", "atlas.yaml", folder=folder))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["show", "nope"], "there is no action set 'nope'; known: none"),
        (["remove", "nope"], "there is no action set 'nope'"),
        (["search", "x", "--set", "nope"], "there is no action set 'nope'"),
        (["run", "nope", "op"], "there is no action set 'nope'"),
    ],
)
def test_an_unknown_set_is_named(folder: Path, words: list[str], reason: str) -> None:
    (folder / "data").mkdir()
    assert reason in refused(ragway("actions", *words, folder=folder))


@pytest.mark.parametrize("words", [["list"], ["show", "shop"], ["run", "shop", "listShirts"], ["search", "shirts"]])
def test_a_damaged_database_is_named_in_one_line(folder: Path, words: list[str]) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "actions.db").write_bytes(b"no database" * 100)
    done = ragway("actions", *words, folder=folder)
    assert "actions.db is damaged" in refused(done)


def test_the_address_of_the_api_must_be_known(folder: Path) -> None:
    (folder / "atlas.yaml").write_text(ATLAS.replace("https://cloud.example.com", "/api"))
    words = refused(ragway("actions", "add", "atlas", "atlas.yaml", folder=folder))
    assert "give the address with --base-url" in words
    assert (
        "called at http://x.example"
        in actions(folder, "add", "atlas", "atlas.yaml", "--base-url", "http://x.example")[0]
    )


@pytest.mark.parametrize("name", ["../x", "off"])
def test_a_name_of_a_set_is_checked(folder: Path, name: str) -> None:
    done = ragway("actions", "add", name, "atlas.yaml", folder=folder)
    assert done.returncode == 2
    assert "NAME has small letters" in done.stderr


def test_an_operation_is_found_with_the_operation_that_gives_its_identifier(folder: Path) -> None:
    organizations = "  /orgs:\n    get: {operationId: listOrganizations, summary: Every tenant}\n"
    (folder / "atlas.yaml").write_text(ATLAS + organizations)
    actions(folder, "add", "atlas", "atlas.yaml")
    found = json.loads(actions(folder, "search", "who are the users?", "--json", "-k", "2")[0])
    assert [one["name"] for one in found] == ["listOrganizationUsers", "listOrganizations"]


# --- run -------------------------------------------------------------------------------------------------------------

NOBODY = "http://127.0.0.1:9"  # no server listens
SECRET = "s3cret-value"


class Users:
    """The API: keeps each request, answers with a list of users, and sends the key back."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.targets: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.targets.append(f"{scope['method']} {scope['raw_path'].decode()}?{scope['query_string'].decode()}")
        key = dict(scope["headers"]).get(b"x-api-key", b"").decode()
        users = [{"id": number, "key": key} for number in range(1000)]
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(users).encode()})


def configured(folder: Path, base_url: str, more: str = "") -> None:
    """Add the set, as a set of an API at `base_url` with a key."""
    rows = f"base_url: {base_url}, networks: [127.0.0.0/8], auth: api_key, secret_env: ATLAS_KEY{more}"
    (folder / "ragway.yaml").write_text(f"embedder: {{model: hash}}\nactions: {{atlas: {{{rows}}}}}\n")
    actions(folder, "add", "atlas", "atlas.yaml")


def test_a_run_prints_the_result_as_a_model_reads_the_result(folder: Path) -> None:
    users = Users()
    with served(users) as port:
        configured(folder, f"http://127.0.0.1:{port}/api")
        words = ("actions", "run", "atlas", "listOrganizationUsers", "orgId=12", "itemsPerPage=5")
        done = ragway(*words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.returncode == 0, done.stderr
    assert users.targets == ["GET /api/orgs/12/users?itemsPerPage=5"]
    rows = json.loads(done.stdout)
    assert rows[0] == {"id": 0, "key": "…"}
    assert rows[-1].endswith(" more")
    assert done.stderr.startswith("status 200, ")
    assert SECRET not in done.stdout + done.stderr


def test_a_run_that_the_api_refuses_fails(folder: Path) -> None:
    with served(Users(404)) as port:
        configured(folder, f"http://127.0.0.1:{port}")
        words = ("actions", "run", "atlas", "listInvoices", "orgId=5f0")
        done = ragway(*words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.returncode == 1
    assert done.stdout.startswith("The API answered with status 404. [")
    assert done.stderr.startswith("status 404, ")


def test_a_dry_run_prints_the_request_without_credentials(folder: Path) -> None:
    configured(folder, NOBODY, ", fixed: {itemsPerPage: '7'}")
    words = ("actions", "run", "atlas", "listOrganizationUsers", "orgId=a/b", "--dry")
    done = ragway(*words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"GET {NOBODY}/orgs/a%2Fb/users?itemsPerPage=FIXED"
    assert SECRET not in done.stdout


@pytest.mark.parametrize(
    ("text", "sent"),
    [(str(2**64 + 1), str(2**64 + 1)), ("9007199254740993", "9007199254740993"), ("NaN", "NaN"), ('"7"', "7")],
)
def test_an_argument_of_a_run_is_sent_as_given(folder: Path, text: str, sent: str) -> None:
    (folder / "atlas.yaml").write_text(ATLAS.replace("schema: {type: integer, maximum: 500}", "schema: {}"))
    configured(folder, NOBODY)
    words = ("actions", "run", "atlas", "listOrganizationUsers", "orgId=5f0", f"itemsPerPage={text}", "--dry")
    done = ragway(*words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.stdout.splitlines()[0] == f"GET {NOBODY}/orgs/5f0/users?itemsPerPage={sent}"


def test_a_dry_run_says_that_a_writing_operation_is_not_called(folder: Path) -> None:
    writing = "  /things:\n    post: {operationId: makeThing, responses: {'201': {description: ok}}}\n"
    (folder / "atlas.yaml").write_text(ATLAS.replace("paths:\n", "paths:\n" + writing))
    configured(folder, NOBODY)
    done = ragway("actions", "run", "atlas", "makeThing", "--dry", folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.stdout.startswith(f"POST {NOBODY}/things")
    assert "makeThing could change something: without --dry, nothing is sent either" in done.stderr


@pytest.mark.parametrize(
    ("base_url", "more"),
    [(NOBODY, ", key_in: query, key_name: itemsPerPage"), (f"'{NOBODY}?itemsPerPage=5'", "")],
    ids=["of the key", "of the address"],
)
def test_the_arguments_shown_are_the_arguments_of_a_run(folder: Path, base_url: str, more: str) -> None:
    configured(folder, base_url, more + ", fixed: {orgId: '7'}")
    nothing = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    shown = json.loads(actions(folder, "show", "atlas", "listOrganizationUsers", "--json")[0])
    found = json.loads(actions(folder, "search", "users of an organization", "-k", "1", "--json")[0])
    assert shown[0]["arguments"] == found[0]["arguments"] == nothing
    plain = actions(folder, "show", "atlas", "listOrganizationUsers")[0]
    assert json.loads(plain[plain.index("{\n") :]) == nothing


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["listOrganizationUsers"], "listOrganizationUsers: orgId is missing"),
        (
            ["listOrganizationUsers", "orgId=5f0", "itemsPerPage=many"],
            'itemsPerPage must be a whole number, not "many"',
        ),
        (["listOrganizationUsers", "orgId=5f0", "itemsPerPage=501"], "itemsPerPage must be at most 500, not 501"),
        (["listOrganizationUsers", "orgID=5f0"], "orgID is unknown (did you mean orgId?)"),
        (["listOrganizationUsers", "orgId=..", "--dry"], "orgId must not be"),
        (["listUsers", "orgId=5f0"], "atlas has no operation 'listUsers'"),
        (["listOrganizationUsers", "orgId"], "an argument is NAME=VALUE, got 'orgId'"),
    ],
)
def test_a_run_with_wrong_words_sends_nothing_and_says_why(folder: Path, words: list[str], reason: str) -> None:
    configured(folder, NOBODY)
    done = ragway("actions", "run", "atlas", *words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.returncode in (1, 2)
    assert reason in done.stderr


def test_a_run_needs_the_variable_of_the_secret(folder: Path) -> None:
    configured(folder, NOBODY)
    words = refused(ragway("actions", "run", "atlas", "listInvoices", "orgId=5f0", folder=folder))
    assert "actions.atlas: the environment variable ATLAS_KEY is not set" in words


def test_a_run_to_an_address_that_is_not_public_is_refused(folder: Path) -> None:
    configured(folder, NOBODY)
    file = folder / "ragway.yaml"
    file.write_text(file.read_text().replace("127.0.0.0/8", "10.0.0.0/8"))
    words = ("actions", "run", "atlas", "listInvoices", "orgId=5f0")
    done = ragway(*words, folder=folder, environ={"ATLAS_KEY": SECRET})
    assert done.returncode == 1
    assert done.stdout == (
        "The call failed: 127.0.0.1 is not a public address (to allow: actions.atlas.networks: […, 127.0.0.1/32]).\n"
    )


def test_a_run_of_a_key_uses_the_credentials_of_the_key(folder: Path) -> None:
    master = {"RAGWAY_MASTER_KEY": base64.b64encode(bytes(32)).decode()}
    users = Users()
    with served(users) as port:
        configured(folder, f"http://127.0.0.1:{port}/api", ", secret_per_key: true")
        ragway("keys", "create", "app", "--admin", folder=folder)
        id = json.loads(ragway("keys", "list", "--json", folder=folder).stdout)[0]["id"]
        words = ("actions", "run", "atlas", "listOrganizationUsers", "orgId=12")
        assert "only keys with a secret of their own may call atlas: add --key ID" in refused(
            ragway(*words, folder=folder)
        )
        why = refused(ragway(*words, "--key", id, folder=folder, environ=master))
        assert f"ragway keys credentials set {id} atlas secret" in why
        assert "there is no key 'key-1'" in refused(ragway(*words, "--key", "key-1", folder=folder))
        for name, value in (("secret", SECRET), ("fixed.itemsPerPage", "345")):
            set_words = ("keys", "credentials", "set", id, "atlas", name, "--env", "VALUE")
            assert ragway(*set_words, folder=folder, environ={"VALUE": value, **master}).returncode == 0
        typo = ("keys", "credentials", "set", id, "atlas", "fixed.itemsperpage", "--env", "VALUE")
        done = ragway(*typo, folder=folder, environ={"VALUE": "1", **master})
        assert (done.returncode, done.stderr.splitlines()[1:]) == (
            0,
            ["no operation of atlas has the argument 'itemsperpage': the value is not sent"],
        )
        dry = ragway(*words, "--key", id, "--dry", folder=folder, environ=master)
        done = ragway(*words, "--key", id, folder=folder, environ=master)
        assert "RAGWAY_MASTER_KEY is not set" in refused(ragway(*words, "--key", id, folder=folder))
    assert users.targets == ["GET /api/orgs/12/users?itemsPerPage=345"]
    assert json.loads(done.stdout)[0] == {"id": 0, "key": "…"}
    assert SECRET not in done.stdout + done.stderr
    assert dry.stdout.splitlines()[0].endswith("users?itemsPerPage=FIXED"), "no value of a fixed argument is printed"


# --- update, and documents of the settings ---------------------------------------------------------------------------


def test_update_reads_the_file_of_the_set_again_and_keeps_the_address(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml", "--base-url", "http://x.example")
    (folder / "atlas.yaml").write_text(ATLAS.replace("all invoices of", "every bill of"))
    for words in (["update", "atlas"], ["update"]):
        out, err = actions(folder, *words)
        assert out.startswith("atlas: 0 added, ")
        assert out.endswith("; called at http://x.example")
        assert "cannot be called: PUT /orgs/{orgId}/invoices" in err
    assert "every bill of" in actions(folder, "show", "atlas")[0]
    assert json.loads(actions(folder, "list", "--json")[0])[0]["source"] == str(folder / "atlas.yaml")


def test_show_says_why_an_operation_is_not_called(folder: Path) -> None:
    changed = ATLAS.replace("requestBody: {required: true, content: {application/xml: {}}}", "operationId: upload")
    changed = changed.replace(
        "/orgs/{orgId}/users:\n", "/orgs/{orgId}/users:\n    servers: [{url: 'https://b.example'}]\n"
    )
    parameter = "      parameters: [{name: orgId, in: path, required: true, schema: {type: string}}]\n"
    (folder / "atlas.yaml").write_text(changed + parameter)
    actions(folder, "add", "atlas", "atlas.yaml")
    assert actions(folder, "show", "atlas")[0].splitlines() == [
        "listInvoices  GET /orgs/{orgId}/invoices  Return all invoices of an organization",
        "listOrganizationUsers  GET /orgs/{orgId}/users  Return all users of an organization  "
        "(not called: https://b.example is not in actions.atlas.servers)",
        "upload  PUT /orgs/{orgId}/invoices  Upload  (not called: could change something)",
    ]
    (folder / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {atlas: {servers: ['https://b.example']}}\n")
    assert actions(folder, "show", "atlas")[0].count("not called") == 1


def test_update_names_each_document_that_cannot_be_read_and_reads_the_others(folder: Path) -> None:
    (folder / "shop.yaml").write_text(ATLAS.replace("Atlas", "Shop"))
    actions(folder, "add", "atlas", "atlas.yaml")
    actions(folder, "add", "shop", "shop.yaml")
    (folder / "atlas.yaml").write_text("openapi: 3.0.3\npaths: {/a: [}\n")
    done = ragway("actions", "update", folder=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("shop: 0 added, 0 changed, 2 unchanged")
    assert f"atlas: {folder}/atlas.yaml: line 2, column" in done.stderr
    assert "nothing is changed" in refused(ragway("actions", "update", "atlas", folder=folder))
    assert "there is no action set 'nope'; known: atlas, shop" in refused(
        ragway("actions", "update", "nope", folder=folder)
    )


def test_a_set_from_a_client_has_no_document_to_read_again(folder: Path) -> None:
    with contextlib.closing(ActionStore(folder / "data")) as store:
        store.put(ActionSet("atlas", "Atlas", "https://x.example", 0.0, ()), [])
    words = refused(ragway("actions", "update", "atlas", folder=folder))
    assert "the document of atlas was sent by a client, and has no file or URL" in words
    assert "no action set has a file or a URL" in actions(folder, "update")[1]


def test_a_document_of_the_settings_needs_no_add(folder: Path) -> None:
    (folder / "specs").mkdir()
    (folder / "specs" / "ragway.yaml").write_text(
        "embedder: {model: hash}\nactions: {atlas: {spec: ../atlas.yaml, base_url: 'http://x.example'}}\n"
    )
    where = ("--config", "specs/ragway.yaml")
    out, _ = actions(folder, "update", *where)
    assert out == "atlas: 2 added, 0 changed, 0 unchanged, 0 removed; called at http://x.example"
    words = refused(ragway("actions", "add", "atlas", "other.yaml", *where, folder=folder))
    assert "the setting actions.atlas.spec names another document: run `ragway actions update atlas`" in words


def test_a_document_comes_from_an_allowed_host_alone(folder: Path) -> None:
    async def document(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = ATLAS.replace("https://cloud.example.com", "/api").encode()
        await send({"type": "http.response.body", "body": body})

    with served(document) as port:
        url = f"http://127.0.0.1:{port}/openapi.yaml"
        words = refused(ragway("actions", "add", "atlas", f"{url}?token={SECRET}", folder=folder))
        assert f"{url}: documents are not fetched from 127.0.0.1: add the host to the setting" in words
        assert SECRET not in words
        (folder / "ragway.yaml").write_text(
            "embedder: {model: hash}\naction_calls: {spec_hosts: [127.0.0.1]}\n"
            "actions: {atlas: {networks: [127.0.0.0/8]}}\n"
        )
        out, _ = actions(folder, "add", "atlas", f"{url}?token={SECRET}")
        assert out == f"atlas: 2 added, 0 changed, 0 unchanged, 0 removed; called at http://127.0.0.1:{port}/api"
        assert "2 unchanged" in actions(folder, "update")[0]
    assert "cannot be fetched" in refused(ragway("actions", "update", "atlas", folder=folder))
    assert SECRET not in actions(folder, "list", "--json")[0]


def test_the_key_in_the_url_of_a_document_of_the_settings_is_not_stored(folder: Path) -> None:
    async def document(scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["query_string"] == f"token={SECRET}".encode()
        await send({"type": "http.response.start", "status": 200 if allowed else 403, "headers": []})
        await send({"type": "http.response.body", "body": ATLAS.encode()})

    with served(document) as port:
        (folder / "ragway.yaml").write_text(
            "embedder: {model: hash}\naction_calls: {spec_hosts: [127.0.0.1]}\n"
            f"actions: {{atlas: {{spec: 'http://127.0.0.1:{port}/openapi.yaml?token={SECRET}', "
            "base_url: 'https://x.example', networks: [127.0.0.0/8]}}\n"
        )
        assert "2 added" in actions(folder, "update")[0]
        assert "2 unchanged" in actions(folder, "update")[0]
    stored = b"".join(file.read_bytes() for file in (folder / "data").rglob("*") if file.is_file())
    assert f":{port}/openapi.yaml".encode() in stored
    assert SECRET.encode() not in stored


def test_the_doctor_names_a_document_of_the_settings_that_cannot_be_read(folder: Path) -> None:
    (folder / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {atlas: {spec: atlas.yaml}}\n")
    actions(folder, "update")
    assert ragway("doctor", folder=folder).returncode == 0
    (folder / "atlas.yaml").write_text("openapi: 3.0.3\npaths: {/a: [}\n")
    done = ragway("doctor", folder=folder)
    assert done.returncode == 1
    assert f"actions.atlas.spec ({folder}/atlas.yaml): line 2, column" in done.stdout


def test_the_doctor_names_a_set_whose_reading_was_interrupted(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    with contextlib.closing(ActionStore(folder / "data")) as store:
        store.note_document("atlas", "")  # as far as an `add` that was killed
    done = ragway("doctor", folder=folder)
    assert done.returncode == 1
    assert (
        "action set atlas: the last reading of the document was interrupted: `ragway actions update atlas`"
        in done.stdout
    )
    actions(folder, "update", "atlas")
    assert ragway("doctor", folder=folder).returncode == 0


def test_an_address_that_is_not_public_is_named_before_the_first_call(folder: Path) -> None:
    reason = "127.0.0.1 is not a public address (to allow: actions.atlas.networks: [127.0.0.1/32])"
    _, err = actions(folder, "add", "atlas", "atlas.yaml", "--base-url", NOBODY)
    assert f"no operation is called yet: {reason}\n" in err
    done = ragway("doctor", folder=folder)
    assert done.returncode == 1
    assert f"action set atlas: {reason}: until then, no operation is called" in done.stdout
    settings = "embedder: {model: hash}\nactions: {atlas: {networks: [127.0.0.1/32]}}\n"
    (folder / "ragway.yaml").write_text(settings)
    assert ragway("doctor", folder=folder).returncode == 0
    assert "no public address" not in actions(folder, "add", "atlas", "atlas.yaml", "--base-url", NOBODY)[1]


def test_a_set_that_no_chat_can_use_is_named_when_added(folder: Path) -> None:
    hint = "no chat can use the set yet: add the row `atlas: {}` to the setting `actions`"
    assert hint in actions(folder, "add", "atlas", "atlas.yaml")[1]
    (folder / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {atlas: {}}\n")
    assert hint not in actions(folder, "add", "atlas", "atlas.yaml")[1]


@pytest.mark.parametrize(
    ("setting", "named"), [("fixed", "{orgID: 5f0, itemsPerPage: '5'}"), ("ask", "[orgID, itemsPerPage]")]
)
def test_the_doctor_names_an_argument_that_no_operation_has(folder: Path, setting: str, named: str) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    settings = f"embedder: {{model: hash}}\nactions: {{atlas: {{{setting}: {named}}}}}\n"
    (folder / "ragway.yaml").write_text(settings)
    done = ragway("doctor", folder=folder)
    assert done.returncode == 1
    assert done.stdout == (
        f"actions.atlas.{setting}: no operation has the argument 'orgID': "
        "`ragway actions show atlas OPERATION` prints the arguments\n"
    )
    (folder / "ragway.yaml").write_text(settings.replace("orgID", "orgId"))
    assert ragway("doctor", folder=folder).returncode == 0


def test_the_doctor_names_a_configured_set_without_a_document(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    (folder / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {atlas: {}, shop: {}}\n")
    done = ragway("doctor", folder=folder)
    assert done.returncode == 1
    assert done.stdout == "action set shop: no OpenAPI document was read: `ragway actions add shop FILE`\n"


def test_the_row_for_the_credentials_that_a_document_asks_for_is_printed(folder: Path) -> None:
    scheme = "components: {securitySchemes: {key: {type: apiKey, in: query, name: 'api key'}}}\n"
    (folder / "atlas.yaml").write_text(ATLAS + scheme)
    row = 'write `atlas: {auth: api_key, key_in: query, key_name: "api key", secret_env: ATLAS_KEY}` into the setting'
    assert row in actions(folder, "add", "atlas", "atlas.yaml")[1]
    assert row in actions(folder, "update", "atlas")[1]
    (folder / "ragway.yaml").write_text("embedder: {model: hash}\nactions: {atlas: {spec: atlas.yaml}}\n")
    assert row in ragway("doctor", folder=folder).stdout
    settings = "embedder: {model: hash}\nactions: {atlas: {auth: bearer, secret_env: K}}\n"
    (folder / "ragway.yaml").write_text(settings)
    assert "asks for credentials" not in actions(folder, "update", "atlas")[1]


def test_only_the_operations_that_the_settings_name_are_called(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    row = "only: [listInvoices, 'GET /orgs/{orgId}/users'], never: [listInvoices, gone]"
    (folder / "ragway.yaml").write_text(f"embedder: {{model: hash}}\nactions: {{atlas: {{{row}}}}}\n")
    words = refused(ragway("actions", "run", "atlas", "listInvoices", "orgId=5", "--dry", folder=folder))
    assert "actions.atlas.only or .never keeps listInvoices from being called" in words
    assert (
        "GET https://cloud.example.com/orgs/5/users"
        in actions(folder, "run", "atlas", "listOrganizationUsers", "orgId=5", "--dry")[0]
    )
    assert "(not called: by actions.atlas.only or .never)" in actions(folder, "show", "atlas")[0]
    assert "gone is not an operation of the set" in ragway("doctor", folder=folder).stdout
