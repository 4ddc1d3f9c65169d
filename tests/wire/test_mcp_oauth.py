"""An MCP server of the official SDK that wants a token, which the gateway gets with OAuth client credentials."""

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.context import Context

from tests.support.action_clients import CompletionsChat
from tests.support.gateway import PATIENCE_S, Served, serving
from tests.support.mcp_servers import READS, in_thread
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, calls, says

CLIENT, SECRET, SCOPE = "gateway", "CANARY-client-secret", "tools.call"
SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions:
  box:
    mcp: "{server}"
    networks: ["127.0.0.0/8"]
    reads: [add]
    auth: oauth2
    user_env: BOX_CLIENT
    secret_env: BOX_SECRET
    token_url: "{tokens}"
    scope: {scope}
"""


@dataclass
class Tokens:
    """The token endpoint, and what the server asks of it."""

    seconds: float = 3600.0  # that a token is valid, as the endpoint says
    valid: set[str] = field(default_factory=set)
    issued: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)  # by calls of the tool
    refusing: bool = False

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id=CLIENT, scopes=[SCOPE]) if token in self.valid else None

    def issue(self, authorization: str, body: str) -> tuple[int, dict[str, Any]]:
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = {"grant_type": ["client_credentials"], "scope": [SCOPE]}
        if self.refusing or authorization != f"Basic {basic}" or parse_qs(body) != asked:
            return 401, {"error": "invalid_client"}
        token = f"CANARY-token-{secrets.token_hex(8)}"
        self.issued.append(token)
        self.valid.add(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds}


@dataclass(slots=True)
class Team:
    served: Served
    recorder: Recorder
    tokens: Tokens

    def add(self, a: int, b: int) -> str:
        """The result of the tool in a chat, as the model reads it."""
        model = ScriptedModel(self.recorder.fresh(), (calls(("act_add", {"a": a, "b": b})), says("Done.")))
        reply = CompletionsChat(self.served.url, "rage/box/gpt-x").ask(f"what do you get if you add {a} and {b}?")
        assert reply.text == "Done."
        return str(model.received[1]["messages"][-1]["content"])


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder, tokens = tmp_path_factory.mktemp("oauth"), Tokens()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, content = tokens.issue(self.headers["authorization"] or "", body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None: ...

    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=endpoint.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{endpoint.server_port}"
    auth = AuthSettings(issuer_url=address, resource_server_url=None, required_scopes=[SCOPE])  # type: ignore[arg-type]
    server = MCPServer("Toolbox", token_verifier=tokens, auth=auth, log_level="CRITICAL")

    @server.tool(annotations=READS)
    async def add(a: int, b: int, ctx: Context[Any, Any]) -> int:
        """Adds two numbers"""
        request = ctx.request_context.request
        assert request is not None
        tokens.used.append(request.headers["authorization"].removeprefix("Bearer "))
        return a + b

    try:
        with in_thread(server) as url, recording() as recorder:
            settings = SETTINGS.format(model=recorder.url, server=url, tokens=f"{address}/token", scope=SCOPE)
            with serving(folder / "data", folder, settings, BOX_CLIENT=CLIENT, BOX_SECRET=SECRET) as served:
                made = Team(served, recorder, tokens)
                until = time.monotonic() + PATIENCE_S
                while "actions.box.mcp" not in served.log.read_text():
                    assert time.monotonic() < until, served.log.read_text()
                    time.sleep(0.1)
                assert httpx.post(url, json={}, timeout=9).status_code == 401, "the server wants a token"
                yield made
    finally:
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()


def test_a_tool_is_called_with_the_token_of_the_client(team: Team) -> None:
    assert team.add(17, 25) == "42"
    assert team.tokens.used[-1] in team.tokens.valid
    before = len(team.tokens.issued)
    assert team.add(1, 2) == "3"
    assert len(team.tokens.issued) == before, "the token is used again"


def test_a_revoked_token_is_replaced(team: Team) -> None:
    assert team.add(1, 1) == "2"
    team.tokens.valid.clear()
    assert team.add(2, 2) == "4"
    assert team.tokens.used[-1] == team.tokens.issued[-1]
    assert team.tokens.used[-2] != team.tokens.used[-1]


def test_a_token_is_replaced_before_it_expires(team: Team) -> None:
    team.tokens.seconds = 1.0
    team.tokens.valid.clear()
    assert team.add(3, 1) == "4"  # with a token of one second
    before = len(team.tokens.issued)
    time.sleep(1.1)
    team.tokens.seconds = 3600.0
    assert team.add(4, 1) == "5"
    assert len(team.tokens.issued) > before
    assert team.tokens.used[-1] != team.tokens.used[-2]


def test_without_a_token_a_call_fails_and_names_no_secret(team: Team) -> None:
    team.tokens.valid.clear()
    team.tokens.refusing = True
    try:
        said = team.add(5, 1)
    finally:
        team.tokens.refusing = False
    assert said != "6"
    texts = said + team.served.log.read_text()
    assert SECRET not in texts
    assert not any(token in texts for token in team.tokens.issued)
    until = time.monotonic() + PATIENCE_S  # after a failure, the next session is tried a little later
    while (said := team.add(6, 1)) != "7":
        assert time.monotonic() < until, f"later calls get no token again: {said}"
        time.sleep(0.5)
