"""`ragway` as a stranger runs it: a process of its own, spoken to over loopback and by its exit codes."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import httpx

from cli import main
from retrieval.embedding.hashing import HASH
from runtime import sandbox

# Importing it takes seconds, which eval spends at once: it may have many texts. For what is not about bf16.
WITHOUT_TORCH = {"RAGWAY_EMBEDDER__PRECISION": "fp32"}
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 100.0  # for what a slow and busy machine does in a few seconds; less than pytest's timeout


@dataclass(slots=True)
class Served:
    """A running gateway."""

    process: subprocess.Popen[str]
    url: str  # http://127.0.0.1:PORT
    log: Path  # what it wrote to standard error
    data: Path
    example: str = ""  # the curl line that it printed

    def chat(
        self, *messages: dict[str, object], headers: Mapping[str, str] | None = None, **fields: object
    ) -> httpx.Response:
        """One chat completion."""
        body = {"model": "echo", "messages": list(messages), **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE_S)

    def ask(self, question: str, headers: Mapping[str, str] | None = None, **fields: object) -> httpx.Response:
        """One chat completion of a single user message."""
        return self.chat({"role": "user", "content": question}, headers=headers, **fields)

    def post(self, body: bytes, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        """These bytes as JSON. In header names `_` stands for `-`."""
        sent = {"content-type": "application/json", **{name.replace("_", "-"): v for name, v in headers.items()}}
        return httpx.post(self.url + path, content=body, headers=sent, timeout=PATIENCE_S)

    def get(self, path: str) -> httpx.Response:
        """One GET."""
        return httpx.get(self.url + path, timeout=PATIENCE_S)

    def children(self, module: str) -> list[int]:
        """Its running child processes that run this module."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return sorted(pid for pid in pids if _parent(pid) == self.process.pid and module in arguments(pid))

    def index_pid(self) -> int:
        """The index process that runs now. Raises ProcessLookupError when there is none."""
        return self._child("retrieval.rpc.server")

    def worker_pid(self) -> int:
        """The process that answers, where it is one. Raises ProcessLookupError when there is none."""
        return self._child("cli.worker")

    def _child(self, module: str) -> int:
        for pid in self.children(module):
            return pid
        raise ProcessLookupError(f"the gateway runs no {module}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it and return its exit code, once all its processes have ended: the data folder is free then.

        Raises AssertionError where it ends by itself before its index and workers, or something never ends.
        """
        children = [pid for pid in self._members() if _parent(pid) == self.process.pid]
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE_S)
            assert code < 0 or not any(runs(pid) for pid in children), "it ended before its index and workers"
            until = time.monotonic() + PATIENCE_S
            while left := self._members():
                assert time.monotonic() < until, f"these go on: {[arguments(pid) for pid in left]}"
                time.sleep(0.02)
            return code
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill all its processes that still run, and wait for their end."""
        while members := self._members():
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _members(self) -> list[int]:
        """The running processes of its session, with those whose parent has ended; empty where there is no /proc."""
        return [
            int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _session(int(entry.name)) == self.process.pid
        ]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that change the gateway's settings, but for the embedder `hash`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAGWAY_", "OPENAI_", "QDRANT_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **embedder(HASH), **extra}


def embedder(model: str | Path) -> dict[str, str]:
    """The environment variable that names an embedding model."""
    return {"RAGWAY_EMBEDDER__MODEL": str(model)}


def arguments(pid: int) -> list[str]:
    """The command line of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")[:-1]
    except OSError:
        return []


def _parent(pid: int) -> int:
    """The parent of a running process; 0 where it has ended."""
    return _numbers(pid)[0]


def _session(pid: int) -> int:
    """The session of a running process, which is that of its children too; 0 where it has ended."""
    return _numbers(pid)[2]


def _numbers(pid: int) -> tuple[int, int, int]:
    """Parent, group and session of a running process; zeros where it has ended."""
    try:
        state, parent, group, session = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return 0, 0, 0
    return (0, 0, 0) if state in "ZX" else (int(parent), int(group), int(session))


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended: one that waits to be reaped has."""
    return _parent(pid) != 0


@contextlib.contextmanager
def serving(data: Path, folder: Path, settings: str = "", **environ: str) -> Iterator[Served]:
    """`ragway serve` on a free port, ready; with the block all its processes have ended."""
    with beginning(data, folder, settings, 0, **environ) as gateway:
        assert gateway.process.stdout is not None
        gateway.example = gateway.process.stdout.readline()  # the curl line, printed once all is warm
        assert gateway.example.startswith("curl "), f"serve ended: {gateway.log.read_text()}"
        gateway.url = gateway.example.split()[1].removesuffix("/v1/chat/completions")
        yield gateway


@contextlib.contextmanager
def beginning(data: Path, folder: Path, settings: str, port: int, **environ: str) -> Iterator[Served]:
    """`ragway serve` on this port, not ready yet; with the block all its processes have ended."""
    config = folder / "ragway.yaml"
    config.write_text(settings, "utf-8")
    log = folder / "serve.log"
    where = ["--port", str(port), "--config", str(config), "--data", str(data)]
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "serve", *where],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environment(environ),
            start_new_session=True,  # by which its processes are found, even those whose parent has ended
        )
    gateway = Served(process, f"http://127.0.0.1:{port}", log, data)
    try:
        yield gateway
    except BaseException:
        gateway.kill()  # how well it ends is not what failed
        raise
    gateway.stop()


def ragway(*args: str, folder: Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one `ragway` command to the end, in a new process with all imports done."""
    with tempfile.TemporaryDirectory() as scratch:
        streams = (Path(scratch) / "stdout", Path(scratch) / "stderr")
        forkserver.ensure_running()
        server: str = _SERVER._forkserver_address
        process = _FORKS.Process(target=_command, args=(args, folder, environment(environ or {}), streams, server))
        process.start()
        try:
            process.join(PATIENCE_S)
            assert process.exitcode is not None, f"ragway {args} takes longer than {PATIENCE_S:g} s"
        finally:
            process.kill()
        out, err = (stream.read_text("utf-8") for stream in streams)
    return subprocess.CompletedProcess(args, process.exitcode, out, err)


def ragway_from_scratch(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m cli` to the end, as a user starts a command."""
    return subprocess.run(
        [sys.executable, "-m", "cli", *args],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=PATIENCE_S,
        env=environment({}),
        stdin=subprocess.DEVNULL,
    )


# A server process that has done the imports of all commands, and forks for each command. A command from scratch spends
# 0.3 to 1.2 s of processor time on imports; the tests run more than 200 commands.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.commands"])
_SERVER: Any = forkserver._forkserver


def _command(
    args: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Sequence[Path], server: str
) -> None:
    """Run `ragway` in the forked process with these arguments, folder, environment and standard streams.

    server: its address. It forks the processes that read the command's documents, too, each of which would spend .7 s
    on imports.
    """
    _SERVER._forkserver_address, _SERVER.ensure_running = server, lambda: None
    sandbox.CONTEXT = _FORKS
    for number, stream in enumerate([Path(os.devnull), *streams]):
        os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["ragway", *args]
    main()


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command which failed leaves, on standard error."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line
