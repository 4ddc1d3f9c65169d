"""The systems under test, each a process of its own on loopback, and what the kernel says about them (Linux: /proc)."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = "bench"
PACED = "bench-paced"  # the same upstream under a path where its stream is paced
_START_S = 180.0  # for a server to be ready, the first preparation of the embedder included
_STOP_S = 20.0


class Unmeasurable(Exception):
    """The benchmark cannot run: something does not start."""


@dataclass(slots=True)
class Running:
    """A server that answers."""

    process: subprocess.Popen[str]
    port: int
    ready_s: float  # from its start

    def processes(self) -> dict[str, list[int]]:
        """Its process ids: of the server itself, and of what it has started."""
        children = _descendants(self.process.pid)
        return {"server": [self.process.pid]} | ({"index": children} if children else {})

    def cpu_s(self) -> dict[str, float]:
        """CPU time used so far, user and system, of all threads."""
        return {role: sum(map(_cpu_s, pids)) for role, pids in self.processes().items()}

    def rss_mb(self) -> dict[str, float]:
        """Resident memory."""
        return {role: sum(map(_rss_mb, pids)) for role, pids in self.processes().items()}

    def stop(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def mock_upstream(folder: Path) -> Iterator[Running]:
    """The mock upstream, while the context lasts."""
    running = _start([sys.executable, str(ROOT / "benchmarks" / "mock_upstream.py")], folder, "mock", {}, _its_port)
    try:
        yield running
    finally:
        running.stop()


def ragway(folder: Path, name: str, upstream: int, *, data: Path, retrieval: bool) -> Running:
    """`ragway serve`, ready."""
    settings = folder / f"{name}.yaml"
    settings.write_text(
        f"models:\n"
        f"  {MODEL}: {{api_base: 'http://127.0.0.1:{upstream}/v1'}}\n"
        f"  {PACED}: {{api_base: 'http://127.0.0.1:{upstream}/paced/v1'}}\n"
        f"retrieval: {{enabled: {str(retrieval).lower()}, collections: [docs]}}\n",
        "utf-8",
    )
    command = [*_RAGWAY, "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
    return _start(command, folder, name, {"PYTHONPATH": str(ROOT)}, _its_port)


def ingest(folder: Path, *, data: Path, models: Path) -> None:
    """The project's own documentation as the collection `docs` of a new data folder; the prepared model is shared."""
    models.mkdir(parents=True, exist_ok=True)
    data.mkdir()
    (data / "models").symlink_to(models.resolve())
    settings = folder / "ingest.yaml"  # so that a ragway.yaml of the checkout changes nothing here
    settings.write_text("{}\n", "utf-8")
    done = subprocess.run(
        [*_RAGWAY, "ingest", str(ROOT / "docs"), "--collection", "docs",
         "--config", str(settings), "--data", str(data)],
        check=False, capture_output=True, text=True, cwd=folder, env=_environment({"PYTHONPATH": str(ROOT)}),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unmeasurable(f"ragway ingest failed: {done.stderr.strip()}")


def litellm(folder: Path, name: str, upstream: int) -> Running:
    """LiteLLM's proxy, answering: one worker, no database, no keys, its production settings for logging."""
    config = folder / f"{name}.yaml"
    rows = [(MODEL, f"http://127.0.0.1:{upstream}/v1"), (PACED, f"http://127.0.0.1:{upstream}/paced/v1")]
    config.write_text(
        "model_list:\n"
        + "".join(
            f"  - {{model_name: {model}, litellm_params: "
            f"{{model: openai/{model}, api_base: '{base}', api_key: sk-upstream}}}}\n"
            for model, base in rows
        )
        + "router_settings: {num_retries: 0}\n"
        "general_settings: {dangerously_permit_weak_or_unset_master_key: true}\n",  # no keys: as ragway on loopback
        "utf-8",
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [
        str(litellm_command()), "--config", str(config), "--num_workers", "1",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    # The first keeps it from asking the internet for prices, the others are what its documentation advises.
    extra = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR"}
    return _start(command, folder, name, extra, lambda process: _accepting(process, port))


def litellm_command() -> Path:
    """Where LiteLLM's proxy is, if it is installed."""
    return Path(sys.executable).with_name("litellm")


_RAGWAY = [sys.executable, "-m", "proxy"]


def _start(
    command: Sequence[str], folder: Path, name: str, extra: Mapping[str, str],
    port_of: Callable[["subprocess.Popen[str]"], int],
) -> Running:  # fmt: skip
    log = folder / f"{name}.log"
    begin = time.perf_counter()
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE if port_of is _its_port else errors, stderr=errors,
            text=True, cwd=folder, env=_environment(extra),
        )  # fmt: skip
    running = Running(process, 0, 0.0)
    overdue = threading.Timer(_START_S, process.kill)
    overdue.start()
    try:
        running.port = port_of(process)
        running.ready_s = time.perf_counter() - begin
    except BaseException:
        running.stop()
        raise
    finally:
        overdue.cancel()
    if not running.port:
        running.stop()
        raise Unmeasurable(f"{name} does not start: {log.read_text('utf-8', 'replace')[-2000:].strip()}")
    return running


def _its_port(process: "subprocess.Popen[str]") -> int:
    """Of what it prints when it is ready: a port alone, or a curl line; 0 when it ended instead."""
    assert process.stdout is not None
    found = re.search(r"^(?:curl http://127\.0\.0\.1:)?(\d+)", process.stdout.readline())
    return int(found[1]) if found else 0


def _accepting(process: "subprocess.Popen[str]", port: int) -> int:
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return port
        time.sleep(0.01)
    return 0


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours without anything that would change the settings of a system, or send loopback through an HTTP proxy."""
    foreign = ("RAGWAY_", "OPENAI_", "QDRANT_", "LITELLM_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign) and not k.lower().endswith("_proxy")}
    return {**kept, **extra}


def _descendants(pid: int) -> list[int]:
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _cpu_s(pid: int) -> float:
    # The kernel's CPU clock of another process, in nanoseconds; utime and stime of /proc count whole hundredths of a
    # second. The number is MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of Linux' posix-timers.h.
    return time.clock_gettime((~pid << 3) | 2)


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
