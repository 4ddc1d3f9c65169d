"""No secret of an API leaves the gateway but to the API: canaries in every credential and in every fixed argument.

The APIs send back the whole request in each reply, and fail in every way. The test reads the texts for the model, the
clients and the operator, and the files on the disk.
"""

import base64
import contextlib
import html
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from proxy.access.sql import SqlAccounts
from proxy.caller import EVERYTHING, Names, Rights
from tests.support.action_team import serving_sets
from tests.support.canaries import Canaries
from tests.support.gateway import Served, ragway
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, Turn, calls, says
from tests.support.upstream_servers import Received, Wire, head, reply

MASTER = base64.b64encode(bytes(range(7, 39))).decode()
QUESTION = "Which probe does the echo service have?"
ROWS = {
    "plain": "fixed: FIXED",
    "header": "auth: api_key, key_in: header, secret_env: SECRET_OF_HEADER",
    "query": "auth: api_key, key_in: query, key_name: api_key, secret_env: SECRET_OF_QUERY",
    "cookie": "auth: api_key, key_in: cookie, key_name: session, secret_env: SECRET_OF_COOKIE",
    "basic": "auth: basic, user_env: USER_OF_BASIC, secret_env: SECRET_OF_BASIC",
    "bearer": "auth: bearer, secret_env: SECRET_OF_BEARER",
    "digest": "auth: digest, user_env: USER_OF_DIGEST, secret_env: SECRET_OF_DIGEST",
    "oauth2": "auth: oauth2, user_env: USER_OF_OAUTH2, secret_env: SECRET_OF_OAUTH2, token_url: TOKEN_URL",
    "keyed": "auth: basic, secret_per_key: true",
    "untokened": "auth: oauth2, user_env: USER_OF_OAUTH2, secret_env: SECRET_OF_OAUTH2, token_url: TOKEN_URL/none",
    "gone": "auth: bearer, secret_env: SECRET_OF_BEARER",
}
MORE: dict[str, dict[str, Any]] = {"/v1/messages": {"max_tokens": 9000}, "/v1/responses": {"store": False}}
PLACES = ("query", "header", "cookie")
MODES = (
    "json", "escaped", "text", "html", "xml", "utf16", "long", "endless", "binary", "problem", "refused", "limited",
    "broken-500", "same-origin", "other-origin", "no-address", "typed", "garbage", "cut", "silent",
)  # fmt: skip
JSON = b"content-type: application/json"


def document() -> dict[str, Any]:
    """An operation with an argument in each place; the model sees `mode` alone."""
    parameters = [
        {"name": f"in_{place}", "in": place, "required": True, "schema": {"type": "string"}}
        for place in ("path", *PLACES)
    ]
    mode = {"name": "mode", "in": "query", "required": True, "schema": {"type": "string", "enum": list(MODES)}}
    number = {"name": "in_number", "in": "query", "schema": {"type": "string"}}
    probe = {
        "operationId": "probe",
        "summary": "Probe the echo service",
        "parameters": [*parameters, number, mode],
        "requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Echo service", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/probe/{in_path}": {"get": probe}},
    }


class EchoApi:
    """The APIs: a path for each set, an answer for each mode, and the whole request in each answer."""

    def __init__(self, recorder: Recorder, token: str) -> None:
        self.requests = recorder.requests
        self._token = token
        recorder.answer = self._answer

    async def _answer(self, wire: Wire, received: Received) -> None:
        target = received.line.split(b" ")[1].decode()
        if target.startswith("/token"):
            content = {"access_token": self._token} if target == "/token" else {"error": _echo(received)}
            await wire.send(reply(json.dumps(content).encode(), JSON))
            return
        authorization = (received.header(b"authorization") or b"").decode()
        if target.startswith("/digest") and not authorization:
            challenge = b'www-authenticate: Digest realm="r", nonce="n0nce", qop="auth", algorithm=SHA-256'
            await wire.send(reply(_echo(received).encode(), challenge, status=b"401 Unauthorized"))
            return
        mode = re.search(r"mode=([\w-]+)", target)
        assert mode is not None, target
        await self._answered(wire, received, mode[1], target)

    async def _answered(self, wire: Wire, received: Received, mode: str, target: str) -> None:
        text = _echo(received)
        whole = json.dumps({"echo": text, "headers": dict(_pairs(received)), "body": received.body.decode()}).encode()
        echo_headers = [b"x-echo-%d: %b" % row for row in enumerate(value for _, value in received.headers)]
        page = f"<html><body><p>{html.escape(text)}</p></body></html>".encode()
        padding = "x" * 137
        simple: dict[str, tuple[bytes, bytes, bytes]] = {
            "json": (whole, b"200 OK", b"application/json"),
            "escaped": (_escaped(whole), b"200 OK", b"application/json"),
            "text": (text.encode(), b"200 OK", b"text/plain"),
            "html": (page, b"200 OK", b"text/html"),
            "xml": (f"<a>{''.join(f'&#{ord(one)};' for one in text)}</a>".encode(), b"200 OK", b"application/xml"),
            "utf16": (whole.decode().encode("utf-16"), b"200 OK", b"application/json; charset=utf-16"),
            "long": (json.dumps([padding + text] * 40).encode(), b"200 OK", b"application/json"),
            "endless": ((padding + text).encode() * 4000, b"200 OK", b"text/plain"),
            "binary": (text.encode(), b"200 OK", b"image/png"),
            "problem": (json.dumps({"title": "no", "detail": text}).encode(), b"400 no", b"application/problem+json"),
            "refused": (whole, b"403 " + target.encode(), b"application/json"),
            "limited": (whole, b"429 Too Many Requests", b"application/json"),
            "broken-500": (page, b"500 " + target.encode(), b"text/html"),
            "typed": (b"x", b"200 OK", b"application/" + target.encode()),
        }
        location = {"other-origin": f"https://other.example{target}", "no-address": f"http://[::1{target}"}
        if mode in simple:
            body, status, media_type = simple[mode]
            await wire.send(
                reply(body, b"content-type: " + media_type, b"retry-after: 99", *echo_headers, status=status)
            )
        elif mode in location:
            moved = f"location: {location[mode]}".encode()
            await wire.send(reply(whole, JSON, moved, status=b"302 Found"))
        elif mode == "same-origin":
            moved = f"location: {target.replace('same-origin', 'text')}".encode()
            await wire.send(reply(whole, JSON, moved, status=b"302 Found"))
        elif mode == "garbage":
            await wire.send(text.encode() + b"\r\n\r\n")
            wire.reset()
            raise ConnectionResetError
        elif mode == "cut":
            await wire.send(head(b"content-length: 99999", JSON), whole)
            wire.reset()
            raise ConnectionResetError
        else:
            await wire.gone()


def _echo(received: Received) -> str:
    """The request as text, with the encoded parts decoded, too."""
    text = (received.head + received.body).decode()
    basic = re.search(r"(?i)authorization: basic (\S+)", text)
    return text + (base64.b64decode(basic[1]).decode() if basic else "")


def _pairs(received: Received) -> Iterator[tuple[str, str]]:
    for name, value in received.headers:
        yield name.decode()[::-1].title()[::-1], value.decode()


def _escaped(content: bytes) -> bytes:
    """JSON as Go and PHP write JSON."""
    for sign, written in (
        (b"<", b"\\u003c"),
        (b">", b"\\u003E"),
        (b"&", b"\\u0026"),
        (b"/", b"\\/"),
        (b"+", b"\\u002B"),
    ):
        content = content.replace(sign, written)
    return content


class House:
    """A gateway with the sets, two keys with own credentials, a key without, and all shown texts."""

    def __init__(self, served: Served, keys: dict[str, tuple[str, str]], models: Recorder, apis: EchoApi) -> None:
        self.served = served
        self.keys = keys  # name -> id, secret
        self.apis = apis
        self.seen: dict[str, bytes] = {}
        self._models = models

    def see(self, name: str, content: bytes | str) -> None:
        """Keep a shown text."""
        self.seen[f"{len(self.seen)} {name}"] = content if isinstance(content, bytes) else content.encode()

    def get(self, method: str, path: str, key: str = "root", body: Any = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[key][1]}"}
        answer = httpx.request(method, self.served.url + path, headers=headers, json=body, timeout=100)
        self.see(f"{method} {path}", repr(answer.headers).encode() + answer.content)
        return answer

    def script(self, *turns: Turn) -> ScriptedModel:
        """The answers of the model from now on."""
        return ScriptedModel(self._models.fresh(), turns)

    def ask(
        self, name: str, key: str, *turns: Turn, stream: bool, path: str = "/v1/chat/completions", model: str = "gpt-x"
    ) -> None:
        """A chat with a set, and the receipt of the chat."""
        scripted = self.script(*turns)
        said = {"input": QUESTION} if path == "/v1/responses" else {"messages": [{"role": "user", "content": QUESTION}]}
        body = {"model": f"rage/{name}/{model}", **said, "stream": stream, **MORE.get(path, {})}
        answer = self.get("POST", path, key, body)
        for request in self._models.requests:
            self.see(f"prompt of {name}", request.head + request.body)
        assert answer.status_code == 200, answer.text
        assert len(scripted.received) > 1, "the model was asked again, with results"
        self.get("GET", f"/v1/knowledge/receipts/{answer.headers['x-rag-id']}")


def reads_on(asked: dict[str, Any]) -> dict[str, Any]:
    """Read all cut results from the shelf, in pages and by a query."""
    text = json.dumps(asked["messages"])
    ids = dict.fromkeys(re.findall(r"with the id (\w+)", text))
    ways: list[dict[str, Any]] = [{"start": 0}, {"start": 150}, {"query": "echo authorization cookie probe"}]
    wanted = [("read_result", {"id": id, **way}) for id in ids for way in ways]
    return calls(*wanted) if wanted else says("Nothing to read.")


def repeats(asked: dict[str, Any]) -> dict[str, Any]:
    """Say the results of all tools."""
    return says(" ".join(str(one["content"]) for one in asked["messages"] if one["role"] == "tool"))


@pytest.fixture(scope="module")
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, canaries: Canaries) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("canaries")
    accounts = SqlAccounts(folder / "data")
    readers = Rights(read=Names(["*"]), models=Names(["*"]))
    keys = {name: accounts.create(name, readers) for name in ("own", "other", "bare")}
    keys["root"] = accounts.create("root", EVERYTHING)
    accounts.close()
    environ = {
        "RAGWAY_MASTER_KEY": MASTER,
        "KEY_OF_MODEL": "sk-model",
        "LITELLM_LOG": "DEBUG",
        "PYTHONASYNCIODEBUG": "1",
    }
    for kind in ("HEADER", "QUERY", "COOKIE", "BASIC", "BEARER", "DIGEST", "OAUTH2"):
        environ[f"SECRET_OF_{kind}"] = canaries.new(f"secret of {kind}")
        environ[f"USER_OF_{kind}"] = canaries.new(f"user of {kind}", "-x.")
    with recording() as models, recording() as api_recorder:
        settings = settings_of(models.url, api_recorder.url, canaries)
        ids = {name: (key.id, secret) for name, (key, secret) in keys.items()}
        with serving_sets(folder, settings, dict.fromkeys(ROWS, document()), **environ) as served:
            made = House(served, ids, models, EchoApi(api_recorder, canaries.new("the fetched token")))
            give_credentials(made, canaries, folder, environ)
            made.see("the commands of the processes", b"".join(_command_lines(served)))
            use_everything(made, folder, environ)
            made.see("metrics", made.get("GET", "/metrics").content)
            yield made


def settings_of(model: str, api: str, canaries: Canaries) -> str:
    def fixed(name: str) -> dict[str, str]:
        values = {f"in_{place}": canaries.new(f"{name}: {place}", "+<x>=%") for place in PLACES}
        values["in_path"] = canaries.new(f"{name}: path", "+<x>=%/&")
        return {**values, "body": canaries.new(f"{name}: body"), "in_number": canaries.number(f"{name}: number")}

    rows = {}
    for name, row in ROWS.items():
        key = quote(canaries.new(f"{name}: address"))
        address = "http://127.0.0.1:9" if name == "gone" else f"{api}/{name}?key={key}"
        more = f"base_url: '{address}', networks: [127.0.0.0/8], fixed: {json.dumps(fixed(name))}"
        rows[name] = f"{{{row.replace('TOKEN_URL', api + '/token').replace('fixed: FIXED', 'auth: none')}, {more}}}"
    translated = f'{{model: openai/gpt-t, lane: translated, api_base: "{model}/v1", api_key_env: KEY_OF_MODEL}}'
    listed = "\n".join(f"  {name}: {row}" for name, row in rows.items())
    return f"""
embedder: {{model: hash}}
server: {{log_level: debug, workers: 1}}
models: {{gpt-x: {{api_base: "{model}/v1"}}, gpt-t: {translated}}}
actions:
{listed}
action_calls: {{calls: 100, call_s: 1.5, result_chars: 400, result_tokens: 100000}}
"""


def give_credentials(house: House, canaries: Canaries, folder: Path, environ: dict[str, str]) -> None:
    """Give `own` credentials by the command, and `other` over HTTP."""
    for name in ("keyed", "bearer", "digest", "oauth2", "query"):
        for what in ("secret", "user", "fixed.in_path", "fixed.in_header", "fixed.body"):
            value = canaries.new(f"own key, {name}: {what}")
            words = ("keys", "credentials", "set", house.keys["own"][0], name, what, "--env", "VALUE")
            done = ragway(*words, folder=folder, environ={**environ, "VALUE": value})
            assert done.returncode == 0, done.stderr
            house.see(" ".join(words), done.stdout + done.stderr)
    path = f"/v1/admin/keys/{house.keys['other'][0]}/credentials"
    for name in ("keyed", "digest"):
        given = {what: canaries.new(f"other key, {name}: {what}") for what in ("secret", "user")}
        fixed = {"in_query": canaries.new(f"other key, {name}: in_query")}
        assert house.get("PATCH", f"{path}/{name}", body={**given, "fixed": fixed}).status_code == 200
    wrong = {"secret": canaries.new("a refused secret") + "\n", "fixed": {"a": canaries.new("a refused argument")}}
    assert house.get("PATCH", f"{path}/keyed", body=wrong).status_code == 400
    assert house.get("PATCH", f"{path}/keyed", body={"secrets": wrong["secret"]}).status_code == 400
    assert house.get("GET", path).status_code == 200


def use_everything(house: House, folder: Path, environ: dict[str, str]) -> None:
    """Chats with each set by each key, commands, and requests that are refused."""
    probes = [("act_probe", {"mode": mode}) for mode in MODES]
    for number, name in enumerate(ROWS):
        for at, key in enumerate(("own", "bare")):
            if (name, key) != ("keyed", "bare"):
                house.ask(name, key, calls(*probes), reads_on, repeats, says("Done."), stream=(number + at) % 2 == 0)
    for name in ("keyed", "digest"):
        house.ask(name, "other", calls(*probes), reads_on, repeats, says("Done."), stream=True)
    quick = [("act_probe", {"mode": mode}) for mode in ("json", "html", "refused", "long")]
    for stream in (False, True):
        for path in MORE:
            house.ask("digest", "own", calls(*quick), reads_on, repeats, says("Done."), stream=stream, path=path)
        house.ask("basic", "own", calls(*quick), reads_on, repeats, says("Done."), stream=stream, model="gpt-t")
    guess = {"mode": "text", "in_path": "x1", "in_query": "guess"}
    house.ask("bearer", "own", calls(("act_probe", guess)), calls(("act_probe", {})), says("No."), stream=False)
    use_http(house)
    said = [{"role": "user", "content": QUESTION}]
    for model in ("rage/nothing/gpt-x", "rage/bearer/", "rage/bearer/gpt-unknown"):
        house.get("POST", "/v1/chat/completions", "own", {"model": model, "messages": said})
    own, set_bad = house.keys["own"][0], ("bearer", "password", "--env", "SECRET_OF_BASIC")
    run = ("actions", "run", "bearer", "probe", "mode=json")
    for words in (
        ("actions", "list", "--json"), ("actions", "show", "bearer"), ("actions", "show", "bearer", "probe", "--json"),
        ("actions", "search", QUESTION, "--json"), run, (*run, "--dry"), (*run, "--key", own),
        (*run, "--key", own, "--dry"), ("actions", "run", "keyed", "probe"), (*run, "in_path=x"), ("config",),
        ("config", "--json"), ("keys", "list"),
        ("keys", "credentials", "list"), ("keys", "credentials", "list", "--json"), ("usage",), ("doctor",),
        ("keys", "credentials", "set", own, *set_bad),
    ):  # fmt: skip
        done = ragway(*words, folder=folder, environ=environ)
        house.see(" ".join(words), done.stdout + done.stderr)


SETS = "/v1/actions/sets"


def use_http(house: House) -> None:
    """Calls over HTTP, and all lists."""
    for mode, name in zip(MODES, itertools.cycle(ROWS), strict=False):
        for key, dry in (("own", False), ("root", True)):
            run_body = {"arguments": {"mode": mode}, "dry": dry}
            assert house.get("POST", f"{SETS}/{name}/operations/probe/run", key, run_body).status_code in (200, 403)
    for wrong in ({"mode": "no"}, {"mode": "json", "in_path": "x"}):
        house.get("POST", f"{SETS}/bearer/operations/probe/run", "own", {"arguments": wrong})
    assert house.get("POST", "/v1/actions/search", "own", {"query": QUESTION}).status_code == 200
    for path in (
        SETS, f"{SETS}/bearer", f"{SETS}/bearer/operations", f"{SETS}/bearer/operations/probe",
        "/v1/knowledge/openapi.json", "/v1/models", "/v1/usage", "/v1/admin/keys", "/v1/admin/usage", "/readyz",
        "/v1/knowledge/collections",
    ):  # fmt: skip
        assert house.get("GET", path).status_code == 200, path


def _command_lines(served: Served) -> Iterator[bytes]:
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"\0{served.data}\0".encode() in (line := (entry / "cmdline").read_bytes()) or b"cli.worker" in line:
                yield line


NOT_SENT = (
    r"gone: .*|untokened: .*"  # no connection, and no token
    r"|a refused .*"
    r"|user of (HEADER|QUERY|COOKIE|BEARER)|own key, (bearer|query): user"  # these kinds have no user
    r"|secret of DIGEST|(own|other) key, digest: secret"  # a hash is sent
)


def test_every_canary_was_sent_to_an_api(house: House, canaries: Canaries) -> None:
    """Without this, the other tests prove nothing."""
    requests = [request.head + request.body for request in house.apis.requests]
    basic = [base64.b64decode(one) for one in re.findall(rb"Basic (\S+)", b"".join(requests))]
    sent = canaries.sent_to([*requests, *basic])
    assert {place for place in canaries.made if not re.fullmatch(NOT_SENT, place)} - sent == set()
    assert b"Digest username=" in b"".join(requests)
    modes = {mode for one in requests for mode in re.findall(rb"mode=([\w-]+)", one)}
    assert {mode.decode() for mode in modes} == set(MODES)


def test_each_key_calls_with_its_own_credentials(house: House, canaries: Canaries) -> None:
    requests = [one.head + one.body for one in house.apis.requests if one.line.startswith(b"GET /keyed/")]
    tokens = {base64.b64decode(one).decode() for one in re.findall(rb"Basic (\S+)", b"".join(requests))}
    made = canaries.made
    assert tokens == {":".join(made[f"{key}, keyed: {what}"] for what in ("user", "secret"))
                      for key in ("own key", "other key")}  # fmt: skip
    of_own = [one for one in requests if made["own key, keyed: fixed.in_header"].encode() in one]
    assert 0 < len(of_own) < len(requests)
    assert not canaries.sent_to(of_own) & {place for place in made if place.startswith("other key")}


def test_a_key_without_a_secret_of_its_own_is_offered_no_operation(house: House) -> None:
    model = house.script(says("Hm."))
    body = {"model": "rage/keyed/gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
    assert house.get("POST", "/v1/chat/completions", "bare", body).status_code == 200
    assert "tools" not in model.received[0]


def test_no_canary_is_in_a_prompt_reply_receipt_metric_error_or_output(house: House, canaries: Canaries) -> None:
    found = [one for name, content in house.seen.items() for one in canaries.found_in(name, content)]
    assert found == []
    assert len(house.seen) > 150
    heads = b"".join(request.head for request in house.apis.requests)
    proofs = set(re.findall(rb'response="(\w+)"', heads))
    assert len(proofs) > 20
    for secret in (MASTER.encode(), *proofs):
        assert not [name for name, content in house.seen.items() if secret in content]


def test_no_canary_is_in_the_log(house: House, canaries: Canaries) -> None:
    log = house.served.log.read_bytes()
    assert log.count(b"actions=") > 20
    assert canaries.found_in("log", log) == []
    assert MASTER.encode() not in log


def test_no_canary_is_in_a_file_of_the_data_folder(house: House, canaries: Canaries) -> None:
    files = [file for file in house.served.data.rglob("*") if file.is_file()]
    assert {"accounts.db", "actions.db"} <= {file.name for file in files}
    assert [one for file in files for one in canaries.found_in(file.name, file.read_bytes())] == []
    for key in (MASTER.encode(), base64.b64decode(MASTER)):
        assert not [file for file in files if key in file.read_bytes()]


def test_the_canaries_are_found_where_they_are(canaries: Canaries) -> None:
    """The search works: a canary in each encoding, and half of a canary."""
    for place, canary in list(canaries.made.items())[:5]:
        for content in (
            canary.encode(), httpx.QueryParams({"a": canary}).__str__().encode(), json.dumps(canary).encode("utf-16"),
            base64.b64encode(f"user:{canary}:x".encode()), html.escape(canary).encode(), canary.upper().encode(),
            canary[:12].encode(), canary[-12:].encode(),
        ):  # fmt: skip
            assert canaries.found_in(place, content)
