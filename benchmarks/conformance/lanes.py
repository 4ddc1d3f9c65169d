"""The lanes of the conformance table, each a process in front of one scripted upstream; runs a case on a lane."""

import contextlib
import dataclasses
import functools
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import processes, servers
from benchmarks.common.processes import ROOT, Running, Unmeasurable
from benchmarks.conformance.case import FIRST_WORD, KEY, TRAP, Case, Group
from benchmarks.conformance.fault_cases import PROVIDERS
from benchmarks.conformance.judge import usual_of, worst_first
from benchmarks.conformance.reply_cases import BASELINE_REPLY, BASELINE_STREAM, REPLIES, STREAMS
from benchmarks.conformance.wire import Exchange, Pairs, Script, Upstream, ask, ask_and_leave, post

NOT_APPLICABLE = "—"
TITLES = {"relay": "ragway, relay", "translated": "ragway, translated", "litellm": "LiteLLM proxy"}
LIMIT_S = 1.5  # every lane's for the first byte and for silence
_WARM_TRIES = 20
_WARMING = (BASELINE_REPLY, BASELINE_STREAM, "tool call in pieces", "answer", "stream")
_HANDBOOK = {
    "connect.md": "# Connecting to Zephyr\n\nUse `Client.connect(url)` to open a session with the Zephyr server.\n\n"
    "## TLS\n\nPass `tls=True` and the certificate authority as `ca_file` to connect to the Zephyr server with TLS.\n",
    "pets.md": "# Pets\n\nThe office dog is called Bruno.\n",
}


@dataclass(frozen=True, slots=True)
class Lane:
    """A column: a server that listens on `port`."""

    key: str
    port: int

    @property
    def ours(self) -> bool:
        """Whether the lane retrieves and understands `x-rag`."""
        return self.key != "litellm"


def learn(folder: Path, models: Path) -> Path:
    """A data folder with a handbook of two pages as the collection `docs`; the prepared model is shared."""
    data, handbook = folder / "data", folder / "handbook"
    models.mkdir(parents=True, exist_ok=True)
    data.mkdir()
    handbook.mkdir()
    (data / "models").symlink_to(models.resolve())
    for name, text in _HANDBOOK.items():
        (handbook / name).write_text(text, "utf-8")
    (folder / "ingest.yaml").write_text("{}\n", "utf-8")
    run_command(["ingest", str(handbook), "--collection", "docs"], folder, data)
    return data


def run_command(words: Sequence[str], folder: Path, data: Path) -> None:
    """Run a command of ragway. Raises Unmeasurable."""
    done = subprocess.run(
        [*_RAGWAY, *words, "--config", str(folder / "ingest.yaml"), "--data", str(data)],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=processes.environment({"PYTHONPATH": str(ROOT)}),
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise Unmeasurable(f"ragway {words[0]} failed: {done.stderr.strip()}")


def start(
    key: str,
    folder: Path,
    upstream: int,
    nobody: int,
    learned: Path | None = None,
    *,
    retrieval: str = "",
    more: str = "",
) -> Running:
    """A lane's server, accepting. `upstream` and `nobody` are ports; ours need a `learned` data folder.

    retrieval: more settings of that section, such as ", k: 3". more: further sections, as YAML.
    """
    if key == "litellm":
        return _litellm(folder, upstream, nobody)
    assert learned is not None, "our lanes retrieve"
    data = shutil.copytree(learned, folder / f"data-{key}", symlinks=True)
    base, dead = f"http://127.0.0.1:{upstream}", f"http://127.0.0.1:{nobody}/v1"
    row = "{{model: {model}, lane: {lane}, api_base: '{base}', api_key_env: KEY_OF_THE_UPSTREAM}}"
    name = "gpt-4o" if key == "relay" else "openai/gpt-4o"
    models = {
        "gpt-5": row.format(model=name.replace("4o", "5"), lane=key, base=base + "/v1"),
        "gpt-4o": row.format(model=name, lane=key, base=base + "/v1"),
        "alias": row.format(model=name, lane=key, base=base + "/v1"),
        "down": row.format(model=name, lane=key, base=dead),
    }
    if key == "translated":
        models["claude"] = row.format(model="anthropic/claude-sonnet-4-5", lane=key, base=base)
    settings = folder / f"{key}.yaml"
    settings.write_text(
        "models:\n"
        + "".join(f"  {model}: {text}\n" for model, text in models.items())
        + f"upstream: {{connect_timeout_s: {LIMIT_S}, first_byte_timeout_s: {LIMIT_S}, idle_timeout_s: {LIMIT_S}}}\n"
        f"retrieval: {{collections: [docs], deadline_s: 20{retrieval}}}\n" + more,
        "utf-8",
    )
    command = [*_RAGWAY, "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
    environ = {"PYTHONPATH": str(ROOT), "KEY_OF_THE_UPSTREAM": KEY.decode()}
    return processes.start(command, folder, key, environ, processes.printed_port)


def _litellm(folder: Path, upstream: int, nobody: int) -> Running:
    """LiteLLM's proxy: no database, no keys, no retries, upstream calls cancelled when the client leaves."""
    base = f"http://127.0.0.1:{upstream}"
    rows = {
        "gpt-4o": ("openai/gpt-4o", base + "/v1"),
        "gpt-5": ("openai/gpt-5", base + "/v1"),
        "alias": ("openai/gpt-4o", base + "/v1"),
        "down": ("openai/gpt-4o", f"http://127.0.0.1:{nobody}/v1"),
        "claude": ("anthropic/claude-sonnet-4-5", base),
    }
    limits = f"timeout: {LIMIT_S}, stream_timeout: {LIMIT_S}, max_retries: 0"
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n"
        + "".join(
            f"  - {{model_name: {name}, litellm_params: {{model: {model}, api_base: '{address}', "
            f"api_key: {KEY.decode()}, {limits}}}}}\n"
            for name, (model, address) in rows.items()
        )
        + "router_settings: {num_retries: 0, disable_cooldowns: true}\n"
        "litellm_settings: {drop_params: false}\n"
        "general_settings: {cancel_on_disconnect: true, always_include_stream_usage: false, "
        "dangerously_permit_weak_or_unset_master_key: true}\n",
        "utf-8",
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [str(servers.litellm_command()), "--config", str(config), "--num_workers", "1",
               "--host", "127.0.0.1", "--port", str(port)]  # fmt: skip
    extra = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR"}
    return processes.start(command, folder, "litellm", extra, functools.partial(_once_accepting, port))


_RAGWAY = [sys.executable, "-m", "cli"]


def _once_accepting(port: int, process: "subprocess.Popen[str]") -> int:
    """The port after something listens on the port; 0 if the process ended."""
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return port
        time.sleep(0.05)
    return 0


async def warm(lane: Lane, upstream: Upstream) -> dict[Group, frozenset[tuple[str, str]]]:
    """Send requests until the lane answers, because loading on the first request is not part of the comparison.

    Returns the changes of the lane in every answer, whole or streamed.
    """
    usual: dict[Group, frozenset[tuple[str, str]]] = {}
    for case in (*REPLIES, *STREAMS, *PROVIDERS):
        if case.name not in _WARMING or not applies(case, lane):
            continue
        for _ in range(_WARM_TRIES):
            exchange = Exchange(case.body, case.scripts[0])
            await upstream.play(exchange)
            await ask(lane.port, post(lane.port, case.body, ()), exchange, upstream)
            if exchange.answer.status == 200:
                break
        else:
            raise Unmeasurable(f"{lane.key} answers {exchange.answer.status}: {exchange.answer.body[:500]!r}")
        if case.name in (BASELINE_REPLY, BASELINE_STREAM):
            usual[case.group] = usual_of(exchange)
    return usual


def applies(case: Case, lane: Lane) -> bool:
    """Whether a lane has the feature of a case."""
    return (case.relayed or lane.key != "relay") and (lane.ours or not case.of_ours)


async def run(
    case: Case, lane: Lane, upstream: Upstream, trap: Upstream, usual: Mapping[Group, frozenset[tuple[str, str]]]
) -> str:
    """The cell of a case in a lane."""
    if not applies(case, lane):
        return NOT_APPLICABLE
    said_once = case.name in (BASELINE_REPLY, BASELINE_STREAM)
    cells = []
    for script in case.scripts:
        exchange = await exchanged(case, script, lane, upstream, trap)
        exchange.usual = frozenset() if said_once else usual.get(case.group, frozenset())
        cells.append(case.judge(exchange, lane.ours))
    return cells[-1] if case.only_last else worst_first(cells)


async def exchanged(case: Case, script: Script, lane: Lane, upstream: Upstream, trap: Upstream) -> Exchange:
    """One exchange of a case, observed at both sides."""
    port = str(trap.port).encode()
    body = case.body.replace(TRAP.encode(), port)
    headers = tuple((name, value.replace(TRAP.encode(), port)) for name, value in script.headers)
    exchange = Exchange(body, dataclasses.replace(script, headers=headers), rag=case.rag)
    await upstream.play(exchange)
    switch: Pairs = ((b"x-rag", b"off"),) if lane.ours and not case.rag else ()
    request = post(lane.port, body, (*case.headers, *switch), case.target)
    before = trap.connections
    if case.leave:
        after = FIRST_WORD if case.leave == "within the stream" else b""
        await ask_and_leave(lane.port, request, exchange, upstream, after=after)
    else:
        await ask(lane.port, request, exchange, upstream)
    exchange.trapped = trap.connections - before
    return exchange
