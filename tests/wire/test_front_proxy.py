"""The nginx file of docs/use/front-proxy.md, run by nginx in front of a gateway: who may ask gets through, unharmed."""

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import openai
import pytest

from tests.support.gateway import ragway, serving
from tests.support.upstream_servers import certificate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "front-proxy.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt install nginx-light)")


class Who(BaseHTTPRequestHandler):
    """What decides who may ask: whoever has the cookie."""

    def do_GET(self) -> None:
        allowed = "session=ours" in self.headers.get("cookie", "")
        self.send_response(202 if allowed and self.path == "/oauth2/auth" else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Front:
    """nginx in front of a gateway."""

    url: str
    trusted: ssl.SSLContext
    key: str

    def client(self, *, session: str = "ours") -> httpx.Client:
        headers = {"cookie": f"session={session}", "authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, verify=self.trusted, headers=headers, timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def block() -> str:
    """The page's nginx file."""
    found = re.search(r"^```nginx\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def asking_who(text: str) -> str:
    """The file with the lines that the page shows as comments."""
    text = text.replace("# auth_request", "auth_request")
    return re.sub(r"^    # (location = /who|    |\})", r"    \1", text, flags=re.MULTILINE)


def test_the_file_as_printed_asks_ragway_and_no_other_server() -> None:
    assert set(re.findall(r"^\s*(?:proxy_pass|auth_request) ([^;]+);", block(), re.MULTILINE)) == {"http://ragway"}
    assert {"/who", "http://127.0.0.1:4180/oauth2/auth"} < set(
        re.findall(r"^\s*(?:proxy_pass|auth_request) ([^;]+);", asking_who(block()), re.MULTILINE)
    )


def changed(text: str, changes: dict[str, str]) -> str:
    """The text for this machine: other ports and files, and nothing else."""
    for before, after in changes.items():
        assert before in text, f"{before} is not in the nginx file any more"
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def front(learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder, data = tmp_path_factory.mktemp("front"), learned()
    _, pem = certificate(folder)
    rights = ["--read", "docs", "--write", "docs", "--model", "*"]
    made = ragway("keys", "create", "app", *rights, "--data", str(data), folder=folder)
    who = ThreadingHTTPServer(("127.0.0.1", 0), Who)
    Thread(target=who.serve_forever, daemon=True).start()
    port = free_port()
    with serving(data, folder, "models: {echo: {lane: echo}}") as served:
        site = changed(
            asking_who(block()),
            {
                "127.0.0.1:8000": served.url.removeprefix("http://"),
                "127.0.0.1:4180": f"127.0.0.1:{who.server_port}",
                "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
                "rag.example.com": "127.0.0.1",
                "/etc/ssl/rag.pem": str(pem),
                "/etc/ssl/rag.key": str(folder / "key.pem"),
            },
        )
        config = folder / "nginx.conf"
        kept = "".join(f"{name}_temp_path {folder};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = f"user {os.environ.get('USER', 'root')};\n" if os.geteuid() == 0 else ""
        config.write_text(
            f"{user}pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nworker_processes 1;\n"
            f"events {{}}\nhttp {{\naccess_log off;\n{kept}{site}}}\n"
        )
        running = subprocess.Popen([str(NGINX), "-c", str(config), "-p", str(folder), "-g", "daemon off;"])
        try:
            _until_it_listens(port, running, folder / "error.log")
            trusted = ssl.create_default_context(cafile=str(pem))
            yield Front(f"https://127.0.0.1:{port}", trusted, made.stdout.strip())
        finally:
            running.terminate()
            running.wait(20)
            who.shutdown()
            who.server_close()


def _until_it_listens(port: int, running: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(200):
        assert running.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # nginx tells nobody when it listens
    raise AssertionError(log.read_text())


def test_the_official_sdk_asks_through_it_and_the_answer_is_augmented(front: Front) -> None:
    with openai.OpenAI(base_url=f"{front.url}/v1", api_key=front.key, http_client=front.client()) as sdk:
        asked = sdk.chat.completions.with_raw_response.create(
            model="echo", messages=[{"role": "user", "content": "Which port does Kestrel listen on?"}]
        )
        assert asked.headers["x-rag-status"] in ("augmented", "empty")
        stream = sdk.chat.completions.create(model="echo", messages=[{"role": "user", "content": "Hello"}], stream=True)
        assert "Hello" in "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def test_an_upload_and_a_tool_call_pass(front: Front) -> None:
    with front.client() as client:
        reply = client.post("/v1/knowledge/collections/docs/files", files={"file": ("a.md", b"x" * 30_000_000)})
        assert reply.json()["error"]["code"] == "file_too_large", "the gateway itself says so, by its own limit"
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accepted = {"accept": "application/json, text/event-stream"}
        assert client.post("/mcp", json=asked, headers=accepted).status_code == 200


def test_who_is_not_let_in_gets_nowhere(front: Front) -> None:
    with front.client(session="stolen") as client:
        assert client.get("/v1/models").status_code == 401
        assert client.post("/mcp", json={}).status_code == 401
    with front.client() as client:
        assert client.get("/v1/models").status_code == 200
        for path in ("/healthz", "/readyz", "/metrics", "/who", "/", "/mcp2"):
            assert client.get(path).status_code == 404, path


def test_http_2_is_spoken(front: Front) -> None:
    offered = ssl.create_default_context()
    offered.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(front.trusted.get_ca_certs(binary_form=True)[0]))
    offered.set_alpn_protocols(["h2", "http/1.1"])
    host, port = front.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port))) as plain, offered.wrap_socket(plain, server_hostname=host) as tls:
        assert tls.selected_alpn_protocol() == "h2"


def test_a_client_that_leaves_mid_stream_leaves_no_answer_that_looks_whole(front: Front) -> None:
    host, port = front.url.removeprefix("https://").split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=front.trusted)
    body = b'{"model": "echo", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'
    headers = {"authorization": f"Bearer {front.key}", "cookie": "session=ours", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body, headers)
    assert connection.getresponse().read(10).startswith(b"data: ")
    connection.close()
    with front.client() as client:
        assert client.get("/v1/models").status_code == 200, "and the others go on"
