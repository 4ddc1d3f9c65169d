"""How to start each system under test, with the production settings of the system's documentation."""

import contextlib
import functools
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.processes import ROOT, PortOf, Running, Unmeasurable, environment, printed_port, start

__all__ = [
    "MODEL", "PACED", "ROOT", "Running", "Unmeasurable", "asgi_proxy", "copy_proxy", "installed", "litellm",
    "litellm_command", "mock_upstream", "ragway", "serves_workers", "uvicorn",
]  # fmt: skip

MODEL = "bench"
PACED = "bench-paced"  # the same upstream, under a path with a paced stream
_RAGWAY = [sys.executable, "-m", "cli"]


@contextlib.contextmanager
def mock_upstream(folder: Path) -> Iterator[Running]:
    """The mock upstream, while the context lasts."""
    running = start(
        [sys.executable, str(ROOT / "benchmarks" / "common" / "mock_upstream.py")], folder, "mock", {}, printed_port
    )
    try:
        yield running
    finally:
        running.stop()


def ragway(  # noqa: PLR0913 - every argument is named at the call
    folder: Path,
    name: str,
    upstream: int,
    *,
    data: Path,
    retrieval: bool,
    workers: int = 1,
    more: str = "",
    checkout: Path = ROOT,
) -> Running:
    """`ragway serve`, ready. more: settings, as YAML. checkout: the folder with the code."""
    settings = folder / f"{name}.yaml"
    settings.write_text(
        f"models:\n"
        f"  {MODEL}: {{api_base: 'http://127.0.0.1:{upstream}/v1'}}\n"
        f"  {PACED}: {{api_base: 'http://127.0.0.1:{upstream}/paced/v1'}}\n"
        # With a short deadline, a question that waits for many others would continue without context and look fast.
        f"retrieval: {{enabled: {str(retrieval).lower()}, collections: [docs], deadline_s: 60}}\n" + more,
        "utf-8",
    )
    command = [*_RAGWAY, "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
    if workers > 1:
        command += ["--workers", str(workers)]
    return start(command, folder, name, {"PYTHONPATH": str(checkout)}, printed_port)


def serves_workers() -> bool:
    """Whether this version of `ragway serve` has `--workers`."""
    told = subprocess.run(
        [*_RAGWAY, "serve", "--help"],
        check=False,
        capture_output=True,
        text=True,
        env=environment({"PYTHONPATH": str(ROOT)}),
    )
    return "--workers" in told.stdout


def asgi_proxy(folder: Path, client: str, upstream: int) -> Running:
    """The hand-made gateway with a client (httpx | httpx2 | aiohttp), under uvicorn with one worker and the fastest
    parts.
    """
    module = "aiohttp_proxy" if client == "aiohttp" else "httpx_proxy"
    return uvicorn(folder, module, {"UPSTREAM": f"http://127.0.0.1:{upstream}", "HTTP_CLIENT": client}, name=client)


def uvicorn(folder: Path, module: str, extra: dict[str, str], *, name: str = "") -> Running:
    """The app of a module in `benchmarks/relay`, under uvicorn with one worker and the fastest parts."""
    port = _free_port()
    command = [
        sys.executable, "-m", "uvicorn", f"{module}:app", "--app-dir", str(ROOT / "benchmarks" / "relay"),
        "--port", str(port),
        "--http", "httptools", "--loop", "uvloop", "--lifespan", "on", "--no-access-log", "--log-level", "warning",
    ]  # fmt: skip
    return start(command, folder, name or module, extra, _accepting(port))


def copy_proxy(folder: Path, upstream: int) -> Running:
    """The proxy that only copies bytes."""
    extra = {"UPSTREAM": f"http://127.0.0.1:{upstream}"}
    return start(
        [sys.executable, str(ROOT / "benchmarks" / "relay" / "copy_proxy.py")], folder, "copy", extra, printed_port
    )


def installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def litellm(folder: Path, name: str, upstream: int) -> Running:
    """LiteLLM's proxy: one worker, no database, no keys, production settings for logging."""
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
    port = _free_port()
    command = [
        str(litellm_command()), "--config", str(config), "--num_workers", "1",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    # The first variable stops downloads of prices; LiteLLM's documentation advises the other two.
    extra = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR"}
    return start(command, folder, name, extra, _accepting(port))


def litellm_command() -> Path:
    """The path of LiteLLM's proxy, if installed."""
    return Path(sys.executable).with_name("litellm")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _accepting(port: int) -> PortOf:
    """A function that returns the port after something listens on the port; 0 if the process ended."""
    return functools.partial(_once_accepting, port)


def _once_accepting(port: int, process: "subprocess.Popen[str]") -> int:
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return port
        time.sleep(0.01)
    return 0
