"""`ragway` as a stranger runs it: a process of its own, spoken to over loopback and by its exit codes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

# Importing it takes seconds, which eval spends at once: it may have many texts. For what is not about bf16.
WITHOUT_TORCH = {"RAGWAY_EMBEDDER__PRECISION": "fp32"}
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Served:
    """A running gateway."""

    process: subprocess.Popen[str]
    url: str  # http://127.0.0.1:PORT
    log: Path  # what it wrote to standard error
    data: Path

    def chat(
        self, *messages: dict[str, object], headers: Mapping[str, str] | None = None, **fields: object
    ) -> httpx.Response:
        """One chat completion."""
        body = {"model": "echo", "messages": list(messages), **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=30)

    def ask(self, question: str, headers: Mapping[str, str] | None = None, **fields: object) -> httpx.Response:
        """One chat completion of a single user message."""
        return self.chat({"role": "user", "content": question}, headers=headers, **fields)

    def post(self, body: bytes, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        """These bytes as JSON. In header names `_` stands for `-`."""
        sent = {"content-type": "application/json", **{name.replace("_", "-"): v for name, v in headers.items()}}
        return httpx.post(self.url + path, content=body, headers=sent, timeout=30)

    def get(self, path: str) -> httpx.Response:
        """One GET."""
        return httpx.get(self.url + path, timeout=30)

    def index_pid(self) -> int:
        """The index process that runs now. Raises ProcessLookupError when there is none."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _parent(int(entry.name)) == self.process.pid:
                return int(entry.name)
        raise ProcessLookupError("the gateway has no child")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            with contextlib.suppress(AttributeError):
                self.process.stdout.close()  # type: ignore[union-attr]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours without anything that would change the gateway's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAGWAY_", "OPENAI_", "QDRANT_"))}
    return {**kept, "PYTHONPATH": str(_ROOT), **extra}


def _parent(pid: int) -> int:
    """The parent of a running process; 0 where it has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return 0
    return 0 if state in "ZX" else int(parent)


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended: one that waits to be reaped has."""
    return _parent(pid) != 0


@contextlib.contextmanager
def serving(data: Path, folder: Path, settings: str = "", **environ: str) -> Iterator[Served]:
    """`serve`, ended with the block."""
    gateway = serve(data, folder, settings, environ)
    try:
        yield gateway
    finally:
        gateway.stop()


def serve(data: Path, folder: Path, settings: str, environ: Mapping[str, str]) -> Served:
    """Start `ragway serve` on a free port and wait until it is ready."""
    config = folder / "ragway.yaml"
    config.write_text(settings, "utf-8")
    log = folder / "serve.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--port", "0", "--config", str(config), "--data", str(data)],
            stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment(environ),
        )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()  # the curl line, printed once all is warm
    assert line.startswith("curl "), f"serve ended: {log.read_text()}"
    return Served(process, line.split()[1].removesuffix("/v1/chat/completions"), log, data)


def ragway(*args: str, folder: Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one `ragway` command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "proxy", *args], check=False, capture_output=True, text=True, cwd=folder, timeout=100,
        env=environment(environ or {}), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command which failed leaves, on standard error."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line
