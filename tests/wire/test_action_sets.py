"""Action sets over HTTP: written by clients, searched and called, within the rights of keys."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from proxy.apis.library import COLLECTION
from proxy.asgi import Receive, Scope, Send
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from tests.support.described import described
from tests.support.gateway import Served, ragway, serving
from tests.support.served_app import served

SECRET, FIXED = "s3cret-of-the-shop", "berlin-4711"
SETTINGS = """
models: {{echo: {{lane: echo}}}}
server: {{log_level: debug}}
actions:
  shop:
    base_url: {api}/api
    auth: api_key
    secret_env: SHOP_KEY
    fixed: {{store: {fixed}}}
    networks: [127.0.0.0/8]
  nowhere: {{auth: bearer, secret_env: SHOP_KEY, networks: [127.0.0.0/8]}}
  closed: {{base_url: {api}, never: [listShirts], networks: [127.0.0.0/8]}}
  kept: {{spec: kept.yaml, base_url: {api}}}
"""
SIZE = {"name": "size", "in": "query", "required": True, "schema": {"enum": ["S", "M", "L"]}}
STORE = {"name": "store", "in": "path", "required": True, "schema": {"type": "string"}}


def document(**more: Any) -> dict[str, Any]:
    shirts = {"operationId": "listShirts", "summary": "Shirts in a size", "parameters": [SIZE, STORE], **more}
    order = {"operationId": "orderShirt", "summary": "Order a shirt", "parameters": [STORE]}
    broken = {"operationId": "upload", "requestBody": {"required": True, "content": {"application/xml": {}}}}
    paths = {"/stores/{store}/shirts": {"get": shirts, "post": order}, "/upload": {"put": broken}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop"},
        "servers": [{"url": "https://elsewhere.example"}],
        "paths": paths,
    }


class Api:
    """An API: keeps each request, and sends the key and the path back."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []  # method and target, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = f"{scope['method']} {scope['raw_path'].decode()}?{scope['query_string'].decode()}"
        key = dict(scope["headers"]).get(b"x-api-key", b"").decode()
        self.seen.append((target, key))
        body = json.dumps({"shirts": ["blue"], "key": key, "path": scope["raw_path"].decode()}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


class Shop:
    """A gateway with keys, the API, and a server that must get nothing."""

    def __init__(self, gateway: Served, keys: dict[str, str], api: Api, other: Api, other_url: str) -> None:
        self.gateway, self.keys = gateway, keys
        self.api, self.other, self.other_url = api, other, other_url

    def call(
        self, method: str, path: str, body: object = None, *, key: str = "writer", content: bytes | None = None
    ) -> httpx.Response:
        """content: a body in YAML."""
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        more: dict[str, Any] = {} if body is None else {"json": body}
        if content is not None:
            headers["content-type"], more["content"] = "application/yaml", content
        reply = httpx.request(method, f"{self.gateway.url}/v1/actions/{path}", headers=headers, timeout=60, **more)
        assert SECRET not in reply.text + str(reply.headers)
        return described(reply)

    def put(self, given: object, *, name: str = "shop", key: str = "writer") -> httpx.Response:
        return self.call("PUT", f"sets/{name}", given, key=key)

    def any(self, method: str, path: str, body: object = None, **more: Any) -> httpx.Response:
        """Any request, with the key that may read and write every collection and call every model."""
        headers = {"authorization": f"Bearer {self.keys['all']}", **more.pop("headers", {})}
        more |= {} if body is None else {"json": body}
        return described(httpx.request(method, self.gateway.url + path, headers=headers, timeout=60, **more))

    def text_ids(self) -> list[str]:
        """The ids of the texts of all sets."""
        with contextlib.closing(Catalog.open(self.gateway.data / "catalog.sqlite")) as catalog:
            return [row.id for row in DocumentReader(catalog).page(COLLECTION, after="", limit=10, groups=None)]

    def run(self, operation: str, key: str = "reader", **body: Any) -> httpx.Response:
        self.api.seen.clear()
        return self.call("POST", f"sets/shop/operations/{operation}/run", body, key=key)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("sets")
    data = folder / "data"
    data.mkdir()
    (folder / "kept.yaml").write_text(yaml.safe_dump(document()))
    rights = {
        "writer": ["--read", "actions.*", "--write", "actions.*", "--read", "docs"],
        "reader": ["--read", "actions.shop"],
        "other": ["--read", "docs*", "--write", "*"],
    }
    rights["all"] = ["--read", "*", "--write", "*", "--model", "*"]
    rights["limited"] = ["--read", "actions.shop", "--rpm", "2"]
    rights["narrow"] = ["--act", "shop:*", "--act", "!shop:listShirts"]
    rights["chats"] = ["--read", "actions.shop", "--model", "*"]
    keys = {}
    for name, granted in rights.items():
        done = ragway("keys", "create", name, *granted, "--data", str(data), folder=folder)
        assert done.returncode == 0, done.stderr
        keys[name] = done.stdout.strip()
    api, other = Api(), Api()
    with contextlib.ExitStack() as stack:
        port, other_port = stack.enter_context(served(api)), stack.enter_context(served(other))
        settings = SETTINGS.format(api=f"http://127.0.0.1:{port}", fixed=FIXED)
        gateway = stack.enter_context(serving(data, folder, settings, SHOP_KEY=SECRET))
        yield Shop(gateway, keys, api, other, f"http://127.0.0.1:{other_port}")


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """The gateway, with the document in the set `shop`."""
    assert shop.put(document()).is_success
    return shop


def test_a_set_is_put_shown_changed_and_deleted(shop: Shop) -> None:
    shop.call("DELETE", "sets/shop")
    assert shop.call("GET", "sets/shop").json()["updated_at"] is None
    made = shop.put(document())
    assert (made.status_code, made.json()["changes"]["added"]) == (201, 2)
    assert made.json()["title"] == "Shop"
    assert made.json()["base_url"].startswith("http://127.0.0.1:"), "the address of the settings"
    shown = shop.call("GET", "sets/shop", key="reader").json()
    assert (shown["operations"], [one["path"] for one in shown["uncallable"]]) == (2, ["/upload"])
    assert "application/xml" in shown["uncallable"][0]["reason"]

    content = yaml.safe_dump(document(summary="Every shirt")).encode()
    changed = shop.call("PUT", "sets/shop", content=content)
    changes = {"added": 0, "changed": 1, "unchanged": 1, "removed": 0}
    assert (changed.status_code, changed.json()["changes"]) == (200, changes)

    assert shop.call("DELETE", "sets/shop").json()["deleted"] is True
    assert shop.call("DELETE", "sets/shop").status_code == 404
    assert shop.call("GET", "sets/shop/operations").json()["data"] == []


def test_a_chat_is_offered_the_operations_of_a_put_document_at_once(shop: Shop) -> None:
    def offered() -> bool:
        question: dict[str, object] = {"role": "user", "content": "Which shirts have size M?"}
        headers = {"authorization": f"Bearer {shop.keys['chats']}"}
        return (
            "round-1;" in shop.gateway.chat(question, headers=headers, model="rage/shop/echo").headers["server-timing"]
        )

    shop.call("DELETE", "sets/shop")
    assert not offered()
    shop.put(document())
    assert offered()


def test_operations_are_listed_shown_and_found(filled: Shop) -> None:
    first = filled.call("GET", "sets/shop/operations?limit=1", key="reader").json()
    assert ([row["id"] for row in first["data"]], first["has_more"]) == (["listShirts"], True)
    rest = filled.call("GET", f"sets/shop/operations?after={first['last_id']}", key="reader").json()
    assert [(row["id"], row["callable"]) for row in rest["data"]] == [("orderShirt", False)]

    one = filled.call("GET", "sets/shop/operations/listShirts", key="reader").json()
    assert one["callable"] is True
    assert list(one["arguments"]["properties"]) == ["size"], "no fixed argument"
    found = filled.call("POST", "search", {"query": "which shirts have size M?", "k": 1}, key="reader").json()["data"]
    assert [(row["set"], row["id"], list(row["arguments"]["properties"])) for row in found] == [
        ("shop", "listShirts", ["size"])
    ]


def test_a_run_calls_the_api_with_the_credentials_and_the_fixed_arguments(filled: Shop) -> None:
    reply = filled.run("listShirts", arguments={"size": "M"})
    assert filled.api.seen == [(f"GET /api/stores/{FIXED}/shirts?size=M", SECRET)]
    assert reply.headers["x-rag-actions"] == "shop/listShirts"
    result = reply.json()
    assert (result["outcome"], result["status"], result["sent"]) == ("ok", 200, True)
    assert json.loads(result["text"]) == {"shirts": ["blue"], "key": "…", "path": "/api/stores/…/shirts"}


def test_a_dry_run_shows_the_request_without_secrets(filled: Shop) -> None:
    reply = filled.run("listShirts", arguments={"size": "M"}, dry=True)
    assert filled.api.seen == []
    assert reply.json()["url"].endswith("/api/stores/FIXED/shirts?size=M")
    assert FIXED not in reply.text


@pytest.mark.parametrize(
    ("operation", "body", "status", "words"),
    [
        ("listShirts", {}, 400, "'arguments': size is missing"),
        ("listShirts", {"arguments": {"size": "XXL"}}, 400, "size must be one of"),
        ("listShirts", {"arguments": {"size": "M", "store": "paris"}}, 400, "store is unknown"),
        ("listShirts", {"arguments": [], "dry": "yes"}, 400, "'dry' must be true or false"),
        ("listShirts", {"arguments": ["M"]}, 400, "'arguments' must be an object"),
        ("listShirts", {"sure": True}, 400, "There is no 'sure' here"),
        ("listHats", {}, 404, "shop has no operation 'listHats'"),
        ("orderShirt", {}, 403, "could change something"),
    ],
)
def test_a_run_with_a_fault_sends_nothing(
    filled: Shop, operation: str, body: dict[str, Any], status: int, words: str
) -> None:
    reply = filled.run(operation, **body)
    assert reply.status_code == status, reply.text
    assert words in reply.text
    assert filled.api.seen == []
    assert "x-rag-actions" not in reply.headers, "no operation ran"


def test_a_document_that_cannot_be_read_changes_nothing(filled: Shop) -> None:
    reply = filled.call("PUT", "sets/shop", content=b'{"openapi": "3.1.0",\n"paths": {]}')
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "document_unreadable")
    assert "line 2, column 11" in reply.json()["error"]["message"]
    assert filled.call("GET", "sets/shop").json()["operations"] == 2


def test_a_document_of_a_client_moves_neither_the_address_nor_the_credentials(shop: Shop) -> None:
    hostile = document(servers=[{"url": shop.other_url}])
    hostile["servers"] = [{"url": shop.other_url}]
    hostile["paths"]["/x"] = {"get": {"operationId": "x"}, "servers": [{"url": f"{shop.other_url}/api"}]}
    hostile["paths"][f"//{shop.other_url.removeprefix('http://')}/y"] = {"get": {"operationId": "y"}}
    reply = shop.put(hostile)
    assert reply.json()["base_url"] != shop.other_url
    assert shop.call("GET", "sets/shop/operations/x").json()["callable"] is False
    for operation, arguments in (("listShirts", {"size": "M"}), ("x", {})):
        refused = shop.run(operation, arguments=arguments)
        assert refused.status_code == 400
        assert f"{shop.other_url}" in refused.json()["error"]["message"]
    shop.run("y")
    assert [key for _, key in shop.api.seen] == [SECRET], "a path with two slashes stays at the API"
    assert shop.other.seen == []
    shop.put(document())


def test_a_client_does_not_choose_the_address_of_an_api(shop: Shop) -> None:
    reply = shop.put({**document(), "servers": [{"url": shop.other_url}]}, name="nowhere")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "action_set_without_address")
    assert "set actions.nowhere.base_url" in reply.text


def test_a_document_of_the_settings_is_changed_in_the_settings(shop: Shop) -> None:
    for reply in (shop.put(document(), name="kept"), shop.call("DELETE", "sets/kept")):
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "action_set_of_settings")


def test_a_key_sees_and_writes_the_sets_of_its_rights(filled: Shop) -> None:
    def ids(key: str) -> list[str]:
        return [row["id"] for row in filled.call("GET", "sets", key=key).json()["data"]]

    assert (ids("writer"), ids("reader"), ids("other")) == (["shop", "nowhere", "closed", "kept"], ["shop"], [])
    for reply in (filled.put(document(), key="reader"), filled.call("DELETE", "sets/shop", key="reader")):
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")
    unseen = [
        filled.call("GET", "sets/shop", key="other"),
        filled.put(document(), key="other"),
        filled.call("DELETE", "sets/shop", key="other"),
        filled.call("GET", "sets/shop/operations", key="other"),
        filled.call("GET", "sets/shop/operations/listShirts", key="other"),
        filled.run("listShirts", key="other", arguments={"size": "M"}),
        filled.call("POST", "search", {"query": "shirts", "sets": ["shop"]}, key="other"),
        filled.call("GET", "sets/missing"),
    ]
    assert {(reply.status_code, reply.json()["error"]["code"]) for reply in unseen} == {(404, "action_set_not_found")}
    assert filled.call("POST", "search", {"query": "shirts"}, key="other").json()["data"] == []
    assert filled.api.seen == []


def test_an_operation_that_a_key_may_not_call_is_as_one_that_does_not_exist(filled: Shop) -> None:
    def asked(operation: str) -> list[tuple[int, str]]:
        replies = [
            filled.call("GET", f"sets/shop/operations/{operation}", key="narrow"),
            filled.run(operation, key="narrow", arguments={"size": "M"}),
            filled.run(operation, key="narrow", dry=True),
        ]
        return [(reply.status_code, reply.text.replace(operation, "NAME")) for reply in replies]

    assert asked("listShirts") == asked("listHats")
    assert {status for status, _ in asked("listShirts")} == {404}
    listed = filled.call("GET", "sets/shop/operations?limit=1", key="narrow").json()
    assert ([row["id"] for row in listed["data"]], listed["has_more"]) == (["orderShirt"], False)
    found = filled.call("POST", "search", {"query": "shirts"}, key="narrow").json()["data"]
    assert [row["id"] for row in found] == ["orderShirt"]
    assert filled.call("GET", "sets/shop/operations/listShirts", key="reader").status_code == 200
    assert filled.api.seen == []


KNOWLEDGE, STORES = f"/v1/knowledge/collections/{COLLECTION}", f"/v1/vector_stores/{COLLECTION}"
TEXT = {"id": "shop/listShirts", "text": "Not a shirt."}


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (404, "GET", KNOWLEDGE, None),
        (404, "DELETE", KNOWLEDGE, None),
        (404, "GET", f"{KNOWLEDGE}/documents", None),
        (404, "POST", f"{KNOWLEDGE}/documents", {"documents": [TEXT]}),
        (404, "GET", f"{KNOWLEDGE}/documents/shop/listShirts", None),
        (404, "PUT", f"{KNOWLEDGE}/documents/shop/listShirts", {"text": "Not a shirt."}),
        (404, "DELETE", f"{KNOWLEDGE}/documents/shop/listShirts", None),
        (404, "GET", f"{KNOWLEDGE}/export", None),
        (404, "POST", "/v1/knowledge/search", {"query": "shirts", "collections": [COLLECTION]}),
        (400, "POST", "/v1/knowledge/collections", {"name": COLLECTION}),
        (404, "GET", "/v1/knowledge/documents/ID", None),
        (404, "DELETE", "/v1/knowledge/documents/ID", None),
        (404, "GET", STORES, None),
        (404, "POST", STORES, {"name": COLLECTION}),
        (404, "DELETE", STORES, None),
        (404, "POST", f"{STORES}/search", {"query": "shirts"}),
        (404, "GET", f"{STORES}/files", None),
        (404, "POST", f"{STORES}/files", {"file_id": "file-1"}),
        (404, "GET", f"{STORES}/files/ID/content", None),
        (404, "DELETE", f"{STORES}/files/ID", None),
        (404, "POST", f"{STORES}/file_batches", {"file_ids": ["file-1"]}),
        (400, "POST", "/v1/vector_stores", {"name": COLLECTION}),
    ],
)
def test_a_key_for_all_collections_has_no_right_to_the_texts_of_operations(
    filled: Shop, status: int, method: str, path: str, body: object
) -> None:
    before = filled.text_ids()
    reply = filled.any(method, path.replace("ID", before[0]), body)
    assert reply.status_code == status, reply.text
    assert "Shirts in a size" not in reply.text
    assert filled.text_ids() == before


def test_no_file_is_uploaded_to_the_texts_of_operations(filled: Shop) -> None:
    reply = filled.any("POST", f"{KNOWLEDGE}/files", files={"file": ("a.md", b"Not a shirt.")})
    assert reply.status_code == 404, reply.text


@pytest.mark.parametrize(
    "asked",
    [
        {"rag": {"collections": [COLLECTION]}},
        {"headers": {"x-rag-collection": COLLECTION}},
        {"model": f"rag/{COLLECTION}/echo"},
    ],
)
def test_a_chat_gets_no_passages_from_the_texts_of_operations(filled: Shop, asked: dict[str, Any]) -> None:
    question = {"messages": [{"role": "user", "content": "Which shirts have size M?"}], "model": "echo"}
    headers = asked.get("headers", {})
    fields = {name: value for name, value in asked.items() if name != "headers"}
    reply = filled.any("POST", "/v1/chat/completions", {**question, **fields}, headers=headers)
    assert "Shirts in a size" not in reply.text
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "collection_not_found")


def test_the_tools_of_mcp_do_not_read_the_texts_of_operations(filled: Shop) -> None:
    def called(method: str, **params: Any) -> str:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"accept": "application/json, text/event-stream"}
        return filled.any("POST", "/mcp", body, headers=accept).text

    assert COLLECTION not in called("tools/list")
    asked = {"query": "Shirts in a size", "collections": [COLLECTION]}
    answers = [called("tools/call", name="search", arguments=asked)]
    answers.append(called("tools/call", name="fetch", arguments={"id": filled.text_ids()[0]}))
    assert not [answer for answer in answers if "/stores/" in answer], answers


def test_lists_leave_out_the_texts_of_operations(filled: Shop) -> None:
    for path in ("/v1/knowledge/collections", "/v1/vector_stores", "/v1/models", "/v1/knowledge/jobs"):
        reply = filled.any("GET", path)
        assert reply.status_code == 200, reply.text
        assert COLLECTION not in reply.text


def test_a_team_may_have_a_collection_of_the_name_actions(filled: Shop) -> None:
    documents = "/v1/knowledge/collections/actions/documents/shop/listShirts"
    assert filled.any("POST", "/v1/knowledge/collections", {"name": "actions"}).status_code == 201
    assert filled.any("PUT", documents, {"text": "The strike of May and its actions."}).is_success
    found = filled.any("POST", "/v1/knowledge/search", {"query": "Shirts in a size", "collections": ["actions"]})
    assert "Shirts in a size" not in json.dumps(found.json()["data"])
    asked = filled.call("POST", "search", {"query": "which shirts have size M?", "k": 1}, key="reader")
    assert [row["id"] for row in asked.json()["data"]] == ["listShirts"]
    assert filled.call("DELETE", "sets/shop").json()["deleted"]
    assert "The strike of May" in filled.any("GET", documents).json()["text"]


def test_commands_of_the_owner_show_and_rebuild_the_texts_and_refuse_to_change_the_texts(filled: Shop) -> None:
    folder = filled.gateway.data.parent

    def command(*words: str) -> str:
        done = ragway(*words, "--data", str(filled.gateway.data), folder=folder, environ={"SHOP_KEY": SECRET})
        assert "Traceback" not in done.stderr
        return f"{done.returncode} {done.stdout}{done.stderr}"

    listed = command("collections")
    assert [line for line in listed.splitlines() if COLLECTION in line and "ragway actions list" in line], listed
    assert "ragway actions remove" in command("delete", COLLECTION, "--yes")
    (folder / "notes.md").write_text("Not a shirt.")
    refused = command("ingest", str(folder / "notes.md"), "--collection", COLLECTION)
    assert refused.startswith("1 ")
    assert "the gateway's own collection" in refused
    assert command("reindex", COLLECTION).startswith(f"0 {COLLECTION}: ")
    found = filled.call("POST", "search", {"query": "which shirts have size M?", "k": 1}, key="reader").json()["data"]
    assert [row["id"] for row in found] == ["listShirts"]


def test_runs_and_searches_count_as_requests_of_the_key_and_lists_do_not(filled: Shop) -> None:
    assert {filled.call("GET", "sets", key="limited").status_code for _ in range(8)} == {200}
    runs = [filled.run("listShirts", key="limited", arguments={"size": "M"}).status_code for _ in range(8)]
    assert runs[:2] == [200, 200]
    assert runs.count(429) >= 4, "at most two a minute, of at most two minutes"
    searches = [filled.call("POST", "search", {"query": "shirts"}, key="limited").status_code for _ in range(8)]
    assert searches.count(429) >= 4


def test_no_secret_stands_in_the_log(filled: Shop) -> None:
    filled.run("listShirts", arguments={"size": "M"})
    log = filled.gateway.log.read_text()
    assert "actions=shop/listShirts" in log
    assert SECRET not in log
    assert FIXED not in log


def test_without_keys_every_program_on_this_machine_may_write(tmp_path: Path) -> None:
    settings = "models: {echo: {lane: echo}}\nactions: {shop: {base_url: 'https://shop.example'}}"
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        url = f"{gateway.url}/v1/actions/sets/shop"
        assert described(httpx.put(url, json=document(), timeout=60)).status_code == 201
        yaml = {"content-type": "application/yaml; charset=utf-8"}
        assert httpx.put(url, content=json.dumps(document()), headers=yaml, timeout=60).status_code == 200
        form = {"content-type": "application/x-www-form-urlencoded"}  # of `curl --data-binary`
        reply = httpx.put(url, content=json.dumps(document()), headers=form, timeout=60)
        assert reply.status_code == 415
        assert "content-type: application/json or application/yaml, got" in reply.text


def test_a_gateway_without_apis_says_how_to_configure_an_api(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, "models: {echo: {lane: echo}}") as gateway:
        reply = gateway.get("/v1/actions/sets")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_path")
    assert "no API is configured. Add a row to the setting `actions`" in reply.text


def test_a_document_of_yaml_with_too_many_values_is_refused_with_the_remedy(shop: Shop) -> None:
    filler = b"x: {" + b",".join(b"k%d: 1" % number for number in range(400_000)) + b"}\n"
    reply = shop.call("PUT", "sets/shop", content=filler + yaml.safe_dump(document()).encode())
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "document_unreadable")
    assert "write the document as JSON" in reply.json()["error"]["message"]


def test_a_chat_with_a_set_whose_document_is_not_read_says_so(shop: Shop) -> None:
    body = {"model": "rage/nowhere/echo", "messages": [{"role": "user", "content": "Which shirts are there?"}]}
    reply = shop.any("POST", "/v1/chat/completions", body)
    assert (reply.status_code, reply.headers["x-rag-actions"]) == (200, "not-ready")


def test_an_operation_that_the_settings_close_is_not_run(shop: Shop) -> None:
    path = "sets/closed/operations/listShirts"
    assert shop.any("PUT", "/v1/actions/sets/closed", document()).status_code == 201
    assert shop.any("GET", f"/v1/actions/{path}").json()["callable"] is False
    shop.api.seen.clear()
    reply = shop.any("POST", f"/v1/actions/{path}/run", {"arguments": {"size": "M", "store": "1"}})
    assert "actions.closed.only or .never keeps listShirts from being called" in reply.text
    assert shop.api.seen == []
