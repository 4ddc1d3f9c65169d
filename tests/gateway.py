"""`ragway` as a stranger runs it: a process of its own, spoken to over loopback and by its exit codes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Served:
    """A running gateway."""

    process: subprocess.Popen[str]
    url: str  # http://127.0.0.1:PORT
    log: Path  # what it wrote to standard error
    data: Path

    def chat(self, *messages: dict[str, object], headers: Mapping[str, str] | None = None, **fields: object) -> httpx.Response:
        """One chat completion."""
        body = {"model": "echo", "messages": list(messages), **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=30)

    def ask(self, question: str, **fields: object) -> httpx.Response:
        """One chat completion of a single user message."""
        return self.chat({"role": "user", "content": question}, **fields)

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
