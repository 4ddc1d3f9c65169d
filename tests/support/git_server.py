"""Repositories made by `git`, and served by its own `git http-backend` on loopback."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_IDENTITY = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "A"), ("EMAIL", "a@example.com"), ("DATE", "2026-01-02T03:04:05Z"))
}


def git(folder: Path, *args: str) -> str:
    """Run a git command in a folder; returns what it prints."""
    environ = {**os.environ, **_IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *args], cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, **texts: str) -> str:
    """Write Markdown files and commit all changes; returns the commit."""
    folder.mkdir(exist_ok=True, parents=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "A change")
    return git(folder, "rev-parse", "HEAD")


class _Backend(BaseHTTPRequestHandler):
    """Hands each request to `git http-backend`, as a web server does by CGI."""

    protocol_version = "HTTP/1.1"
    root: Path
    password = ""
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("host", ""))
        if self.password and self.headers.get("authorization") != self.password:
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.rstrip("/"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
        }
        body = self._body()
        environ["CONTENT_LENGTH"] = str(len(body))
        done = subprocess.run(["git", "http-backend"], env=environ, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_git(root: Path, authorization: str = "") -> Iterator[tuple[str, list[str]]]:
    """Serve all repositories below a folder; yields the server's address, and the Host header of each request.

    authorization: the header that each request must have.
    """
    asked: list[str] = []
    handler = type("Handler", (_Backend,), {"root": root, "password": authorization, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
